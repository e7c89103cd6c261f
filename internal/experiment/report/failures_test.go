package report

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
)

func TestFailuresAreListedByLevelAndReason(t *testing.T) {
	levels := []experiment.LevelSummary{{Index: 0, Level: experiment.Level{Concurrency: 1}}, {Index: 1, Level: experiment.Level{Concurrency: 2}, Failed: 3}}
	after := func(s int) time.Time { return began().Add(time.Duration(s) * time.Second) }
	run := &experiment.Run{Levels: []experiment.LevelRun{{Start: began()}, {Start: began()}}, Requests: []experiment.Request{
		{Level: 1, Result: prober.Result{
			Probe:  &prober.Probe{},
			Reason: prober.ReasonTimeout, Err: errors.New("after 2 min"), Ended: after(120),
		}},
		{Level: 1, Result: prober.Result{
			Probe:  &prober.Probe{},
			Reason: prober.ReasonTimeout, Err: errors.New("another"), Ended: after(121),
		}},
		{Level: 1, Result: prober.Result{
			Probe:  &prober.Probe{},
			Reason: prober.ReasonOverloaded, Status: 503, Err: errors.New("\x1b[31mbusy"), Ended: after(122),
		}},
		{Level: 0, Result: prober.Result{
			Probe:  &prober.Probe{Warmup: true},
			Reason: prober.ReasonTimeout, Ended: after(1),
		}},
		{Level: 0, Result: prober.Result{
			Probe:  &prober.Probe{},
			Reason: prober.ReasonTimeout, Abandoned: true, Ended: after(1),
		}},
		{Level: 7, Result: prober.Result{
			Probe:  &prober.Probe{},
			Reason: prober.ReasonTimeout, Ended: after(1),
		}},
		{Level: 0, Result: prober.Result{
			Probe: &prober.Probe{},
			Ended: after(1),
		}},
	}}
	want := []failure{
		{"c=2", "timeout", "–", "120" + " s", "after 2 min", 2},
		{"c=2", "overloaded", "503", "122" + " s", "\ufffd[31mbusy", 1},
	}
	if diff := cmp.Diff(want, failures(run, levels)); diff != "" {
		t.Error(diff)
	}
}
