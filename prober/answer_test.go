package prober

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/internal/recording"
)

// answerTo feeds a stream to an answer, with one millisecond between events. work is how many bytes were looked at,
// moved or copied on the way from the bytes to the result.
func answerTo(stream []byte, w *Workload) (res *Result, work int, err error) {
	res = &Result{Probe: &Probe{Workload: w}, Model: "m", Sent: epoch, Status: 200}
	a := newAnswer(res, func(text string) string {
		work += len(text)
		return text
	}, nil)
	s := newSSEReader(bytes.NewReader(stream))
	cut := false
	var left error
	for n := 1; !a.done && !cut; n++ {
		var e sseEvent
		if e, err = s.next(); err != nil {
			left = a.left(s.rest())
			break
		}
		var token bool
		token, err = a.take(e)
		work += a.chunk.scan.work
		a.chunk.scan.work = 0
		if err != nil {
			break
		}
		if token {
			a.arrived(epoch.Add(time.Duration(n) * time.Millisecond))
			cut = a.tooLong()
		}
	}
	if err == io.EOF {
		err = left
	}
	return res, work + int(s.work), a.finish(cut, err)
}

// FuzzAnswer: whatever a server sends, there is no panic, and the numbers fit together.
func FuzzAnswer(f *testing.F) {
	for _, c := range slices.Concat(streamCases, errorCases, endingCases, tokenCases, countCases) {
		if text := expand(string(c.script)); len(text) < 10_000 {
			f.Add([]byte(text), 128)
		}
	}
	for _, name := range recording.Names() {
		rec, err := recording.Load(name)
		if err != nil || len(rec.Reads) == 0 {
			continue
		}
		if body, err := rec.Body(); err == nil {
			f.Add(body, 12)
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, asked int) {
		w := &Workload{PromptTokens: 512, OutputTokens: max(1, asked%1000)}
		res, work, err := answerTo(stream, w)
		if work > 16*len(stream)+64 {
			t.Errorf("work on %d bytes for %d", work, len(stream))
		}
		if err != nil {
			res.Reason, res.Err = ReasonInternal, err
		}
		checkInvariants(t, withTimes(res))
		events := 0
		if !res.FirstToken.IsZero() {
			events = len(res.Gaps) + 1
		}
		switch {
		case events == 0 && (len(res.Gaps) > 0 || !res.LastToken.IsZero() || !res.FirstAnswer.IsZero()):
			t.Errorf("no token, but %d gaps, last token %v, first answer %v", len(res.Gaps), res.LastToken, res.FirstAnswer)
		case events == 0 && err == nil:
			t.Error("a success without a token")
		case events == 0 && res.OutputTokens != 0:
			t.Errorf("%d output tokens without a token event", res.OutputTokens)
		case events > 0 && (res.OutputTokens < 1 || res.FirstTokens < 1):
			t.Errorf("%d token events, %d output tokens, %d in the first event", events, res.OutputTokens, res.FirstTokens)
		case events > longOutputFactor*w.OutputTokens:
			t.Errorf("%d token events of %d asked: not cut", events, w.OutputTokens)
		}
		var sum time.Duration
		for _, gap := range res.Gaps {
			sum += gap
		}
		if events > 0 && res.FirstToken.Add(sum) != res.LastToken {
			t.Errorf("the gaps add up to %v, from first to last token are %v", sum, res.LastToken.Sub(res.FirstToken))
		}
		if tpot, known := res.TPOT(); known && tpot.Least < 0 {
			t.Errorf("TPOT %v", tpot)
		}
		_ = outcome(res)
	})
}

// withTimes completes a result that no client has made.
func withTimes(res *Result) *Result {
	res.Scheduled, res.Started, res.Ended = epoch, epoch, epoch.Add(time.Hour)
	return res
}
