package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestWarnings(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"nothing doubtful", "targets: [{url: 'http://h'}]", nil},
		{"no targets", "targets: []", []string{"config.yml:1: targets: lists no target: nothing is probed"}},
		{
			"too few probes for the default objectives", "global: {interval: 60s}\ntargets: [{url: 'http://h'}, {url: 'http://i'}]",
			[]string{
				`slos (default "ttft"): an objective of 99 needs 70 probes an hour for its fast page to rest on 10 bad ones, and there are 60: probe at least every 51s, or lower the objective (target "h:80", workload "chat-512-128") and 1 more`,
				`slos (default "success"): an objective of 99 needs 70 probes an hour for its fast page to rest on 10 bad ones, and there are 60: probe at least every 51s, or lower the objective (target "h:80", workload "chat-512-128") and 1 more`,
			},
		},
		{
			"just enough probes", "global: {interval: 51s}\ntargets: [{url: 'http://h'}]", nil,
		},
		{
			"too few for one target", "targets: [{name: a, url: 'http://h'}, {name: b, url: 'http://i', interval: 5s}]\nslos:\n- {name: s, indicator: success, objective: 99.9}",
			[]string{`config.yml:3: slos[0]: an objective of 99.9 needs 695 probes an hour for its fast page to rest on 10 bad ones, and there are 240: probe at least every 5s, or lower the objective (target "a", workload "chat-512-128")`},
		},
		{
			"no interval is short enough", "targets: [{name: a, url: 'http://h'}]\nslos: [{name: s, indicator: success, objective: 99.999}]",
			[]string{`config.yml:2: slos[0]: an objective of 99.999 needs 69445 probes an hour for its fast page to rest on 10 bad ones, and there are 240: lower the objective (target "a", workload "chat-512-128")`},
		},
		{
			"objective too low to page on", "targets: [{url: 'http://h'}]\nslos: [{name: s, indicator: success, objective: 90}]",
			[]string{"config.yml:2: slos[0]: the objective is too low for the fast page: 14.4 times the bad events that it allows are more than all"},
		},
		{
			"objective as a ratio", "targets: []\nslos: [{name: s, indicator: success, objective: 0.99}]",
			[]string{
				"config.yml:1: targets: lists no target: nothing is probed",
				"config.yml:2: slos[0]: the objective is too low for the fast page: 14.4 times the bad events that it allows are more than all",
				"config.yml:2: slos[0].objective: 0.99 per cent: was 99 meant?",
			},
		},
		{
			"threshold above the timeout of one target", "targets: [{name: a, url: 'http://h', timeout: 2s, stall_timeout: 1s}, {name: b, url: 'http://i'}]\nslos: [{name: s, indicator: ttft, threshold: 3s, objective: 99}]",
			[]string{`config.yml:2: slos[0]: no probe can be late: threshold 3s is above timeout 2s (target "a", workload "chat-512-128")`},
		},
		{
			"default threshold above the timeout", "targets: [{name: a, url: 'http://h', timeout: 1s}]",
			[]string{`slos (default "ttft"): no probe can be late: threshold 2s is above timeout 1s (target "a", workload "chat-512-128")`},
		},
		{
			"stall timeout that never applies", "global: {timeout: 20s, stall_timeout: 20s}\ntargets: [{url: 'http://h'}]",
			[]string{"config.yml:1: global.stall_timeout: 20s never applies: the timeout of 20s ends a probe first"},
		},
		{
			"interval of a load generator", "targets:\n- url: http://h\n  interval: 500ms",
			[]string{"config.yml:3: targets[0].interval: 7200 requests an hour for each workload: a prober watches, it does not load"},
		},
		{
			"workload that nobody runs", "workloads: [{name: x}, {name: y}]\ntargets: [{url: 'http://h', workloads: [y]}]",
			[]string{`config.yml:1: workloads[0]: no target runs workload "x"`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := mustParse(t, tt.text).Warnings()
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarningsLookAtFilesNow(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yml")
	text := `
targets:
  - {name: a, url: "http://h:1", http_client_config: {authorization: {credentials_file: key.txt}}}
  - {name: b, url: "http://h:2", http_client_config: {authorization: {credentials_file: key.txt}}}
  - {name: c, url: "http://h:3", http_client_config: {tls_config: {ca_file: .}, http_headers: {X-A: {files: [header.txt]}}}}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "header.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	warnings := func() []string {
		var out []string
		for _, w := range c.Warnings() {
			out = append(out, strings.ReplaceAll(w, dir, "DIR"))
		}
		return out
	}
	want := []string{
		`target "a": authorization.credentials_file: open DIR/key.txt: no such file or directory`,
		`target "c": tls_config.ca_file: read DIR: is a directory`,
		`target "c": http_headers.X-A.files: DIR/header.txt is empty`,
	}
	if diff := cmp.Diff(want, warnings()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, name := range []string{"key.txt", "header.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want[1:2], warnings()); diff != "" {
		t.Errorf("after the files came (-want +got):\n%s", diff)
	}
}
