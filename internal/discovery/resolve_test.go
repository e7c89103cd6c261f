package discovery

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/llm-prober/llm_prober/internal/config"
)

func parse(t *testing.T, yaml string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("config.yml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// finds is what was found for a group, each in the form name=value;name=value.
func finds(texts ...string) Found {
	var f Found
	for _, text := range texts {
		set := map[string]string{}
		for pair := range strings.SplitSeq(text, ";") {
			name, value, _ := strings.Cut(pair, "=")
			set[name] = value
		}
		f.Labels = append(f.Labels, labels.FromMap(set))
	}
	slices.SortFunc(f.Labels, labels.Compare)
	return f
}

// told is a line for each member.
func told(groups []Group) (lines []string) {
	for _, g := range groups {
		for _, m := range g.Members {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", g.Name, m.State, m.Labels, m.Reason)))
		}
	}
	return lines
}

func TestResolve(t *testing.T) {
	cfg := parse(t, `
targets: [{name: fixed, url: "http://h:1"}]
target_groups:
  - name: a
    labels: {site: ams}
    target_limit: 3
    static_configs: [{targets: [x]}]
    relabel_configs:
      - {source_labels: [__meta_ready], regex: "false", action: drop}
      - {source_labels: [__meta_zone], target_label: zone}
  - name: b
    static_configs: [{targets: [x]}]
`)
	found := map[string]Found{
		"a": finds(
			"__address__=a:1;__meta_zone=z1", "__address__=a:2;__meta_ready=false", "__address__=a:3;target=fixed",
			"__address__=a:4;instance=x", "__address__=a:5;site=fra;__model__=m", "__address__=a:1;__meta_zone=z1;__meta_other=x",
			"__address__=a:1;__meta_zone=z2", "__address__=a:7", "__address__=a:8",
		),
		"b":    finds("__address__=a:1", "__address__=b:1"),
		"gone": finds("__address__=c:1"),
	}
	want := []string{
		`a active {__address__="a:1", site="ams", target="a:1", zone="z1"}`,
		`a dropped {__address__="a:1", site="ams", target="a:1", zone="z1"} it is found twice`,
		`a invalid {__address__="a:1", site="ams", target="a:1", zone="z2"} "a:1" is the name of another target, of group "a": relabel something of its own into the label target`,
		`a dropped {} relabel_configs[0]: action drop`,
		`a invalid {__address__="a:3", site="ams", target="fixed"} "fixed" is the name of a target of the file`,
		`a invalid {__address__="a:4", instance="x", site="ams"} instance: is a reserved label name`,
		`a active {__address__="a:5", site="fra", target="a:5"}`,
		`a active {__address__="a:7", site="ams", target="a:7"}`,
		`a over_limit {__address__="a:8", site="ams", target="a:8"} the group has 3 targets, its target_limit`,
		`b invalid {__address__="a:1", target="a:1"} "a:1" is the name of another target, of group "a": relabel something of its own into the label target`,
		`b active {__address__="b:1", target="b:1"}`,
	}
	got := told(Resolve(cfg, found, nil))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is probed keeps its name and its place, also if others come before it.
func TestWhatIsProbedStays(t *testing.T) {
	cfg := parse(t, `
target_groups:
  - {name: a, target_limit: 2, static_configs: [{targets: [x]}]}
  - {name: b, target_limit: 2, static_configs: [{targets: [x]}]}
`)
	first := Resolve(cfg, map[string]Found{"a": finds("__address__=m:1", "__address__=n:1"), "b": finds("__address__=z:1;target=z")}, nil)
	running := map[string]*config.Target{}
	for _, target := range Targets(first) {
		running[target.Name] = target
	}
	second := Resolve(cfg, map[string]Found{
		"a": finds("__address__=a:1", "__address__=m:1;site=new", "__address__=n:1", "__address__=b:1;target=z"),
		"b": finds("__address__=z:1;target=z"),
	}, func(name string) *config.Target { return running[name] })
	want := []string{
		`a over_limit {__address__="a:1", target="a:1"} the group has 2 targets, its target_limit`,
		`a invalid {__address__="b:1", target="z"} "z" is the name of another target, of group "b": relabel something of its own into the label target`,
		`a active {__address__="m:1", site="new", target="m:1"}`,
		`a active {__address__="n:1", target="n:1"}`,
		`b active {__address__="z:1", target="z"}`,
	}
	if diff := cmp.Diff(want, told(second)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsShownIsBounded(t *testing.T) {
	cfg := parse(t, "target_groups: [{name: a, static_configs: [{targets: [x]}]}]")
	set := map[string]string{"__address__": "h:1\x1b[31m", "__meta_long": strings.Repeat("x", 100_000)}
	for i := range 1000 {
		set[fmt.Sprintf("__meta_%d", i)] = "x"
	}
	m := Resolve(cfg, map[string]Found{"a": {Labels: []labels.Labels{labels.FromMap(set)}}}, nil)[0].Members[0]
	if m.State != Invalid || m.Discovered.Len() > maxLabels || strings.Contains(m.Discovered.String()+m.Reason+m.Labels.String(), "\x1b") || len(m.Discovered.String()) > 100*maxLabels {
		t.Errorf("%s %q, %d labels", m.State, m.Reason, m.Discovered.Len())
	}
}

// shards tells which shards of so many probe each of some addresses, by the rules of docs/discovery.md.
func shards(t *testing.T, of int, addresses []string) map[string][]int {
	t.Helper()
	doc, err := os.ReadFile("../../docs/discovery.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "<!-- shard -->\n```yml\n")
	rules, _, _ := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/discovery.md has no example of a shard")
	}
	var found Found
	for _, a := range addresses {
		found.Labels = append(found.Labels, labels.FromStrings("__address__", a))
	}
	all := make(map[string][]int)
	for shard := range of {
		yaml := strings.NewReplacer("modulus: 2", fmt.Sprintf("modulus: %d", of), `regex: "0"`, fmt.Sprintf(`regex: "%d"`, shard)).Replace(rules)
		for _, target := range Targets(Resolve(parse(t, yaml), map[string]Found{"vllm": found}, nil)) {
			all[target.Name] = append(all[target.Name], shard)
		}
	}
	return all
}

// Each target is probed by one shard. A third one moves two targets of three, as plain hashmod does: of those in
// either of two shards a third stays where it was.
func TestShards(t *testing.T) {
	var addresses []string
	for i := range 900 {
		addresses = append(addresses, fmt.Sprintf("10.0.%d.%d:8000", i/250, i%250))
	}
	two, three := shards(t, 2, addresses), shards(t, 3, addresses)
	load := map[int]int{}
	moved := 0
	for _, a := range addresses {
		if len(two[a]) != 1 || len(three[a]) != 1 {
			t.Fatalf("%s is probed by the shards %v of two and %v of three", a, two[a], three[a])
		}
		load[three[a][0]]++
		if two[a][0] != three[a][0] {
			moved++
		}
	}
	if share := float64(moved) / 900; share < 0.6 || share > 0.73 {
		t.Errorf("%.0f %% of the targets have moved", 100*share)
	}
	for shard, n := range load {
		if n < 250 || n > 350 {
			t.Errorf("shard %d of three has %d of 900", shard, n)
		}
	}
}

// Every example of docs/discovery.md is a configuration without doubts, but for files that are not there.
func TestExamplesOfTheDocumentation(t *testing.T) {
	doc, err := os.ReadFile("../../docs/discovery.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, block := range strings.Split(string(doc), "```yml\n")[1:] {
		yaml, _, _ := strings.Cut(block, "```")
		if !strings.Contains(yaml, "target_groups:") {
			continue
		}
		n++
		for _, w := range parse(t, yaml).Warnings() {
			if !strings.Contains(w, "matches no file") && !strings.Contains(w, "no such file") {
				t.Errorf("example %d: %s", i, w)
			}
		}
	}
	if n < 6 {
		t.Errorf("found %d examples", n)
	}
}
