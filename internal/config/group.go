package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	promlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v3"
)

// TargetGroup is a set of targets that Prometheus' service discovery finds.
type TargetGroup struct {
	Name    string
	Sources discovery.Configs // in the order of the keys and of the file; file names are as those of a Target
	Relabel []*relabel.Config
	Limit   int // most targets
	// Template is a member without an address of its own: its URL leads nowhere.
	Template *Target

	keys      targetKeys // as they are written
	apiPath   bool       // is written
	workloads []*Workload
	sd        sdSections
	schema    *schema
}

// Labels that say of a member what keys say of a target. As in Prometheus they are set before relabelling, unless
// discovery has set them.
const (
	APIPathLabel  = "__api_path__"
	ModelLabel    = "__model__"
	IntervalLabel = "__interval__"
	WorkloadLabel = "__workload__"
	NameLabel     = "target"
)

const (
	defaultScheme      = "http"
	defaultMetricsPath = "/metrics"
	// nowhere is the address of a template; .invalid is never resolved (RFC 6761, section 6.4).
	nowhere = "member.invalid"
)

// Labels returns the labels that a member of the group has before relabelling where discovery does not set them: those
// of the key labels, and what the group says of the member's way, model, interval and workloads.
func (g *TargetGroup) Labels() map[string]string {
	set := maps.Clone(g.keys.Labels)
	if set == nil {
		set = make(map[string]string)
	}
	set[model.SchemeLabel], set[model.MetricsPathLabel] = defaultScheme, defaultMetricsPath
	set[ModelLabel] = g.keys.Model
	set[IntervalLabel] = short(g.keys.Interval)
	set[WorkloadLabel] = strings.Join(workloadNames(g.workloads), ",")
	return set
}

// maxTold bounds the problems that are told of one member.
const maxTold = 3

// Target makes a target of the labels that a member has after relabelling. They are read as the values of a file are.
// The error says which label is wrong; it may quote values.
func (g *TargetGroup) Target(set promlabels.Labels) (*Target, error) {
	d := newDecoder()
	d.schema = g.schema
	d.base.Global, d.base.Engine, d.base.IPFamily = g.keys.Global, g.keys.Engine, g.keys.IPFamily
	settings, err := g.settings(set)
	if err != nil {
		return nil, err
	}
	const key = "member"
	for i := range settings {
		settings[i].Key, settings[i].Text = key+"."+settings[i].Key, true
	}
	s := target{targetKeys: g.keys}
	s.Labels = nil
	d.value(key, child(d.settings(settings), key), reflect.ValueOf(&s).Elem())
	t := d.target(key, &s, g.workloads)
	if d.count() == 0 {
		t.Group = g.Name
		return t, nil
	}
	var told []string
	problems := d.refused()
	for _, p := range problems[:min(maxTold, len(problems))] {
		told = append(told, strings.TrimPrefix(strings.TrimPrefix(p.String(), key+"."), "labels."))
	}
	return nil, errors.New(strings.Join(told, "; "))
}

