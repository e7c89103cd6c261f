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
	"go.yaml.in/yaml/v3"
)

// resolve makes the effective configuration of what was written, reporting what does not fit together.
// After a problem the result is not to be used, but later checks go on with it.
func (d *decoder) resolve(raw rawConfig) *Config {
	v := Defaults()
	base := Global{v.Interval, v.Timeout, v.StallTimeout, v.Warmup, v.RelayInterval}
	c := &Config{Global: d.pace("global", raw.global, base)}
	c.Workloads = d.workloads(raw.workloads)
	c.Targets = d.targets(raw, c)
	d.unused(raw, c)
	c.SLOs = d.slos(raw, c)
	return c
}

// pace applies what a section sets to what it inherits.
func (d *decoder) pace(key string, raw rawPace, inherited Global) Global {
	g := Global{
		Interval:      raw.interval.or(inherited.Interval),
		Timeout:       raw.timeout.or(inherited.Timeout),
		StallTimeout:  raw.stallTimeout.or(inherited.StallTimeout),
		Warmup:        raw.warmup.or(inherited.Warmup),
		RelayInterval: raw.relayInterval.or(inherited.RelayInterval),
	}
	if at := raw.stallTimeout.at; at != nil && g.StallTimeout >= g.Timeout {
		d.doubt(at, join(key, "stall_timeout"), "%s never applies: the timeout of %s ends a probe first", short(g.StallTimeout), short(g.Timeout))
	}
	if at := raw.interval.at; at != nil && g.Interval < time.Second {
		d.doubt(at, join(key, "interval"), "%.0f requests an hour for each workload: a prober watches, it does not load", perHour(g.Interval))
	}
	return g
}

// perHour is how many probes an interval makes in an hour.
func perHour(interval time.Duration) float64 { return float64(time.Hour) / float64(interval) }

// defaultWorkload is the name of a workload that sets nothing.
func defaultWorkload() string { return workload(rawWorkload{}, bareWorkload()).Name }

// bareWorkload is what a workload of a configuration inherits from.
func bareWorkload() *Workload {
	v := Defaults()
	return &Workload{
		API: v.API, PromptTokens: v.PromptTokens, OutputTokens: v.OutputTokens, Arrival: v.Arrival, Seed: v.Seed,
		Temperature: v.Temperature, MaxTokensField: v.MaxTokensField,
	}
}

// workload fills in what it inherits from base.
func workload(raw rawWorkload, base *Workload) *Workload {
	w := &Workload{
		API:            raw.api.or(base.API),
		PromptTokens:   raw.promptTokens.or(base.PromptTokens),
		OutputTokens:   raw.outputTokens.or(base.OutputTokens),
		Arrival:        raw.arrival.or(base.Arrival),
		Seed:           raw.seed.or(base.Seed),
		Temperature:    raw.temperature.or(base.Temperature),
		MaxInFlight:    raw.maxInFlight.or(base.MaxInFlight),
		MaxTokensField: raw.maxTokensField.or(base.MaxTokensField),
		DropFields:     base.DropFields,
		ExtraBody:      maps.Clone(raw.extraBody.or(base.ExtraBody)),
	}
	if raw.dropFields.at != nil {
		w.DropFields = texts(raw.dropFields.or(nil))
	}
	derived := fmt.Sprintf("%s-%d-%d", w.API, w.PromptTokens, w.OutputTokens)
	if base.Name != "" && w.API == base.API && w.PromptTokens == base.PromptTokens && w.OutputTokens == base.OutputTokens {
		derived = base.Name
	}
	w.Name = raw.name.or(derived)
	const thinking = "chat_template_kwargs"
	off := map[string]any{"enable_thinking": false}
	if raw.extraBody.at == nil && reflect.DeepEqual(w.ExtraBody[thinking], off) {
		delete(w.ExtraBody, thinking) // nobody's word but the default below
	}
	if _, set := w.ExtraBody[thinking]; !set && w.API == "chat" && !slices.Contains(w.DropFields, thinking) {
		if w.ExtraBody == nil {
			w.ExtraBody = make(map[string]any)
		}
		w.ExtraBody[thinking] = off
	}
	return w
}

