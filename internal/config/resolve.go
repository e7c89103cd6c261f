package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	promconfig "github.com/prometheus/common/config"
)

// resolve makes the effective configuration of what was written, reporting what does not fit together.
// After a problem the result is not to be used, but later checks go on with it.
func (d *decoder) resolve(s *sections) *Config {
	c := &Config{Global: *s.Global}
	d.paceDoubts("global", c.Global)
	c.Workloads = d.workloads(s.Workloads)
	seen := make(map[string]string) // names of targets and groups
	c.Targets = d.targets(s.Targets, c.Workloads, seen)
	c.Groups = d.groups(s.Groups, c.Workloads, seen)
	d.unused(s, c)
	c.SLOs = d.slos(s.SLOs, c)
	return c
}

// paceDoubts points out values of the section at key that do not go with others.
func (d *decoder) paceDoubts(key string, g Global) {
	stall, interval := join(key, "stall_timeout"), join(key, "interval")
	if at := d.at(stall); at != nil && g.StallTimeout >= g.Timeout {
		d.doubt(at, stall, "%s never applies: the timeout of %s ends a probe first", short(g.StallTimeout), short(g.Timeout))
	}
	if at := d.at(interval); at != nil && g.Interval < time.Second {
		d.doubt(at, interval, "%.0f requests an hour for each workload: a prober watches, it does not load", perHour(g.Interval))
	}
}

// perHour is how many probes an interval makes in an hour.
func perHour(interval time.Duration) float64 { return float64(time.Hour) / float64(interval) }

// workload makes the effective workload of what was written at key on top of what it inherits.
func (d *decoder) workload(key string, w Workload) *Workload {
	base := d.base.Workload
	if w.Name == base.Name && (base.Name == "" || w.API != base.API || w.PromptTokens != base.PromptTokens || w.OutputTokens != base.OutputTokens) {
		w.Name = fmt.Sprintf("%s-%d-%d", w.API, w.PromptTokens, w.OutputTokens)
	}
	if w.API == "completions" && w.MaxTokensField == "max_completion_tokens" {
		n := cmp.Or(d.at(key+".max_tokens_field"), d.at(key+".api"))
		d.problem(n, key+".max_tokens_field", "completions know max_tokens only")
	}
	for i, field := range w.DropFields {
		if _, set := w.ExtraBody[field]; set && field != "" && d.at(key+".extra_body") != nil {
			d.problemAt(itemKey(key+".drop_fields", i), "", "%q is set in extra_body of the same workload", field)
		}
	}
	const thinking = "chat_template_kwargs"
	off := map[string]any{"enable_thinking": false}
	w.ExtraBody = maps.Clone(w.ExtraBody)
	if d.at(key+".extra_body") == nil && reflect.DeepEqual(w.ExtraBody[thinking], off) {
		delete(w.ExtraBody, thinking) // nobody's word but the default below
	}
	if _, set := w.ExtraBody[thinking]; !set && w.API == "chat" && !slices.Contains(w.DropFields, thinking) {
		if w.ExtraBody == nil {
			w.ExtraBody = make(map[string]any)
		}
		w.ExtraBody[thinking] = off
	}
	return &w
}

// workloads makes the effective workloads, one for each that was written, or the one default.
func (d *decoder) workloads(written []Workload) []*Workload {
	n := d.at("workloads")
	if n == nil || isNull(n) {
		return []*Workload{d.workload("", d.base.Workload)}
	}
	if d.ok("workloads") && len(written) == 0 {
		d.problemAt("workloads", "", "lists no workload: leave the key out for %s", d.workload("", d.base.Workload).Name)
	}
	var list []*Workload
	seen := make(map[string]string)
	for i, w := range written {
		key := itemKey("workloads", i)
		list = append(list, d.workload(key, w))
		d.unique(seen, list[i].Name, key, "")
	}
	return list
}

// unique reports a name that an entry before the one at key has; seen remembers.
func (d *decoder) unique(seen map[string]string, name, key, hint string) {
	if first, ok := seen[name]; ok {
		d.problemAt(key+".name", hint, "%q is the name of %s already", clip(name), d.same(first, ".name"))
		return
	}
	seen[name] = key
}