// settings writes labels as the keys of a target. The error is about what no key says.
func (g *TargetGroup) settings(set promlabels.Labels) ([]Setting, error) {
	address, scheme := set.Get(model.AddressLabel), set.Get(model.SchemeLabel)
	if scheme == "" {
		scheme = defaultScheme
	}
	switch ip := net.ParseIP(address); {
	case address == "":
		return nil, errors.New("__address__: is missing")
	case len(address) > maxName:
		return nil, fmt.Errorf("__address__: must have at most %d bytes, not %d", maxName, len(address))
	case strings.ContainsAny(address, "/@?#"):
		return nil, errors.New("__address__: must be a host and port: relabel the parts of a URL into __scheme__, __address__ and " + APIPathLabel)
	case ip != nil && ip.To4() == nil:
		return nil, errors.New("__address__: an IPv6 address stands in brackets")
	case scheme != "http" && scheme != "https":
		return nil, fmt.Errorf("__scheme__: %q is not one of http, https", clip(scheme))
	}
	root := scheme + "://" + address
	path := set.Get(APIPathLabel)
	if path != "" && !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("%s: must begin with a slash", APIPathLabel)
	}
	settings := []Setting{{Key: "url", Flag: model.AddressLabel, Value: root + path}}
	add := func(key, label, value string) {
		settings = append(settings, Setting{Key: key, Flag: label, Value: value})
	}
	if g.apiPath {
		add("api_path", APIPathLabel, g.keys.APIPath)
	}
	if page := set.Get(model.MetricsPathLabel); page != "" && page != defaultMetricsPath && g.keys.MetricsURL == nil {
		if !strings.HasPrefix(page, "/") {
			return nil, errors.New("__metrics_path__: must begin with a slash")
		}
		add("metrics_url", model.MetricsPathLabel, root+page)
	}
	before := g.Labels()
	for key, label := range map[string]string{"name": NameLabel, "model": ModelLabel, "interval": IntervalLabel} {
		if v := set.Get(label); v != "" && v != before[label] {
			add(key, label, v)
		}
	}
	names := workloadNames(g.workloads)
	if v := set.Get(WorkloadLabel); v != "" && v != before[WorkloadLabel] {
		names = strings.Split(v, ",")
	}
	for i, name := range names {
		add(itemKey("workloads", i), WorkloadLabel, strings.TrimSpace(name))
	}
	return settings, set.Validate(func(l promlabels.Label) error {
		switch {
		case l.Name == NameLabel || strings.HasPrefix(l.Name, model.ReservedLabelPrefix):
		case !model.LegacyValidation.IsValidLabelName(l.Name):
			return fmt.Errorf("%q is not a label name: letters, digits and underscores, not beginning with a digit", clip(l.Name))
		case !model.LabelValue(l.Value).IsValid():
			return fmt.Errorf("%s: is not UTF-8", clip(l.Name))
		default:
			add("labels."+l.Name, l.Name, l.Value)
		}
		return nil
	})
}

// groups makes the effective target groups, one for each that was written; seen are the names of targets.
func (d *decoder) groups(written []targetGroup, workloads []*Workload, seen map[string]string) []*TargetGroup {
	var list []*TargetGroup
	for i := range written {
		key := itemKey("target_groups", i)
		list = append(list, d.group(key, &written[i], workloads))
		if name := written[i].Name; name != "" {
			d.unique(seen, name, key, "")
		}
	}
	return list
}

// group makes the effective target group of what was written at key.
func (d *decoder) group(key string, s *targetGroup, workloads []*Workload) *TargetGroup {
	g := &TargetGroup{
		Name: s.Name, Sources: s.sources(), Relabel: s.Relabel, Limit: s.Limit,
		keys: s.targetKeys, apiPath: d.ok(key + ".api_path"), sd: s.sdSections, schema: d.schema,
	}
	for _, page := range []struct {
		key string
		set *string
	}{{"metrics_url", s.MetricsURL}, {"health_url", s.HealthURL}} {
		if page.set != nil && *page.set != "" {
			d.problemAt(join(key, page.key), `write "" to switch it off, or relabel __metrics_path__`, "cannot be one address for all members of a group")
			return g
		}
	}
	if len(g.Sources) == 0 && !d.broken[key] {
		d.problemAt(key, "", "finds nothing: write static_configs, file_sd_configs, http_sd_configs, dns_sd_configs or kubernetes_sd_configs")
	}
	d.nodes[key+".url"] = d.nearest(key) // so that what the template has none of is not missed
	g.Template = d.target(key, &target{Name: s.Name, URL: defaultScheme + "://" + nowhere, targetKeys: s.targetKeys}, workloads)
	g.Template.Group = s.Name
	for _, p := range g.Template.Plans {
		g.workloads = append(g.workloads, p.Workload)
	}
	if d.plansMade += (s.Limit - 1) * len(g.workloads); d.plansMade > maxPlans && len(g.workloads) > 0 {
		d.problemAt(key+".target_limit", "", "with the targets before it may run more than %d workloads", maxPlans)
	}
	return g
}