func (d *decoder) workloads(raw value[[]entry[rawWorkload]]) []*Workload {
	if raw.at == nil || raw.at.ShortTag() == "!!null" {
		return []*Workload{workload(rawWorkload{}, bareWorkload())}
	}
	if !raw.bad && len(raw.v) == 0 {
		d.problem(raw.at, "workloads", "lists no workload: leave the key out for %s", defaultWorkload())
	}
	var list []*Workload
	seen := make(map[string]entry[rawWorkload])
	for _, e := range raw.v {
		w := workload(e.raw, bareWorkload())
		d.workloadRules(e.key, e.raw)
		if first, ok := seen[w.Name]; ok {
			d.problem(named(e.raw.name, e.at), e.key+".name", "%q is the name of %s already", clip(w.Name), d.same(first.at, first.key))
			continue
		}
		seen[w.Name] = e
		list = append(list, w)
	}
	return list
}

// workloadRules reports keys of a workload that do not fit together.
func (d *decoder) workloadRules(key string, raw rawWorkload) {
	if w := workload(raw, d.baseWorkload()); w.API == "completions" && w.MaxTokensField == "max_completion_tokens" {
		d.problem(cmp.Or(raw.maxTokensField.at, raw.api.at), key+".max_tokens_field", "completions know max_tokens only")
	}
	for i, item := range raw.dropFields.or(nil) {
		if _, set := raw.extraBody.or(nil)[item.v]; set && !item.bad {
			d.problem(item.at, fmt.Sprintf("%s.drop_fields[%d]", key, i), "%q is set in extra_body of the same workload", item.v)
		}
	}
}

// named returns where a name stands or, if it is derived, the entry.
func named(name value[string], entry *yaml.Node) *yaml.Node {
	if name.at != nil {
		return name.at
	}
	return entry
}

func (d *decoder) targets(raw rawConfig, c *Config) []*Target {
	if raw.targets.at != nil && !raw.targets.bad && len(raw.targets.v) == 0 {
		d.doubt(raw.targets.at, "targets", "lists no target: nothing is probed")
	}
	var list []*Target
	twins := make(map[string][]int) // indices of targets that may send the same requests
	seen := make(map[string]entry[rawTarget])
	for i, e := range raw.targets.v {
		t := d.target(e, c)
		list = append(list, t)
		if t.URL != nil {
			place := fmt.Sprintf("%q %q %q %q %q %q", t.URL.Scheme, hostPort(t.URL), t.URL.EscapedPath()+t.APIPath, t.Host, t.Model, t.IPFamily)
			there := twins[place]
			there = there[max(0, len(there)-maxTwins):]
			twin := slices.IndexFunc(there, func(j int) bool { return sameRequests(t, list[j]) })
			twins[place] = append(twins[place], i)
			if twin >= 0 {
				first := raw.targets.v[there[twin]]
				d.problem(e.raw.url.at, e.key+".url", "sends the same requests as %s", d.same(first.raw.url.at, first.key))
				continue // of the same name too, if they have none of their own
			}
		}
		if first, ok := seen[t.Name]; ok {
			d.nameTaken(e, first, t.Name)
		} else if t.Name != "" {
			seen[t.Name] = e
		}
	}
	return list
}

// maxTwins bounds how many targets before it at the same address a target is compared with.
const maxTwins = 100

func (d *decoder) nameTaken(e, first entry[rawTarget], name string) {
	hint := ""
	if e.raw.name.at == nil {
		hint = "it was made from the url: give this target a name"
	}
	d.hinted(named(e.raw.name, e.at), e.key+".name", hint, "%q is the name of %s already", clip(name), d.same(named(first.raw.name, first.at), first.key))
}

