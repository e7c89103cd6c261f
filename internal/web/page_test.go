package web

import (
	"errors"
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/scrub"
	"github.com/llm-prober/llm_prober/prober"
)

// readable is the text of a page's content as a person reads it: no tags, one space between words.
func readable(page string) string {
	_, page, _ = strings.Cut(page, "<main>")
	page, _, _ = strings.Cut(page, "</main>")
	text := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " "))
	return strings.Join(strings.Fields(text), " ") // no-break spaces are spaces to Fields
}

// onFleet runs a test on the fleet in virtual time, three minutes past a full one.
func onFleet(t *testing.T, f func(t *testing.T, h http.Handler)) {
	synctest.Test(t, func(t *testing.T) {
		f(t, newFleet(time.Now()).handler()) // 2000-01-01 00:00:00 UTC
	})
}

func TestIndexShowsTroubleFirst(t *testing.T) {
	onFleet(t, func(t *testing.T, h http.Handler) {
		page := get(h, "/", "").Body.String()
		var names []string
		for _, m := range regexp.MustCompile(`<h2><a href="\?target=[^"]*">([^<]*)</a></h2>`).FindAllStringSubmatch(page, -1) {
			names = append(names, m[1])
		}
		want := []string{"a10-down", "a10-hung", "edge-network", "h100-decode", "h100-queue", "l4-starting", "a10-quiet", "mac-llamacpp", "new"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("order of the targets (-want +got):\n%s", diff)
		}
		if want := "<title>1 failing, 1 silent, 3 slow, 1 warming up, 2 ok, 1 unknown – llm_prober</title>"; !strings.Contains(page, want) {
			t.Errorf("the page has not %s", want)
		}
	})
}

func TestIndexTellsWhatIsWrongAndSinceWhen(t *testing.T) {
	for _, tc := range []struct {
		target string
		want   []string
	}{
		{"a10-down", []string{
			"✖ Failing a10-down since 1999-12-31 23:53:57 UTC (6 min 2 s)",
			"24 probes failed in a row: connect ×20, http_status ×4. The last success ended at 1999-12-31 23:53:4",
			"Why it fails (chat-512-128) connect : No TCP connection: nothing listens",
			"connect ×20 the last one ended at 1999-12-31 23:59:4",
			"dial tcp 10.0.3.18:8000: connect: connection refused",
			`http_status ×4 the last one ended at 1999-12-31 23:54:42 UTC with status 500`,
			`{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause. <script>alert(1)</script>"`,
			"its metrics page has not been read for 6 min: connection refused",
			"before they failed",
			"240 ended · 24 failed · 0 suspect · 0 warm-up · 0 missed · 20 connect · 4 http_status since the prober started",
		}},
		{"a10-hung", []string{
			"… Silent a10-hung since 1999-12-31 23:59:41 UTC (18 s)",
			"No token for 18 s: a probe waits since 1999-12-31 23:59:41 UTC. The server's own numbers have stood still for 19 s: the engine hangs.",
			"Waiting 0 Running 11 KV cache 31 % vllm 0.32.0 · /health says healthy these numbers have stood still for 19 s while requests run",
			"chat-512-128 , 18 s old: waits for its first token, silent for 18 s",
			"chat-512-128 , 3 s old: waits for its first token, silent for 3 s",
		}},
		{"h100-queue", []string{
			"▲ Slow h100-queue since 1999-12-31 23:42:00 UTC (18 min)",
			"Slow: queue takes 1.91 s, usually 39.5 µs.", "Requests wait to be scheduled", "Waiting 37 Running 106 KV cache 93 %", "1 missed",
		}},
		{"h100-decode", []string{"Slow: decode takes 41.0 ms, usually 19.0 ms.", "First token 91.2 ms usually 87.3 ms Between tokens 41.0 ms usually 19.0 ms", "Each token takes longer"}},
		{"edge-network", []string{"Slow: outside the engine takes 258 ms, usually 5.99 ms; connect takes 213 ms, usually 583 µs.", "First token = queue 39.4 µs + prefill 85.4 ms + outside the engine 258 ms (means)", "network, proxy, HTTP server or tokenizer"}},
		{"l4-starting", []string{"◐ Warming up l4-starting", "Warming up: successes do not measure yet.", "3 warm-up", "ok (warm-up)", "Nothing measured in the last hour."}},
		{"a10-quiet", []string{
			"✔ OK a10-quiet since 1999-12-31 22:59:59 UTC (1 h) First token in 92.1 ms, then one every 19.1 ms, as usual.",
			"qwen3.5-4b at http://a10-quiet.llm.example.com:8000 gpu=a10 site=ams", "0 s old: 40 token events, silent for 0 s",
		}},
		{"mac-llamacpp", []string{"✔ OK", "First token 697 ms usually 672 ms", "KV cache – llamacpp b6123", "ok short_output", "15 suspect"}},
		{"new", []string{"? Unknown new", "No probe has ended yet.", "Its own metrics are not read.", "None yet."}},
	} {
		t.Run(tc.target, func(t *testing.T) {
			onFleet(t, func(t *testing.T, h http.Handler) {
				text := readable(get(h, "/?target="+tc.target, "").Body.String())
				for _, want := range tc.want {
					if !strings.Contains(text, want) {
						t.Errorf("the page does not say %q:\n%.3000s", want, text)
					}
				}
			})
		})
	}
}

