package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/slogtest"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// The handler does all that a slog.Handler has to, held against the standard library's own list. go-kit writes
// groups with dots and calls the time ts; this translates back.
func TestSlogHandler(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return slogHandler{logger: newLogger(&out, "debug", "json")}
	}, func(t *testing.T) map[string]any {
		flat := map[string]any{}
		if err := json.Unmarshal(out.Bytes(), &flat); err != nil {
			t.Fatalf("%v in %q", err, out.String())
		}
		nested := map[string]any{}
		for key, value := range flat {
			path := strings.Split(key, ".")
			at := nested
			for _, group := range path[:len(path)-1] {
				if at[group] == nil {
					at[group] = map[string]any{}
				}
				at = at[group].(map[string]any)
			}
			at[path[len(path)-1]] = value
		}
		if name := t.Name(); !strings.HasSuffix(name, "zero-time") {
			nested[slog.TimeKey] = nested["ts"] // a line of ours always has its time
		}
		return nested
	})
}

// Levels are filtered by the one filter there is.
func TestLogLevels(t *testing.T) {
	for _, c := range []struct {
		allowed string
		want    string // levels that come through
	}{
		{"debug", "debug info warn error"},
		{"info", "info warn error"},
		{"warn", "warn error"},
		{"error", "error"},
	} {
		var out strings.Builder
		logger := newLogger(&out, c.allowed, "logfmt")
		s := slog.New(slogHandler{logger: logger})
		for _, l := range []struct {
			name string
			ours func(log.Logger) log.Logger
			std  slog.Level
		}{
			{"debug", level.Debug, slog.LevelDebug},
			{"info", level.Info, slog.LevelInfo},
			{"warn", level.Warn, slog.LevelWarn},
			{"error", level.Error, slog.LevelError},
		} {
			if err := l.ours(logger).Log("msg", l.name); err != nil {
				t.Error(err)
			}
			s.Log(t.Context(), l.std, l.name)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			_, msg, _ := strings.Cut(strings.TrimSpace(line), "msg=")
			if !strings.Contains(line, "level="+msg+" ") {
				t.Errorf("%q has another level than its message", line)
			}
			got = append(got, msg)
		}
		var want []string
		for _, l := range strings.Fields(c.want) {
			want = append(want, l, l)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("level %s lets %q through, want %q", c.allowed, got, want)
		}
	}
}

// What the toolkit logs through log/slog comes out as our own lines do.
func TestSlogThroughOurLogger(t *testing.T) {
	var out strings.Builder
	slog.New(slogHandler{logger: newLogger(&out, "info", "logfmt")}).With("a", 1).WithGroup("g").Error("broken", "why", io.EOF, slog.Group("h", "n", 2), "", "no key")
	want := regexp.MustCompile(`^level=error ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z caller=\S+ a=1 msg=broken g\.why=EOF g\.h\.n=2\n$`)
	if !want.MatchString(out.String()) {
		t.Errorf("logged %q, want %s", out.String(), want)
	}
}

// What net/http's transports write to the standard logger goes through ours, without what it quotes of a server.
func TestStandardLog(t *testing.T) {
	var b strings.Builder
	w := standardLog{log.NewLogfmtLogger(&b)}
	for _, line := range []string{
		"Unsolicited response received on idle HTTP channel starting with \"HTTP/1.1 401 bad key sk-123456\\r\\n\"; err=<nil>\n",
		"something else\n",
	} {
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
	}
	want := "level=warn msg=\"a library says\" text=\"Unsolicited response received on idle HTTP channel (its text is left out)\"\n" +
		"level=warn msg=\"a library says\" text=\"something else\"\n"
	if b.String() != want {
		t.Errorf("%s, want %s", b.String(), want)
	}
}
