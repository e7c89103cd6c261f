package config

import (
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
)

// QuickOptions is a configuration small enough for flags. Zero values are left out.
type QuickOptions struct {
	URLs         []string      // --target.url, at least one
	Model        string        // --target.model
	APIKeyFile   string        // --target.api-key-file, relative to the working folder
	Interval     time.Duration // --probe.interval
	PromptTokens int           // --probe.prompt-tokens
	OutputTokens int           // --probe.output-tokens
}

// Quick makes a configuration of flags. It is built as the YAML that a person would have written and goes
// the same way as a file does; problems name the flag in place of a line. Targets are called after their
// host and port, or by their whole URL where two would share that.
func Quick(o QuickOptions) (*Config, error) {
	d := newDecoder()
	if len(o.URLs) == 0 {
		d.problem(nil, "--target.url", "is missing")
		d.optional = []string{"targets"}
	}
	var settings []Setting
	add := func(set bool, key, flag, value string, text bool) {
		if set {
			settings = append(settings, Setting{key, flag, value, text})
		}
	}
	add(o.Interval != 0, "global.interval", "--probe.interval", exactly(o.Interval), true)
	add(o.PromptTokens != 0, "workloads[0].prompt_tokens", "--probe.prompt-tokens", strconv.Itoa(o.PromptTokens), false)
	add(o.OutputTokens != 0, "workloads[0].output_tokens", "--probe.output-tokens", strconv.Itoa(o.OutputTokens), false)
	for i, u := range o.URLs {
		flag, key, name := "--target.url", itemKey("targets", i), uniqueName(o.URLs, i)
		if len(o.URLs) > 1 {
			flag = itemKey(flag, i)
		}
		add(true, key+".url", flag, u, true)
		add(name != "", key+".name", flag, name, true)
		add(o.Model != "", key+".model", "--target.model", o.Model, true)
		add(o.APIKeyFile != "", key+".http_client_config.authorization.credentials_file", "--target.api-key-file", o.APIKeyFile, true)
	}
	return d.config(d.settings(settings))
}

// uniqueName returns the name of the i-th of several URLs if its host and port alone would not do.
func uniqueName(urls []string, i int) string {
	u, _, msg, _ := baseURL(urls[i])
	if msg != "" {
		return "" // reported when the URL is read
	}
	for j, other := range urls {
		o, _, msg, _ := baseURL(other)
		if j != i && msg == "" && hostPort(o) == hostPort(u) && placeOf(o) != placeOf(u) {
			return placeOf(u)
		}
	}
	return ""
}

// placeOf is the address of a server, without the path of its API where that is the usual one.
func placeOf(u *url.URL) string {
	if root, apiPath := splitAPI(u); apiPath == defaultAPIPath {
		return root.String()
	}
	return u.String()
}

// exactly writes d as Prometheus does, or as Go does if that would lose something.
func exactly(d time.Duration) string {
	if d%time.Millisecond != 0 {
		return d.String()
	}
	return model.Duration(d).String()
}
