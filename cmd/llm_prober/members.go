package main

import (
	"fmt"
	"strings"

	"github.com/go-kit/log/level"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/discovery"
)

// find starts to look for the members of target groups, and to follow them.
func (d *daemon) find() {
	d.finding = true
	d.run("service discovery", d.finder.Run)
	d.run("changes of target groups", func() {
		for {
			select {
			case <-d.finder.Changed():
				d.follow()
			case <-d.life.Done():
				return
			}
		}
	})
}

// follow makes the members that are found now those that are probed.
func (d *daemon) follow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.Err() != nil {
		return
	}
	_ = d.replace(d.cfg) // of what is in force nothing fails but members, which are told
}

// members are the target groups and what was found for them.
func (d *daemon) members() []discovery.Group {
	if groups := d.groups.Load(); groups != nil {
		return *groups
	}
	return nil
}

// resolve tells what becomes of what is found now.
func (d *daemon) resolve(cfg *config.Config) []discovery.Group {
	return discovery.Resolve(cfg, d.finder.Found(), func(name string) *config.Target {
		if u := d.active[name]; u != nil {
			return &u.target
		}
		return nil
	})
}

// refuse notes that a member cannot be probed.
func refuse(groups []discovery.Group, t *config.Target, err error) {
	for _, g := range groups {
		for i := range g.Members {
			if m := &g.Members[i]; m.Target == t {
				m.Target, m.State, m.Reason = nil, discovery.Invalid, err.Error()
			}
		}
	}
}

// change is what has become of the members of a group.
type change struct{ added, removed, replaced []string }

// maxNamed bounds the names in a line of the log.
const maxNamed = 5

// named lists the first of some names.
func named(names []string) string {
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// logChanges writes a line for each group whose members have changed.
func (d *daemon) logChanges(changes map[string]*change, before, after []discovery.Group) {
	refused := make(map[string]string, len(before))
	for _, g := range before {
		refused[g.Name] = refusals(g)
	}
	for _, g := range after {
		c := changes[g.Name]
		why := refusals(g)
		if c == nil && why == refused[g.Name] {
			continue
		}
		line := []any{"msg", "targets of a group have changed", "group", g.Name}
		if c != nil {
			line = append(line, "added", len(c.added), "removed", len(c.removed), "replaced", len(c.replaced))
			for _, names := range []struct {
				key  string
				list []string
			}{{"new", c.added}, {"gone", c.removed}, {"other", c.replaced}} {
				if len(names.list) > 0 {
					line = append(line, names.key, named(names.list))
				}
			}
		}
		for _, s := range discovery.States() {
			line = append(line, string(s), g.Count(s))
		}
		if why != "" {
			line = append(line, "refused", why)
		}
		level.Info(d.logger).Log(line...)
	}
}

// refusals says which members of a group are not probed though no rule drops them, and why.
func refusals(g discovery.Group) string {
	var list []string
	for _, m := range g.Members {
		if m.State == discovery.Invalid || m.State == discovery.OverLimit {
			list = append(list, fmt.Sprintf("%s: %s", m.Discovered.Get("__address__"), m.Reason))
		}
	}
	return named(list)
}
