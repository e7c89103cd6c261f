package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/discovery"
)

// grouped is the invented fleet, three targets of which were found for the group "pods". Of what was found for it, one
// was dropped, one is no target and two are too many; the source of the group "slurm" fails.
func grouped(now time.Time) Options {
	f := newFleet(now)
	pods := discovery.Group{Name: "pods", Sources: []discovery.Source{{Mechanism: "kubernetes", Answered: now.Add(-90 * time.Second)}}, Unlisted: 1}
	add := func(state discovery.State, address, reason string, target *config.Target) {
		pods.Members = append(pods.Members, discovery.Member{
			State: state, Reason: reason, Target: target,
			Discovered: labels.FromStrings("__address__", address, "__meta_kubernetes_pod_name", "pod-of-"+address),
			Labels:     labels.FromStrings("__address__", address, "gpu", "h100"),
		})
	}
	for i := range 3 {
		t := &f.targets[i]
		t.Group = "pods"
		add(discovery.Active, t.URL.Host, "", &config.Target{Name: t.Name})
	}
	add(discovery.Dropped, "10.0.0.4:8000", "relabel_configs[0]: action keep", nil)
	add(discovery.Invalid, "10.0.0.5", `"<b>" is no port`, nil)
	add(discovery.OverLimit, "10.0.0.6:8000", "the group has 3 targets, its target_limit", nil)
	slurm := discovery.Group{Name: "slurm", Sources: []discovery.Source{{Mechanism: "file", Err: "no such file", ErrAt: now.Add(-5 * time.Second)}}}
	o := f.options()
	o.Groups = func() []discovery.Group { return []discovery.Group{pods, slurm} }
	return o
}

func TestDiscoveryPage(t *testing.T) {
	o := grouped(time.Now())
	h := New(o)
	for _, c := range []struct {
		path       string
		has, hasNo []string
	}{
		{
			"/discovery", []string{
				"3 probed", "1 dropped", "relabel_configs[0]: action keep", "1 no valid target", "&#34;&lt;b&gt;&#34; is no port", "2 over the limit", "1 more;",
				"kubernetes: answered 1", "file: has not answered yet; <b class=\"bad\">fails</b>", "no such file", "__meta_kubernetes_pod_name=pod-of-10.0.0.4:8000",
				`<a href="./?target=` + o.Targets()[0].Name + `">`,
			}, []string{"<b> is"},
		},
		{"/discovery?group=slurm", []string{"no such file", "show all groups"}, []string{"action keep"}},
		{"/discovery?group=x", []string{"There is no target group named x."}, []string{"action keep"}},
		{"/", []string{`<a href="?group=pods">pods</a>`, "1 dropped, 1 no valid target, 2 over the limit", "its file discovery fails", `<a href="discovery">Discovery</a>`, o.Targets()[4].Name}, nil},
		{"/?group=pods", []string{o.Targets()[0].Name, "group=pods&amp;state="}, []string{o.Targets()[4].Name}},
		{"/?group=slurm", []string{"The group slurm has no targets now."}, nil},
	} {
		w := get(h, c.path, "text/html")
		if w.Code != 200 {
			t.Errorf("%s: status %d", c.path, w.Code)
		}
		for _, text := range c.has {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("%s lacks %q", c.path, text)
			}
		}
		for _, text := range c.hasNo {
			if strings.Contains(w.Body.String(), text) {
				t.Errorf("%s has %q", c.path, text)
			}
		}
	}
}

// A configuration without target groups has no page of them in sight.
func TestNoGroups(t *testing.T) {
	h := newFleet(time.Now()).handler()
	if body := get(h, "/", "text/html").Body.String(); strings.Contains(body, "iscovery") || strings.Contains(body, "Target groups") {
		t.Error("the page of all targets speaks of discovery")
	}
	if body := get(h, "/discovery", "text/html").Body.String(); !strings.Contains(body, "There are no target groups") {
		t.Error("the page of discovery does not say that there are no groups")
	}
}

func TestAPIDiscovery(t *testing.T) {
	h := New(grouped(time.Now()))
	for _, c := range []struct {
		query  string
		status int
		want   string // groups with their counts, and the members that are listed
	}{
		{"", 200, "pods 3/1/1/2 active active active dropped invalid over_limit; slurm 0/0/0/0"},
		{"?group=pods&limit=2", 200, "pods 3/1/1/2 active active"},
		{"?group=pods&state=invalid", 200, "pods 3/1/1/2 invalid"},
		{"?limit=0", 200, "pods 3/1/1/2; slurm 0/0/0/0"},
		{"?group=x", 404, ""},
		{"?state=x", 400, ""},
		{"?limit=-1", 400, ""},
		{"?limit=10001", 400, ""},
	} {
		w := get(h, "/api/v1/discovery"+c.query, "")
		var answer apiDiscovery
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, g := range answer.Groups {
			text := fmt.Sprintf("%s %d/%d/%d/%d", g.Name, g.Counts["active"], g.Counts["dropped"], g.Counts["invalid"], g.Counts["over_limit"])
			for _, m := range g.Members {
				text += " " + string(m.State)
			}
			parts = append(parts, text)
		}
		if got := strings.Join(parts, "; "); w.Code != c.status || got != c.want {
			t.Errorf("%s: status %d, %s", c.query, w.Code, got)
		}
	}
	body := get(h, "/api/v1/discovery?state=dropped&group=pods", "").Body.Bytes()
	var got struct {
		Groups []struct {
			Members []map[string]any `json:"members"`
		} `json:"groups"`
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{{
		"state": "dropped", "reason": "relabel_configs[0]: action keep", "labels": map[string]any{"__address__": "10.0.0.4:8000", "gpu": "h100"},
		"discovered_labels": map[string]any{"__address__": "10.0.0.4:8000", "__meta_kubernetes_pod_name": "pod-of-10.0.0.4:8000"},
	}}
	if diff := cmp.Diff(want, got.Groups[0].Members); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