func TestSilenceIsJudgedByTheTargetsOwnLimit(t *testing.T) {
	for _, tc := range []struct {
		limit time.Duration
		wait  time.Duration
		want  State
	}{
		{0, DefaultSilenceLimit - time.Second, OK},
		{0, DefaultSilenceLimit, Silent},
		{30 * time.Second, 29 * time.Second, OK},
		{30 * time.Second, 30 * time.Second, Silent},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fleet{history: &History{}, servers: map[string]Server{}, random: rand.New(rand.NewPCG(1, 2))}
			f.add("quiet", "m", nil, nil)
			f.success("quiet", "m", time.Now().Add(-time.Minute), timing{itl: ms})
			s := newSite(f.options())
			quiet := f.targets[0]
			quiet.SilenceLimit = tc.limit
			flight := []flightView{{Probe: &prober.Probe{Workload: &shape512}, age: tc.wait, silence: tc.wait}}
			if got := s.look(quiet, flight, time.Now()).state; got != tc.want {
				t.Errorf("silent for %s with limit %s: %s, want %s", tc.wait, tc.limit, got, tc.want)
			}
		})
	}
}

func TestFilters(t *testing.T) {
	onFleet(t, func(t *testing.T, h http.Handler) {
		for _, tc := range []struct {
			query string
			cards int
			says  string
		}{
			{"", 9, "1 Failing"},
			{"?state=slow", 3, "show all targets"},
			{"?state=failing", 1, "Why it fails"},
			{"?target=a10-down", 1, "Why it fails"},
			{"?target=a10-down&state=ok", 0, "There is no target named a10-down."},
			{"?target=%3Cb%3E", 0, "There is no target named <b>."},
			{"?state=nonsense", 0, "No target is in this state."},
		} {
			page := get(h, "/"+tc.query, "").Body.String()
			if got := strings.Count(page, "<article"); got != tc.cards {
				t.Errorf("%q shows %d targets, want %d", tc.query, got, tc.cards)
			}
			if text := readable(page); !strings.Contains(text, tc.says) {
				t.Errorf("%q does not say %q", tc.query, tc.says)
			}
		}
	})
}

func TestWithoutTargets(t *testing.T) {
	page := get((&fleet{history: &History{}}).handler(), "/", "").Body.String()
	if text := readable(page); !strings.Contains(text, "There are no targets.") {
		t.Errorf("the page says %q", text)
	}
}

