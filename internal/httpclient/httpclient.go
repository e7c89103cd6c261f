// Package httpclient makes HTTP clients of a target's configuration that can be made before the files they need are
// there, and that tell problems of TLS by their type.
package httpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	promconfig "github.com/prometheus/common/config"
)

// FileError is that a certificate or key of the configuration cannot be read or used. Its text names the file.
type FileError struct{ err error }

func (e *FileError) Error() string { return e.err.Error() }
func (e *FileError) Unwrap() error { return e.err }

// New is [promconfig.NewRoundTripperFromConfig], but a file that is missing or unusable is no error: requests fail
// with a [*FileError] until it is there, and then go on without a restart. Requests end with their context ([Bound]),
// though files and tokens that they need never come. The error is about what no file can mend, such as an inline
// certificate that is none.
func New(cfg promconfig.HTTPClientConfig, name string, dial promconfig.DialContextFunc, options ...promconfig.HTTPClientOption) (http.RoundTripper, error) {
	options = append(options, promconfig.WithDialContextFunc(dialForTokens(dial)), promconfig.WithNewTLSConfigFunc(newTLSConfig))
	if cfg.OAuth2 != nil && cfg.OAuth2.ClientSecretFile != "" {
		cfg.OAuth2 = withTracedSecret(cfg.OAuth2)
		options = append(options, promconfig.WithSecretManager(tracedFiles{}))
	}
	t := &transport{cfg: cfg, make: func() (http.RoundTripper, error) {
		return promconfig.NewRoundTripperFromConfig(cfg, name, options...)
	}}
	if !needsFiles(cfg.TLSConfig) { // reading a file may hang
		if _, err := t.ready(); err != nil {
			return nil, err
		}
	}
	return Bound(t), nil
}

func needsFiles(c promconfig.TLSConfig) bool {
	return c.CAFile != "" || c.CertFile != "" || c.KeyFile != ""
}

// transport is a RoundTripper that is made when it can be.
type transport struct {
	cfg  promconfig.HTTPClientConfig
	make func() (http.RoundTripper, error)

	making sync.Mutex
	made   atomic.Pointer[http.RoundTripper] // nil: it could not be made so far
}

func (t *transport) ready() (http.RoundTripper, error) {
	t.making.Lock()
	defer t.making.Unlock()
	if made := t.made.Load(); made != nil {
		return *made, nil
	}
	made, err := t.make()
	if err != nil {
		return nil, err
	}
	t.made.Store(&made)
	return made, nil
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	made, err := t.ready()
	if err != nil {
		return nil, &FileError{err}
	}
	resp, err := made.RoundTrip(req.WithContext(context.WithValue(req.Context(), askedKey{}, true)))
	if err != nil {
		// The library reads the files again at each request, and tells of them in words only.
		if unusable := t.checkFiles(); unusable != nil {
			return nil, &FileError{unusable}
		}
	}
	return resp, err
}

// checkFiles tells whether the files can be used now.
func (t *transport) checkFiles() error {
	configs := []*promconfig.TLSConfig{&t.cfg.TLSConfig}
	if t.cfg.OAuth2 != nil {
		configs = append(configs, &t.cfg.OAuth2.TLSConfig)
	}
	for _, c := range configs {
		if !needsFiles(*c) {
			continue
		}
		if _, err := promconfig.NewTLSConfig(c); err != nil {
			return err
		}
	}
	return nil
}

// CloseIdleConnections implements what [http.Client.CloseIdleConnections] looks for.
func (t *transport) CloseIdleConnections() {
	if made := t.made.Load(); made != nil {
		closeIdle(*made)
	}
}

type unmetKey struct{}

// NoteUnmetRequest makes unmet true once a server asks for a client certificate, in a handshake that a request with the
// returned context causes, and there is none, or none of the kind that it asks for.
func NoteUnmetRequest(ctx context.Context, unmet *atomic.Bool) context.Context {
	return context.WithValue(ctx, unmetKey{}, unmet)
}

// newTLSConfig is the library's own, but for the note of [NoteUnmetRequest].
func newTLSConfig(ctx context.Context, cfg *promconfig.TLSConfig, options ...promconfig.TLSConfigOption) (*tls.Config, error) {
	c, err := promconfig.NewTLSConfigWithContext(ctx, cfg, options...)
	if err != nil {
		return nil, err
	}
	given := c.GetClientCertificate
	c.GetClientCertificate = func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert, err := &tls.Certificate{}, error(nil) // none, as without this function
		if given != nil {
			cert, err = given(request)
		}
		if unmet, ok := request.Context().Value(unmetKey{}).(*atomic.Bool); ok && err == nil && request.SupportsCertificate(cert) != nil {
			unmet.Store(true)
		}
		return cert, err
	}
	return c, nil
}

// IsTLS tells an error of TLS by its type: files, alerts of either side, records and certificates that are none, and
// HTTP where TLS was to come.
// Alerts may come after the handshake: under TLS 1.3 a server judges the client's certificate when the client has
// ended the handshake (RFC 8446, section 4.4.2.4).
func IsTLS(err error) bool {
	var (
		file   *FileError
		op     *net.OpError
		record tls.RecordHeaderError
		verify *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &file), errors.As(err, &record), errors.As(err, &verify), errors.Is(err, http.ErrSchemeMismatch):
		return true
	case errors.As(err, &op): // crypto/tls has no other type for alerts
		return op.Op == "remote error" || op.Op == "local error"
	}
	return false
}

// IsReset tells that a connection was cut, by either side, and IsEnd that the other side ended it in order but too soon.
func IsReset(err error) bool {
	return isAny(err, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed, io.ErrClosedPipe)
}

// IsEnd is explained at [IsReset].
func IsEnd(err error) bool { return isAny(err, io.EOF, io.ErrUnexpectedEOF) }

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
