package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	promconfig "github.com/prometheus/common/config"
	"go.yaml.in/yaml/v3"
)

// decoder reads the sections of one file, and remembers where each key stands.
type decoder struct {
	*schema
	collector
	files     []namedFile
	plansMade int
	base      DefaultValues         // what sections inherit
	lax       []string              // required keys that may be left out nevertheless
	nodes     map[string]*yaml.Node // of the keys and items that were given, by their path
	rules     ExperimentRules       // of a plan
	stored    func(key string) bool // whether the value of a key is stored with results; nil: none is
}

// newDecoder reads the daemon's configuration.
func newDecoder() *decoder {
	return &decoder{schema: newSchema(false), collector: newCollector(), base: Defaults(), nodes: make(map[string]*yaml.Node)}
}

// at returns where key stands; nil: it was left out.
func (d *decoder) at(key string) *yaml.Node { return d.nodes[key] }

// ok reports whether key was given a value that can be used.
func (d *decoder) ok(key string) bool { return d.nodes[key] != nil && !d.bad[key] }

// wrong reports that the value of key does not fit others, where it stands or, if it was left out, at its section.
func (d *decoder) wrong(key, hint, format string, args ...any) {
	d.hinted(d.nearest(key), key, hint, format, args...)
}

// nearest returns where key or, if it was left out, the section around it stands; nil for the file as a whole.
func (d *decoder) nearest(key string) *yaml.Node {
	n := d.nodes[key]
	for end := len(key); n == nil && end > 0; n = d.nodes[key[:end]] {
		end = strings.LastIndexAny(key[:end], ".[")
		if end < 0 {
			break
		}
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// field reads the value n of a key of a section into v.
func (d *decoder) field(key string, n *yaml.Node, f field, v reflect.Value) {
	k := d.kinds[f.kind]
	if k.hide != nil && d.stored != nil && d.stored(key) {
		hidden := clone(n)
		k.hide(hidden)
		d.leaks(key, n, hidden)
	}
	if k.read == nil {
		if isNull(n) && (v.Kind() == reflect.Slice || !f.required && v.Kind() != reflect.String && v.Kind() != reflect.Bool) {
			return // the section's items are all commented out
		}
		d.value(key, n, v)
		return
	}
	x, ok := k.read(d, key, n)
	if !ok {
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	v.Set(reflect.ValueOf(x).Convert(v.Type()))
}

// value reads n into v by its Go type. It goes on after a problem.
func (d *decoder) value(key string, n *yaml.Node, v reflect.Value) {
	t := v.Type()
	if p, ok := v.Addr().Interface().(presetter); ok {
		p.preset(&d.base)
	}
	switch {
	case t == reflect.TypeFor[promconfig.URL]():
		d.proxyURL(key, n)
	case t == reflect.TypeFor[promconfig.TLSVersion]():
		enum("TLS10", "TLS11", "TLS12", "TLS13")(d, key, n)
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(t.Elem()))
		}
		d.value(key, n, v.Elem())
	case readsItself(t):
		d.foreign(key, n, v)
	case v.Kind() == reflect.Struct, v.Kind() == reflect.Map:
		d.mapping(key, n, v)
	case v.Kind() == reflect.Slice:
		d.list(key, n, v)
	case v.Kind() == reflect.Interface:
		if x, ok := jsonValue(d, key, n); ok && x != nil {
			v.Set(reflect.ValueOf(x))
		}
	default:
		d.single(key, n, v)
	}
}

// single reads a text, a truth value or a number of another package's type.
func (d *decoder) single(key string, n *yaml.Node, v reflect.Value) {
	s, ok := scalar(d, key, n)
	switch {
	case !ok:
	case v.Kind() == reflect.String:
		v.SetString(s)
	case v.Kind() == reflect.Bool && n.ShortTag() != "!!bool":
		d.problem(n, key, "must be true or false")
	case n.Decode(v.Addr().Interface()) == nil:
	case v.CanFloat():
		d.problem(n, key, "%q is not a number%s", clip(s), unquote(n))
	default:
		d.problem(n, key, "%q is not a whole number%s", clip(s), unquote(n))
	}
}

// list reads a list of values.
func (d *decoder) list(key string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		if v.Type().Elem().Kind() == reflect.Struct {
			d.problem(n, key, `must be a list, each item with "- " before it, not %s`, article(n))
		} else {
			d.hinted(n, key, listHint(n), "must be a list, not %s", article(n))
		}
		return
	}
	if most := maxEntries(key); len(n.Content) > most {
		d.problem(n, key, "has %d items, and may have at most %d", len(n.Content), most)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := itemKey(key, i)
		d.nodes[at] = item
		d.value(at, item, v.Index(i))
	}
}

