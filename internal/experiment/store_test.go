package experiment

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llm-prober/llm_prober/prober"
)

// storedRun has a value in every field that is stored.
func storedRun() *Run {
	at := func(s float64) time.Time {
		return time.Date(2026, 11, 29, 12, 0, 0, 123456000, time.UTC).Add(time.Duration(s * float64(time.Second))).Round(time.Microsecond)
	}
	return &Run{
		Plan: Plan{
			Name: "stored", Warmup: 2, Timeout: 5 * time.Minute, StallTimeout: 90 * time.Second, Settle: 1500 * time.Millisecond, Seed: math.MaxUint64,
			SLOs: []Objective{{Indicator: TTFT, Quantile: 0.95, Threshold: time.Second}},
			Levels: []Level{
				{Concurrency: 4, PromptTokens: 512, OutputTokens: 128, Duration: 2 * time.Minute},
				{Rate: 2.5, Arrival: prober.Poisson, MaxInFlight: 9, PromptTokens: 64, OutputTokens: 4, Requests: 240},
			},
		},
		Facts: Facts{
			Tool: "probetool 1.2.3", Host: "h: linux/amd64, 2 processors", Began: at(0), Ended: at(100), Virtual: "a model",
			URL: "http://h:8000", Engine: "vllm", Version: "0.32.0", Model: "m", MaxContext: 4096,
			Server: map[string]string{"block_size": "16"}, Before: &Load{Seconds: 3, Running: 1.5, Waiting: 0.5, OutputTokensPerSecond: 10, PromptTokensPerSecond: 20},
		},
		Levels: []LevelRun{
			{Start: at(1), End: at(40), Empty: at(41), Client: Client{CPUSeconds: 1.5, MaxRSSBytes: 1 << 20, StartDelayP99: 0.001, ReadDelayMax: 0.002, LateTTFTRatio: 0.01, LateGapsRatio: 0.02, KernelStamps: true, GoMaxProcs: 2, LoadAverage: 0.5}},
			{Start: at(50), End: at(90), Missed: 3, Cut: "interrupted"},
		},
		Requests: []Request{
			{Result: prober.Result{
				Probe:  &prober.Probe{Target: "t", Workload: &prober.Workload{Name: "w"}, RequestID: "probe-W", Warmup: true, Scheduled: at(0.5), Started: at(0.5)},
				Status: 200, Sent: at(0.5), FirstToken: at(0.6), LastToken: at(0.8), Ended: at(0.9), Gaps: []time.Duration{200 * time.Millisecond}, PromptTokens: 512, CachedTokens: -1, FirstTokens: 1, OutputTokens: 128,
			}},
			{Result: prober.Result{
				Probe:  &prober.Probe{Target: "t", Workload: &prober.Workload{Name: "w"}, RequestID: "probe-A", Scheduled: at(1), Started: at(1.001)},
				Status: 200, Suspect: prober.SuspectCachedPrompt, RemoteAddr: "10.0.0.1:8000", Model: "m", CertExpiry: at(1e6), CertNotBefore: at(1e5),
				DialStart: at(1.001), Connected: at(1.002), Sent: at(1.003), Headers: at(1.1), FirstToken: at(1.2), FirstAnswer: at(1.25), AnswerToken: 1, LastToken: at(1.3), Ended: at(1.4),
				Gaps: []time.Duration{50 * time.Millisecond, 50001 * time.Microsecond}, Early: []time.Duration{2 * time.Millisecond, 0, 50 * time.Millisecond}, SentLate: 40 * time.Microsecond,
				KernelStamps: true, ReadDelay: time.Millisecond, FirstTokens: 1, OutputTokens: 3, PromptTokens: 512, CachedTokens: 16, TokenSource: prober.FromUsage, FinishReason: "length",
				Server: &prober.ServerTimings{Queue: 250 * time.Millisecond, Prefill: 12345 * time.Microsecond},
			}},
			{Level: 1, Result: prober.Result{
				Probe:  &prober.Probe{Target: "t", Workload: &prober.Workload{Name: "w"}, RequestID: "probe-B", Scheduled: at(50), Started: at(50)},
				Reason: prober.ReasonConnect, Body: "no", Err: errors.New("dial: refused"), Ended: at(50.1), PromptTokens: -1, CachedTokens: -1,
			}},
			{Level: 1, Result: prober.Result{
				Probe:     &prober.Probe{Target: "t", Workload: &prober.Workload{Name: "w"}, RequestID: "probe-C", Scheduled: at(51), Started: at(51)},
				Abandoned: true, Ended: at(52), PromptTokens: -1, CachedTokens: -1,
			}},
		},
		Queue: []QueueSample{
			{At: at(2), Level: 0, Running: 4, Waiting: 0, KVUsage: 0.125, PromptTokens: 5120, GenerationTokens: 123456789, Preemptions: 0},
			{At: at(51), Level: 1, Running: 2, Waiting: math.NaN(), KVUsage: math.NaN(), PromptTokens: math.NaN(), GenerationTokens: 1e15, Preemptions: 3},
		},
	}
}

