package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
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

// baseURL returns the normal form of a server's address and the user information that it held.
func baseURL(text string) (u *url.URL, user *url.Userinfo, msg, hint string) {
	u, msg, hint = parseURL(text, "http", "https")
	if msg != "" {
		return nil, nil, msg, hint
	}
	if u.RawQuery != "" || u.ForceQuery {
		return nil, nil, "must have no query", "headers go into http_client_config: {http_headers: ...}"
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	for _, endpoint := range []string{"/chat/completions", "/completions", "/models", "/metrics", "/health"} {
		if strings.HasSuffix(path, endpoint) {
			return nil, nil, fmt.Sprintf("must be the base of the server, without %q", endpoint), ""
		}
	}
	path = strings.TrimRight(strings.TrimSuffix(path, "/v1"), "/")
	user, u.User = u.User, nil
	u.RawPath = path
	u.Path, _ = url.PathUnescape(path) // came from EscapedPath
	return u, user, "", ""
}

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
