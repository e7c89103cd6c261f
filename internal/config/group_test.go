package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/file"
	"github.com/prometheus/prometheus/discovery/http"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	promlabels "github.com/prometheus/prometheus/model/labels"
	"go.yaml.in/yaml/v3"
)

// everyGroup has every section of a target group, with SECRET1 to SECRET6 in places of secrets.
const everyGroup = `
global: {interval: 20s}
workloads: [{name: short, output_tokens: 30}, {name: long}]
target_groups:
  - name: everything
    model: m
    interval: 5s
    timeout: 10s
    workloads: [short]
    labels: {site: ams}
    engine: vllm
    http_client_config: {authorization: {credentials: SECRET1}}
    target_limit: 7
    static_configs: [{targets: ["a:1", "b:2"], labels: {zone: x}}, {targets: ["c:3"]}]
    file_sd_configs: [{files: [targets/*.yml, /abs/x.json], refresh_interval: 1m}]
    http_sd_configs:
      - {url: "http://user:SECRET2@sd/targets?token=SECRET3", basic_auth: {username: shown1, password: SECRET4}}
      - {url: "https://sd", tls_config: {ca_file: ca.pem}}
    dns_sd_configs: [{names: [vllm.example], type: A, port: 8000}]
    kubernetes_sd_configs:
      - role: endpointslice
        api_server: https://SECRET5:x@api:6443
        authorization: {credentials: SECRET6}
        namespaces: {names: [llm]}
        selectors: [{role: pod, label: "app=vllm"}]
        attach_metadata: {node: true}
      - {role: pod, kubeconfig_file: kubeconfig}
    relabel_configs:
      - {source_labels: [__address__], modulus: 2, action: hashmod, target_label: __tmp_hash}
      - {source_labels: [__tmp_hash], action: keep, regex: 0}
  - {name: plain, static_configs: [{targets: ["d:4"]}], metrics_url: "", api_path: /v3}
slos:
  - {name: group-only, indicator: success, objective: 99, targets: [plain]}
`

func TestGroupsAreReadByPrometheus(t *testing.T) {
	c, err := Parse("dir/config.yml", []byte(everyGroup))
	if err != nil {
		t.Fatal(err)
	}
	g := c.Groups[0]
	var kinds []string
	for _, s := range g.Sources {
		kinds = append(kinds, s.Name())
	}
	if want := []string{"static", "file", "http", "http", "dns", "kubernetes", "kubernetes"}; !slices.Equal(kinds, want) || g.Limit != 7 || len(g.Relabel) != 2 {
		t.Fatalf("sources %v, limit %d, %d rules", kinds, g.Limit, len(g.Relabel))
	}
	if static := g.Sources[0].(discovery.StaticConfig); len(static) != 2 || static[0].Labels["zone"] != "x" || len(static[0].Targets) != 2 || static[1].Source != "1" {
		t.Errorf("static_configs: %+v", static)
	}
	if files := g.Sources[1].(*file.SDConfig).Files; !slices.Equal(files, []string{"dir/targets/*.yml", "/abs/x.json"}) {
		t.Errorf("files %q: relative ones are those beside the configuration", files)
	}
	h := g.Sources[3].(*http.SDConfig)
	if ca := h.HTTPClientConfig.TLSConfig.CAFile; ca != "dir/ca.pem" || time.Duration(h.RefreshInterval) != time.Minute || !h.HTTPClientConfig.FollowRedirects {
		t.Errorf("http_sd: ca_file %q, refreshed each %s, redirects %v", ca, h.RefreshInterval, h.HTTPClientConfig.FollowRedirects)
	}
	k := g.Sources[5].(*kubernetes.SDConfig)
	if k.Role != "endpointslice" || k.Selectors[0].Label != "app=vllm" || !k.AttachMetadata.Node || k.NamespaceDiscovery.Names[0] != "llm" {
		t.Errorf("kubernetes_sd: %+v", k)
	}
	if path := g.Sources[6].(*kubernetes.SDConfig).KubeConfig; path != "dir/kubeconfig" {
		t.Errorf("kubeconfig_file %q", path)
	}
	if limit := c.Groups[1].Limit; limit != Defaults().TargetLimit {
		t.Errorf("limit %d", limit)
	}
}

func TestGroupsOnThePageAreReadAgainAlike(t *testing.T) {
	// What is hidden is another value: keep secrets in files.
	text := regexp.MustCompile(`(credentials|password): SECRET\d`).ReplaceAllString(everyGroup, "${1}_file: key")
	text = regexp.MustCompile(`\w+:\w+@|\?token=\w+`).ReplaceAllString(text, "")
	c := mustParse(t, text)
	page, err := c.Redacted()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("config.yml", page)
	if err != nil {
		t.Fatalf("%v\n%s", err, page)
	}
	second, err := again.Redacted()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(page), string(second)); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
	for i, g := range c.Groups {
		if diff := cmp.Diff(g.Template, again.Groups[i].Template, comparer); diff != "" {
			t.Errorf("group %s (-first +second):\n%s", g.Name, diff)
		}
	}
}

