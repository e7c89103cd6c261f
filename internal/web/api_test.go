package web

import (
	"encoding/json"
	"flag"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/goldenfile"
	"github.com/llm-prober/llm_prober/prober"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	goldenfile.Check(t, path, got, *update)
}

// small is a target with one success, one failure and one probe in flight.
func small(now time.Time) *fleet {
	f := &fleet{history: &History{}, servers: map[string]Server{}}
	f.add("t", "qwen", &Server{
		Up: true, Engine: "vllm", Version: "0.32.0", Running: ptr(3.0), Waiting: ptr(1.0), KVCache: ptr(0.25), Healthy: Healthy,
		LastScrape: now.Add(-time.Second), LastChange: now.Add(-2 * time.Second),
	}, map[string]string{"site": "ams"})
	f.targets[0].URL = &url.URL{Scheme: "https", User: url.UserPassword("u", "secret"), Host: "llm.example.com"}
	start := now.Add(-20 * time.Second)
	ok := ended("ok-1", start, 80*ms, "")
	ok.Connected, ok.Sent = start.Add(5*ms), start.Add(5*ms)
	ok.Server = &prober.ServerTimings{Queue: 10 * ms, Prefill: 20 * ms}
	ok.Suspect = prober.SuspectPromptLength | prober.SuspectNoDone
	ok.CachedTokens, ok.TokenSource, ok.FinishReason, ok.Model, ok.RemoteAddr = 0, prober.FromUsage, "length", "qwen", "10.0.0.1:443"
	ok.KernelStamps, ok.ReadDelay, ok.Status = true, 50*time.Microsecond, 200
	failed := ended("failed-1", now.Add(-10*time.Second), 40*ms, prober.ReasonHTTPStatus)
	failed.Status, failed.Body, failed.PromptTokens, failed.CachedTokens = 500, `{"error":"<b>"}`, -1, -1
	for _, r := range []*prober.Result{ok, failed} {
		r.Workload = &shape512
		f.history.Ended(r)
	}
	p := &prober.Probe{Target: "t", Workload: &shape512, RequestID: "flying-1", Started: now.Add(-3 * time.Second)}
	f.history.Started(p)
	f.history.Sent(p, now.Add(-2900*ms))
	f.history.Token(p, now.Add(-time.Second), 0)
	return f
}

func TestAPI(t *testing.T) {
	for _, tc := range []struct{ path, accept, golden string }{
		{"/api/v1/targets", "", "targets.json"},
		{"/", "application/json", "targets.json"},
		{"/api/v1/results", "", "results.json"},
		{"/api/v1/results?target=t&workload=chat-512-128", "", "results.json"},
		{"/probe?target=t&id=ok-1", "application/json", "probe.json"},
	} {
		t.Run(tc.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := get(small(time.Now()).handler(), tc.path, tc.accept)
				if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
					t.Errorf("status %d, content type %q", w.Code, w.Header().Get("Content-Type"))
				}
				golden(t, tc.golden, w.Body.String())
			})
		})
	}
}

func TestAPIErrors(t *testing.T) {
	h := small(time.Now()).handler()
	for _, tc := range []struct {
		path   string
		status int
		want   string
	}{
		{"/api/v1/results?target=x", 404, "no such target"},
		{"/api/v1/results?limit=0", 400, "limit must be a whole number from 1 to 1000"},
		{"/api/v1/results?limit=1001", 400, "limit must be a whole number from 1 to 1000"},
		{"/api/v1/results?limit=ten", 400, "limit must be a whole number from 1 to 1000"},
		{"/probe?target=t&id=x", 404, "no ended probe is kept under this target and id"},
		{"/probe?target=x&id=ok-1", 404, "no ended probe is kept under this target and id"},
	} {
		w := get(h, tc.path, "application/json")
		var got struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if w.Code != tc.status || got.Error != tc.want {
			t.Errorf("%s: %d %q, want %d %q", tc.path, w.Code, got.Error, tc.status, tc.want)
		}
	}
}

func TestAPIResultsAreTheNewestOfTheAsked(t *testing.T) {
	h := small(time.Now()).handler()
	for _, tc := range []struct {
		query string
		want  []string
	}{
		{"", []string{"failed-1", "ok-1"}},
		{"?limit=1", []string{"failed-1"}},
		{"?workload=other", nil},
	} {
		var got struct {
			Results []struct {
				ID string `json:"request_id"`
			}
		}
		if err := json.Unmarshal(get(h, "/api/v1/results"+tc.query, "").Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, r := range got.Results {
			ids = append(ids, r.ID)
		}
		if diff := cmp.Diff(tc.want, ids); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.query, diff)
		}
	}
}

// JSON for a fleet in every state is valid, and a number that is not known is absent, not NaN or 0.
func TestAPIOfTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got struct {
			Targets []struct {
				Target, State string
				Slow          []struct{ Part string }
				Server        *struct {
					Up      bool
					Waiting *float64 `json:"requests_waiting"`
				}
			}
		}
		if err := json.Unmarshal(get(newFleet(time.Now()).handler(), "/api/v1/targets", "").Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		states := map[string]string{}
		for _, target := range got.Targets {
			states[target.Target] = target.State
			for _, s := range target.Slow {
				states[target.Target] += " " + s.Part
			}
			switch {
			case target.Target == "new" && target.Server != nil:
				t.Error("a server is told of a target without a relay")
			case target.Target == "a10-down" && (target.Server.Up || target.Server.Waiting != nil):
				t.Errorf("server of a10-down = %+v", target.Server)
			case target.Target == "h100-queue" && *target.Server.Waiting != 37:
				t.Errorf("waiting at h100-queue = %v, want 37", *target.Server.Waiting)
			}
		}
		want := map[string]string{
			"a10-down": "failing", "a10-hung": "silent", "edge-network": "ok outside connect", "h100-decode": "ok decode", "h100-queue": "ok queue",
			"l4-starting": "warming_up", "a10-quiet": "ok", "mac-llamacpp": "ok", "new": "unknown",
		}
		if diff := cmp.Diff(want, states); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
	})
}
