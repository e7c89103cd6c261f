package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// trust lists why levels are not to be trusted; if all are, it says so.
func trust(levels []experiment.LevelSummary) ([]finding, string) {
	var all []finding
	for _, kind := range kindsOf(levels) {
		all = append(all, found(levels, kind, true)...)
	}
	if len(all) > 0 || len(levels) == 0 {
		return all, ""
	}
	text := fmt.Sprintf("All %d levels are to be trusted", len(levels))
	if len(levels) == 1 {
		text = "The level is to be trusted"
	}
	if slices.ContainsFunc(levels, func(l experiment.LevelSummary) bool { return len(l.Notes) > 0 }) {
		return nil, text + "; the checks found something worth knowing (▲)."
	}
	return nil, text + ": every check passed."
}

// kindsOf lists every kind of doubt and note that there is, in the order of the checks.
func kindsOf(levels []experiment.LevelSummary) []string {
	var all []string
	for _, s := range subjects() {
		all = append(all, s.kinds...)
	}
	for i := range levels {
		for _, d := range slices.Concat(levels[i].Doubts, levels[i].Notes) {
			if !slices.Contains(all, d.Kind) {
				all = append(all, d.Kind)
			}
		}
	}
	return all
}

// check is one look at all levels, before any figure is believed.
type check struct {
	Name, Class, Sign string
	Text              string
	Found             []finding
}

// finding is a doubt or a note of a level, or of many.
type finding struct {
	Doubt  bool
	Levels string
	Text   string
	Others []remark // what was found of each level, where there are many
}

// remark is what was found of a level.
type remark struct{ Level, Text string }

// subject is what a check is about: the kinds of doubts and notes that belong to it, and what is said if there is
// none.
type subject struct {
	name  string
	kinds []string
	calm  func(levels []experiment.LevelSummary) (text string, known bool)
}

// subjects are in the order in which results should be looked at.
func subjects() []subject {
	return []subject{
		{"Failures", []string{analyze.KindCut, analyze.KindNothing, analyze.KindFailures, analyze.KindFewFailures, analyze.KindMissed}, calmFailures},
		{"Token counts", []string{analyze.KindPromptTokens, analyze.KindOutputTokens}, calmTokens},
		{"Cached tokens", []string{analyze.KindCachedTokens}, calmCached},
		{"TTFT and ITL", []string{analyze.KindSuspect, analyze.KindClientLate, analyze.KindStartDelay, analyze.KindClientBusy, analyze.KindWarmingUp, analyze.KindSlowingDown}, calmLatency},
		{"Throughput", []string{analyze.KindNotFull, analyze.KindSaturated, analyze.KindKVCacheFull, analyze.KindPreemptions, analyze.KindOtherLoad}, calmThroughput},
		{"Percentiles", []string{analyze.KindTooFewRequests, analyze.KindNoP99, analyze.KindFewWaves, analyze.KindFirstWave}, calmPercentiles},
	}
}

func checks(levels []experiment.LevelSummary) []check {
	var all []check
	other := subject{name: "Other", kinds: kindsOf(levels)}
	for _, s := range subjects() {
		all = append(all, s.check(levels))
		other.kinds = other.kinds[len(s.kinds):]
	}
	if len(other.kinds) > 0 {
		all = append(all, other.check(levels))
	}
	return all
}

func (s subject) check(levels []experiment.LevelSummary) check {
	c := check{Name: s.name, Class: "good", Sign: "✔"}
	for _, kind := range s.kinds {
		c.Found = append(c.Found, found(levels, kind, true)...)
		c.Found = append(c.Found, found(levels, kind, false)...)
	}
	known := true
	if s.calm != nil {
		c.Text, known = s.calm(levels)
		c.Text = humanize.NoBreak(c.Text)
	}
	switch {
	case slices.ContainsFunc(c.Found, func(f finding) bool { return f.Doubt }):
		c.Class, c.Sign, c.Text = "bad", "✖", ""
	case len(c.Found) > 0:
		c.Class, c.Sign, c.Text = "warn", "▲", ""
	case !known:
		c.Class, c.Sign = "plain", "?"
	}
	return c
}

// fewTexts is how many different texts of one kind are told one by one.
const fewTexts = 3

// found lists what was found of one kind: a finding for each text or, of many different ones, one for all.
func found(levels []experiment.LevelSummary, kind string, doubt bool) []finding {
	var all []finding
	var names []string
	var remarks []remark
	name := namesOf(levels)
	for i := range levels {
		list := levels[i].Notes
		if doubt {
			list = levels[i].Doubts
		}
		for _, d := range list {
			if d.Kind != kind {
				continue
			}
			level, text := name(levels[i].Level), spoken(d.Text)
			names, remarks = append(names, level), append(remarks, remark{level, text})
			at := slices.IndexFunc(all, func(f finding) bool { return f.Text == text })
			if at < 0 {
				all = append(all, finding{Doubt: doubt, Levels: level, Text: text})
			} else {
				all[at].Levels += " · " + level
			}
		}
	}
	if len(all) <= fewTexts {
		return all
	}
	return []finding{{doubt, strings.Join(names, " · "), all[0].Text + ".", remarks}}
}

func calmFailures(levels []experiment.LevelSummary) (string, bool) {
	requests, failed := 0, 0
	for i := range levels {
		requests, failed = requests+levels[i].Requests, failed+levels[i].Failed
	}
	if requests == 0 {
		return "No request ended.", false
	}
	none := "None"
	if failed > 0 {
		none = humanize.Whole(failed)
	}
	return fmt.Sprintf("%s of %s failed.", none, humanize.Count(requests, "request")), true
}

func calmTokens(levels []experiment.LevelSummary) (string, bool) {
	var shapes []string
	for i := range levels {
		l := &levels[i]
		if !l.PromptTokens.Known() {
			return "The server does not count prompt tokens, so their number cannot be checked.", false
		}
		shape := formatMean(float64(l.PromptTokens)) + "+" + formatMean(float64(l.OutputTokens))
		if !slices.Contains(shapes, shape) {
			shapes = append(shapes, shape)
		}
	}
	return "By the server's count prompt + output tokens were, in the mean, " + strings.Join(shapes, ", ") + ".", true
}

func calmCached(levels []experiment.LevelSummary) (string, bool) {
	for i := range levels {
		if !levels[i].CachedTokens.Known() {
			return "The server does not say how much of a prompt it had cached.", false
		}
	}
	return "No prompt was found in the server's cache.", true
}

func calmLatency(levels []experiment.LevelSummary) (string, bool) {
	late, delay := 0.0, 0.0
	for i := range levels {
		c := levels[i].Client
		late, delay = max(late, c.LateTTFTRatio, c.LateGapsRatio), max(delay, c.StartDelayP99)
	}
	return fmt.Sprintf("The server was settled. The client was in time: at most %s of the figures of a level withheld since it read late; requests started at most %s after they were due (p99).",
		humanize.Share(late), humanize.Seconds(delay)), true
}

func calmThroughput(levels []experiment.LevelSummary) (string, bool) {
	if slices.ContainsFunc(levels, func(l experiment.LevelSummary) bool { return l.Level.Closed() }) {
		return "The client kept every level full.", true
	}
	return "The server kept up with every rate.", true
}

func calmPercentiles(levels []experiment.LevelSummary) (string, bool) {
	least := math.MaxInt
	for i := range levels {
		least = min(least, levels[i].TTFT.Count)
	}
	if len(levels) == 0 {
		return "", false
	}
	return fmt.Sprintf("At least %s a level: every p99 has an upper bound.", humanize.Count(least, "TTFT")), true
}
