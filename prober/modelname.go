package prober

import (
	"regexp"
	"strings"
)

// modelVersion is what servers put behind a model's name to tell which of its versions answers: a date
// (gpt-4.1-mini-2025-04-14, claude-3-5-sonnet@20240620, gpt-4-0613, mistral-large-2411, gemini-2.5-pro-preview-05-06),
// a serial number (gemini-1.5-flash-001), or that it is the latest. What tells a size or a quantisation is no version:
// "8b" and "awq" are other models, with other latencies.
var modelVersion = regexp.MustCompile(`(?:@(.+)|[-:](latest|\d{4}-\d{2}-\d{2}|\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3}))$`)

// modelForms splits a name into the model and its version, which is empty for none and for the latest. What stands
// before the last slash is whose model it is, or by which gateway or path it was found.
func modelForms(name string) (model, version string) {
	name = strings.ToLower(strings.TrimSpace(name))
	name = strings.TrimRight(strings.ReplaceAll(name, `\`, "/"), "/") // a path may end with a slash
	name = strings.TrimSuffix(name, ".gguf")
	name = name[strings.LastIndexByte(name, '/')+1:]
	if at := modelVersion.FindStringIndex(name); at != nil && at[0] > 0 {
		name, version = name[:at[0]], strings.ReplaceAll(name[at[0]+1:], "-", "")
	}
	if version == "latest" || version == "default" {
		version = ""
	}
	return name, version
}

// sameModel reports whether two names stand for the same model: they differ in prefixes, in case, or in that one of
// them tells the version. Two versions are two models.
func sameModel(asked, answered string) bool {
	if asked == answered {
		return true
	}
	if max(len(asked), len(answered)) > maxModelName {
		return false
	}
	a, versionA := modelForms(asked)
	b, versionB := modelForms(answered)
	return a == b && (versionA == versionB || versionA == "" || versionB == "")
}