// sameWords compares errors by their words.
func sameWords() cmp.Option {
	return cmp.Comparer(func(a, b error) bool { return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error()) })
}

// keepAll tells a watcher of a run as it would have been told while it went on.
func keepAll(w Watcher, run *Run) {
	seen := *run
	seen.Levels, seen.Plan.Levels = nil, nil
	w.Began(&seen)
	requests, samples := run.Requests, run.Queue
	for i := range run.Levels {
		seen.Levels, seen.Plan.Levels = run.Levels[:i+1], run.Plan.Levels[:i+1]
		w.LevelBegan(i, &seen)
		w.Entered(i, Loading, run.Levels[i].Start)
		for ; len(requests) > 0 && requests[0].Level <= i; requests = requests[1:] {
			w.Ended(&requests[0])
		}
		for ; len(samples) > 0 && samples[0].Level <= i; samples = samples[1:] {
			w.Sampled(samples[0])
		}
		w.LevelEnded(i, &seen)
	}
	w.Finished(run)
}

func mustStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := NewStore(dir, []byte("name: stored\n"), func(err error) { t.Errorf("storing failed: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What is stored is read back, whole.
func TestStoreRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "run")
	s := mustStore(t, dir)
	want := storedRun()
	keepAll(s, want)
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, sameWords(), cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-stored +read):\n%s", diff)
	}
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{PlanFile, QueueFile, RequestsFile, RunFile}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{
		PlanFile: "name: stored\n",
		QueueFile: "time,elapsed_seconds,level,running,waiting,kv_cache_usage_ratio,prompt_tokens_total,generation_tokens_total,preemptions_total\n" +
			"2026-11-29T12:00:02.123456Z,1.000,0,4,0,0.125,5120,123456789,0\n" +
			"2026-11-29T12:00:51.123456Z,1.000,1,2,,,,1000000000000000,3\n",
	} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A run is on disk while it goes on: each request as it ends.
func TestStoreAsItGoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	s := mustStore(t, dir)
	run := storedRun()
	began := Run{Plan: run.Plan, Facts: run.Facts}
	began.Plan.Levels = nil
	s.Began(&began)
	began.Plan.Levels, began.Levels = run.Plan.Levels[:1], []LevelRun{{}}
	s.LevelBegan(0, &began)
	s.Entered(0, Loading, run.Levels[0].Start)
	s.Ended(&run.Requests[1])
	s.Sampled(run.Queue[0])
	// Here the process is killed.
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := began
	want.Requests, want.Queue = run.Requests[1:2], run.Queue[:1]
	want.Levels = []LevelRun{{Start: run.Requests[1].Scheduled, End: run.Requests[1].Ended, Cut: "interrupted"}}
	if diff := cmp.Diff(&want, got, sameWords()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A line that was torn or broken is left out and told.
func TestReadTornLines(t *testing.T) {
	for _, c := range []struct {
		file, cut string
		requests  int
		samples   int
		err, left string
	}{
		{RequestsFile, "", 4, 2, "", ""},
		{RequestsFile, "torn", 3, 2, "", "requests.jsonl, line 4: cut off in the middle"},
		{RequestsFile, "missing", 0, 2, "", ""},
		{RequestsFile, "broken", 3, 2, "", "requests.jsonl, line 2: invalid character 'x' looking for beginning of value"},
		{QueueFile, "torn", 4, 1, "", "queue.csv, line 3: cut off in the middle"},
		{QueueFile, "missing", 4, 0, "", ""},
		{QueueFile, "empty", 4, 0, "", ""},
		{QueueFile, "broken", 4, 1, "", "queue.csv, line 2: not 9 fields"},
		{RunFile, "missing", 0, 0, "run.json: no such file or directory", ""},
		{RunFile, "torn", 0, 0, "run.json: unexpected end of JSON input", ""},
	} {
		t.Run(c.file+" "+c.cut, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			keepAll(mustStore(t, dir), storedRun())
			path := filepath.Join(dir, c.file)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := bytes.SplitAfter(data, []byte("\n"))
			switch c.cut {
			case "torn":
				data = data[:len(data)-20]
			case "empty":
				data = nil
			case "broken":
				lines[1] = []byte("x\n")
				data = slices.Concat(lines...)
			case "missing":
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			if c.cut != "missing" {
				if err := os.WriteFile(path, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			run, err := Read(dir)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q in it", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			left := ""
			if !run.Left.None() {
				left = run.Left.Lines[0].String()
			}
			if left != c.left {
				t.Errorf("left out %q, want %q", left, c.left)
			}
			if len(run.Requests) != c.requests || len(run.Queue) != c.samples {
				t.Errorf("%d requests and %d samples, want %d and %d", len(run.Requests), len(run.Queue), c.requests, c.samples)
			}
		})
	}
}

// Results are never overwritten.
func TestStoreExists(t *testing.T) {
	out := t.TempDir()
	dir := filepath.Join(out, "run")
	keepAll(mustStore(t, dir), storedRun())
	_, err := NewStore(dir, nil, nil)
	if !errors.Is(err, ErrExists) || err.Error() != "results directory "+dir+": it exists already and is not empty; results are never overwritten" {
		t.Errorf("error %v", err)
	}
	empty := filepath.Join(out, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	mustStore(t, empty)
	file := filepath.Join(out, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := NewStore(file, nil, nil); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file in the place: %v", err)
	}
	when := time.Date(2026, 11, 29, 23, 50, 1, 0, time.UTC)
	for _, want := range []string{"sweep-20261129-235001", "sweep-20261129-235001-2", "sweep-20261129-235001-3"} {
		got, err := MakeFreeDir(out, "sweep", when)
		if err != nil || got != filepath.Join(out, want) {
			t.Errorf("free directory %s (%v), want %s", got, err, want)
		}
		mustStore(t, got)
	}
}

// disk is a disk with room for so many bytes.
type disk struct{ room int }

func (d *disk) create(dir *os.Root, name string) (file, error) {
	f, err := createFile(dir, name)
	return &diskFile{f, d, filepath.Join(dir.Name(), name)}, err
}

type diskFile struct {
	file
	disk *disk
	path string
}

func (f *diskFile) Write(p []byte) (int, error) {
	n := min(len(p), f.disk.room)
	f.disk.room -= n
	if _, err := f.file.Write(p[:n]); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, &os.PathError{Op: "write", Path: f.path, Err: syscall.ENOSPC}
	}
	return n, nil
}

// When the disk is full that is told at once and once, and what is on it can be read: whole lines, and the last
// run.json that fitted.
func TestDiskFull(t *testing.T) {
	whole := storedRun()
	line, err := json.Marshal(&whole.Requests[0])
	if err != nil {
		t.Fatal(err)
	}
	for room := 200; room < 8000; room += 37 {
		dir := filepath.Join(t.TempDir(), "run")
		d := &disk{room}
		var told []error
		if err := MakeDir(dir); err != nil {
			t.Fatal(err)
		}
		s, err := newStore(dir, []byte("name: stored\n"), func(err error) { told = append(told, err) }, d.create)
		if err != nil {
			t.Fatal(err)
		}
		keepAll(s, whole)
		if len(told) > 1 || len(told) == 1 && (!errors.Is(told[0], syscall.ENOSPC) || !strings.Contains(told[0].Error(), dir)) {
			t.Fatalf("room for %d bytes: told %v", room, told)
		}
		run, err := Read(dir)
		if err != nil {
			if room < 2500 && errors.Is(err, os.ErrNotExist) {
				continue // not even the first run.json fitted
			}
			t.Fatalf("room for %d bytes: %v", room, err)
		}
		if complete := len(run.Requests) == 4 && len(run.Queue) == 2; complete != (len(told) == 0) && d.room > len(line) {
			t.Errorf("room for %d bytes: %d requests, told %v", room, len(run.Requests), told)
		}
		if diff := cmp.Diff(whole.Requests[:len(run.Requests)], run.Requests, sameWords(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("room for %d bytes (-stored +read):\n%s", room, diff)
		}
		for _, e := range mustDir(t, dir) {
			if strings.HasSuffix(e, ".part") {
				t.Errorf("room for %d bytes: %s is left", room, e)
			}
		}
	}
}

func mustDir(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
