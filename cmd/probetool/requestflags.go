package main

import (
	"fmt"
	"slices"

	"github.com/alecthomas/kingpin/v2"

	"github.com/llm-prober/llm_prober/internal/config"
)

// requestFlags say what a server is asked.
type requestFlags struct {
	model, api, extraBody string
	dropFields            []string
}

func (r *requestFlags) flags(cmd *kingpin.CmdClause) {
	cmd.Flag("model", "Model to ask for; the first that the server lists if omitted.").PlaceHolder("NAME").StringVar(&r.model)
	cmd.Flag("api", "Endpoint: chat, completions.").PlaceHolder("chat").EnumVar(&r.api, "chat", "completions")
	cmd.Flag("extra-body", "JSON object to merge into every request.").PlaceHolder("JSON").StringVar(&r.extraBody)
	cmd.Flag("drop-field", "Field that requests leave out, for a server that refuses it. Repeatable.").PlaceHolder("NAME").StringsVar(&r.dropFields)
}

// settings are those of the target and the workload; some may be empty: see given.
func (r *requestFlags) settings() []config.Setting {
	all := []config.Setting{
		{Key: "target.model", Flag: "--model", Value: r.model, Text: true},
		{Key: "workload.api", Flag: "--api", Value: r.api, Text: true},
		{Key: "workload.extra_body", Flag: "--extra-body", Value: r.extraBody},
	}
	for i, field := range r.dropFields {
		all = append(all, config.Setting{Key: fmt.Sprintf("workload.drop_fields[%d]", i), Flag: "--drop-field", Value: field, Text: true})
	}
	return all
}

// given leaves out the settings whose flag was not.
func given(all []config.Setting) []config.Setting {
	return slices.DeleteFunc(all, func(s config.Setting) bool { return s.Value == "" })
}

// ifTrue is the value of a setting that is there or not.
func ifTrue(is bool) string {
	if is {
		return "true"
	}
	return ""
}
