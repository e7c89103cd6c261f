package config

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secrets is a configuration with SECRET1 to SECRET23, each in another place, and with things beside them
// that are none.
const secrets = `
workloads:
  - name: w
    extra_body:
      api_key: SECRET1
      nested: {access-token: SECRET2, list: [{Password: SECRET3}], visible: shown1}
      secrets: {a: SECRET4, b: [SECRET5, 31415926]}
      skip_special_tokens: true
targets:
  - name: userinfo
    url: http://shown2:SECRET6@h:1/v1
  - name: token-as-user
    url: http://SECRET7@h:2
  - name: headers
    url: http://h:3
    http_client_config:
      authorization: {type: shown3, credentials: SECRET8}
      http_headers:
        X-Api-Key: {values: [SECRET9, SECRET10], secrets: [SECRET11], files: [shown4]}
      proxy_url: http://SECRET12:SECRET13@proxy:3128
      proxy_connect_header: {X-Proxy: [SECRET14]}
      tls_config: {cert: shown5, key: SECRET15}
  - name: oauth
    url: http://h:4
    http_client_config:
      oauth2:
        client_id: shown6
        client_secret: SECRET16
        token_url: http://SECRET17@idp/token?client_secret=SECRET23
        endpoint_params: {password: SECRET18}
        tls_config: {cert: shown7, key: SECRET19}
  - name: pages
    url: http://h:6
    metrics_url: http://h:6/metrics?api_key=SECRET21&view=shown8
    health_url: http://h:6/health?token=SECRET22;a
  - name: bearer
    url: http://h:5
    http_client_config: {bearer_token: SECRET20}
`

func TestRedactedShowsNoSecret(t *testing.T) {
	c := mustParse(t, secrets)
	out, err := c.Redacted()
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`SECRET\d+|31415926`).FindAllString(string(out), -1); found != nil {
		t.Errorf("shown: %v in\n%s", found, out)
	}
	for i := 1; i <= 8; i++ {
		if shown := fmt.Sprintf("shown%d", i); !strings.Contains(string(out), shown) {
			t.Errorf("%s is not shown", shown)
		}
	}
	if !strings.Contains(string(out), "skip_special_tokens: true") {
		t.Error("true is hidden")
	}
	if _, err := Parse("config.yml", out); err != nil {
		t.Errorf("the page cannot be loaded: %v\n%s", err, out)
	}
	for _, line := range c.Warnings() {
		if strings.Contains(line, "SECRET") {
			t.Errorf("a warning shows a secret: %s", line)
		}
	}
}

func TestRedactedLoadsAsTheSameConfiguration(t *testing.T) {
	tests := map[string]string{
		"defaults": "targets: [{url: 'http://h:1'}]",
		"empty":    "targets: []\nslos: []",
		"everything": `
global: {interval: 1m30s, timeout: 500ms, stall_timeout: 250ms, warmup: 0, relay_interval: 100ms, histograms: native}
workloads:
  - {name: "yes", api: completions, prompt_tokens: 1, output_tokens: 30, arrival: poisson, seed: -9223372036854775808, temperature: 0.7, max_in_flight: 2, drop_fields: [seed, min_tokens], extra_body: {a: [1, 0.5, null, "2", {b: false}], u: 18446744073709551615}}
  - {name: "12", prompt_tokens: 64, max_tokens_field: max_completion_tokens}
targets:
  - {name: "a: b", url: "https://[::1]/x/v1", model: "007", workloads: ["12", "yes"], metrics_url: "", engine: sglang, labels: {on: "off", n: "1"}, ip_family: ipv6, histograms: classic}
  - {url: "http://h", arrival: poisson, interval: 2h, http_client_config: {basic_auth: {username: u, password_file: p}, tls_config: {ca_file: ca.pem, insecure_skip_verify: true, min_version: TLS12}, proxy_url: "http://proxy:1", no_proxy: x, http_headers: {X-A: {files: [f]}}}}
slos:
  - {name: d, indicator: duration, threshold: 400ms, objective: 99.9, targets: ["h:80"], workloads: ["yes"]}
  - {name: s, indicator: success, objective: 99.95}
`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			want := mustParse(t, text)
			out, err := want.Redacted()
			if err != nil {
				t.Fatal(err)
			}
			got, err := Parse("config.yml", out)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if diff := cmp.Diff(want, got, comparer); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, out)
			}
		})
	}
}

func TestSmells(t *testing.T) {
	for key, want := range map[string]bool{
		"api_key": true, "Api-Key": true, "token": true, "X-Auth-Token": true, "client_secret": true, "PASSWORD": true, "credentials": true,
		"credentials_file": false, "files": false, "client_certificate_key_id": false, "stop_token_ids": false, "top_k": false, "username": false,
	} {
		if got := smells(key); got != want {
			t.Errorf("smells(%q) = %v", key, got)
		}
	}
}
