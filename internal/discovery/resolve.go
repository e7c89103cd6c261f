package discovery

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/scrub"
)

// maxTargets is the most targets that are probed, those of the file included.
const maxTargets = 10_000

// Resolve tells what becomes of what was found for each group of a configuration. Names are given to the targets of the
// file first, then to those that running returns, which go on, then in the order of the file and of labels. running
// returns the target of a name that is probed now, or nil; it may be nil.
func Resolve(cfg *config.Config, found map[string]Found, running func(name string) *config.Target) []Group {
	r := resolver{taken: make(map[string]*config.Target, len(cfg.Targets))}
	for _, t := range cfg.Targets {
		r.taken[t.Name] = t
	}
	groups := make([]Group, len(cfg.Groups))
	for i, g := range cfg.Groups {
		f := found[g.Name]
		groups[i] = Group{Name: g.Name, Sources: f.Sources, Unlisted: f.More}
		defaults := g.Labels()
		for _, l := range f.Labels {
			if len(groups[i].Members) == MaxMembers {
				groups[i].Unlisted++
				continue
			}
			groups[i].Members = append(groups[i].Members, member(g, defaults, l))
		}
	}
	claims := r.claims(groups, cfg.Groups, running)
	slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(a.rank, b.rank) })
	for _, c := range claims {
		r.decide(c)
	}
	return groups
}

// member is what one set of labels becomes, as if there were no others.
func member(g *config.TargetGroup, defaults map[string]string, found labels.Labels) (m Member) {
	defer func() {
		if p := recover(); p != nil { // a label of more than 16 MiB is one for the library
			m.Target, m.State, m.Reason = nil, Invalid, scrub.Text(fmt.Sprintf("panic: %v", p), maxReason)
		}
	}()
	b := labels.NewBuilder(found)
	for name, value := range defaults {
		if b.Get(name) == "" {
			b.Set(name, value)
		}
	}
	m.Discovered = bounded(b.Labels())
	for i, rule := range g.Relabel {
		if !relabel.ProcessBuilder(b, rule) {
			m.State, m.Reason = Dropped, fmt.Sprintf("relabel_configs[%d]: action %s", i, rule.Action)
			return m
		}
	}
	after := b.Labels()
	t, err := g.Target(after)
	m.Labels = kept(after, t)
	if err != nil {
		m.State, m.Reason = Invalid, scrub.Text(err.Error(), maxReason)
		return m
	}
	m.State, m.Target = Active, t
	return m
}

// bounded is a set of labels that can be kept and shown.
func bounded(set labels.Labels) labels.Labels {
	b := labels.NewScratchBuilder(min(set.Len(), maxLabels))
	n := 0
	set.Range(func(l labels.Label) {
		if n++; n <= maxLabels {
			b.Add(scrub.Text(l.Name, maxValue), scrub.Text(l.Value, maxValue))
		}
	})
	return b.Labels()
}

// kept is what is left of labels after relabelling, and the name of the target, if it is one.
func kept(after labels.Labels, t *config.Target) labels.Labels {
	left := make(map[string]string)
	after.Range(func(l labels.Label) {
		if !strings.HasPrefix(l.Name, model.ReservedLabelPrefix) || l.Name == model.AddressLabel {
			left[l.Name] = l.Value
		}
	})
	if t != nil {
		left[config.NameLabel] = t.Name
	}
	return bounded(labels.FromMap(left))
}

// claim is a member that would be probed.
type claim struct {
	member *Member
	group  *config.TargetGroup
	rank   int // those that go on come first
}

// claims lists the members that would be probed.
func (r *resolver) claims(groups []Group, configs []*config.TargetGroup, running func(name string) *config.Target) (all []claim) {
	for i, g := range configs {
		for j := range groups[i].Members {
			m := &groups[i].Members[j]
			if m.State != Active {
				continue
			}
			c := claim{m, g, 2}
			if running != nil {
				switch now := running(m.Target.Name); {
				case now == nil || now.Group != g.Name:
				case reflect.DeepEqual(now, m.Target):
					c.rank = 0
				default:
					c.rank = 1
				}
			}
			all = append(all, c)
		}
	}
	return all
}

// resolver gives names and places.
type resolver struct {
	taken map[string]*config.Target // by name
	used  map[string]int            // places of a group, by its name
}

// decide gives a member its place, or says why it gets none.
func (r *resolver) decide(c claim) {
	t, refuse := c.member.Target, func(s State, format string, args ...any) {
		c.member.Target, c.member.State, c.member.Reason = nil, s, scrub.Text(fmt.Sprintf(format, args...), maxReason)
	}
	switch other := r.taken[t.Name]; {
	case other != nil && other.Group == "":
		refuse(Invalid, "%q is the name of a target of the file", t.Name)
	case other != nil && reflect.DeepEqual(other, t):
		refuse(Dropped, "it is found twice")
	case other != nil:
		refuse(Invalid, "%q is the name of another target, of group %q: relabel something of its own into the label target", t.Name, other.Group)
	case r.used[c.group.Name] >= c.group.Limit:
		refuse(OverLimit, "the group has %d targets, its target_limit", c.group.Limit)
	case len(r.taken) >= maxTargets:
		refuse(OverLimit, "there are %d targets", maxTargets)
	default:
		r.taken[t.Name] = t
		if r.used == nil {
			r.used = make(map[string]int)
		}
		r.used[c.group.Name]++
	}
}

// Targets lists the targets of the active members of groups, by group and name.
func Targets(groups []Group) []*config.Target {
	byName := make(map[string]*config.Target)
	for _, g := range groups {
		for _, m := range g.Members {
			if m.Target != nil {
				byName[m.Target.Name] = m.Target
			}
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *config.Target) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
	})
}
