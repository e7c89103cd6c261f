package config

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	promconfig "github.com/prometheus/common/config"
	"go.yaml.in/yaml/v3"
)

// httpClient reads an HTTPClientConfig of prometheus/common, the section that every Prometheus user knows.
func httpClient(d *decoder, key string, n *yaml.Node) (c promconfig.HTTPClientConfig) {
	if isNull(n) {
		return c
	}
	d.value(key, n, reflect.ValueOf(&c).Elem())
	each(n, key, d.clientRules)
	each(n, key, d.probeRules)
	c.SetDirectory(filepath.Dir(d.file))
	d.filesOf(n, key, filepath.Dir(d.file))
	// The library's defaults are for clients that scrape.
	c.FollowRedirects, c.EnableHTTP2 = false, false
	return c
}

// refusals returns the settings of an HTTP client that a probe cannot have, with the reason.
func refusals() map[string]string {
	return map[string]string{
		"enable_http2":     "probes use HTTP/1.1, so that time stamps are right",
		"follow_redirects": "probes follow no redirect: give the address that answers",
	}
}

// probeRules reports what an HTTP client may have and a probe cannot.
func (d *decoder) probeRules(key string, name, n *yaml.Node) {
	if name != nil && refusals()[name.Value] != "" && n.ShortTag() == "!!bool" && strings.EqualFold(n.Value, "true") {
		d.problem(name, key, "%s", refusals()[name.Value])
	}
}

// clientRules reports what the library lets an HTTP client have and no request can.
func (d *decoder) clientRules(key string, name, n *yaml.Node) {
	last := ""
	if name != nil {
		last = name.Value
	}
	lines := n.Kind == yaml.ScalarNode && strings.ContainsAny(n.Value, "\r\n\x00")
	switch {
	case strings.HasSuffix(key, ".http_headers"):
		for i := 0; i+1 < len(n.Content); i += 2 {
			d.headerName(join(key, n.Content[i].Value), n.Content[i])
		}
	case strings.Contains(key, ".http_headers."):
		if lines {
			d.problem(n, key, "a header value has one line")
		}
	case strings.HasSuffix(last, "_ref"):
		d.hinted(name, key, "write "+strings.TrimSuffix(last, "_ref")+"_file", "there is no secret manager to refer to")
	case lines && (last == "credentials" || last == "bearer_token" || strings.HasSuffix(last, "_file")):
		d.problem(n, key, "must have one line")
	}
}

// foreignURL reports what is no address of a proxy, of a server of tokens or of a service discovery.
func (d *decoder) foreignURL(key string, n *yaml.Node, schemes ...string) {
	s := scalar(d, key, n)
	if _, msg, hint := parseURL(s, schemes...); s != "" && msg != "" {
		d.hinted(n, key, hint, "%s", msg)
	}
}

// token is the form of a header name (RFC 9110, section 5.6.2).
var token = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// headerName reports a name under http_headers that no request can carry, or that the prober sets.
func (d *decoder) headerName(key string, n *yaml.Node) {
	switch {
	case !token.MatchString(n.Value):
		d.problem(n, key, "is not a header name")
	case strings.EqualFold(n.Value, "Host"):
		d.hinted(n, key, "write host in the target", "this header belongs to the request, not to the client")
	case strings.EqualFold(n.Value, "X-Request-Id"), strings.EqualFold(n.Value, "Accept"):
		d.problem(n, key, "the prober sets this header itself")
	}
}
