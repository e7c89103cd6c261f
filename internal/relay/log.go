package relay

import (
	"fmt"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

// stateLog writes one line for each change of state, never one for each failing sample.
type stateLog struct {
	logger log.Logger
	since  time.Time // of the first failure in a row; zero while all is well
	count  int
	notes  map[string]string // what was last said about each subject
}

func (l *stateLog) failed(reason string, err error) {
	l.count++
	if l.count > 1 {
		return
	}
	l.since = time.Now()
	level.Warn(l.logger).Log("msg", "the server's metrics cannot be read", "reason", reason, "err", scrub.Text(err.Error(), maxErr))
}

func (l *stateLog) recovered() {
	if l.count > 0 {
		level.Info(l.logger).Log("msg", "the server's metrics can be read again", "after", time.Since(l.since).Round(time.Millisecond), "failures", l.count)
	}
	l.count = 0
}

// note says something about a subject, unless just that was said last.
func (l *stateLog) note(subject, msg string, keyvals ...any) {
	said := fmt.Sprint(append([]any{msg}, keyvals...)...)
	if l.notes[subject] == said {
		return
	}
	if l.notes == nil {
		l.notes = map[string]string{}
	}
	l.notes[subject] = said
	level.Warn(l.logger).Log(append([]any{"msg", msg}, keyvals...)...)
}

// clear forgets a subject, so that it is mentioned again when it comes back.
func (l *stateLog) clear(subject string) { delete(l.notes, subject) }

// maxErr is how many characters an error may have that may quote the server.
const maxErr = 300
