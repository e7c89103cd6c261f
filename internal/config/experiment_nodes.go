package config

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parsed makes nodes of a flag's value. It returns nil after reporting that there are none.
func (q quick) parsed(flag, text string) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) != 1 {
		q.d.problems = append(q.d.problems, Problem{Key: flag, Msg: strconv.Quote(clip(text)) + " cannot be read"})
		return nil
	}
	q.remember(doc.Content[0], flag)
	return doc.Content[0]
}

func (q quick) remember(n *yaml.Node, flag string) {
	q.d.flags[n] = flag
	for _, c := range n.Content {
		q.remember(c, flag)
	}
}

// place puts n where key says, below root: "levels[0].rate" is the rate of the first item of levels. Mappings and
// lists on the way are made.
func (q quick) place(root *yaml.Node, key string, n *yaml.Node) {
	at := root
	steps := strings.Split(strings.ReplaceAll(key, "[", ".["), ".")
	for i, step := range steps {
		next := n
		if i+1 < len(steps) {
			if next = q.mapping(); strings.HasPrefix(steps[i+1], "[") {
				next = q.list()
			}
			q.d.flags[next] = q.d.flags[n] // for problems with the section as a whole
		}
		at = q.step(at, step, next)
	}
}

// step returns the child of n at a step, which becomes next if there is none.
func (q quick) step(n *yaml.Node, step string, next *yaml.Node) *yaml.Node {
	if index, ok := strings.CutPrefix(step, "["); ok {
		i, _ := strconv.Atoi(strings.TrimSuffix(index, "]")) // keys are ours, items come in order
		if i == len(n.Content) {
			n.Content = append(n.Content, next)
		}
		return n.Content[i]
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == step {
			return n.Content[i+1]
		}
	}
	set(n, step, next)
	return next
}