// sameRequests reports whether two targets with the same address, model and address family ask with the
// same credentials, by the same way, for a workload that both run.
func sameRequests(a, b *Target) bool {
	return reflect.DeepEqual(a.HTTPClientConfig, b.HTTPClientConfig) &&
		slices.ContainsFunc(a.Plans, func(p Plan) bool {
			return slices.ContainsFunc(b.Plans, func(q Plan) bool { return p.Workload == q.Workload })
		})
}

// target makes the effective target. Its URL is nil, and its name may be empty, if the URL was no good.
func (d *decoder) target(e entry[rawTarget], c *Config) *Target {
	raw, v := e.raw, Defaults()
	pace := d.pace(e.key, raw.pace, c.Global)
	t := &Target{
		Name:             raw.name.or(""),
		Host:             raw.host.or(""),
		Model:            raw.model.or(""),
		Warmup:           pace.Warmup,
		RelayInterval:    pace.RelayInterval,
		Engine:           raw.engine.or(v.Engine),
		Labels:           raw.labels.or(nil),
		IPFamily:         raw.ipFamily.or(v.IPFamily),
		HTTPClientConfig: raw.client.or(promconfig.HTTPClientConfig{}),
	}
	t.Plans = d.plans(e, c.Workloads, pace)
	if raw.url.at == nil || raw.url.bad {
		return t
	}
	u, user, msg, hint := baseURL(raw.url.v)
	if msg != "" {
		d.hinted(raw.url.at, e.key+".url", hint, "%s", msg)
		return t
	}
	t.URL, t.APIPath = d.base(e, u)
	u = t.URL
	if t.Name == "" {
		t.Name = hostPort(u)
	}
	d.userinfo(e, t, user)
	t.MetricsNamed, t.HealthNamed = raw.metricsURL.at != nil, raw.healthURL.at != nil
	d.hostRules(e, t)
	d.proxyDoubts(e, t)
	t.MetricsURL = d.page(e.key+".metrics_url", raw.metricsURL, u, "metrics")
	if t.MetricsURL == "" && raw.healthURL.or("") != "" {
		d.problem(raw.healthURL.at, e.key+".health_url", `needs the relay, which metrics_url: "" switches off`)
	} else if t.MetricsURL != "" {
		t.HealthURL = d.page(e.key+".health_url", raw.healthURL, u, "health")
	}
	return t
}

// base tells the root of a server from the path of its API.
func (d *decoder) base(e entry[rawTarget], u *url.URL) (root *url.URL, apiPath string) {
	root, apiPath = splitAPI(u)
	set := e.raw.apiPath
	if set.at == nil || set.bad {
		return root, apiPath
	}
	if root != u {
		d.doubt(set.at, e.key+".api_path", "comes behind the whole path of url, which ends in %q already", clip(apiPath))
	}
	return u, set.v
}

// hostRules reports a host that would not do what it says.
func (d *decoder) hostRules(e entry[rawTarget], t *Target) {
	if proxy := t.HTTPClientConfig.ProxyConfig; t.Host != "" && t.URL.Scheme == "http" && (proxy.ProxyFromEnvironment || proxy.ProxyURL.URL != nil) {
		d.problem(e.raw.host.at, e.key+".host", "cannot go with a proxy for http://: the proxy would be asked for this host in place of that of url")
	}
}

// proxyDoubts points out a target that goes past its proxy. Where exceptions are named at all, loopback addresses are
// some, whatever is named (golang.org/x/net/http/httpproxy).
func (d *decoder) proxyDoubts(e entry[rawTarget], t *Target) {
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
	d.doubt(child(e.raw.client.at, key), e.key+".http_client_config."+key, "target %q is asked directly: %s", clip(t.Name), way)
}

