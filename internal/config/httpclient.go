package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	promconfig "github.com/prometheus/common/config"
	"go.yaml.in/yaml/v3"
)

// httpClient reads an HTTPClientConfig of prometheus/common, the section that every Prometheus user knows.
func httpClient(d *decoder, key string, n *yaml.Node) (promconfig.HTTPClientConfig, bool) {
	var c promconfig.HTTPClientConfig
	if n.ShortTag() == "!!null" {
		return c, true
	}
	before := len(d.problems)
	d.conform(key, n, reflect.TypeOf(c))
	if len(d.problems) == before {
		// The shape fits, so what is left are rules between keys, whose messages hold no values.
		if err := n.Decode(&c); err != nil {
			d.problem(ruleNode(n, err.Error()), key, "%s", err)
		}
	}
	c.SetDirectory(filepath.Dir(d.file))
	d.filesOf(n, key, filepath.Dir(d.file))
	// The library's defaults are for clients that scrape.
	c.FollowRedirects, c.EnableHTTP2 = false, false
	return c, len(d.problems) == before
}

// refusals returns the settings of an HTTP client that a probe cannot have, with the reason.
func refusals() map[string]string {
	return map[string]string{
		"enable_http2":     "probes use HTTP/1.1, so that time stamps are right",
		"follow_redirects": "probes follow no redirect: give the address that answers",
	}
}

// conform reports where n does not have the shape of Go type t, by the tags that the YAML library reads.
// The library itself would stop at the first fault, without the line of an unknown key, and repeat values.
func (d *decoder) conform(key string, n *yaml.Node, t reflect.Type) {
	if n.ShortTag() == "!!null" && t.Kind() != reflect.String && t.Kind() != reflect.Bool {
		return
	}
	switch {
	case t == reflect.TypeFor[promconfig.URL]():
		d.conformURL(key, n)
	case t == reflect.TypeFor[promconfig.TLSVersion]():
		enum("TLS10", "TLS11", "TLS12", "TLS13")(d, key, n)
	case t.Kind() == reflect.Pointer:
		d.conform(key, n, t.Elem())
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		d.conformMapping(key, n, t)
	case t.Kind() == reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.hinted(n, key, "write [a, b]", "must be a list, not %s", article(n))
			return
		}
		for i, item := range n.Content {
			d.conform(fmt.Sprintf("%s[%d]", key, i), item, t.Elem())
		}
	case t.Kind() == reflect.Bool:
		if _, ok := scalar(d, key, n); ok && n.ShortTag() != "!!bool" {
			d.problem(n, key, "must be true or false")
		}
	case t.Kind() == reflect.String:
		s, ok := scalar(d, key, n)
		switch {
		case !ok || !strings.ContainsAny(s, "\r\n\x00"):
		case strings.Contains(key, ".http_headers."):
			d.problem(n, key, "a header value has one line")
		case strings.HasSuffix(key, "credentials"), strings.HasSuffix(key, "bearer_token"), strings.HasSuffix(key, "_file"):
			d.problem(n, key, "must have one line")
		}
	default: // any value: claims of a token
		jsonValue(d, key, n)
	}
}

func (d *decoder) conformURL(key string, n *yaml.Node) {
	s, ok := scalar(d, key, n)
	if !ok || s == "" {
		return
	}
	if _, msg, hint := parseURL(s, "http", "https", "socks5", "socks5h"); msg != "" {
		d.hinted(n, key, hint, "%s", msg)
	}
}

func (d *decoder) conformMapping(key string, n *yaml.Node, t reflect.Type) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, key, "must be a mapping of keys to values, not %s", article(n))
		return
	}
	known, rest := yamlKeys(t)
	first := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, child := n.Content[i], n.Content[i+1]
		if d.repeated(key, name, first) {
			continue
		}
		at := join(key, name.Value)
		elem, ok := known[name.Value]
		switch {
		case !ok && rest == nil:
			d.hinted(name, at, d.near(name.Value, sortedKeys(known)), "unknown key")
			continue
		case !ok:
			elem = rest
			d.headerName(at, name)
		case strings.HasSuffix(name.Value, "_ref"):
			d.hinted(name, at, "write "+strings.TrimSuffix(name.Value, "_ref")+"_file", "there is no secret manager to refer to")
			continue
		case refusals()[name.Value] != "" && child.ShortTag() == "!!bool" && strings.EqualFold(child.Value, "true"):
			d.problem(name, at, "%s", refusals()[name.Value])
			continue
		}
		d.conform(at, child, elem)
	}
}

// token is the form of a header name (RFC 9110, section 5.6.2).
var token = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// headerName reports a name under http_headers that no request can carry, or that the prober sets.
func (d *decoder) headerName(key string, n *yaml.Node) {
	switch {
	case !strings.Contains(key, "http_headers."):
	case !token.MatchString(n.Value):
		d.problem(n, key, "is not a header name")
	case strings.EqualFold(n.Value, "Host"):
		d.hinted(n, key, "write host in the target", "this header belongs to the request, not to the client")
	case strings.EqualFold(n.Value, "X-Request-Id"), strings.EqualFold(n.Value, "Accept"):
		d.problem(n, key, "the prober sets this header itself")
	}
}

// yamlKeys returns the keys of struct or map t with their types, and the type of all other keys or nil.
func yamlKeys(t reflect.Type) (map[string]reflect.Type, reflect.Type) {
	known := make(map[string]reflect.Type)
	if t.Kind() == reflect.Map {
		return known, t.Elem()
	}
	var rest reflect.Type
	for f := range t.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() && !f.Anonymous, key == "-":
		case options == "inline":
			inner, others := yamlKeys(f.Type)
			for k, v := range inner {
				known[k] = v
			}
			if others != nil {
				rest = others
			}
		default:
			known[key] = f.Type
		}
	}
	return known, rest
}

func sortedKeys(m map[string]reflect.Type) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
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

// docsOfClient returns the keys of http_client_config, for hints.
func docsOfClient() []keyDoc {
	known, _ := yamlKeys(reflect.TypeFor[promconfig.HTTPClientConfig]())
	var out []keyDoc
	for _, key := range sortedKeys(known) {
		out = append(out, keyDoc{key: key})
	}
	return out
}
