package main

import (
	"context"
	"io"
	stdlog "log"
	"log/slog"
	"strings"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// newLogger makes the logger of the daemon.
func newLogger(w io.Writer, allowed, format string) log.Logger {
	make := log.NewLogfmtLogger
	if format == "json" {
		make = log.NewJSONLogger
	}
	logger := level.NewFilter(make(log.NewSyncWriter(w)), level.Allow(level.ParseDefault(allowed, level.InfoValue())))
	return log.With(logger, "ts", log.TimestampFormat(func() time.Time { return time.Now().UTC() }, "2006-01-02T15:04:05.000Z"), "caller", log.DefaultCaller)
}

// catchStandardLog sends the lines of the standard logger through ours: net/http's transports write there what they
// cannot return, such as an answer that nobody had asked for.
func catchStandardLog(logger log.Logger) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(standardLog{logger})
}

// standardLog takes the lines of the standard logger.
type standardLog struct{ logger log.Logger }

// Write implements io.Writer. What net/http quotes of an answer is left out: it may repeat a key that we sent.
func (w standardLog) Write(line []byte) (int, error) {
	text, _, quotes := strings.Cut(strings.TrimSpace(string(line)), " starting with ")
	if quotes {
		text += " (its text is left out)"
	}
	return len(line), level.Warn(w.logger).Log("msg", "a library says", "text", text)
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
