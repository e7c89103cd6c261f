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
	"github.com/prometheus/prometheus/discovery/http"
	"go.yaml.in/yaml/v3"
)

// decoder reads the sections of one file, and remembers where each key stands.
type decoder struct {
	*schema
	collector
	files     []namedFile
	plansMade int
	base      DefaultValues         // what sections inherit
	optional  []string              // required keys that may be left out nevertheless
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

// problemAt reports that the value of key does not fit others, where it stands or, if it was left out, at its section.
func (d *decoder) problemAt(key, hint, format string, args ...any) {
	d.hinted(d.nearest(key), key, hint, format, args...)
}

// nearest returns where key or, if it was left out, the section around it stands; nil for the file as a whole.
func (d *decoder) nearest(key string) *yaml.Node {
	for end := len(key); end > 0; end = strings.LastIndexAny(key[:end], ".[") {
		if n := d.nodes[key[:end]]; n != nil {
			return n
		}
	}
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// field reads the value n of a key of a section into v.
func (d *decoder) field(key string, n *yaml.Node, f *field, v reflect.Value) {
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
	x := k.read(d, key, n)
	if d.bad[key] {
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
	if p, ok := v.Addr().Interface().(defaulter); ok {
		p.setDefaults(&d.base)
	}
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(t.Elem()))
		}
		d.value(key, n, v.Elem())
	case d.shape(t).unmarshals:
		d.foreign(key, n, v)
	case v.Kind() == reflect.Struct, v.Kind() == reflect.Map:
		d.mapping(key, n, v)
	case v.Kind() == reflect.Slice:
		d.list(key, n, v)
	case v.Kind() == reflect.Interface:
		if x := jsonValue(d, key, n); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	default:
		d.single(key, n, v)
	}
}

// single reads a text, a truth value or a number of another package's type.
func (d *decoder) single(key string, n *yaml.Node, v reflect.Value) {
	s := scalar(d, key, n)
	switch {
	case d.bad[key]:
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

// mapping reads the keys of a section or map. It reports keys that are unknown or missing.
func (d *decoder) mapping(key string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, key, "must be a mapping of keys to values, not %s", article(n))
		return
	}
	shape := d.shape(v.Type())
	given := make([]*yaml.Node, len(shape.fields))
	d.keys(key, n, func(at string, name, child *yaml.Node) {
		i, known := shape.index[name.Value]
		switch {
		case known:
			given[i] = child
		case shape.rest != nil:
			d.freeKey(at, name.Value, child, v, shape.rest)
		case len(d.problems) < maxHinted:
			d.hinted(name, at, d.keyHint(name.Value, shape.keys()), "unknown key")
		default:
			d.problem(name, at, "unknown key")
		}
	})
	for i := range shape.fields { // not in the order of the file: a section inherits from one above it
		f := &shape.fields[i]
		at := key + "." + f.key
		if key == "" {
			at = f.key
		}
		if child := given[i]; child != nil {
			d.nodes[at] = child
			d.field(at, child, f, v.FieldByIndex(f.index))
		} else if f.required && !slices.Contains(d.optional, at) {
			d.problem(n, at, "is missing")
		}
	}
}

// freeKey reads the value of a key whose name is free. What a struct takes in beside its fields it reads itself.
func (d *decoder) freeKey(key, name string, n *yaml.Node, v reflect.Value, t reflect.Type) {
	elem := reflect.New(t).Elem()
	d.field(key, n, &field{}, elem)
	if v.Kind() != reflect.Map {
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	v.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), elem)
}

// keys calls visit for each key of mapping n. It reports keys that are no plain text or stand there a second time.
func (d *decoder) keys(path string, n *yaml.Node, visit func(key string, name, n *yaml.Node)) {
	first := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, child := n.Content[i], n.Content[i+1]
		if name.Kind != yaml.ScalarNode {
			d.report(name, path, "", "a key must be plain text, not %s", article(name))
			continue
		}
		key := join(path, name.Value)
		if before := first[name.Value]; before != nil {
			d.report(name, key, "", "duplicate key, first on line %d", before.Line)
			continue
		}
		first[name.Value] = name
		visit(key, name, child)
	}
}

// foreign reads a value whose type reads itself. First a copy is read by the type's tags: the type itself would stop at
// its first fault, without the line of an unknown key, and repeat values. What is left are rules between keys.
func (d *decoder) foreign(key string, n *yaml.Node, v reflect.Value) {
	before := d.count()
	switch {
	case v.Type() == reflect.TypeFor[promconfig.URL]():
		d.foreignURL(key, n, "http", "https", "socks5", "socks5h")
	case v.Type() == reflect.TypeFor[promconfig.TLSVersion]():
		enum("TLS10", "TLS11", "TLS12", "TLS13")(d, key, n)
	case v.Kind() == reflect.Struct && len(d.shape(v.Type()).fields) > 0:
		d.mapping(key, n, reflect.New(v.Type()).Elem())
		if at := join(key, "url"); v.Type() == reflect.TypeFor[http.SDConfig]() && d.ok(at) {
			d.foreignURL(at, d.at(at), "http", "https") // the library repeats it, with its password
		}
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
		d.problem(ruleNode(n, err.Error()), key, "%s", strings.Join(strings.Fields(err.Error()), " "))
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
