package prober

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

// failure is an error with its reason.
type failure struct {
	reason Reason
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failf(reason Reason, format string, args ...any) error {
	return &failure{reason, fmt.Errorf(format, args...)}
}

// Causes with which a probe's context is cancelled.
var (
	errTimeout   = errors.New("deadline exceeded")
	errStalled   = errors.New("no token")
	errAbandoned = errors.New("abandoned")
)

// phase is how far a request has come; the same error means different things in different phases.
type phase int32

const (
	phaseCredentials phase = iota // files and tokens are read before a connection is asked for
	phaseConnect                  // DNS and TCP
	phaseTLS
	phaseRequest // until the headers have come
	phaseBody
)

// classify turns an error of the transport into a failure.
func classify(ctx context.Context, at phase, err error) error {
	var f *failure
	var dns *net.DNSError
	switch cause := context.Cause(ctx); {
	case errors.As(err, &f):
		return err
	case errors.Is(cause, errTimeout):
		return &failure{ReasonTimeout, cause}
	case errors.Is(cause, errStalled):
		return &failure{ReasonStalled, cause}
	case cause != nil:
		return errAbandoned
	case errors.As(err, &dns):
		return &failure{ReasonDNS, err}
	case errors.Is(err, errTooLarge), errors.Is(err, errHeadersTooLarge):
		return &failure{ReasonTooLarge, err}
	case errors.Is(err, errMalformed):
		return &failure{ReasonMalformed, err}
	}
	switch at {
	case phaseCredentials:
		// HTTPClientConfig reads certificates in the same place as tokens and passwords.
		if text := err.Error(); strings.Contains(text, "CA cert") || strings.Contains(text, "client cert") || strings.Contains(text, "client key") {
			return &failure{ReasonTLS, err}
		}
		return &failure{ReasonAuth, err}
	case phaseConnect:
		return &failure{ReasonConnect, err}
	case phaseTLS:
		return &failure{ReasonTLS, err}
	}
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		return &failure{ReasonConnReset, err}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &failure{ReasonTruncated, err}
	default: // chunk framing, header syntax, and whatever net/http refuses to read
		return &failure{ReasonMalformed, err}
	}
}

// statusReasons maps an HTTP status to its reason; a status that is not here has ReasonHTTPStatus.
var statusReasons = map[int]Reason{
	http.StatusBadRequest:          ReasonBadRequest,
	http.StatusUnprocessableEntity: ReasonBadRequest,
	http.StatusUnauthorized:        ReasonAuth,
	http.StatusForbidden:           ReasonAuth,
	http.StatusTooManyRequests:     ReasonRateLimited,
	http.StatusServiceUnavailable:  ReasonOverloaded,
	529:                            ReasonOverloaded, // "site is overloaded", sent by Dynamo and by some gateways
}

// statusFailure is the failure of an answer that is not 200.
func statusFailure(status int, model, body string) error {
	reason, ok := statusReasons[status]
	switch {
	case ok:
	case status == http.StatusNotFound && namesModel(body, model):
		reason = ReasonModelNotFound
	default:
		reason = ReasonHTTPStatus
	}
	return failf(reason, "HTTP status %d: %s", status, errorMessage([]byte(body)))
}

// namesModel tells a 404 for a model from one for a path.
func namesModel(body, model string) bool {
	var answer struct {
		Error struct{ Param, Code any }
	}
	if json.Unmarshal([]byte(body), &answer) == nil && (answer.Error.Param == "model" || answer.Error.Code == "model_not_found") {
		return true
	}
	return model != "" && strings.Contains(body, model)
}

// errorMessage finds the words in an error body. Servers send {"error":{"message":…}}, {"error":"…"},
// {"message":…}, {"detail":…} or plain text.
func errorMessage(body []byte) string {
	var answer struct {
		Error           json.RawMessage
		Message, Detail json.RawMessage
	}
	if json.Unmarshal(body, &answer) == nil {
		for _, raw := range []json.RawMessage{answer.Error, answer.Message, answer.Detail} {
			var text string
			var object struct{ Message string }
			switch {
			case json.Unmarshal(raw, &text) == nil && text != "":
				return scrub.Text(text, maxMessage)
			case json.Unmarshal(raw, &object) == nil && object.Message != "":
				return scrub.Text(object.Message, maxMessage)
			}
		}
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return "(empty body)"
	}
	return scrub.Text(string(body), maxMessage)
}

const (
	maxMessage = 300     // characters of a server's words in a log line
	maxBody    = 2 << 10 // bytes of an error body kept for the status page
)
