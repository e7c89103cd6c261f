package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuickIsTheConfigurationThatAPersonWouldWrite(t *testing.T) {
	got, err := Quick(QuickOptions{
		URLs: []string{"http://127.0.0.1:8000/v1"}, Model: "tiny", APIKeyFile: "key.txt",
		Interval: time.Second, PromptTokens: 512, OutputTokens: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := mustParse(t, `
global: {interval: 1s}
workloads: [{prompt_tokens: 512, output_tokens: 64}]
targets: [{url: "http://127.0.0.1:8000", model: tiny, http_client_config: {authorization: {credentials_file: key.txt}}}]
`)
	if diff := cmp.Diff(want, got, comparer); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if name := got.Targets[0].Name; name != "127.0.0.1:8000" {
		t.Errorf("target name %q", name)
	}
	if name := got.Workloads[0].Name; name != "chat-512-64" {
		t.Errorf("workload name %q", name)
	}
}

func TestQuickNamesAreUnique(t *testing.T) {
	c, err := Quick(QuickOptions{URLs: []string{"http://a:8000", "http://b:8000/v1", "http://gw/one", "http://gw:80/two/v1", "https://c", "http://u:SECRET@d:443", "http://c:443"}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, target := range c.Targets {
		names = append(names, target.Name)
	}
	want := []string{"a:8000", "b:8000", "http://gw/one", "http://gw:80/two", "https://c", "d:443", "http://c:443"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestQuickProblemsNameTheFlag(t *testing.T) {
	tests := []struct {
		name    string
		options QuickOptions
		want    string
	}{
		{"no url", QuickOptions{}, "--target.url: is missing"},
		{"one url", QuickOptions{URLs: []string{"localhost:8000"}}, `--target.url: is not a URL (did you mean "http://localhost:8000"?)`},
		{"password", QuickOptions{URLs: []string{"http://u:SEC/RET@h"}}, "--target.url: is not a URL (write http://HOST:PORT)"},
		{"same server", QuickOptions{URLs: []string{"http://h:80", "http://H/v1"}}, "--target.url[1]: sends the same requests as --target.url[0]"},
		{"same url", QuickOptions{URLs: []string{"http://h", "http://h"}}, "--target.url[1]: sends the same requests as --target.url[0]"},
		{"two credentials", QuickOptions{URLs: []string{"http://u:p@h"}, APIKeyFile: "k"}, "--target.url: has user information, but http_client_config has credentials too"},
		{"model", QuickOptions{URLs: []string{"http://h"}, Model: " m"}, "--target.model: must not be empty, nor begin or end with a space"},
		{"interval", QuickOptions{URLs: []string{"http://h"}, Interval: time.Millisecond}, "--probe.interval: must be at least 100ms, not 1ms"},
		{"fraction", QuickOptions{URLs: []string{"http://h"}, Interval: 1500*time.Millisecond + 1}, `--probe.interval: "1.500000001s" is not a duration (did you mean "1s500ms"?)`},
		{"all at once", QuickOptions{URLs: []string{"h"}, Interval: -time.Second, PromptTokens: -1, OutputTokens: 1 << 30}, `--probe.interval: must not be negative
--probe.prompt-tokens: must be from 1 to 1048576, not -1
--probe.output-tokens: must be from 1 to 1048576, not 1073741824
--target.url: is not a URL (did you mean "http://h"?)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Quick(tt.options)
			if err == nil {
				t.Fatal("Quick accepts it")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}
