package config

import (
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"
)

// secret stands for every value that nobody may see.
const secret = "<secret>"

// child returns the value of key in mapping n, or an empty node.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return &yaml.Node{}
}

// redact hides the values below n whose keys smell of a secret.
func redact(n *yaml.Node) {
	for i, c := range n.Content {
		switch {
		case n.Kind != yaml.MappingNode:
			redact(c)
		case i%2 == 1 && smells(n.Content[i-1].Value):
			hide(c)
		case i%2 == 1:
			redact(c)
		}
	}
}

// redactClient hides the secrets of an HTTP client: those of its own keys, all headers, and the users in URLs.
func redactClient(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i].Value, n.Content[i+1]
		switch key {
		case "proxy_url", "token_url", "url", "api_server":
			redactURL(val)
		case "proxy_connect_header":
			hide(val)
		case "http_headers":
			for _, header := range val.Content {
				hide(child(header, "values"))
				hide(child(header, "secrets"))
			}
		case "authorization", "basic_auth", "oauth2", "tls_config":
			redactClient(val)
			redactUser(val)
		default:
			if smells(key) {
				hide(val)
			} else {
				redact(val)
			}
		}
	}
}

// smells reports whether the value of a key is probably a secret.
func smells(key string) bool {
	key = fold(key)
	for _, end := range []string{"_file", "_files", "_id", "_ids"} {
		if strings.HasSuffix(key, end) {
			return false
		}
	}
	for _, word := range []string{"key", "token", "secret", "password", "passwd", "credential", "authorization", "cookie"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

// hide replaces every value below n, but true, false and nothing, which are no secrets.
func hide(n *yaml.Node) {
	for i, c := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			hide(c)
		}
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!bool" && n.ShortTag() != "!!null" {
		n.SetString(secret)
	}
}

// redactURL hides the user information of a URL and what the names in its query say is secret.
func redactURL(n *yaml.Node) {
	u, err := url.Parse(n.Value)
	if err != nil || (u.User == nil && u.RawQuery == "") {
		return
	}
	if u.User != nil {
		u.User = url.User(secret)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil { // no telling what is secret
		u.RawQuery = url.QueryEscape(secret)
	}
	for key := range query {
		if smells(key) {
			query.Set(key, secret)
			u.RawQuery = query.Encode()
		}
	}
	n.SetString(u.String())
}

// redactUser hides a user name that stands without a password: then it is the token itself.
func redactUser(auth *yaml.Node) {
	if child(auth, "password").Value == "" && child(auth, "password_file").Value == "" {
		hide(child(auth, "username"))
	}
}
