package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// decoder collects what is wrong with one configuration.
type decoder struct {
	file       string
	flags      map[*yaml.Node]string // for a configuration made from flags: the flag that a value came from
	problems   Errors
	doubts     Errors
	files      []namedFile
	plansMade  int
	untold     int  // problems beyond maxProblems
	unreadable bool // no document at all, so nothing is said about what it lacks

	top   string                                    // the keys that a document has to have, in words
	hint  func(key string, allowed []string) string // helps with an unknown key
	rules ExperimentRules                           // of a plan
}

// Bounds on what is told: of more nobody reads, and each costs a search for what was meant.
const (
	maxProblems = 1000
	maxHinted   = 100
)

// newDecoder reads the daemon's configuration.
func newDecoder() *decoder {
	return &decoder{top: "global, workloads, targets and slos", hint: keyHint}
}

// value is what a key was set to and where. Its zero value is a key left out.
type value[T any] struct {
	v   T
	at  *yaml.Node // nil: left out
	bad bool       // there, but not to be used: a problem was reported
}

// or returns the value, or def if there is none that can be used.
func (v value[T]) or(def T) T {
	if v.at == nil || v.bad {
		return def
	}
	return v.v
}

// field is one key of a section: how it is documented and how it is read into the section's T.
type field[T any] struct {
	key      string
	kind     string // its kind of value, as docs/configuration.md writes it
	def      string // what it is when left out, as docs/configuration.md writes it; empty: nothing
	required bool
	read     func(d *decoder, key string, n *yaml.Node, into *T)
}

// reader makes a V from a node. It returns false after reporting what is wrong.
type reader[V any] func(d *decoder, key string, n *yaml.Node) (V, bool)

// into makes the read function of a field from the reader of its value and the place for it.
func into[T, V any](read reader[V], place func(*T) *value[V]) func(*decoder, string, *yaml.Node, *T) {
	return func(d *decoder, key string, n *yaml.Node, t *T) {
		v, ok := read(d, key, n)
		*place(t) = value[V]{v: v, at: n, bad: !ok}
	}
}

// walk reads mapping n, known as key, into t by the table of its fields.
func walk[T any](d *decoder, key string, n *yaml.Node, fields []field[T], t *T) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, key, "must be a mapping of keys to values, not %s", article(n))
		return
	}
	first := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, child := n.Content[i], n.Content[i+1]
		if d.repeated(key, name, first) {
			continue
		}
		at := slices.IndexFunc(fields, func(f field[T]) bool { return f.key == name.Value })
		if at < 0 {
			hint := ""
			if len(d.problems) < maxHinted {
				hint = d.hint(name.Value, keysOf(fields))
			}
			d.hinted(name, join(key, name.Value), hint, "unknown key")
			continue
		}
		fields[at].read(d, join(key, name.Value), child, t)
	}
	for _, f := range fields {
		if f.required && first[f.key] == nil {
			d.problem(n, join(key, f.key), "is missing")
		}
	}
}

// repeated reports a key that is no plain text or stands in its mapping a second time; first remembers.
func (d *decoder) repeated(path string, name *yaml.Node, first map[string]*yaml.Node) bool {
	if name.Kind != yaml.ScalarNode {
		d.problem(name, path, "a key must be plain text, not %s", article(name))
		return true
	}
	if before := first[name.Value]; before != nil {
		d.problem(name, join(path, name.Value), "duplicate key, first on line %d", before.Line)
		return true
	}
	first[name.Value] = name
	return false
}

func keysOf[T any](fields []field[T]) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return keys
}

// join returns the path of key inside path.
func join(path, key string) string {
	if key = clip(key); key == "" || strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		key = strconv.Quote(key) // a problem is one line
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// place returns where n is: its line and path, or its flag.
func (d *decoder) place(n *yaml.Node, key string) Problem {
	if flag, ok := d.flags[n]; ok {
		return Problem{Key: flag}
	}
	return Problem{File: d.file, Line: n.Line, Column: n.Column, Key: key}
}

// problem reports that the value n of key is wrong.
func (d *decoder) problem(n *yaml.Node, key, format string, args ...any) {
	d.hinted(n, key, "", format, args...)
}

// hinted reports that the value n of key is wrong, and what to write instead.
func (d *decoder) hinted(n *yaml.Node, key, hint, format string, args ...any) {
	if len(d.problems) >= maxProblems {
		d.untold++
		return
	}
	p := d.place(n, key)
	p.Msg, p.Hint = fmt.Sprintf(format, args...), hint
	d.problems = append(d.problems, p)
}

// near is nearHint, as long as there are few enough problems for a person to read.
func (d *decoder) near(word string, allowed []string) string {
	if len(d.problems) >= maxHinted {
		return ""
	}
	return nearHint(word, allowed)
}

// refused returns what is wrong, in the order of lines.
func (d *decoder) refused() Errors {
	told := d.problems.sorted()
	if d.untold > 0 {
		told = append(told, Problem{File: d.file, Line: 1, Column: 1, Msg: fmt.Sprintf("there are %d more problems", d.untold)})
	}
	return told
}

// doubt reports that the value n of key is legal but probably not what was meant.
func (d *decoder) doubt(n *yaml.Node, key, format string, args ...any) {
	if len(d.doubts) >= maxProblems {
		return
	}
	p := Problem{Key: key}
	if n != nil {
		p = d.place(n, key)
	}
	p.Msg = fmt.Sprintf(format, args...)
	d.doubts = append(d.doubts, p)
}

// whole reports a problem of the file rather than of a key.
func (d *decoder) whole(line int, format string, args ...any) {
	d.problems = append(d.problems, Problem{File: d.file, Line: line, Column: 1, Msg: fmt.Sprintf(format, args...)})
}

// same names the entry that n of key stands for, in a message about another.
func (d *decoder) same(n *yaml.Node, key string) string {
	p := d.place(n, key)
	if p.Line > 0 {
		return fmt.Sprintf("%s on line %d", p.Key, p.Line)
	}
	return p.Key
}
