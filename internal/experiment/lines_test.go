package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A line that no run has written is left out and told, with its number and what is wrong with it; all others count.
func TestReadLeavesOut(t *testing.T) {
	good, err := json.Marshal(&storedRun().Requests[1])
	if err != nil {
		t.Fatal(err)
	}
	with := func(old, new string) string {
		t.Helper()
		if !strings.Contains(string(good), old) {
			t.Fatalf("%s is not in %s", old, good)
		}
		return strings.Replace(string(good), old, new, 1)
	}
	const queued = "2026-11-29T12:00:02Z,1.000,"
	for _, c := range []struct{ name, file, line, why string }{
		{"half a line", RequestsFile, string(good[:len(good)/2]), "unexpected end of JSON input"},
		{"no JSON", RequestsFile, "HTTP/1.1 200 OK", "invalid character 'H'"},
		{"a list", RequestsFile, "[]", "cannot unmarshal array"},
		{"two in a line", RequestsFile, string(good) + string(good), "invalid character '{' after top-level value"},
		{"no level", RequestsFile, "{}", "it names no level"},
		{"another type", RequestsFile, with(`"output_tokens":3`, `"output_tokens":"3"`), "cannot unmarshal string"},
		{"half a token", RequestsFile, with(`"output_tokens":3`, `"output_tokens":2.5`), "cannot unmarshal number 2.5"},
		{"not a number", RequestsFile, with("0.050001", "NaN"), "invalid character 'N'"},
		{"no gap", RequestsFile, with("[0.05,0.050001]", "[null,-1]"), "a gap is -1, not from 0 to"},
		{"too large for any number", RequestsFile, with("0.050001", "1e400"), "cannot unmarshal number 1e400"},
		{"a huge gap", RequestsFile, with("0.050001", "1e300"), "a gap is 1e+300, not from 0 to"},
		{"a gap longer than the request", RequestsFile, with("0.050001", "4"), "a gap is 4, not from 0 to"},
		{"negative tokens", RequestsFile, with(`"output_tokens":3`, `"output_tokens":-3`), "output_tokens is -3, not from 0 to"},
		{"a huge prompt", RequestsFile, with(`"prompt_tokens":512`, `"prompt_tokens":9223372036854775807`), "prompt_tokens is 9.22"},
		{"an unknown level", RequestsFile, with(`"level":0`, `"level":7`), "a request of level 7, but only 2 were begun"},
		{"a negative level", RequestsFile, with(`"level":0`, `"level":-1`), "a request of level -1, but only 2 were begun"},
		{"two levels", RequestsFile, with(`"level":0`, `"level":0,"level":1`), "it names two levels"},
		{"time runs backwards", RequestsFile, with(`"sent":"2026-11-29T12:00:01`, `"sent":"2026-11-29T11:00:01`), "sent is 59m59.999s before connected"},
		{"an end before the start", RequestsFile, with(`"ended":"2026`, `"ended":"2025`), "ended is 8759h59m59.9s before last_token"},
		{"no time", RequestsFile, with(`"started":"2026-11-29T12:00:01.124456Z"`, `"started":"soon"`), "parsing time"},
		{"a time no clock shows", RequestsFile, with(`"scheduled":"2026`, `"scheduled":"9999`), "scheduled is in the year 9999"},
		{"an early token that is not there", RequestsFile, with(`"2":0.05`, `"3":0.05`), "a token of early_seconds is 3, not from 0 to 2"},
		{"a token that came before its request", RequestsFile, with(`"2":0.05`, `"2":5000`), "a time of early_seconds is 5000, not from 0 to"},
		{"a request that left after its end", RequestsFile, with(`"sent_late_seconds":0.00004`, `"sent_late_seconds":70`), "sent_late_seconds is 70, not from 0 to"},
		{"a success without a token", RequestsFile, with(`"first_token":"2026-11-29T12:00:01.323456Z",`, ""), "it succeeded without a time of sent, first_token or last_token"},
		{"100 MB", RequestsFile, `{"level":0,"error":"` + strings.Repeat("x", 100<<20) + `"}`, "longer than 16 MB"},
		{"too few columns", QueueFile, queued + "0,1", "not 9 fields"},
		{"too many columns", QueueFile, queued + "0,1,1,1,1,1,1,1", "not 9 fields"},
		{"a negative queue", QueueFile, queued + "0,-1,1,,,,", "running is -1, not from 0 to"},
		{"no queue", QueueFile, queued + "0,NaN,1,,,,", "running is not a number"},
		{"an endless queue", QueueFile, queued + "0,Inf,1,,,,", "running is +Inf, not from 0 to"},
		{"a sample of an unknown level", QueueFile, queued + "2,1,1,,,,", "level is 2, not from 0 to 1"},
		{"a sample of no time", QueueFile, "now,1.000,0,1,1,,,,", "parsing time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			whole := storedRun()
			keepAll(mustStore(t, dir), whole)
			path := filepath.Join(dir, c.file)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := bytes.SplitAfter(data, []byte("\n"))
			if err := os.WriteFile(path, bytes.Join(slices.Insert(lines, 1, []byte(c.line+"\n")), nil), 0o600); err != nil {
				t.Fatal(err)
			}
			run, err := Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if run.Left.None() || run.Left.Count != 1 || len(run.Left.Lines) != 1 {
				t.Fatalf("left out: %+v", run.Left)
			}
			if told, want := run.Left.Lines[0].String(), c.file+", line 2: "; !strings.HasPrefix(told, want) || !strings.Contains(told, c.why) || len(told) > 300 {
				t.Errorf("told %q, want %s…%s", told, want, c.why)
			}
			if len(run.Requests) != len(whole.Requests) || len(run.Queue) != len(whole.Queue) {
				t.Errorf("%d requests and %d samples are left, want %d and %d", len(run.Requests), len(run.Queue), len(whole.Requests), len(whole.Queue))
			}
		})
	}
}