// userinfo makes basic authentication of the user information in the URL of t.
func (d *decoder) userinfo(e entry[rawTarget], t *Target, user *url.Userinfo) {
	if user == nil || user.String() == "" {
		return
	}
	client := &t.HTTPClientConfig
	if client.BasicAuth != nil || client.Authorization != nil || client.OAuth2 != nil {
		d.problem(e.raw.url.at, e.key+".url", "has user information, but http_client_config has credentials too")
		return
	}
	password, _ := user.Password() // none: an empty one
	client.BasicAuth = &promconfig.BasicAuth{Username: user.Username(), Password: promconfig.Secret(password)}
}

// page returns the address of a page of the server: as set, or below its base.
func (d *decoder) page(key string, set value[string], base *url.URL, name string) string {
	if set.at == nil || set.bad {
		return base.JoinPath(name).String()
	}
	if set.v == "" {
		return ""
	}
	page, msg, hint := pageURL(set.v)
	if msg != "" {
		d.hinted(set.at, key, hint, "%s", msg)
		return base.JoinPath(name).String()
	}
	return page
}

// plans returns what a target runs.
func (d *decoder) plans(e entry[rawTarget], workloads []*Workload, pace Global) []Plan {
	chosen := workloads
	if list := e.raw.workloads; list.at != nil && !list.bad {
		d.references(list, e.key+".workloads", "workload", workloadNames(workloads))
		chosen = nil
		for _, name := range texts(list.v) {
			if i := slices.IndexFunc(workloads, func(w *Workload) bool { return w.Name == name }); i >= 0 {
				chosen = append(chosen, workloads[i])
			}
		}
	}
	if d.plansMade += len(chosen); d.plansMade > maxPlans {
		if d.plansMade-len(chosen) <= maxPlans {
			d.problem(e.at, e.key, "with the targets before it runs more than %d workloads", maxPlans)
		}
		return nil
	}
	var plans []Plan
	for _, w := range chosen {
		derived := MaxInFlight(pace.Timeout, pace.Interval)
		if w.MaxInFlight > 0 {
			derived = w.MaxInFlight
		}
		plans = append(plans, Plan{
			Workload:     w,
			Interval:     pace.Interval,
			Timeout:      pace.Timeout,
			StallTimeout: pace.StallTimeout,
			Arrival:      e.raw.arrival.or(w.Arrival),
			MaxInFlight:  e.raw.maxInFlight.or(derived),
		})
	}
	return plans
}

func workloadNames(list []*Workload) []string {
	var names []string
	for _, w := range list {
		names = append(names, w.Name)
	}
	return names
}

// references reports names in list that nothing has.
func (d *decoder) references(list value[[]value[string]], key, what string, known []string) {
	if list.at == nil || list.bad {
		return
	}
	if len(list.v) == 0 {
		d.problem(list.at, key, "lists no %s: leave the key out for all", what)
	}
	there := make(map[string]bool, len(known))
	for _, name := range known {
		there[name] = true
	}
	for i, item := range list.v {
		if !item.bad && !there[item.v] {
			d.hinted(item.at, fmt.Sprintf("%s[%d]", key, i), d.near(item.v, known), "there is no %s %q", what, clip(item.v))
		}
	}
}

// unused points out workloads that no target runs.
func (d *decoder) unused(raw rawConfig, c *Config) {
	used := make(map[string]bool)
	for _, t := range c.Targets {
		for _, p := range t.Plans {
			used[p.Workload.Name] = true
		}
	}
	for _, e := range raw.workloads.v {
		if name := workload(e.raw, bareWorkload()).Name; len(c.Targets) > 0 && !used[name] {
			d.doubt(e.at, e.key, "no target runs workload %q", clip(name))
		}
	}
}

// broken reports whether a problem was found in one of the sections.
func (d *decoder) broken(sections ...string) bool {
	return slices.ContainsFunc(d.problems, func(p Problem) bool {
		return slices.ContainsFunc(sections, func(s string) bool {
			rest, ok := strings.CutPrefix(p.Key, s)
			return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
	})
}
