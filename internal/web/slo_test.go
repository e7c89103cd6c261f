package web

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSLORow(t *testing.T) {
	for name, c := range map[string]struct {
		slo  SLO
		want sloRow
	}{
		"no verdict yet": {
			SLO{Name: "fast", Indicator: "ttft", Threshold: time.Second, Objective: 0.99},
			sloRow{Name: "fast", Rule: "ttft within 1 s for 99 %", Good: "no verdict yet"},
		},
		"half the budget is spent": {
			SLO{Name: "fast", Indicator: "ttft", Threshold: 1500 * time.Millisecond, Objective: 0.99, Events: 1000, Bad: 5},
			sloRow{Name: "fast", Rule: "ttft within 1.5 s for 99 %", Good: "99.5 % of 1000 probes", Left: "50 % of the budget left"},
		},
		"exactly spent": {
			SLO{Name: "up", Indicator: "success", Objective: 0.995, Events: 200, Bad: 1},
			sloRow{Name: "up", Rule: "success for 99.5 %", Good: "99.5 % of 200 probes", Left: "0 % of the budget left"},
		},
		"overdrawn": {
			SLO{Name: "up", Indicator: "success", Objective: 0.995, Events: 1, Bad: 1},
			sloRow{Name: "up", Rule: "success for 99.5 %", Good: "0 % of 1 probe", Left: "budget overdrawn", Broken: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := newSLORow(c.slo)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
