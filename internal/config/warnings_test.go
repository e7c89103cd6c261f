package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// asItStands is said of a value that looks as if it were to be replaced.
const asItStands = "is taken as it stands: no variable, command or template is replaced in this file; a secret goes into a file that credentials_file, password_file or files of a header name"

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
		{
			"placeholders of other programs",
			"workloads: [{name: w, extra_body: {a: '${B}', chat_template: '{{ messages }}', price: 'US$5 (net)'}}]\ntargets:\n- {name: '{{ .Name }}', url: 'http://h', model: $MODEL, labels: {site: 'x-$(hostname)'}}\n- {name: cost$5, url: 'http://i', http_client_config: {authorization: {credentials: '${API_KEY:-SECRET}'}}}",
			[]string{
				"config.yml:1: workloads[0].extra_body.a: " + asItStands,
				"config.yml:3: targets[0].name: " + asItStands,
				"config.yml:3: targets[0].model: " + asItStands,
				"config.yml:3: targets[0].labels.site: " + asItStands,
				"config.yml:4: targets[1].http_client_config.authorization.credentials: " + asItStands,
			},
		},
		{
			"loopback past its proxy", `
targets:
- {name: a, url: 'http://127.0.0.1:1', http_client_config: {proxy_url: 'http://p', no_proxy: x.example}}
- {name: b, url: 'https://localhost:2', http_client_config: {proxy_url: 'http://p', no_proxy: '10.0.0.0/8'}}
- {name: c, url: 'http://[::1]:3', http_client_config: {proxy_from_environment: true}}
- {name: d, url: 'http://127.0.0.1:4', http_client_config: {proxy_url: 'http://p'}}
- {name: e, url: 'http://127.0.0.1:5', http_client_config: {proxy_url: 'http://p', no_proxy: '127.0.0.1,x'}}
- {name: f, url: 'http://h', http_client_config: {proxy_url: 'http://p', no_proxy: x}}
- {name: g, url: 'http://127.1.2.3', http_client_config: {proxy_url: 'http://p', no_proxy: '127.0.0.1'}}`,
			[]string{
				`config.yml:3: targets[0].http_client_config.no_proxy: target "a" is asked directly: with any no_proxy a loopback address never goes through proxy_url`,
				`config.yml:4: targets[1].http_client_config.no_proxy: target "b" is asked directly: with any no_proxy a loopback address never goes through proxy_url`,
				`config.yml:5: targets[2].http_client_config.proxy_from_environment: target "c" is asked directly: a loopback address never goes through the environment's proxy`,
				`config.yml:9: targets[6].http_client_config.no_proxy: target "g" is asked directly: with any no_proxy a loopback address never goes through proxy_url`,
			},
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
		`DIR/config.yml:3: targets[0].http_client_config.authorization.credentials_file: open DIR/key.txt: no such file or directory; until the file is there, probes of the target fail as auth`,
		`DIR/config.yml:5: targets[2].http_client_config.tls_config.ca_file: read DIR: is a directory; until the file is there, probes of the target fail as tls`,
		`DIR/config.yml:5: targets[2].http_client_config.http_headers.X-A.files[0]: DIR/header.txt is empty`,
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

// What would be sent, or could not be, is told by the name of the file; its content is not.
func TestWarningsLookIntoFiles(t *testing.T) {
	const certificate = "-----BEGIN CERTIFICATE-----\nSECRET\n-----END CERTIFICATE-----\n"
	for _, c := range []struct{ name, client, content, want string }{
		{"a key", "authorization: {credentials_file: F}", "SECRET\n", ""},
		{"spaces are cut off", "authorization: {credentials_file: F}", " SECRET\r\n\r\n", ""},
		{"byte order mark", "authorization: {credentials_file: F}", "\xEF\xBB\xBFSECRET", "begins with a byte order mark, which would be sent: save it as UTF-8 without one"},
		{"UTF-16 with its little end first", "authorization: {credentials_file: F}", "\xFF\xFES\x00E\x00", "begins with a byte order mark"},
		{"UTF-16 with its big end first", "bearer_token_file: F", "\xFE\xFF\x00S\x00E", "begins with a byte order mark"},
		{"UTF-16 without a mark", "authorization: {credentials_file: F}", "S\x00E\x00", "has control characters: a header has none"},
		{"two keys", "authorization: {credentials_file: F}", "SECRET\nSECRET\n", "has several lines, and is used whole: a header has one line"},
		{"a header", "http_headers: {X-A: {files: [F]}}", "SECRET\x07", "has control characters: a header has none"},
		{"a password", "basic_auth: {username: u, password_file: F}", "\xEF\xBB\xBFSECRET", "begins with a byte order mark"},
		{"only spaces", "authorization: {credentials_file: F}", " \n", "is empty"},
		{"the scheme again", "authorization: {credentials_file: F}", "Bearer SECRET\n", `begins with "Bearer ", which is added anyway: it holds the key alone`},
		{"not a key", "authorization: {credentials_file: F}", strings.Repeat("SECRET", 20000), "is larger than 64 KiB: is it the right file?"},
		{"an authority", "tls_config: {ca_file: F}", certificate, ""},
		{"an authority behind a mark", "tls_config: {ca_file: F}", "\xEF\xBB\xBF" + certificate, "begins with a byte order mark"},
		{"an authority in DER", "tls_config: {ca_file: F}", "\x30\x82SECRET", "holds no PEM block"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got := mustParse(t, "targets:\n- {url: 'http://h', http_client_config: {"+strings.ReplaceAll(c.client, "F", file)+"}}").Warnings()
			if all := strings.Join(got, "\n"); strings.Contains(all, "SECRET") || c.want == "" && all != "" {
				t.Errorf("%q", all)
			}
			if c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], "config.yml:2: targets[0].http_client_config.") || !strings.Contains(got[0], file+" "+c.want)) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A pipe that nobody writes to is told of and not opened: that would wait for ever.
func TestWarningsOpenOnlyRegularFiles(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(pipe, link); err != nil {
		t.Skip(err)
	}
	for _, client := range []string{
		"authorization: {credentials_file: F}", "bearer_token_file: F", "basic_auth: {username: u, password_file: F}",
		"tls_config: {ca_file: F}", "tls_config: {cert_file: F, key_file: F}", "http_headers: {X-A: {files: [F]}}",
		"oauth2: {client_id: c, token_url: 'http://t', client_secret_file: F, tls_config: {ca_file: F}}",
	} {
		for _, file := range []string{pipe, link, "/dev/tty"} {
			got := mustParse(t, "targets:\n- {url: 'http://h', http_client_config: {"+strings.ReplaceAll(client, "F", file)+"}}").Warnings()
			if len(got) != 1 || !strings.Contains(got[0], file+" is not a regular file") {
				t.Errorf("%s: %q", client, got)
			}
		}
	}
}