// mapping reads the keys of a section or map.
func (d *decoder) mapping(key string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, key, "must be a mapping of keys to values, not %s", article(n))
		return
	}
	shape := d.shape(v.Type())
	given := d.given(key, n, shape)
	for _, f := range shape.fields {
		at, child := join(key, f.key), given[f.key]
		if child == nil {
			if f.required && !slices.Contains(d.lax, at) {
				d.problem(n, at, "is missing")
			}
			continue
		}
		d.nodes[at] = child
		d.field(at, child, f, v.FieldByIndex(f.index))
	}
}

// given returns the values in mapping n by their keys. It reports keys that are unknown, and reads those whose names
// are free.
func (d *decoder) given(key string, n *yaml.Node, shape *shape) map[string]*yaml.Node {
	first, given := make(map[string]*yaml.Node), make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, child := n.Content[i], n.Content[i+1]
		if d.repeated(key, name, first) {
			continue
		}
		switch known := slices.ContainsFunc(shape.fields, func(f field) bool { return f.key == name.Value }); {
		case known:
			given[name.Value] = child
		case shape.rest != nil:
			d.field(join(key, name.Value), child, field{}, reflect.New(shape.rest).Elem())
		default:
			hint := ""
			if len(d.problems) < maxHinted {
				hint = d.keyHint(name.Value, shape.keys())
			}
			d.hinted(name, join(key, name.Value), hint, "unknown key")
		}
	}
	return given
}

// readsItself reports whether a type has a way of its own of being read: most of those of Prometheus do.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[yaml.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[interface{ UnmarshalYAML(func(any) error) error }]())
}

// foreign reads a value whose type reads itself. First a copy is read by the type's tags: the type itself would stop at
// its first fault, without the line of an unknown key, and repeat values. What is left are rules between keys.
func (d *decoder) foreign(key string, n *yaml.Node, v reflect.Value) {
	before := d.count()
	switch {
	case v.Kind() == reflect.Struct && len(d.shape(v.Type()).fields) > 0:
		d.mapping(key, n, reflect.New(v.Type()).Elem())
	case v.Kind() == reflect.String:
		scalar(d, key, n)
	}
	if d.count() > before {
		return
	}
	var kind *yaml.TypeError
	switch err := n.Decode(v.Addr().Interface()); {
	case errors.As(err, &kind):
		d.problem(n, key, "cannot be read as a %s", v.Type())
	case err != nil:
		d.problem(ruleNode(n, err.Error()), key, "%s", err)
	}
}

// ruleNode returns the first key in n that the message of a broken rule names, or n.
func ruleNode(n *yaml.Node, msg string) *yaml.Node {
	words := strings.FieldsFunc(msg, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if slices.Contains(words, n.Content[i].Value) {
			return n.Content[i]
		}
	}
	for _, child := range n.Content {
		if found := ruleNode(child, msg); found != child {
			return found
		}
	}
	return n
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

// each calls visit for everything below n: the values of keys, with the nodes of their names, and items, with none.
func each(n *yaml.Node, key string, visit func(key string, name, n *yaml.Node)) {
	for i, c := range n.Content {
		at, name := itemKey(key, i), (*yaml.Node)(nil)
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue
			}
			name = n.Content[i-1]
			at = join(key, name.Value)
		}
		visit(at, name, c)
		each(c, at, visit)
	}
}

// itemKey returns the path of an item of the list at path.
func itemKey(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

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

// same names the entry at key in a message about another, with the line of its key called name.
func (d *decoder) same(key, name string) string {
	p := d.place(d.nearest(key+name), key)
	if p.Line > 0 {
		return fmt.Sprintf("%s on line %d", p.Key, p.Line)
	}
	return p.Key
}