// targets makes the effective targets, one for each that was written, and remembers their names in seen.
func (d *decoder) targets(written []target, workloads []*Workload, seen map[string]string) []*Target {
	if d.ok("targets") && len(written) == 0 && d.at("target_groups") == nil {
		d.doubt(d.at("targets"), "targets", "lists no target: nothing is probed")
	}
	var list []*Target
	twins := make(map[string][]int) // indices of targets that may send the same requests
	for i := range written {
		key := itemKey("targets", i)
		t := d.target(key, &written[i], workloads)
		list = append(list, t)
		if t.URL != nil {
			place := fmt.Sprintf("%q %q %q %q %q %q", t.URL.Scheme, hostPort(t.URL), t.URL.EscapedPath()+t.APIPath, t.Host, t.Model, t.IPFamily)
			there := twins[place]
			there = there[max(0, len(there)-maxTwins):]
			twin := slices.IndexFunc(there, func(j int) bool { return sameRequests(t, list[j]) })
			twins[place] = append(twins[place], i)
			if twin >= 0 {
				d.problemAt(key+".url", "", "sends the same requests as %s", d.same(itemKey("targets", there[twin]), ".url"))
				continue // of the same name too, if they have none of their own
			}
		}
		hint := ""
		if d.at(key+".name") == nil {
			hint = "it was made from the url: give this target a name"
		}
		if t.Name != "" {
			d.unique(seen, t.Name, key, hint)
		}
	}
	return list
}

// maxTwins bounds how many targets before it at the same address a target is compared with.
const maxTwins = 100

// sameRequests reports whether two targets with the same address, model and address family ask with the
// same credentials, by the same way, for a workload that both run.
func sameRequests(a, b *Target) bool {
	return reflect.DeepEqual(a.HTTPClientConfig, b.HTTPClientConfig) &&
		slices.ContainsFunc(a.Plans, func(p Plan) bool {
			return slices.ContainsFunc(b.Plans, func(q Plan) bool { return p.Workload == q.Workload })
		})
}

// target makes the effective target of what was written at key. Its URL is nil, and its name may be empty, if the URL
// was no good.
func (d *decoder) target(key string, s *target, workloads []*Workload) *Target {
	d.paceDoubts(key, s.Global)
	t := &Target{
		Name: s.Name, Host: s.Host, Model: s.Model, Warmup: s.Warmup, RelayInterval: s.RelayInterval, Histograms: s.Histograms,
		MetricsNamed: s.MetricsURL != nil, HealthNamed: s.HealthURL != nil,
		Engine: s.Engine, Labels: s.Labels, IPFamily: s.IPFamily, HTTPClientConfig: s.Client,
	}
	t.Plans = d.plans(key, s, workloads)
	if !d.ok(key + ".url") {
		return t
	}
	u, user, msg, hint := baseURL(s.URL)
	if msg != "" {
		d.problemAt(key+".url", hint, "%s", msg)
		return t
	}
	root, apiPath := splitAPI(u)
	if d.ok(key + ".api_path") {
		if root != u {
			d.doubt(d.at(key+".api_path"), key+".api_path", "comes behind the whole path of url, which ends in %q already", clip(apiPath))
		}
		root, apiPath = u, s.APIPath
	}
	t.URL, t.APIPath = root, apiPath
	t.Name = cmp.Or(t.Name, hostPort(root))
	d.userinfo(key, t, user)
	if proxy := s.Client.ProxyConfig; t.Host != "" && root.Scheme == "http" && (proxy.ProxyFromEnvironment || proxy.ProxyURL.URL != nil) {
		d.problemAt(key+".host", "", "cannot go with a proxy for http://: the proxy would be asked for this host in place of that of url")
	}
	d.proxyDoubts(key+".http_client_config", t)
	t.MetricsURL = d.page(key+".metrics_url", s.MetricsURL, root, "metrics")
	if t.MetricsURL != "" {
		t.HealthURL = d.page(key+".health_url", s.HealthURL, root, "health")
	} else if s.HealthURL != nil && *s.HealthURL != "" {
		d.problemAt(key+".health_url", "", `needs the relay, which metrics_url: "" switches off`)
	}
	return t
}

