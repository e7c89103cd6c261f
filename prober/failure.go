package prober

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/llm-prober/llm_prober/internal/httpclient"
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

// errSwitched: nothing that a probe asks for may be answered so, and what follows it is no HTTP.
var errSwitched = failf(ReasonHTTPStatus, "HTTP status 101: the server switched to another protocol, which nobody had asked for")

// phase is how far a request has come; the same error means different things in different phases.
type phase int32

const (
	phaseCredentials phase = iota // files and tokens are read before a connection is asked for
	phaseConnect                  // DNS and TCP
	phaseTLS
	phaseRequest // until the headers have come
	phaseBody
)

// classify turns an error of the transport into a failure: by why the request was ended, then by the error's type,
// then by how far the request had come.
func classify(ctx context.Context, at phase, err error) error {
	var f *failure
	cause := context.Cause(ctx)
	switch {
	case errors.As(err, &f):
		return err
	case errors.As(cause, &f):
		return cause
	case errors.Is(cause, errTimeout):
		return &failure{ReasonTimeout, cause}
	case errors.Is(cause, errStalled):
		return &failure{ReasonStalled, cause}
	case cause != nil:
		return errAbandoned
	}
	if lacks := httpclient.LocalLimit(err); lacks != "" {
		return failf(ReasonInternal, "the prober has no %s: %w", lacks, err)
	}
	for _, c := range causes {
		if c.is(err) {
			return &failure{c.reason, err}
		}
	}
	reason, early := phaseReasons[at]
	switch {
	case early:
		return &failure{reason, err}
	case httpclient.IsReset(err):
		return &failure{ReasonConnReset, err}
	case httpclient.IsEnd(err):
		return &failure{ReasonTruncated, err}
	}
	return &failure{ReasonMalformed, err} // chunk framing, header syntax, and whatever net/http refuses to read
}

// causes are the errors that mean the same in every phase. The first that holds counts.
var causes = []struct {
	reason Reason
	is     func(error) bool
}{
	{ReasonTimeout, isAny(errTimeout)},
	{ReasonInternal, httpclient.IsFault},
	{ReasonDNS, func(err error) bool { dns := (*net.DNSError)(nil); return errors.As(err, &dns) }},
	{ReasonTLS, httpclient.IsTLS},
	{ReasonTooLarge, isAny(errTooLarge, errHeadersTooLarge)},
	{ReasonMalformed, isAny(errMalformed)},
}

// phaseReasons are the reasons of all other errors. Once the request is on its way, that the connection was cut tells
// more than the phase.
var phaseReasons = map[phase]Reason{phaseCredentials: ReasonAuth, phaseConnect: ReasonConnect, phaseTLS: ReasonTLS}

func isAny(targets ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
}

// isCut tells whether an error is that the connection ended where it must not.
func isCut(err error) bool { return httpclient.IsReset(err) || httpclient.IsEnd(err) }

// statusReasons maps an HTTP status to its reason; a status that is not here has ReasonHTTPStatus.
var statusReasons = map[int]Reason{
	http.StatusBadRequest:          ReasonBadRequest,
	http.StatusUnprocessableEntity: ReasonBadRequest,
	http.StatusUnauthorized:        ReasonAuth,
	http.StatusForbidden:           ReasonAuth,
	http.StatusProxyAuthRequired:   ReasonAuth,
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

	maxErrorBody = 16 << 10 // bytes of an error body, or of an event that tells of an error, that are looked at
)
