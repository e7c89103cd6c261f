package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of what aliases may expand to. A thousand targets take about 30,000 nodes; this many take 50 MB.
const (
	maxNodes = 250_000
	maxDepth = 64
)

// document returns the root mapping of the one YAML document in data, with aliases and merge keys replaced
// by what they stand for. It returns nil after reporting why there is none.
func (d *decoder) document(data []byte) *yaml.Node {
	if text := bytes.TrimRight(data, "\x00"); len(text) < len(data) {
		d.whole(1+bytes.Count(text, []byte("\n")), "the file ends in %d NUL bytes: it was probably shortened while it was mounted or being written", len(data)-len(text))
		return nil
	}
	if n := items(data); n > maxItems {
		d.whole(1, "has more than %d lines and values: a thousand targets take 30,000", maxItems)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		d.whole(1, "the file is empty")
		return nil
	} else if err != nil {
		d.syntax(data, err)
		return nil
	}
	if err := dec.Decode(&second); err == nil {
		d.whole(second.Line, "a second YAML document begins: a configuration is one document")
	} else if !errors.Is(err, io.EOF) {
		d.syntax(data, err)
		return nil
	}
	x := expander{d: d, left: maxNodes}
	root := x.expand(doc.Content[0], 0)
	if x.failed {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		d.whole(root.Line, "must be a mapping with the keys %s, not %s", strings.Join(d.keysOf(d.sections()[0]), ", "), article(root))
		return nil
	}
	return root
}

// maxItems bounds what the YAML reader makes of a file before anything can be counted: about 300 bytes an item.
const maxItems = 4 * maxNodes

// items is about how many values data holds, and not less: each but the first comes after one of these.
func items(data []byte) int {
	n := 0
	for _, b := range data {
		switch b {
		case '\n', ',', ':', '[', '{', '-', '?', '&':
			n++
		}
	}
	return n
}

// yamlError is the form of the YAML reader's messages.
var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)

// syntax reports an error of the YAML reader, which knows the line only of some.
func (d *decoder) syntax(data []byte, err error) {
	line, msg := 0, err.Error()
	if m := yamlError.FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1]) // no number: 0
		msg = m[2]
	}
	if line < 1 {
		line = culprit(data, msg)
	}
	hint := ""
	if strings.Contains(msg, "cannot start any token") {
		hint = "YAML is indented by spaces, not tabs; quote values that begin with @ or `"
	}
	d.problems = append(d.problems, Problem{File: d.file, Line: line, Column: 1, Msg: msg, Hint: hint})
}

// culprit returns the line of the first thing in data that fits an error message without a line.
func culprit(data []byte, msg string) int {
	at := -1
	if _, rest, ok := strings.Cut(msg, "unknown anchor '"); ok {
		name, _, _ := strings.Cut(rest, "'")
		at = bytes.Index(data, []byte("*"+name))
	} else {
		for i := 0; i < len(data); {
			r, size := utf8.DecodeRune(data[i:])
			if (r == utf8.RuneError && size == 1) || (r < ' ' && r != '\n' && r != '\r' && r != '\t') || r == 0x7f {
				at = i
				break
			}
			i += size
		}
	}
	return 1 + bytes.Count(data[:max(at, 0)], []byte("\n"))
}

// expander replaces aliases and merge keys by copies of what they stand for, within bounds: a few lines of
// nested aliases can otherwise stand for billions of values.
type expander struct {
	d      *decoder
	left   int
	failed bool
}

func (x *expander) expand(n *yaml.Node, depth int) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return x.expand(n.Alias, depth+1)
	}
	out := *n
	out.Content = nil
	x.left--
	if x.left < 0 || depth > maxDepth {
		if !x.failed {
			x.failed = true
			x.d.whole(n.Line, "nested too deeply, or aliases that expand to too much")
		}
		return &out
	}
	for i, child := range n.Content {
		if x.failed {
			break
		}
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.ShortTag() == "!!merge" {
			continue
		}
		if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].ShortTag() == "!!merge" {
			continue
		}
		out.Content = append(out.Content, x.expand(child, depth+1))
	}
	if n.Kind == yaml.MappingNode {
		x.merge(n, &out, depth)
	}
	return &out
}

// merge appends to out the keys that n takes over from other mappings with "<<" and does not set itself.
func (x *expander) merge(n, out *yaml.Node, depth int) {
	own := make(map[string]bool)
	for i := 0; i+1 < len(out.Content); i += 2 {
		own[out.Content[i].Value] = true
	}
	for i := 0; i+1 < len(n.Content) && !x.failed; i += 2 {
		if n.Content[i].ShortTag() != "!!merge" {
			continue
		}
		from := x.expand(n.Content[i+1], depth+1)
		sources := []*yaml.Node{from}
		if from.Kind == yaml.SequenceNode {
			sources = from.Content
		}
		for _, source := range sources {
			if source.Kind != yaml.MappingNode {
				x.d.whole(n.Content[i].Line, `"<<" merges mappings, not %s`, article(source))
				x.failed = true
				return
			}
			for j := 0; j+1 < len(source.Content); j += 2 {
				if key := source.Content[j].Value; !own[key] {
					own[key] = true
					out.Content = append(out.Content, source.Content[j], source.Content[j+1])
				}
			}
		}
	}
}

// article names the kind of n as messages do.
func article(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.ShortTag() == "!!null" {
			return "nothing"
		}
	}
	return "a single value"
}