// A thousand targets must not make a page of megabytes every five seconds.
func TestManyTargetsAreShownInBrief(t *testing.T) {
	f := &fleet{history: &History{}, servers: map[string]Server{}}
	for i := range 1000 {
		f.add(fmt.Sprintf("t%04d", i), "m", nil, nil)
		r := ended("x", time.Now(), 80*time.Millisecond, "")
		if i == 777 {
			r = ended("x", time.Now(), 80*time.Millisecond, prober.ReasonTLS)
		}
		r.Target, r.Workload = fmt.Sprintf("t%04d", i), &shape512
		f.history.Ended(r)
	}
	page := get(f.handler(), "/", "").Body.String()
	if cards, lines := strings.Count(page, "<article"), strings.Count(page, "<tr><td>"); cards != maxCards || lines < 1000-maxCards {
		t.Errorf("%d cards and %d lines, want %d and at least %d", cards, lines, maxCards, 1000-maxCards)
	}
	if first := strings.Index(page, "t0777"); first > strings.Index(page, "t0000") {
		t.Error("the one that fails is not shown first")
	}
	if len(page) > 1<<20 {
		t.Errorf("the page has %d bytes, want at most 1 MiB", len(page))
	}
}

// Text that is put wherever text from outside can get. What the config says is valid UTF-8.
const (
	configAttack = `"'><script>alert(1)</script><img src=x onerror=alert(2)>{{.}}</style></title><!--`
	attack       = configAttack + "\x00\xff\u202e"
)

// hostile is a target all of whose text is an attack.
func hostile(now time.Time) *fleet {
	f := &fleet{history: &History{}, servers: map[string]Server{}}
	w := prober.Workload{Name: "w" + configAttack, API: prober.API(configAttack), PromptTokens: 8, OutputTokens: 4}
	target := "t" + configAttack
	f.targets = []Target{{
		Target: &prober.Target{Name: target, URL: &url.URL{Scheme: "http", Host: attack, Path: attack}, Plans: []prober.Plan{{Workload: w, Interval: time.Second}}},
		Labels: map[string]string{"l" + attack: attack},
	}}
	f.servers[target] = Server{Up: false, Error: attack, Engine: attack, Version: attack, Healthy: Unhealthy, LastScrape: now.Add(-time.Minute)}
	for _, reason := range []prober.Reason{"", prober.ReasonHTTPStatus} {
		r := ended("id"+string(reason)+attack, now.Add(-time.Second), time.Millisecond, reason)
		r.Target, r.Workload = target, &w
		r.Body, r.Model, r.FinishReason, r.RemoteAddr, r.Err = attack, attack, attack, attack, errors.New(attack)
		f.history.Ended(r)
	}
	f.history.Started(&prober.Probe{Target: target, Workload: &w, RequestID: "flight" + attack, Started: now.Add(-time.Minute)})
	return f
}

func TestNothingFromOutsideBecomesMarkup(t *testing.T) {
	f := hostile(time.Now())
	h := f.handler()
	q := url.QueryEscape
	paths := []string{"/", "/?target=" + q(f.targets[0].Name), "/?state=" + q(attack), "/?target=" + q(attack), "/probe?target=" + q(attack) + "&id=" + q(attack)}
	for _, w := range f.history.snapshots(f.targets[0].Name, time.Now()) {
		for _, rec := range w.results {
			paths = append(paths, "/probe?target="+q(f.targets[0].Name)+"&id="+q(rec.RequestID))
		}
	}
	paths = append(paths, "/probe?target="+q(f.targets[0].Name)+"&id="+q(scrub.Text("flight"+attack, maxID)))
	for _, path := range paths {
		w := get(h, path, "text/html")
		page := w.Body.String()
		for _, never := range []string{"<script>alert", "<img", "onerror=alert(2)>", "<!--", "\x00", "\xff", "\u202e"} {
			if strings.Contains(page, never) {
				t.Errorf("%.40s: the page has %q", path, never)
			}
		}
		for tag, want := range map[string]int{"<script": 1, "</script": 1, "<style": 1, "</style": 1, "</title": 1} {
			if w.Code == http.StatusNotFound && strings.HasPrefix(tag, "<script") {
				continue
			}
			if got := strings.Count(page, tag); got > want {
				t.Errorf("%.40s: the page has %d times %q, want %d", path, got, tag, want)
			}
		}
		if strings.Contains(path, "id=") && !strings.Contains(path, "target="+q(attack)) && w.Code != http.StatusOK {
			t.Errorf("%.80s: status %d: its own link does not find the probe", path, w.Code)
		}
		if !strings.Contains(page, "&lt;script&gt;alert(1)") && !strings.Contains(path, "state=") {
			t.Errorf("%.40s: the page does not show the text at all", path)
		}
	}
}