// However many lines are wrong, a few are told and all are counted, once, however often a level is read.
func TestLeftOutIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	keepAll(mustStore(t, dir), storedRun())
	file, err := os.OpenFile(filepath.Join(dir, RequestsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 1000 {
		fmt.Fprintf(file, "{\"level\":%d,\"started\":\"\u202e\"}\n", n%3)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	run, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	for range 2 {
		for level := range run.Levels {
			for range run.Each(level) {
			}
		}
	}
	if run.Left.Count != 1000 || len(run.Left.Lines) != maxLeftLines {
		t.Errorf("left out: %+v", run.Left)
	}
	if want := "1000 lines of the results cannot be used and are left out (requests.jsonl, line 7: a request of level 2"; !strings.HasPrefix(run.Left.String(), want) {
		t.Errorf("told %q, want %q…", run.Left, want)
	}
}

// Levels whose requests stand between one another are told apart, and their order in the file is kept.
func TestReadLevelsBetweenOneAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	want := storedRun()
	r := want.Requests
	r[0], r[1], r[2], r[3] = r[2], r[0], r[3], r[1]
	s := mustStore(t, dir)
	s.Began(&Run{})
	for i := range r {
		s.Ended(&r[i])
	}
	for _, q := range want.Queue {
		s.Sampled(q)
	}
	s.Finished(want)
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got.Requests, sameWords()); diff != "" {
		t.Errorf("(-stored +read):\n%s", diff)
	}
	run, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	for level, want := range [][]*Request{{&r[1], &r[3]}, {&r[0], &r[2]}} {
		if diff := cmp.Diff(want, slices.Collect(run.Each(level)), sameWords()); diff != "" {
			t.Errorf("level %d (-stored +read):\n%s", level, diff)
		}
	}
}

// A run.json whose numbers no run can have is refused.
func TestReadRefusesHead(t *testing.T) {
	for _, c := range []struct{ old, new, why string }{
		{`"concurrency": 4`, `"concurrency": -4`, "level 0 of the plan: concurrency is -4, not from 0"},
		{`"rate": 2.5`, `"rate": 1e300`, "level 1 of the plan: rate is 1e+300, not from 0"},
		{`"duration_seconds": 120`, `"duration_seconds": 1e300`, "level 0 of the plan: duration_seconds is "},
		{`"missed": 3`, `"missed": -3`, "level 1: missed is -3, not from 0"},
		{`"start": "2026`, `"start": "9026`, "level 0: start is in the year 9026"},
		{`"gomaxprocs": 2`, `"gomaxprocs": -2`, "level 0: gomaxprocs is -2, not from 0"},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		keepAll(mustStore(t, dir), storedRun())
		path := filepath.Join(dir, RunFile)
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(data, []byte(c.old)) {
			t.Fatalf("%s in %s: %v", c.old, data, err)
		}
		if err := os.WriteFile(path, bytes.Replace(data, []byte(c.old), []byte(c.new), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: error %v, want the path and %q", c.new, err, c.why)
		}
	}
}
