package config

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Setting is a value that was given by a flag.
type Setting struct {
	Key   string // where it belongs, such as levels[0].concurrency
	Flag  string // what problems with it are named after
	Value string
	Text  bool // it is text, whatever it looks like; else it is read as YAML, of which JSON is a part
}

// settings makes of flags the nodes of a file that says the same, and remembers the flag of each.
func (d *decoder) settings(settings []Setting) *yaml.Node {
	d.flags = make(map[*yaml.Node]string)
	root := mapping()
	for _, s := range settings {
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s.Value}
		if !s.Text {
			var doc yaml.Node
			if err := yaml.Unmarshal([]byte(s.Value), &doc); err != nil || len(doc.Content) != 1 {
				d.problem(nil, s.Flag, "%q cannot be read", clip(s.Value))
				continue
			}
			n = doc.Content[0]
		}
		d.flags[n] = s.Flag
		each(n, "", func(_ string, name, n *yaml.Node) {
			d.flags[n] = s.Flag
			if name != nil {
				d.flags[name] = s.Flag
			}
		})
		d.put(root, s.Key, n)
	}
	return root
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

// set adds a key to mapping n.
func set(n *yaml.Node, key string, val *yaml.Node) {
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, val)
}

// put puts n where key says, below root: "levels[0].rate" is the rate of the first item of levels. Mappings and
// lists on the way are made.
func (d *decoder) put(root *yaml.Node, key string, n *yaml.Node) {
	at := root
	steps := strings.Split(strings.ReplaceAll(key, "[", ".["), ".")
	for i, step := range steps {
		next := n
		if i+1 < len(steps) {
			if next = mapping(); strings.HasPrefix(steps[i+1], "[") {
				next = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
			}
			d.flags[next] = d.flags[n] // for problems with the section as a whole
		}
		at = childOrNew(at, step, next)
	}
}

// childOrNew returns the child of n at a step, which becomes next if there is none.
func childOrNew(n *yaml.Node, step string, next *yaml.Node) *yaml.Node {
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
