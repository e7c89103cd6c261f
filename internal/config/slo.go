package config

import (
	"fmt"
	"math"
	"time"

	"go.yaml.in/yaml/v3"
)

// The fast page of the multi-window burn-rate alerts (SRE Workbook, table 5-8): within an hour bad events
// come at 14.4 times the rate that the objective allows. Fewer than ten of them are no evidence.
const (
	fastBurn     = 14.4
	fewestEvents = 10
)

func (d *decoder) slos(written []SLO, c *Config) []SLO {
	if n := d.at("slos"); n == nil || isNull(n) {
		list := DefaultSLOs()
		for _, s := range list {
			d.judge(c, s, nil, fmt.Sprintf("slos (default %q)", s.Name))
		}
		return list
	}
	solid := !d.broken["global"] && !d.broken["workloads"] && !d.broken["targets"] && !d.broken["target_groups"]
	seen := make(map[string]string)
	for i, s := range written {
		key := itemKey("slos", i)
		d.slo(key, s, c)
		if s.Name != "" {
			d.unique(seen, s.Name, key, "")
		}
		if solid && !d.broken[key] {
			d.judge(c, s, d.at(key), key)
		}
	}
	return written
}

// slo reports what is wrong with the SLO that was written at key.
func (d *decoder) slo(key string, s SLO, c *Config) {
	d.threshold(key+".threshold", s)
	if !d.bad["targets"] && !d.bad["target_groups"] && d.ok(key+".targets") {
		d.references(key+".targets", s.Targets, "target", targetNames(c.covering()))
	}
	if !d.bad["workloads"] {
		d.references(key+".workloads", s.Workloads, "workload", workloadNames(c.Workloads))
	}
	if s.Objective > 0 && s.Objective < 0.01 {
		d.doubt(d.at(key+".objective"), key+".objective", "%v per cent: was %v meant?", shift(s.Objective, 2), shift(s.Objective, 4))
	}
}

func targetNames(list []*Target) (names []string) {
	for _, t := range list {
		names = append(names, t.Name)
	}
	return names
}

// threshold checks that an SLO has a threshold if, and only if, its indicator is a time.
func (d *decoder) threshold(key string, s SLO) {
	set := d.at(key)
	switch {
	case s.Indicator == "": // reported
	case s.Indicator == "success" && set != nil:
		d.problemAt(key, "", "success has no threshold: a probe succeeds or fails")
	case s.Indicator != "success" && set == nil:
		d.problemAt(key, "", "is missing: how long may %s take?", s.Indicator)
	case isGap(s.Indicator) && s.Threshold > MaxGap:
		d.problemAt(key, gapBound, "must be at most %s for %s, not %s", short(MaxGap), s.Indicator, set.Value)
	}
}

// isGap reports whether an indicator is about gaps between tokens.
func isGap(indicator string) bool { return indicator == "itl_p95" || indicator == "itl_max" }

// judge checks that the plans which SLO s covers can give it verdicts, and often enough to alert on. An SLO
// that can never work is a problem, unless it is a default one, which nobody wrote (at is nil).
func (d *decoder) judge(c *Config, s SLO, at *yaml.Node, key string) {
	covered, mute, rare := 0, 0, 0
	var muteCase, rareCase string
	named := make(map[string]bool, len(s.Targets))
	for _, name := range s.Targets {
		named[name] = true
	}
	targets := c.covering()
	for _, t := range targets {
		if len(named) > 0 && !named[t.Name] {
			continue
		}
		for _, p := range t.Plans {
			if !among(s.Workloads, p.Workload.Name) {
				continue
			}
			covered++
			if why := muteness(s, p); why != "" {
				if mute++; mute == 1 {
					muteCase = fmt.Sprintf("%s (target %q, workload %q)", why, clip(t.Name), clip(p.Workload.Name))
				}
			} else if why := rareness(s, p.Interval); why != "" {
				if rare++; rare == 1 {
					rareCase = fmt.Sprintf("%s (target %q, workload %q)", why, clip(t.Name), clip(p.Workload.Name))
				}
			}
		}
	}
	switch {
	case covered == 0 && len(targets) > 0 && at != nil:
		d.problem(at, key, "covers no probe: none of its targets runs one of its workloads")
	case mute > 0 && mute == covered && at != nil:
		d.problem(at, key, "%s", muteCase)
	case mute > 0:
		d.doubt(at, key, "%s%s", muteCase, more(mute))
	}
	if burn := fastBurn * (1 - s.Objective); burn > 1 {
		d.doubt(at, key, "the objective is too low for the fast page: %v times the bad events that it allows are more than all", fastBurn)
	} else if rare > 0 {
		d.doubt(at, key, "%s%s", rareCase, more(rare))
	}
}

// more says how many other cases there are than the one that is told.
func more(n int) string {
	if n > 1 {
		return fmt.Sprintf(" and %d more", n-1)
	}
	return ""
}

// muteness says why plan p can never give SLO s a verdict about time, or nothing.
func muteness(s SLO, p Plan) string {
	end, what := p.Timeout, "timeout"
	if isGap(s.Indicator) && p.StallTimeout < p.Timeout {
		end, what = p.StallTimeout, "stall_timeout"
	}
	switch {
	case s.Threshold > end:
		return fmt.Sprintf("no probe can be late: threshold %s is above %s %s", short(s.Threshold), what, short(end))
	case s.Indicator == "itl_p95" && p.Workload.OutputTokens <= MinGaps:
		return fmt.Sprintf("itl_p95 needs %d gaps, so more than %d output tokens, not %d", MinGaps, MinGaps, p.Workload.OutputTokens)
	case s.Indicator == "itl_max" && p.Workload.OutputTokens < 2:
		return "itl_max needs a gap, so at least 2 output tokens"
	}
	return ""
}

// rareness says why probes at this interval are too few for the fast page of SLO s, or nothing.
func rareness(s SLO, interval time.Duration) string {
	need := fewestEvents / (fastBurn * (1 - s.Objective))
	have := perHour(interval)
	if have >= need {
		return ""
	}
	slowest := time.Duration(float64(time.Hour) / need).Truncate(time.Second)
	fix := fmt.Sprintf("probe at least every %s, or lower the objective", short(slowest))
	if slowest < time.Second {
		fix = "lower the objective"
	}
	return fmt.Sprintf("an objective of %v needs %.0f probes an hour for its fast page to rest on %d bad ones, and there are %.4g: %s",
		shift(s.Objective, 2), math.Ceil(need), fewestEvents, have, fix)
}
