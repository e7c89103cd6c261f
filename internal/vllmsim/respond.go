package vllmsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// apiError is vLLM's error body, which also comes inside a stream.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

func (e *apiError) Error() string { return e.Message }

func (e *apiError) write(w http.ResponseWriter) {
	writeJSON(w, e.Code, struct {
		Error *apiError `json:"error"`
	}{e})
}

// badRequest is a request that vLLM itself finds wanting. An empty param is null.
func badRequest(param, format string, args ...any) *apiError {
	e := &apiError{Message: fmt.Sprintf(format, args...), Type: "BadRequestError", Code: http.StatusBadRequest}
	if param != "" {
		e.Param = &param
	}
	return e
}

func modelNotFound(model string, known []string) *apiError {
	param := "model"
	return &apiError{
		Message: fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", model, strings.Join(known, ", ")),
		Type:    "NotFoundError", Param: &param, Code: http.StatusNotFound,
	}
}

func engineDead() *apiError {
	return &apiError{
		Message: "EngineCore encountered an issue. See stack trace (above) for the root cause.",
		Type:    "InternalServerError", Code: http.StatusInternalServerError,
	}
}

func queueFull() *apiError {
	return &apiError{
		Message: "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.",
		Type:    "Service Unavailable", Code: http.StatusServiceUnavailable,
	}
}

// toJSON writes as Python's serialisers do: compact, and no escapes for HTML.
func toJSON(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("encoding our own %T: %v", v, err))
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body := toJSON(v)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) // a client that has gone is nobody's loss
}

// inStream is the error as an event carries it: with the blanks that json.dumps puts in.
func (e *apiError) inStream() []byte {
	return fmt.Appendf(nil, `{"error": {"message": %s, "type": %s, "param": %s, "code": %d}}`,
		toJSON(e.Message), toJSON(e.Type), toJSON(e.Param), e.Code)
}