// proxyDoubts points out a target that goes past its proxy. Where exceptions are named at all, loopback addresses are
// some, whatever is named (golang.org/x/net/http/httpproxy).
func (d *decoder) proxyDoubts(client string, t *Target) {
	proxy := t.HTTPClientConfig.ProxyConfig
	host := t.URL.Hostname()
	ip := net.ParseIP(host)
	if host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return
	}
	exceptions := strings.FieldsFunc(proxy.NoProxy, func(r rune) bool { return r == ',' || r == ' ' })
	told := slices.ContainsFunc(exceptions, func(x string) bool { return x == "*" || x == host || strings.HasPrefix(x, host+":") })
	key, way := "no_proxy", "with any no_proxy a loopback address never goes through proxy_url"
	switch {
	case proxy.ProxyFromEnvironment:
		key, way = "proxy_from_environment", "a loopback address never goes through the environment's proxy"
	case proxy.NoProxy == "" || told:
		return
	}
	d.doubt(child(d.at(client), key), join(client, key), "target %q is asked directly: %s", clip(t.Name), way)
}

// userinfo makes basic authentication of the user information in the URL of t.
func (d *decoder) userinfo(key string, t *Target, user *url.Userinfo) {
	if user == nil || user.String() == "" {
		return
	}
	client := &t.HTTPClientConfig
	if client.BasicAuth != nil || client.Authorization != nil || client.OAuth2 != nil {
		d.problemAt(key+".url", "", "has user information, but http_client_config has credentials too")
		return
	}
	password, _ := user.Password() // none: an empty one
	client.BasicAuth = &promconfig.BasicAuth{Username: user.Username(), Password: promconfig.Secret(password)}
}

// page returns the address of a page of the server: as set, or below its base.
func (d *decoder) page(key string, set *string, base *url.URL, name string) string {
	if set == nil {
		return base.JoinPath(name).String()
	}
	if *set == "" {
		return ""
	}
	page, msg, hint := pageURL(*set)
	if msg != "" {
		d.problemAt(key, hint, "%s", msg)
	}
	return cmp.Or(page, *set) // if it is no good, still not off
}

// plans returns what the target that was written at key runs.
func (d *decoder) plans(key string, s *target, workloads []*Workload) []Plan {
	chosen := workloads
	if list := key + ".workloads"; d.ok(list) {
		d.references(list, s.Workloads, "workload", workloadNames(workloads))
		chosen = nil
		for _, name := range s.Workloads {
			if i := slices.IndexFunc(workloads, func(w *Workload) bool { return w.Name == name }); i >= 0 {
				chosen = append(chosen, workloads[i])
			}
		}
	}
	if d.plansMade += len(chosen); d.plansMade > maxPlans {
		if d.plansMade-len(chosen) <= maxPlans {
			d.problemAt(key, "", "with the targets before it runs more than %d workloads", maxPlans)
		}
		return nil
	}
	var plans []Plan
	for _, w := range chosen {
		plans = append(plans, Plan{
			Workload: w, Interval: s.Interval, Timeout: s.Timeout, StallTimeout: s.StallTimeout, Arrival: cmp.Or(s.Arrival, w.Arrival),
			MaxInFlight: cmp.Or(s.MaxInFlight, w.MaxInFlight, MaxInFlight(s.Timeout, s.Interval)),
		})
	}
	return plans
}

func workloadNames(list []*Workload) (names []string) {
	for _, w := range list {
		names = append(names, w.Name)
	}
	return names
}

// references reports names in the list of key that nothing has.
func (d *decoder) references(key string, list []string, what string, known []string) {
	if !d.ok(key) {
		return
	}
	if len(list) == 0 {
		d.problemAt(key, "", "lists no %s: leave the key out for all", what)
	}
	there := make(map[string]bool, len(known))
	for _, name := range known {
		there[name] = true
	}
	for i, name := range list {
		if name != "" && !there[name] {
			d.problemAt(itemKey(key, i), d.near(name, known), "there is no %s %q", what, clip(name))
		}
	}
}

// unused points out workloads that no target runs.
func (d *decoder) unused(s *sections, c *Config) {
	used := make(map[string]bool)
	targets := c.covering()
	for _, t := range targets {
		for _, p := range t.Plans {
			used[p.Workload.Name] = true
		}
	}
	for i := range s.Workloads {
		if w := c.Workloads[i]; len(targets) > 0 && !used[w.Name] {
			key := itemKey("workloads", i)
			d.doubt(d.at(key), key, "no target runs workload %q", clip(w.Name))
		}
	}
}
