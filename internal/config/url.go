package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseURL returns the URL in text, or what is wrong with it and a hint. Neither repeats the text if it
// could hold a password.
func parseURL(text string, schemes ...string) (u *url.URL, msg, hint string) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Opaque != "" {
		hint = fmt.Sprintf("write %s://HOST:PORT", schemes[0])
		if again, err := url.Parse("http://" + text); err == nil && again.Host != "" && !strings.Contains(text, "@") && !strings.Contains(text, "//") {
			hint = fmt.Sprintf("did you mean %q?", clip(again.String()))
		}
		return nil, "is not a URL", hint
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case !slices.Contains(schemes, u.Scheme):
		return nil, "must begin with " + schemes[0] + ":// or " + strings.Join(schemes[1:], ":// or ") + "://", ""
	case u.Hostname() == "":
		return nil, "names no host", ""
	case u.Port() != "" && (err != nil || port == 0), strings.HasSuffix(u.Host, ":"):
		return nil, "has a port that is not from 1 to 65535", ""
	case u.Fragment != "":
		return nil, `must have no "#"`, ""
	}
	u.Host = strings.ToLower(u.Host)
	return u, "", ""
}

// baseURL returns the normal form of a server's address, its path still whole, and the user information that it held.
func baseURL(text string) (u *url.URL, user *url.Userinfo, msg, hint string) {
	u, msg, hint = parseURL(text, "http", "https")
	if msg != "" {
		return nil, nil, msg, hint
	}
	if u.RawQuery != "" || u.ForceQuery {
		return nil, nil, "must have no query", "headers go into http_client_config: {http_headers: ...}"
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if endpoint := endpointOf(path); endpoint != "" {
		return nil, nil, fmt.Sprintf("must be the base of the server, without %q", endpoint), ""
	}
	user, u.User = u.User, nil
	setPath(u, path)
	return u, user, "", ""
}

// endpointOf returns the endpoint that a path ends in, if it is one rather than the base of all.
func endpointOf(path string) string {
	for _, endpoint := range []string{"/chat/completions", "/completions", "/models", "/metrics", "/health"} {
		if strings.HasSuffix(path, endpoint) {
			return endpoint
		}
	}
	return ""
}

// setPath gives u an escaped path.
func setPath(u *url.URL, path string) {
	u.RawPath = path
	u.Path, _ = url.PathUnescape(path) // came from EscapedPath
}

// Elements of a path by which the path of an API is told from where a server is: a version, such as v1, v3 or
// v1beta1; and what providers put behind one for their OpenAI-compatible API.
var (
	versionElement = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]*)?$`)
	compatElement  = regexp.MustCompile(`^open(ai|api)$`)
)

// splitAPI takes the path of the API off the address of a server: its last element if that is a version; from the last
// version on, if the last element is openai or openapi. Without either the API is below /v1.
func splitAPI(u *url.URL) (root *url.URL, apiPath string) {
	elements := strings.Split(u.EscapedPath(), "/")
	last := len(elements) - 1
	from := last
	if compatElement.MatchString(elements[last]) {
		for from >= 0 && !versionElement.MatchString(elements[from]) {
			from--
		}
	}
	if from < 0 || !versionElement.MatchString(elements[from]) {
		return u, defaultAPIPath
	}
	cut := *u
	setPath(&cut, strings.TrimRight(strings.Join(elements[:from], "/"), "/"))
	return &cut, "/" + strings.Join(elements[from:], "/")
}

// apiPath reads the path of an API below the url of its server. "/" is none.
func apiPath(d *decoder, key string, n *yaml.Node) string {
	s := scalar(d, key, n)
	u, err := url.Parse(s)
	path := strings.TrimRight(s, "/")
	switch {
	case d.bad[key]:
	case len(s) > maxName:
		d.problem(n, key, "must have at most %d bytes, not %d", maxName, len(s))
	case !strings.HasPrefix(s, "/"):
		d.hinted(n, key, fmt.Sprintf("did you mean %q?", clip("/"+s)), "must begin with a slash: it is a path below url")
	case err != nil, u.Host != "", u.EscapedPath() != s, strings.Contains(path, "//"):
		d.problem(n, key, "is not a path")
	case strings.HasSuffix(path, "/completions"):
		d.problem(n, key, "must be the path of the API, without %q", endpointOf(path))
	}
	return cmp.Or(path, "/")
}

// hostHeader is a host with or without a port, as the header Host has it.
var hostHeader = regexp.MustCompile(`^([A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

// pageURL checks the address of a page that is read beside the probes.
func pageURL(text string) (page, msg, hint string) {
	u, msg, hint := parseURL(text, "http", "https")
	if msg != "" {
		return "", msg, hint
	}
	if u.User != nil {
		return "", "must have no user information", "http_client_config holds for this address too"
	}
	return u.String(), "", ""
}

// hostPort returns the host and the explicit port of u.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
