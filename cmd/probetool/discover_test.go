package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Members of a list in the configuration and of a file, one of each state, and a discovery that fails.
func TestCheckConfigDiscover(t *testing.T) {
	for _, c := range []struct {
		name, yaml string
		code       int
		want       string // what follows the first line
	}{
		{
			name: "all is well", code: exitOK,
			yaml: `target_groups: [{name: a, model: m, static_configs: [{targets: ["h:1"], labels: {gpu: a100}}]}]`,
			want: "group \"a\": 1 active, 0 dropped, 0 invalid, 0 over_limit\n" +
				"  active  h:1  http://h:1  {__address__=\"h:1\", gpu=\"a100\", target=\"h:1\"}\n",
		},
		{
			name: "one of each state", code: exitFailed,
			yaml: `
target_groups:
  - name: a
    target_limit: 1
    static_configs: [{targets: ["h:1", "h:2", "h:3", "h"], labels: {x: "1"}}]
    relabel_configs: [{source_labels: [__address__], regex: "h:3", action: drop}, {source_labels: [__address__], regex: "h", target_label: job, replacement: y}]
`,
			want: "group \"a\": 1 active, 1 dropped, 1 invalid, 1 over_limit\n" +
				"  invalid     h    job: is a reserved label name              {LABELS}\n" +
				"  active      h:1  http://h:1                                 {__address__=\"h:1\", target=\"h:1\", x=\"1\"}\n" +
				"  over_limit  h:2  the group has 1 targets, its target_limit  {LABELS}\n" +
				"  dropped     h:3  relabel_configs[0]: action drop            {LABELS}\n",
		},
		{
			name: "a file and a discovery that fails", code: exitFailed,
			yaml: `
target_groups:
  - {name: a, file_sd_configs: [{files: [t.yml]}]}
  - {name: b, http_sd_configs: [{url: "http://127.0.0.1:1/"}]}
`,
			want: "group \"a\": 1 active, 0 dropped, 0 invalid, 0 over_limit\n" +
				"  active  h:9  http://h:9  {__address__=\"h:9\", target=\"h:9\"}\n" +
				"group \"b\": 0 active, 0 dropped, 0 invalid, 0 over_limit\n" +
				"  http discovery: FAILED: Unable to refresh target groups: Get \"http://127.0.0.1:1/\": dial tcp 127.0.0.1:1: connect: connection refused\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{"config.yml": c.yaml, "t.yml": `[{targets: ["h:9"]}]`} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			code, stdout, stderr := outcome(t.Context(), "check-config", "--discover", filepath.Join(dir, "config.yml"))
			_, got, _ := strings.Cut(stdout, "\n")
			got = withoutDiscovered(got)
			if code != c.code || stderr != "" || got != c.want {
				t.Errorf("exit code %d, stderr %q\n%s\nwant %d\n%s", code, stderr, got, c.code, c.want)
			}
		})
	}
}

// withoutDiscovered takes out the labels of those that are not probed: they depend on every default.
func withoutDiscovered(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if before, labels, found := strings.Cut(line, "{"); found && strings.Contains(labels, "__scheme__") {
			lines[i] = before + "{LABELS}\n"
		}
	}
	return strings.Join(lines, "")
}
