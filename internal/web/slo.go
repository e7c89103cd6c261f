package web

import (
	"fmt"
	"strconv"
	"time"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

// SLO is an objective for one workload of a target, and the verdicts given on its probes since the prober started.
type SLO struct {
	Workload  string
	Name      string
	Indicator string        // ttft, duration, success, itl_max or itl_p95
	Threshold time.Duration // 0: the indicator has none
	Objective float64       // share of good events that is promised, between 0 and 1
	Events    int
	Bad       int
}

// budgetLeft is the share of the error budget of the events so far that is not spent; negative if the objective is
// not held. It is unknown without events.
func (s SLO) budgetLeft() (left float64, known bool) {
	if s.Events == 0 || s.Objective >= 1 {
		return 0, false
	}
	return 1 - float64(s.Bad)/(float64(s.Events)*(1-s.Objective)), true
}

// sloRow is an SLO on a card.
type sloRow struct {
	Name, Rule, Good, Left string
	Broken                 bool
}

func newSLORow(s SLO) sloRow {
	row := sloRow{Name: scrub.Text(s.Name, maxName), Rule: fmt.Sprintf("%s for %s", scrub.Text(s.Indicator, maxWord), precisePercent(s.Objective)), Good: "no verdict yet"}
	if s.Threshold > 0 {
		row.Rule = fmt.Sprintf("%s within %s for %s", scrub.Text(s.Indicator, maxWord), s.Threshold, precisePercent(s.Objective))
	}
	left, known := s.budgetLeft()
	if !known {
		return row
	}
	row.Good = fmt.Sprintf("%s of %s", precisePercent(1-float64(s.Bad)/float64(s.Events)), formatCount(s.Events, "probe"))
	row.Broken = left < 0
	row.Left = "budget overdrawn"
	if !row.Broken {
		row.Left = strconv.FormatFloat(100*left, 'f', 0, 64) + "\u00a0% of the budget left"
	}
	return row
}

// precisePercent writes a share as a percentage with the digits that an objective needs: 99.95 %.
func precisePercent(share float64) string {
	return strconv.FormatFloat(float64(int(share*1e4+0.5))/1e2, 'f', -1, 64) + "\u00a0%"
}
