package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/scrub"
	"github.com/llm-prober/llm_prober/prober"
)

// Results that /api/v1/results lists.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// The types below are the API: names are stable, durations are in seconds, times are RFC 3339 in UTC, and
// what is not known is absent.

type apiTargets struct {
	Version string      `json:"version"`
	Time    time.Time   `json:"time"`
	Targets []apiTarget `json:"targets"`
}

type apiTarget struct {
	Name         string            `json:"target"`
	URL          string            `json:"url"`
	Model        string            `json:"model,omitempty"`
	Group        string            `json:"group,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	State        State             `json:"state"`
	Since        time.Time         `json:"since,omitzero"`
	SinceSeconds *float64          `json:"in_state_seconds,omitempty"`
	Message      string            `json:"message"`
	Slow         []apiSlow         `json:"slow,omitempty"`
	Server       *Server           `json:"server,omitempty"`
	InFlight     []apiFlight       `json:"in_flight"`
	Workloads    []apiWorkload     `json:"workloads"`
}

type apiSlow struct {
	Part  Part      `json:"part"`
	Now   float64   `json:"now_seconds"`
	Usual float64   `json:"usual_seconds"`
	Since time.Time `json:"since"`
}

type apiFlight struct {
	RequestID string    `json:"request_id"`
	Workload  string    `json:"workload"`
	Warmup    bool      `json:"warmup"`
	Started   time.Time `json:"started"`
	Age       float64   `json:"age_seconds"`
	Silence   float64   `json:"silence_seconds"`
	Sent      bool      `json:"sent"`
	Events    int       `json:"token_events"`
}

type apiWorkload struct {
	Name                string     `json:"workload"`
	State               State      `json:"state"`
	Since               time.Time  `json:"since,omitzero"`
	ConsecutiveFailures int        `json:"consecutive_failures"`
	LastSuccess         time.Time  `json:"last_success,omitzero"`
	Interval            *float64   `json:"interval_seconds,omitempty"`
	PromptTokens        int        `json:"prompt_tokens,omitempty"`
	OutputTokens        int        `json:"output_tokens,omitempty"`
	Recent              *apiRecent `json:"recent,omitempty"`
	Totals
	SLOs []apiSLO `json:"slos,omitempty"`
}

// apiSLO counts since the prober started.
type apiSLO struct {
	Name       string   `json:"slo"`
	Indicator  string   `json:"indicator"`
	Threshold  *float64 `json:"threshold_seconds,omitempty"`
	Objective  float64  `json:"objective_ratio"`
	Events     int      `json:"events_total"`
	Bad        int      `json:"bad_events_total"`
	BudgetLeft *float64 `json:"budget_left_ratio,omitempty"`
}

// apiRecent is the medians of the recent probes that measured; queue, prefill and outside are means.
type apiRecent struct {
	Probes   int      `json:"probes"`
	TTFT     float64  `json:"ttft_seconds"`
	ITL      *float64 `json:"itl_p50_seconds,omitempty"`
	ITLP95   *float64 `json:"itl_p95_seconds,omitempty"`
	Connect  *float64 `json:"connect_seconds,omitempty"`
	Duration *float64 `json:"duration_seconds,omitempty"`
	Queue    *float64 `json:"queue_mean_seconds,omitempty"`
	Prefill  *float64 `json:"prefill_mean_seconds,omitempty"`
	Outside  *float64 `json:"outside_mean_seconds,omitempty"`
}

type apiResults struct {
	Results []apiResult `json:"results"`
}

// apiResult is the result's own JSON form and what the page makes of it. Gaps and bounds are told of one probe alone,
// while it is young.
type apiResult struct {
	prober.ResultJSON
	Outside *float64 `json:"outside_seconds,omitempty"` // TTFT without server_queue_seconds and server_prefill_seconds
	ITLP50  *float64 `json:"itl_p50_seconds,omitempty"`
	ITLP95  *float64 `json:"itl_p95_seconds,omitempty"`
	ITLMax  *float64 `json:"itl_max_seconds,omitempty"`
	Events  int      `json:"token_events"`
}

func (s *site) apiTargets(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	answer := apiTargets{Version: s.Version, Time: utc(now), Targets: []apiTarget{}}
	for _, v := range s.targets(now) {
		answer.Targets = append(answer.Targets, newAPITarget(&v, now))
	}
	writeJSON(w, http.StatusOK, answer)
}

func (s *site) apiResults(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit := defaultLimit
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxLimit {
			writeError(w, http.StatusBadRequest, "limit must be a whole number from 1 to "+strconv.Itoa(maxLimit))
			return
		}
		limit = n
	}
	target, workload := query.Get("target"), query.Get("workload")
	known := target == ""
	var records []*record
	for _, t := range s.Targets() {
		if target != "" && t.Name != target {
			continue
		}
		known = true
		for _, w := range s.History.snapshots(t.Name, time.Now()) {
			if workload == "" || w.workload == workload {
				records = append(records, w.kept()...)
			}
		}
	}
	if !known {
		writeError(w, http.StatusNotFound, "no such target")
		return
	}
	slices.SortStableFunc(records, func(a, b *record) int { return b.Ended.Compare(a.Ended) })
	answer := apiResults{Results: []apiResult{}}
	for _, rec := range records[:min(limit, len(records))] {
		res := newAPIResult(rec)
		res.Gaps, res.Early = nil, nil
		answer.Results = append(answer.Results, res)
	}
	writeJSON(w, http.StatusOK, answer)
}

func newAPITarget(v *targetView, now time.Time) apiTarget {
	sentence, detail := headline(v, now)
	t := apiTarget{
		Name: v.name, URL: v.url, Model: v.model, Group: v.group, State: v.state, Since: utc(v.since),
		Message: strings.TrimSpace(sentence + " " + detail), InFlight: []apiFlight{}, Workloads: []apiWorkload{},
	}
	if !v.since.IsZero() {
		t.SinceSeconds = ptr(now.Sub(v.since).Seconds())
	}
	for _, l := range v.labels {
		if t.Labels == nil {
			t.Labels = map[string]string{}
		}
		t.Labels[l.Name] = l.Value
	}
	for _, s := range v.slow() {
		t.Slow = append(t.Slow, apiSlow{s.part, s.now.Seconds(), s.usual.Seconds(), utc(s.since)})
	}
	if v.serverKnown {
		server := v.server
		server.LastScrape, server.LastChange = utc(server.LastScrape), utc(server.LastChange)
		t.Server = &server
	}
	for _, f := range v.flights {
		t.InFlight = append(t.InFlight, apiFlight{
			scrub.Text(f.RequestID, maxID), f.Workload.Name, f.Warmup, utc(f.Started), f.age.Seconds(), f.silence.Seconds(), f.sent > 0, f.tokens,
		})
	}
	for i := range v.workloads {
		t.Workloads = append(t.Workloads, newAPIWorkload(&v.workloads[i]))
	}
	return t
}

func newAPIWorkload(w *workloadView) apiWorkload {
	a := apiWorkload{
		Name: w.workload, State: w.state, Since: utc(w.since), ConsecutiveFailures: w.consecutive, LastSuccess: utc(w.lastSuccess),
		Totals: w.totals,
	}
	if w.plan != nil {
		a.Interval, a.PromptTokens, a.OutputTokens = ptr(w.plan.Interval.Seconds()), w.plan.PromptTokens, w.plan.OutputTokens
	}
	for _, s := range w.slos {
		slo := apiSLO{Name: s.Name, Indicator: s.Indicator, Threshold: positive(s.Threshold), Objective: s.Objective, Events: s.Events, Bad: s.Bad}
		if left, known := s.budgetLeft(); known {
			slo.BudgetLeft = &left
		}
		a.SLOs = append(a.SLOs, slo)
	}
	if r := w.recent; r.probes > 0 {
		a.Recent = &apiRecent{
			Probes: r.probes, TTFT: r.ttft.Seconds(), ITL: positive(r.itl), ITLP95: positive(r.itlP95),
			Connect: positive(r.connect), Duration: positive(r.duration),
		}
		if r.split > 0 {
			a.Recent.Queue, a.Recent.Prefill, a.Recent.Outside = ptr(r.queue.Seconds()), ptr(r.prefill.Seconds()), ptr(r.outside.Seconds())
		}
	}
	return a
}

func newAPIResult(rec *record) apiResult {
	res := apiResult{
		ResultJSON: rec.JSON(), ITLP50: positive(rec.itlP50), ITLP95: positive(rec.itlP95), ITLMax: positive(rec.itlMax), Events: rec.events,
	}
	// Its bounds may be gone, and with them what the form would say.
	res.TTFT, res.TTFA, res.TPOT, res.Duration = positive(rec.ttft), positive(rec.ttfa), positive(rec.tpot), positive(rec.duration)
	if _, _, outside, ok := rec.split(); ok {
		res.Outside = ptr(outside.Seconds())
	}
	return res
}

func ptr[T any](v T) *T { return &v }

func duration(d time.Duration, known bool) *float64 {
	if !known {
		return nil
	}
	return ptr(d.Seconds())
}

func positive(d time.Duration) *float64 { return duration(d, d > 0) }

// utc is a time as the API writes it: to the microsecond, on the wall clock.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Round(time.Microsecond).UTC()
}

func writeError(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, map[string]string{"error": scrub.Text(text, maxError)})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, "writing JSON failed: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(append(data, '\n')) //nolint:errcheck // the reader has gone
}

// prefersJSON reports whether a client that sent this Accept header would rather have JSON than HTML: it
// weighs JSON higher or, at the same weight, names it and not HTML. What says nothing of either, as curl
// does, gets HTML.
func prefersJSON(accept string) bool {
	json, jsonNamed := quality(accept, "application/json")
	html, htmlNamed := quality(accept, "text/html")
	return json > html || json == html && jsonNamed > htmlNamed
}

// quality is the weight that an Accept header gives to a media type, and how specific the range is that says
// so, from 0 (none) to 3 (the type itself). The most specific range counts (RFC 9110, section 12.5.1).
func quality(accept, mediaType string) (q float64, specific int) {
	kind, _, _ := strings.Cut(mediaType, "/")
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(part, ";")
		as := slices.Index([]string{"", "*/*", kind + "/*", mediaType}, strings.ToLower(strings.TrimSpace(name)))
		if as > specific {
			q, specific = weight(params), as
		}
	}
	return q, specific
}

// weight is the q of a media range's parameters, 1 if there is none that can be read.
func weight(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		if key, value, ok := strings.Cut(strings.TrimSpace(param), "="); ok && strings.EqualFold(key, "q") {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				return v
			}
		}
	}
	return 1
}