// The links that a page has must lead to the probe that they name, whatever its id looks like.
func TestLinksToProbesWork(t *testing.T) {
	for name, f := range map[string]*fleet{"fleet": newFleet(time.Now()), "hostile": hostile(time.Now())} {
		h := f.handler()
		page := get(h, "/", "").Body.String()
		links := regexp.MustCompile(`href="(probe\?[^"]*)"`).FindAllStringSubmatch(page, -1)
		if len(links) < 3 {
			t.Fatalf("%s: %d links, want some", name, len(links))
		}
		for _, m := range links {
			if w := get(h, "/"+html.UnescapeString(m[1]), ""); w.Code != http.StatusOK {
				t.Errorf("%s: %s: status %d", name, m[1], w.Code)
			}
		}
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	now := time.Now()
	f := newFleet(now)
	f.targets[0].URL = &url.URL{Scheme: "http", User: url.UserPassword("user", "SECRET1"), Host: "h:8000", Path: "/base", RawQuery: "key=SECRET2", Fragment: "SECRET3"}
	f.targets[0].HTTP = promconfig.HTTPClientConfig{
		BasicAuth: &promconfig.BasicAuth{Username: "u", Password: "SECRET4"}, BearerToken: "SECRET5",
		Authorization: &promconfig.Authorization{Credentials: "SECRET6"},
	}
	f.targets[0].Plans[0].ExtraBody = map[string]any{"api_key": "SECRET7"}
	h := f.handler()
	id := f.history.snapshots("a10-quiet", now)[0].results[0].RequestID
	for _, path := range []string{"/", "/?target=a10-quiet", "/probe?target=a10-quiet&id=" + id, "/api/v1/targets", "/api/v1/results?target=a10-quiet", "/config"} {
		for _, accept := range []string{"text/html", "application/json"} {
			w := get(h, path, accept)
			if w.Code != http.StatusOK {
				t.Errorf("%s: status %d", path, w.Code)
			}
			if i := strings.Index(w.Body.String(), "SECRET"); i >= 0 {
				t.Errorf("%s as %s shows %.10s", path, accept, w.Body.String()[i:])
			}
		}
	}
	if text := readable(get(h, "/?target=a10-quiet", "").Body.String()); !strings.Contains(text, "at http://h:8000/base ") {
		t.Errorf("the page does not show the rest of the URL:\n%.500s", text)
	}
}

func TestProbePage(t *testing.T) {
	start := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	w := &prober.Workload{Name: "w", PromptTokens: 8, OutputTokens: 3}
	base := func(change func(*prober.Result)) *prober.Result {
		r := &prober.Result{
			Probe:     &prober.Probe{Target: "t", Workload: w, RequestID: "p", Scheduled: at(-2 * ms), Started: start},
			DialStart: start, Connected: at(10 * ms), Sent: at(10 * ms), Headers: at(15 * ms), FirstToken: at(110 * ms), LastToken: at(170 * ms), Ended: at(200 * ms),
			Gaps: []time.Duration{20 * ms, 40 * ms}, FirstTokens: 1, OutputTokens: 3, TokenSource: prober.FromUsage, PromptTokens: 8, CachedTokens: -1, Status: 200,
		}
		change(r)
		return r
	}
	none := time.Time{}
	for _, tc := range []struct {
		name    string
		result  *prober.Result
		outcome string
		phases  []string // name, beginning, length, and the bar in thousandths
	}{
		{
			"parts told", base(func(r *prober.Result) { r.Server = &prober.ServerTimings{Queue: 30 * ms, Prefill: 50 * ms} }),
			"succeeded in 200 ms: first token after 100 ms, then one every 20.0 ms (median)",
			[]string{"connect 0 s 10.0 ms 0+50", "queue 10.0 ms 30.0 ms 50+150", "prefill 40.0 ms 50.0 ms 200+250", "outside the engine 90.0 ms 20.0 ms 450+100", "3 token events 110 ms 60.0 ms 550+300", "usage and end 170 ms 30.0 ms 850+150"},
		},
		{
			"parts that are longer than the whole", base(func(r *prober.Result) { r.Server = &prober.ServerTimings{Queue: 80 * ms, Prefill: 50 * ms} }),
			"succeeded in 200 ms: first token after 100 ms, then one every 20.0 ms (median)",
			[]string{"connect 0 s 10.0 ms 0+50", "queue 10.0 ms 80.0 ms 50+400", "prefill 90.0 ms 20.0 ms 450+100", "outside the engine 110 ms 0 s 550+2", "3 token events 110 ms 60.0 ms 550+300", "usage and end 170 ms 30.0 ms 850+150"},
		},
		{
			"parts not told", base(func(*prober.Result) {}),
			"succeeded in 200 ms: first token after 100 ms, then one every 20.0 ms (median)",
			[]string{"connect 0 s 10.0 ms 0+50", "first token 10.0 ms 100 ms 50+500", "3 token events 110 ms 60.0 ms 550+300", "usage and end 170 ms 30.0 ms 850+150"},
		},
		{
			"no connection", base(func(r *prober.Result) {
				r.Reason, r.Connected, r.Sent, r.Headers, r.FirstToken, r.LastToken, r.Gaps = prober.ReasonConnect, none, none, none, none, none, nil
			}),
			"failed: connect in 200 ms",
			[]string{"connect, in vain 0 s 200 ms 0+1000"},
		},
		{
			"no answer", base(func(r *prober.Result) {
				r.Reason, r.Headers, r.FirstToken, r.LastToken, r.Gaps = prober.ReasonTimeout, none, none, none, nil
			}),
			"failed: timeout in 200 ms",
			[]string{"connect 0 s 10.0 ms 0+50", "no answer 10.0 ms 190 ms 50+950"},
		},
		{
			"headers, no token", base(func(r *prober.Result) {
				r.Reason, r.FirstToken, r.LastToken, r.Gaps = prober.ReasonTimeout, none, none, nil
			}),
			"failed: timeout in 200 ms",
			[]string{"connect 0 s 10.0 ms 0+50", "until the headers 10.0 ms 5.00 ms 50+25", "no token 15.0 ms 185 ms 75+925"},
		},
		{
			"stalled", base(func(r *prober.Result) { r.Reason = prober.ReasonStalled }),
			"failed: stalled in 200 ms",
			[]string{"connect 0 s 10.0 ms 0+50", "first token 10.0 ms 100 ms 50+500", "3 token events 110 ms 60.0 ms 550+300", "silence 170 ms 30.0 ms 850+150"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var page probePage
			page.tell(newRecord(tc.result))
			if got := page.Outcome; got != tc.outcome {
				t.Errorf("outcome = %q, want %q", got, tc.outcome)
			}
			var got []string
			for _, p := range page.Phases {
				got = append(got, fmt.Sprintf("%s %s %s %.0f+%.0f", p.Name, p.At, p.Took, p.X, p.W))
			}
			if diff := cmp.Diff(tc.phases, got); diff != "" {
				t.Errorf("time line (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProbePageTellsEverySuspicionAndFact(t *testing.T) {
	f := &fleet{history: &History{}, servers: map[string]Server{}}
	f.add("t", "m", nil, nil)
	r := ended("p", time.Now(), 80*ms, "")
	r.Suspect = 1<<len(prober.SuspectNames()) - 1
	r.CachedTokens, r.RemoteAddr, r.KernelStamps, r.ReadDelay, r.Model = 4, "10.0.0.1:8000", true, 120*time.Microsecond, "mm"
	f.history.Ended(r)
	text := readable(get(f.handler(), "/probe?target=t&id=p", "").Body.String())
	want := []string{
		"request id p target t workload w", "server address 10.0.0.1:8000", "model mm", "prompt tokens 8 of 8 asked for",
		"cached prompt tokens 4", "output tokens 3 of 3 asked for, counted by chunks", "read delay at most 120 µs",
		"median 10.0 ms", "95th percentile 30.0 ms", "longest 30.0 ms (gap 2 of 2)",
	}
	for _, name := range prober.SuspectNames() {
		want = append(want, name+" "+suspectMeaning(name))
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the page does not say %q:\n%s", w, text)
		}
	}
}

func TestProbePageOfAFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{history: &History{}, servers: map[string]Server{}}
		f.add("t", "m", nil, nil)
		p := &prober.Probe{Target: "t", Workload: &shape512, RequestID: "p", Started: time.Now()}
		phases := func() []string {
			s := newSite(f.options())
			_, flight, _ := s.findProbe("t", "p", time.Now())
			var page probePage
			page.tellFlight(flight, false)
			var names []string
			for _, ph := range page.Phases {
				names = append(names, ph.Name+" "+ph.Took)
			}
			return names
		}
		f.history.Started(p)
		time.Sleep(time.Second)
		steps := [][]string{phases()}
		f.history.Sent(p, time.Now())
		time.Sleep(2 * time.Second)
		steps = append(steps, phases())
		f.history.Token(p, time.Now(), 0)
		time.Sleep(3 * time.Second)
		f.history.Token(p, time.Now(), 0)
		time.Sleep(12 * time.Second)
		steps = append(steps, phases())
		want := [][]string{
			{"connecting 1.00 s"},
			{"connect 1.00 s", "waiting for the first token 2.00 s"},
			{"connect 1.00 s", "first token 2.00 s", "tokens 3.00 s", "silence 12.0 s"},
		}
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Errorf("time lines (-want +got):\n%s", diff)
		}
		w := get(f.handler(), "/probe?target=t&id=p", "")
		if text := readable(w.Body.String()); !strings.HasPrefix(text, "… Silent Probe p in flight for 18 s") {
			t.Errorf("the page says %.200q", text)
		}
	})
}

func TestGapChart(t *testing.T) {
	gaps := make([]time.Duration, 1000)
	for i := range gaps {
		gaps[i] = 20 * ms
	}
	gaps[700] = 90 * ms
	r := ended("p", time.Now(), 80*ms, "")
	r.Gaps = gaps
	c := newGapChart(newRecord(r))
	want := []chart.Key{
		{Class: "longest", Name: "longest", Value: "90.0 ms", Note: "(gap 701 of 1000)"},
		{Class: "usual", Name: "median", Value: "20.0 ms"},
		{Class: "p95", Name: "95th percentile", Value: "20.0 ms"},
	}
	if diff := cmp.Diff(want, c.Keys); diff != "" || c.Axis[1] != "a column is the longest of 4 gaps" {
		t.Errorf("%s; keys (-want +got):\n%s", c.Axis[1], diff)
	}
	r.Gaps = slices.Repeat(gaps, 3)
	if c := newGapChart(newRecord(r)); c.Keys[0].Note != "(gap 701 of 2048)" || !strings.HasSuffix(c.Axis[1], "; the later gaps are not kept") {
		t.Errorf("of 3000 gaps %s, %s", c.Keys[0].Note, c.Axis[1])
	}
}
