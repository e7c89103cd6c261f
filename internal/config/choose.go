package config

import (
	"fmt"
	"slices"
	"strings"
)

// Choice is a target of a configuration and one of its plans, for requests outside the daemon's schedule.
type Choice struct {
	Target *Target
	Plan   Plan
}

// maxListed bounds the names that a message lists.
const maxListed = 20

// Choose returns the target called target and its workload called workload. An empty name stands for the only target,
// and for the target's first workload. The error is of type [Errors] and names the flags --target and --workload.
func (c *Config) Choose(target, workload string) (*Choice, error) {
	t, err := c.choose(target)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(t.Plans, func(p Plan) bool { return p.Workload.Name == workload || workload == "" })
	if i < 0 {
		var names []string
		for _, p := range t.Plans {
			names = append(names, p.Workload.Name)
		}
		return nil, notThere("--workload", fmt.Sprintf("target %q runs no workload %q", clip(t.Name), clip(workload)), workload, names)
	}
	return &Choice{t, t.Plans[i]}, nil
}

func (c *Config) choose(name string) (*Target, error) {
	var names []string
	for _, t := range c.Targets {
		if t.Name == name || name == "" && len(c.Targets) == 1 {
			return t, nil
		}
		names = append(names, t.Name)
	}
	switch {
	case len(names) == 0:
		return nil, Errors{{Key: "--config.file", Msg: "lists no target"}}
	case name == "":
		return nil, Errors{{Key: "--target", Msg: "is missing: the file has " + listed(names)}}
	}
	return nil, notThere("--target", fmt.Sprintf("there is no target %q", clip(name)), name, names)
}

// notThere says that a flag names nothing, and what there is.
func notThere(flag, msg, name string, names []string) error {
	return Errors{{Key: flag, Msg: msg + ", but " + listed(names), Hint: nearHint(name, names)}}
}

// listed enumerates names.
func listed(names []string) string {
	quoted := make([]string, 0, maxListed)
	for _, n := range names[:min(len(names), maxListed)] {
		quoted = append(quoted, fmt.Sprintf("%q", clip(n)))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