// sources lists what finds members, as Prometheus' manager takes it.
func (s *sdSections) sources() (all discovery.Configs) {
	if len(s.Static) > 0 {
		all = append(all, discovery.StaticConfig(s.Static))
	}
	for _, c := range s.File {
		all = append(all, c)
	}
	for _, c := range s.HTTP {
		all = append(all, c)
	}
	for _, c := range s.DNS {
		all = append(all, c)
	}
	for _, c := range s.Kubernetes {
		all = append(all, c)
	}
	return all
}

// sdConfigs reads a list of sections of one service discovery.
func sdConfigs[T any](d *decoder, key string, n *yaml.Node) (list []*T) {
	if isNull(n) {
		return nil
	}
	d.value(key, n, reflect.ValueOf(&list).Elem())
	each(n, key, d.clientRules)
	each(n, key, func(key string, name, n *yaml.Node) {
		if name != nil && name.Value == "refresh_interval" && !d.bad[key] {
			duration(time.Second, longestRefresh, typo)(d, key, n)
		}
	})
	dir := filepath.Dir(d.file)
	for _, c := range list {
		if files, ok := any(c).(promconfig.DirectorySetter); ok && c != nil {
			files.SetDirectory(dir)
		}
	}
	d.filesOf(n, key, dir)
	return list
}

// longestRefresh is the longest time between two questions to a service discovery.
const longestRefresh = 24 * time.Hour

// staticConfigs reads static_configs. The type of Prometheus has other fields than keys.
func staticConfigs(d *decoder, key string, n *yaml.Node) (list []*targetgroup.Group) {
	if isNull(n) {
		return nil
	}
	var keys []struct {
		Targets []string          `yaml:"targets" required:"true"`
		Labels  map[string]string `yaml:"labels"`
	}
	d.value(key, n, reflect.ValueOf(&keys).Elem())
	for i, k := range keys {
		g := &targetgroup.Group{Source: strconv.Itoa(i)}
		for name, value := range k.Labels {
			if at := join(itemKey(key, i)+".labels", name); !model.LegacyValidation.IsValidLabelName(name) {
				d.problem(d.nearest(at), at, "is not a label name: letters, digits and underscores, not beginning with a digit")
			}
			if g.Labels == nil {
				g.Labels = make(model.LabelSet, len(k.Labels))
			}
			g.Labels[model.LabelName(name)] = model.LabelValue(value)
		}
		for _, address := range k.Targets {
			g.Targets = append(g.Targets, model.LabelSet{model.AddressLabel: model.LabelValue(address)})
		}
		list = append(list, g)
	}
	return list
}

// relabelConfigs reads relabel_configs. Names of labels are those that a target may have.
func relabelConfigs(d *decoder, key string, n *yaml.Node) (list []*relabel.Config) {
	if isNull(n) {
		return nil
	}
	d.value(key, n, reflect.ValueOf(&list).Elem())
	for i, c := range list {
		at := itemKey(key, i)
		if d.broken[at] {
			continue
		}
		if err := c.Validate(model.LegacyValidation); err != nil {
			d.problem(ruleNode(d.at(at), err.Error()), at, "%s", err)
		}
	}
	return list
}

// redactSources hides the secrets of a list of service discoveries.
func redactSources(list *yaml.Node) {
	for _, c := range list.Content {
		redactClient(c)
	}
}

// covering lists what SLOs cover: the targets, and a template of each group.
func (c *Config) covering() []*Target {
	all := slices.Clone(c.Targets)
	for _, g := range c.Groups {
		if g.Template != nil {
			all = append(all, g.Template)
		}
	}
	return all
}
