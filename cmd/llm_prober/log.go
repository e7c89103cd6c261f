package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

// newLogger makes the logger of the daemon.
func newLogger(w io.Writer, allowed, format string) log.Logger {
	make := log.NewLogfmtLogger
	if format == "json" {
		make = log.NewJSONLogger
	}
	logger := level.NewFilter(printable(make(log.NewSyncWriter(w))), level.Allow(level.ParseDefault(allowed, level.InfoValue())))
	return log.With(logger, "ts", log.TimestampFormat(func() time.Time { return time.Now().UTC() }, "2006-01-02T15:04:05.000Z"), "caller", log.DefaultCaller)
}

// maxLogged is how many characters of a value are logged; a stack has some thousands.
const maxLogged = 16 << 10

// printable makes every value fit to be shown, whoever logs it: many quote what came from a server.
func printable(next log.Logger) log.Logger {
	return log.LoggerFunc(func(keyvals ...any) error {
		shown := slices.Clone(keyvals)
		for i := 1; i < len(shown); i += 2 {
			switch v := shown[i].(type) {
			case string, error, fmt.Stringer:
				shown[i] = scrub.Lines(fmt.Sprint(v), maxLogged)
			}
		}
		return next.Log(shown...)
	})
}

// libraryLog is the logger of lines that a library writes by itself, net/http above all. What a line quotes, such as
// bytes that came when nobody had asked, is left out: nobody knows whose secrets to look for in it.
type libraryLog struct{ logger log.Logger }

var quotation = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?`)

// Write implements io.Writer.
func (l libraryLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(quotation.ReplaceAllString(string(line), `"…"`))
	return len(line), level.Warn(l.logger).Log("msg", text)
}

// slogHandler lets the exporter toolkit, which wants a slog.Logger, log through ours.
type slogHandler struct {
	logger log.Logger
	prefix string
}

var _ slog.Handler = slogHandler{}

// Enabled implements slog.Handler: go-kit's filter decides.
func (h slogHandler) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (h slogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var pairs []any
	for _, a := range attrs {
		pairs = appendAttr(pairs, h.prefix, a)
	}
	return slogHandler{log.With(h.logger, pairs...), h.prefix}
}

// WithGroup implements slog.Handler.
func (h slogHandler) WithGroup(name string) slog.Handler {
	return slogHandler{h.logger, h.prefix + name + "."}
}

// Handle implements slog.Handler.
func (h slogHandler) Handle(_ context.Context, r slog.Record) error {
	leveled := level.Debug
	switch {
	case r.Level >= slog.LevelError:
		leveled = level.Error
	case r.Level >= slog.LevelWarn:
		leveled = level.Warn
	case r.Level >= slog.LevelInfo:
		leveled = level.Info
	}
	pairs := []any{"msg", r.Message}
	r.Attrs(func(a slog.Attr) bool {
		pairs = appendAttr(pairs, h.prefix, a)
		return true
	})
	return leveled(h.logger).Log(pairs...)
}

// appendAttr flattens groups. An empty key is left out: logfmt would drop the whole line for it.
func appendAttr(pairs []any, prefix string, a slog.Attr) []any {
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		if a.Key == "" {
			return pairs
		}
		return append(pairs, prefix+a.Key, v.Any())
	}
	if a.Key != "" {
		prefix += a.Key + "."
	}
	for _, member := range v.Group() {
		pairs = appendAttr(pairs, prefix, member)
	}
	return pairs
}
