package httpclient

import (
	"context"
	"net/http/httptrace"

	promconfig "github.com/prometheus/common/config"
)

// withTracedSecret is a configuration whose client secret is read by [tracedFiles].
func withTracedSecret(from *promconfig.OAuth2) *promconfig.OAuth2 {
	c := *from
	c.ClientSecretFile, c.ClientSecretRef = "", from.ClientSecretFile
	return &c
}

// tracedFiles reads a client secret of OAuth2 from its file, and tells the request's trace of it as of a header that
// was written. The request for a token, which sends it, has a context of its own and tells nobody; the server of tokens
// may repeat it in an error.
type tracedFiles struct{}

// Fetch implements [promconfig.SecretManager].
func (tracedFiles) Fetch(ctx context.Context, path string) (string, error) {
	secret, err := promconfig.NewFileSecret(path).Fetch(ctx)
	if err != nil {
		return "", err
	}
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.WroteHeaderField != nil {
		trace.WroteHeaderField("Client-Secret", []string{secret})
	}
	return secret, nil
}