func TestGroupsShowNoSecret(t *testing.T) {
	page, err := mustParse(t, everyGroup).Redacted()
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`SECRET\d`).FindAllString(string(page), -1); found != nil || !strings.Contains(string(page), "shown1") {
		t.Errorf("shows %v:\n%s", found, page)
	}
	var doc any
	if err := yaml.Unmarshal(page, &doc); err != nil {
		t.Error(err)
	}
}

// member makes labels of a text in the form name=value;name=value.
func member(text string) promlabels.Labels {
	set := make(map[string]string)
	for pair := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(pair, "=")
		set[name] = value
	}
	return promlabels.FromMap(set)
}

func TestMembersAreTargets(t *testing.T) {
	const head = "workloads: [{name: short}, {name: long, arrival: poisson}]\ntarget_groups:\n- {name: g, static_configs: [{targets: [a]}], "
	type want struct{ name, url, api, model, metrics, workloads, labels string }
	tests := []struct {
		keys, labels string
		want         want
	}{
		{"}", "__address__=h:8000", want{"h:8000", "http://h:8000", "/v1", "", "http://h:8000/metrics", "short 15s,long 15s", ""}},
		{"}", "__address__=H", want{"h:80", "http://h", "/v1", "", "http://h/metrics", "short 15s,long 15s", ""}},
		{"}", "__address__=[fd00::1]:8000;__scheme__=https", want{"[fd00::1]:8000", "https://[fd00::1]:8000", "/v1", "", "https://[fd00::1]:8000/metrics", "short 15s,long 15s", ""}},
		{
			"model: m, interval: 10s}", "__address__=h:1;__model__=n;__interval__=30s;__workload__=long;target=pod-1;site=ams;__tmp_x=y;__api_path__=/gw",
			want{"pod-1", "http://h:1/gw", "/v1", "n", "http://h:1/gw/metrics", "long 30s", "site=ams"},
		},
		{"model: m, interval: 10s}", "__address__=h:1;__model__=m;__interval__=10s", want{"h:1", "http://h:1", "/v1", "m", "http://h:1/metrics", "short 10s,long 10s", ""}},
		{"workloads: [short]}", "__address__=h:1;__api_path__=/openai/v3", want{"h:1", "http://h:1/openai", "/v3", "", "http://h:1/openai/metrics", "short 15s", ""}},
		{"api_path: /v2}", "__address__=h:1;__api_path__=/gw", want{"h:1", "http://h:1/gw", "/v2", "", "http://h:1/gw/metrics", "short 15s,long 15s", ""}},
		{"}", "__address__=h:1;__metrics_path__=/m;__workload__=long, short", want{"h:1", "http://h:1", "/v1", "", "named http://h:1/m", "long 15s,short 15s", ""}},
		{`metrics_url: ""}`, "__address__=h:1;__metrics_path__=/m", want{"h:1", "http://h:1", "/v1", "", "named ", "short 15s,long 15s", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.keys+tt.labels, func(t *testing.T) {
			got, err := mustParse(t, head+tt.keys).Groups[0].Target(member(tt.labels))
			if err != nil {
				t.Fatal(err)
			}
			is := want{name: got.Name, url: got.URL.String(), api: got.APIPath, model: got.Model, metrics: got.MetricsURL}
			if got.MetricsNamed {
				is.metrics = "named " + is.metrics
			}
			var plans, labels []string
			for _, p := range got.Plans {
				plans = append(plans, p.Workload.Name+" "+short(p.Interval))
			}
			for name, value := range got.Labels {
				labels = append(labels, name+"="+value)
			}
			is.workloads, is.labels = strings.Join(plans, ","), strings.Join(labels, ",")
			if is != tt.want || got.Group != "g" {
				t.Errorf("got  %+v\nwant %+v", is, tt.want)
			}
		})
	}
}

// A member says all that a target in a file says, so that one does not change by moving from one to the other.
func TestMemberIsTheSameAsTheTargetInTheFile(t *testing.T) {
	const keys = `model: m, timeout: 9s, stall_timeout: 5s, warmup: 2, relay_interval: 3s, arrival: poisson, max_in_flight: 4, engine: sglang, ip_family: ipv4, host: x.example, labels: {site: ams}, http_client_config: {bearer_token: x}`
	c := mustParse(t, `
targets: [{url: "http://h:1", `+keys+`}]
target_groups: [{name: g, static_configs: [{targets: ["h:1"]}], `+keys+`}]`)
	set := c.Groups[0].Labels()
	set["__address__"] = "h:1"
	got, err := c.Groups[0].Target(promlabels.FromMap(set))
	if err != nil {
		t.Fatal(err)
	}
	got.Group = ""
	if diff := cmp.Diff(c.Targets[0], got, comparer); diff != "" {
		t.Errorf("(-target +member):\n%s", diff)
	}
}

func TestMembersThatCannotBeTargets(t *testing.T) {
	g := mustParse(t, "workloads: [{name: a}, {name: b}]\ntarget_groups: [{name: g, workloads: [a], static_configs: [{targets: [a]}]}]").Groups[0]
	var many []string
	for i := range 21 {
		many = append(many, "l_"+string(rune('a'+i))+"=x")
	}
	long := strings.Repeat("x", 201)
	for labels, want := range map[string]string{
		"site=ams":                                        "__address__: is missing",
		"__address__=http://h:1/v1":                       "__address__: must be a host and port: relabel the parts of a URL into __scheme__, __address__ and __api_path__",
		"__address__=u:p@h":                               "__address__: must be a host and port: relabel the parts of a URL into __scheme__, __address__ and __api_path__",
		"__address__=fd00::1":                             "__address__: an IPv6 address stands in brackets",
		"__address__=h:99999":                             "__address__: has a port that is not from 1 to 65535",
		"__address__=h h":                                 "__address__: is not a URL (write http://HOST:PORT)",
		"__address__=" + long:                             "__address__: must have at most 200 bytes, not 201",
		"__address__=h;__scheme__=ftp":                    `__scheme__: "ftp" is not one of http, https`,
		"__address__=h;__api_path__=v1":                   "__api_path__: must begin with a slash",
		"__address__=h;__metrics_path__=m":                "__metrics_path__: must begin with a slash",
		"__address__=h;__api_path__=/v1/chat/completions": `__address__: must be the base of the server, without "/chat/completions"`,
		"__address__=h;__interval__=5x":                   `__interval__: "5x" is not a duration (write 15s, 1m30s or 500ms)`,
		"__address__=h;__interval__=1ms":                  `__interval__: must be at least 100ms, not 1ms`,
		"__address__=h;__workload__=b":                    `__workload__: there is no workload "b" (did you mean "a"?)`,
		"__address__=h;__workload__=a,a":                  `__workload__: "a" stands in the list already`,
		"__address__=h;__workload__=,":                    "__workload__: must not be empty, nor begin or end with a space",
		"__address__=h;__model__=a\nb":                    "__model__: must not contain control characters",
		"__address__=h;target=" + long:                    "target: must have at most 200 bytes, not 201",
		"__address__=h;job=x":                             "job: is a reserved label name",
		"__address__=h;a.b=x":                             `"a.b" is not a label name: letters, digits and underscores, not beginning with a digit`,
		"__address__=h;site=\xff":                         "site: is not UTF-8",
		"__address__=h;site=" + long:                      "site: a label value must have at most 200 bytes, not 201: every series of the target repeats it",
		"__address__=h;" + strings.Join(many, ";"):        "l_a: must be at most 20 labels, not 21: every series of the target repeats them",
	} {
		t.Run(labels, func(t *testing.T) {
			got, err := g.Target(member(labels))
			if err == nil || err.Error() != want {
				t.Errorf("%v, %v\nwant %s", got, err, want)
			}
		})
	}
}

func TestObjectivesCoverGroups(t *testing.T) {
	c := mustParse(t, everyGroup)
	plain, err := c.Groups[1].Target(member("__address__=d:4;target=everything"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.Groups[0].Target(member("__address__=d:4;target=plain"))
	if err != nil {
		t.Fatal(err)
	}
	if s := c.SLOs[0]; !s.Covers(plain, "short") || s.Covers(other, "short") {
		t.Error("an objective covers the members of the group that it names, whatever they are called")
	}
	const mute = "target_groups: [{name: g, timeout: 1s, static_configs: [{targets: [a]}]}]\nslos: [{name: s, indicator: ttft, threshold: 2s, objective: 99, targets: [g]}]"
	if _, err := Parse("config.yml", []byte(mute)); err == nil || !strings.Contains(err.Error(), "no probe can be late") {
		t.Errorf("an objective that no member can break: %v", err)
	}
}

func TestGroupWarnings(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "there.yml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Parse(filepath.Join(dir, "config.yml"), []byte(`
target_groups:
  - name: g
    file_sd_configs: [{files: [there.yml, "gone/*.json"]}]
    http_sd_configs: [{url: "http://sd", tls_config: {ca_file: ca.pem}}]
    kubernetes_sd_configs: [{role: pod, kubeconfig_file: there.yml}]
slos: []
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"config.yml:4: target_groups[0].file_sd_configs[0].files[1]: DIR/gone/*.json matches no file: the group finds nothing there until there is one",
		"config.yml:5: target_groups[0].http_sd_configs[0].tls_config.ca_file: open DIR/ca.pem: no such file or directory; until the file is there, the group finds nothing new",
	}
	var got []string
	for _, w := range c.Warnings() {
		got = append(got, strings.TrimPrefix(strings.ReplaceAll(w, dir, "DIR"), "DIR/"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
