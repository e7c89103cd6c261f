package main

import (
	"context"
	"encoding/json"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/experiment/model"
	"github.com/llm-prober/llm_prober/internal/goldenfile"

	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// golden holds a text against a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	goldenfile.Check(t, file, got, *update)
}

// The help of every command of sweep and simulate is part of the product.
func TestHelp(t *testing.T) {
	for _, name := range []string{
		"", "sweep", "sweep concurrency", "sweep rate", "sweep prompt-length", "sweep output-length", "sweep grid",
		"sweep run", "sweep search", "sweep compare", "sweep report", "simulate", "simulate concurrency", "simulate run", "simulate search", "simulate seeds", "simulate fit",
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			app, _ := newApp(&out)
			app.Terminate(func(int) {})
			if _, err := app.Parse(append(strings.Fields(name), "--help")); err != nil && out.Len() == 0 {
				t.Fatal(err)
			}
			golden(t, "help-"+strings.ReplaceAll(orElse(name, "probetool"), " ", "-")+".txt", out.String())
		})
	}
}

// What is wrong with the flags of an experiment names them, all at once, and nothing is made.
func TestBadExperiments(t *testing.T) {
	t.Chdir(t.TempDir())
	full := filepath.Join(t.TempDir(), "full")
	if err := os.MkdirAll(filepath.Join(full, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"sweep concurrency", "probetool: give the URL of a server, --config.file for one of a configuration, or --demo for a simulated one\n", exitUsage},
		{"sweep concurrency http://h --demo", "probetool: give the URL of a server, --config.file for one of a configuration, or --demo for a simulated one\n", exitUsage},
		{"sweep concurrency --demo --config.file=f", "probetool: give the URL of a server, --config.file for one", exitUsage},
		{"sweep search --slo=ttft_p95=1s --config.file=nope.yml", "reading the configuration: open nope.yml: no such file or directory\n", exitUsage},
		{"sweep run plan.yml --target=a", "--target: names one of a configuration file: give --config.file too\n", exitUsage},
		{"sweep rate h:8000 --levels=0,x --slo=ttft --warmup=-1", "--warmup: must be from 0 to 1000, not -1\n" +
			"--slo: objective \"ttft\": not of the form \"ttft_p95=1s\": a latency (ttft, ttft_from_schedule, itl, tpot, duration), a percentile and a duration\n" +
			"--levels: must be above 0\n--levels: \"x\" is not a number\nurl: is not a URL (did you mean \"http://h:8000\"?)\n", exitUsage},
		{"sweep concurrency http://u:SECRET@h", "url: a secret has no place in a plan", exitUsage},
		{"sweep grid http://h --prompt-tokens=1,,2", "--prompt-tokens: \"\" cannot be read\n", exitUsage},
		{"sweep rate http://h --extra-body={", "--extra-body: \"{\" cannot be read\n", exitUsage},
		{"sweep rate http://h --name=a/b", "--name: becomes the name of a folder: ", exitUsage},
		{"sweep concurrency http://h --timeout=0s", "--timeout: ", exitUsage},
		{"sweep search http://h", "probetool: required flag(s) '--slo' not provided\nSee probetool --help.\n", exitUsage},
		{"sweep search http://h --slo=ttft_p95=1s --rate=1 --concurrency=2", "--rate: give it or --concurrency, not both\n", exitUsage},
		{"sweep run nope.yml", "reading the plan: open nope.yml: no such file or directory\n", exitUsage},
		{"sweep report nope", "probetool: reading results: open nope/run.json: no such file or directory\n", exitUsage},
		{"sweep compare nope nope", "probetool: reading results: open nope/run.json: no such file or directory\n", exitUsage},
		{"simulate concurrency --levels=1 --requests=1 --dir=" + full, "probetool: results directory " + full + ": it exists already and is not empty; results are never overwritten\n", exitUsage},
		{"simulate concurrency --levels=1 --requests=1 --dir=/dev/null/x", "probetool: making the results directory: mkdir /dev/null: not a directory\n", exitFailed},
		{"simulate concurrency --running-cap=0", "probetool: model of a server: running cap 0: must be at least 1\n", exitUsage},
	} {
		code, stdout, stderr := outcome(t.Context(), strings.Fields(c.args)...)
		if code != c.code || stdout != "" || !strings.HasPrefix(stderr, c.want) {
			t.Errorf("%s: %d, %q, %q; want %d and %q", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("it made %v, %v", made, err)
	}
}

// A plan file that is wrong is told like a configuration.
func TestBadPlan(t *testing.T) {
	t.Chdir(t.TempDir())
	plan := "target: {url: http://h}\nslos: [p95]\nlevels:\n  - {concurrency: 1}\n  - {rates: 2, requests: 3}\n"
	if err := os.WriteFile("plan.yml", []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := outcome(t.Context(), "sweep", "run", "plan.yml")
	want := regexp.MustCompile(`^plan.yml:2: slos\[0\]: .*
plan.yml:4: levels\[0\]: needs requests or duration, or it would not end
plan.yml:5: levels\[1\]: needs concurrency, for a closed loop, or rate, for an open one
plan.yml:5: levels\[1\].rates: unknown key \(did you mean "rate"\?\)
$`)
	if code != exitUsage || stdout != "" || !want.MatchString(stderr) {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
}

// files lists a directory, charts left out.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".svg") {
			names = append(names, e.Name())
		}
	}
	return names
}

// allFiles are those of a results directory.
func allFiles() []string {
	return []string{"plan.yml", "queue.csv", "report.html", "requests.jsonl", "run.json", "summary.csv", "summary.json"}
}

// An experiment on a real server, in all its parts: what is measured, stored, printed and returned.
func TestSweep(t *testing.T) {
	_, server := simulator(t, vllmsim.Config{APIKey: "SECRET-0123456789", PromptTokensDetails: true, PerRequestMetrics: true})
	t.Chdir(t.TempDir())
	if err := os.WriteFile("key.txt", []byte("SECRET-0123456789\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := outcome(t.Context(), "sweep", "concurrency", server.url, "--levels=1,2", "--requests=6", "--warmup=1",
		"--prompt-tokens=64", "--output-tokens=4", "--api-key-file=key.txt", "--extra-body={\"top_k\": 3}", "--slo=ttft_p95=10s", "--dir=out/run")
	if code != exitFailed || !strings.Contains(stderr, "probetool: not to be trusted: c=1, 64+4 (") { // six requests are too few
		t.Errorf("exit code %d, stderr %s", code, stderr)
	}
	for _, line := range []string{"probetool: results go to out/run/\n", "level 2 of 2, c=2, 64+4: 6 requests in ", "probetool: the report is out/run/report.html\n"} {
		if !strings.Contains(stderr, line) {
			t.Errorf("stderr lacks %q:\n%s", line, stderr)
		}
	}
	if !strings.Contains(stdout, "c=2") {
		t.Errorf("the table:\n%s", stdout)
	}
	if d := cmp.Diff(allFiles(), files(t, "out/run")); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	run, err := experiment.Read("out/run")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int]int{}
	for _, r := range run.Requests {
		if !r.OK() || r.OutputTokens != 4 || r.PromptTokens != 64 || r.CachedTokens != 0 {
			t.Errorf("request %+v", r)
		}
		if !r.Warmup {
			counts[r.Level]++
		}
	}
	if d := cmp.Diff(map[int]int{0: 6, 1: 6}, counts); d != "" {
		t.Errorf("requests of each level (-want +got):\n%s", d)
	}
	if f := run.Facts; f.Engine != "vllm" || f.Model != "tiny" || f.URL != server.url || len(run.Queue) == 0 {
		t.Errorf("facts %+v, %d samples", f, len(run.Queue))
	}
	if key := (<-server.asked).Header.Get("Authorization"); key != "Bearer SECRET-0123456789" {
		t.Errorf("authorization %q", key)
	}
	plan := read(t, "out/run/plan.yml")
	if !strings.Contains(plan, "top_k: 3") || !strings.Contains(plan, "enable_thinking: false") {
		t.Errorf("plan:\n%s", plan)
	}
	for _, name := range append(files(t, "out/run"), "") {
		text := stdout + stderr
		if name != "" {
			text = read(t, filepath.Join("out/run", name))
		}
		if strings.Contains(text, "SECRET") {
			t.Errorf("the API key is in %q", name)
		}
	}

	// The stored plan runs again, into a directory of its own.
	if code, _, stderr := outcome(t.Context(), "sweep", "run", "out/run/plan.yml", "-q", "--name=again"); code != exitFailed {
		t.Errorf("sweep run: %d, %s", code, stderr)
	}
	again, err := filepath.Glob(defaultOut + "/again-*")
	if err != nil || len(again) != 1 {
		t.Fatalf("results %v, %v", again, err)
	}
	if first, second := plan, read(t, again[0]+"/plan.yml"); strings.TrimPrefix(first, "name: concurrency\n") != strings.TrimPrefix(second, "name: again\n") {
		t.Errorf("the plan changed (-first +second):\n%s", cmp.Diff(first, second))
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Control-C keeps what was measured and says so.
func TestSweepInterrupted(t *testing.T) {
	_, server := simulator(t, vllmsim.Config{})
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range 5 {
			<-server.asked
		}
		cancel()
	}()
	code, stdout, stderr := outcome(ctx, "sweep", "concurrency", server.url, "--levels=2,4", "--duration=10m", "--warmup=0", "--output-tokens=4", "--dir="+dir)
	if code != exitInterrupted || !strings.Contains(stderr, "probetool: interrupted; what was measured is in "+dir+"\n") || !strings.Contains(stdout, "c=2") {
		t.Errorf("%d\n%s\n%s", code, stdout, stderr)
	}
	if d := cmp.Diff(allFiles(), files(t, dir)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	run, err := experiment.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Levels) != 1 || run.Levels[0].Cut != "interrupted" || len(run.Requests) < 4 || len(run.Requests) > 7 {
		t.Errorf("levels %+v, %d requests", run.Levels, len(run.Requests))
	}
	if code, _, stderr := outcome(t.Context(), "sweep", "report", dir, "--slo=itl_p95=1s"); code != exitOK {
		t.Errorf("sweep report: %d, %s", code, stderr)
	}
}

// Failures are told as they happen: the first ones of a level whole, then a count.
func TestSweepFailures(t *testing.T) {
	sim, server := simulator(t, vllmsim.Config{})
	if err := sim.SetFault(vllmsim.Fault{Name: vllmsim.Status, Value: "500"}); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := outcome(t.Context(), "sweep", "concurrency", server.url, "--levels=9", "--requests=9", "--warmup=0", "--dir="+filepath.Join(t.TempDir(), "run"))
	told := strings.Count(stderr, "failed (http_status): HTTP status 500")
	if code != exitFailed || told != 5 || !strings.Contains(stderr, "c=9: further failures are counted\n") || !strings.Contains(stderr, "c=9: 9 requests failed: 9 http_status\n") {
		t.Errorf("%d, %d failures told:\n%s", code, told, stderr)
	}
}

// The same command line gives the same simulation, whose results are those of a real run.
func TestSimulate(t *testing.T) {
	t.Chdir(t.TempDir())
	simulate := func(dir string, more ...string) (stdout string) {
		code, stdout, stderr := outcome(t.Context(), append([]string{"simulate", "concurrency", "--levels=16,32", "--requests=2000", "--slo=ttft_p95=5s", "-q", "--dir=" + dir}, more...)...)
		if code != exitOK || stderr != "" {
			t.Errorf("%d, %s", code, stderr)
		}
		return stdout
	}
	first, second := simulate("a"), simulate("b")
	if d := cmp.Diff(first, second); d != "" {
		t.Errorf("two runs differ:\n%s", d)
	}
	if d := cmp.Diff(allFiles(), files(t, "a")); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	for _, name := range []string{"requests.jsonl", "queue.csv", "summary.json"} {
		if read(t, "a/"+name) != read(t, "b/"+name) {
			t.Errorf("%s differs between two runs", name)
		}
	}
	if plan := read(t, "a/plan.yml"); strings.Contains(plan, "target") {
		t.Errorf("the plan has a target:\n%s", plan)
	}

	// A server that runs fewer requests at once is slower, and the comparison says so.
	simulate("c", "--running-cap=8")
	code, stdout, stderr := outcome(t.Context(), "sweep", "compare", "a", "c", "--dir=compared")
	if code != exitOK || !strings.Contains(stdout, "worse") {
		t.Errorf("%d, %s\n%s", code, stderr, stdout)
	}
	if d := cmp.Diff([]string{"comparison.html", "comparison.json"}, files(t, "compared")); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	var comparison analyze.Comparison
	if err := json.Unmarshal([]byte(read(t, "compared/comparison.json")), &comparison); err != nil || comparison.A != "a" || comparison.B != "c" {
		t.Errorf("%v, %+v", err, comparison)
	}

	// The stored plan can be simulated, and not be run, for it names no server.
	if code, _, stderr := outcome(t.Context(), "simulate", "run", "a/plan.yml", "-q", "--dir=d"); code != exitOK {
		t.Errorf("simulate run: %d, %s", code, stderr)
	}
	if read(t, "a/requests.jsonl") != read(t, "d/requests.jsonl") {
		t.Error("the plan, simulated again, gives other requests")
	}
	if code, _, stderr := outcome(t.Context(), "sweep", "run", "a/plan.yml"); code != exitUsage || stderr != "a/plan.yml:1: target: is missing\n" {
		t.Errorf("sweep run: %d, %s", code, stderr)
	}
}

// The published figures stand beside the model's, and one that is too far off is told.
func TestSimulateSeeds(t *testing.T) {
	code, stdout, stderr := outcome(t.Context(), "simulate", "seeds")
	if code != exitOK || stderr != "" {
		t.Errorf("%d, %s", code, stderr)
	}
	var rows strings.Builder
	inRows := false
	for line := range strings.Lines(stdout) {
		inRows = (inRows || strings.HasPrefix(line, "level ")) && line != "\n"
		if inRows {
			rows.WriteString(line)
		}
	}
	golden(t, "seeds.txt", rows.String())
	code, _, stderr = outcome(t.Context(), "simulate", "seeds", "--base=30ms")
	if code != exitFailed || !strings.Contains(stderr, "probetool: concurrency: ") {
		t.Errorf("with another model: %d, %s", code, stderr)
	}
}

// A model that is fitted to a simulated run is the one that was simulated, and its flags run.
func TestSimulateFit(t *testing.T) {
	t.Chdir(t.TempDir())
	if code, _, stderr := outcome(t.Context(), "simulate", "grid", "--concurrency=1,6,150", "--prompt-tokens=128,3000", "--output-tokens=96", "--requests=200", "-q", "--dir=run"); code != exitOK {
		t.Fatalf("simulate: %d, %s", code, stderr)
	}
	code, stdout, stderr := outcome(t.Context(), "simulate", "fit", "run")
	if code != exitOK || stderr != "" {
		t.Fatalf("%d, %s", code, stderr)
	}
	_, flags, ok := strings.Cut(stdout, "probetool simulate … ")
	if !ok {
		t.Fatalf("no flags in\n%s", stdout)
	}
	for _, want := range []string{"--token-budget=2048", "--per-decode=", "--per-context="} {
		if !strings.Contains(flags, want) {
			t.Errorf("flags %s lack %s", flags, want)
		}
	}
	args := append([]string{"simulate", "concurrency", "--levels=4", "--requests=400", "-q", "--dir=again"}, strings.Fields(flags)...)
	if code, _, stderr := outcome(t.Context(), args...); code != exitOK {
		t.Errorf("simulate with the flags: %d, %s", code, stderr)
	}
	for _, want := range []string{" engine steps were told apart, and ", "parameter      value", "\nbase           19.7 ms", "level, measured and predicted", "c=150, 3000+96"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}

	code, stdout, stderr = outcome(t.Context(), "simulate", "fit", "run", "--json")
	var found struct {
		model.Fit
		Predictions []model.Prediction `json:"predictions"`
	}
	if err := json.Unmarshal([]byte(stdout), &found); code != exitOK || err != nil || found.Model.TokenBudget != 2048 || len(found.Predictions) != 6 {
		t.Errorf("as JSON: %d, %s, %v, %+v", code, stderr, err, found)
	}

	if code, _, stderr := outcome(t.Context(), "simulate", "concurrency", "--levels=1", "--requests=1", "--output-tokens=3", "-q", "--dir=few"); code != exitFailed {
		t.Fatalf("simulate: %d, %s", code, stderr)
	}
	if code, _, stderr := outcome(t.Context(), "simulate", "fit", "few"); code != exitFailed || !strings.HasPrefix(stderr, "probetool: fitting a model to few: ") {
		t.Errorf("too few steps: %d, %s", code, stderr)
	}
}

// What a report cannot use of a run it leaves out, and says so wherever the figures are.
func TestReportLeavesOut(t *testing.T) {
	t.Chdir(t.TempDir())
	if code, _, stderr := outcome(t.Context(), "simulate", "concurrency", "--levels=1,2", "--requests=200", "--warmup=0", "-q", "--dir=run"); code != exitOK {
		t.Fatalf("simulate: %d, %s", code, stderr)
	}
	path := filepath.Join("run", experiment.RequestsFile)
	lines := strings.SplitAfter(read(t, path), "\n")
	for n := range 12 {
		lines[10*n+2] = "<broken>\n"
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := outcome(t.Context(), "sweep", "report", "run")
	const words = "12 lines of the results cannot be used and are left out (requests.jsonl, line 3: invalid character '<' looking for beginning of value)"
	if code != exitOK || !strings.Contains(stdout, "c=1  188 ") || !strings.Contains(strings.Join(strings.Fields(stdout), " "), "! "+words) {
		t.Errorf("%d\n%s", code, stdout)
	}
	for _, want := range []string{"probetool: left out: run/requests.jsonl, line 3: invalid character", "probetool: left out: 2 more lines of run\n"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr)
		}
	}
	var summary experiment.Summary
	if err := json.Unmarshal([]byte(read(t, "run/summary.json")), &summary); err != nil || summary.Left == nil || summary.Left.Count != 12 {
		t.Errorf("summary: %v, %+v", err, summary.Left)
	}
	if page := html.UnescapeString(read(t, "run/report.html")); !strings.Contains(page, words) {
		t.Errorf("the report lacks %q", words)
	}
	if code, stdout, stderr := outcome(t.Context(), "sweep", "compare", "run", "run", "--dir=compared"); code != exitOK || !strings.Contains(strings.Join(strings.Fields(stdout), " "), words) {
		t.Errorf("compare: %d\n%s\n%s", code, stdout, stderr)
	}
}

// A request that the server could never run is refused before anything is made.
func TestSimulateRefusesWhatDoesNotFit(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range []string{
		"simulate concurrency --levels=1 --prompt-tokens=2000 --output-tokens=100 --kv-tokens=2048",
		"simulate prompt-length --levels=128,2000 --output-tokens=100 --kv-tokens=2048",
		"simulate search --slo=ttft_p95=1s --prompt-tokens=2000 --output-tokens=100 --kv-tokens=2048",
	} {
		code, stdout, stderr := outcome(t.Context(), strings.Fields(args)...)
		want := "2000+100: a request of 2000 prompt and 100 output tokens needs 2100 tokens of KV cache, which has 2048\n"
		if code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "probetool: level c=") || !strings.HasSuffix(stderr, want) {
			t.Errorf("%s: %d, %q, %q; want %q", args, code, stdout, stderr, want)
		}
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("%v was made (%v)", made, err)
	}
}

// A search ends with a ceiling between two levels that were measured, and stores the plan of what it ran.
func TestSimulateSearch(t *testing.T) {
	t.Chdir(t.TempDir())
	code, stdout, stderr := outcome(t.Context(), "simulate", "search", "--slo=ttft_p95=1s", "--duration=5m", "--dir=run")
	if code != exitOK || !strings.Contains(stderr, "probetool: the search is done: c=") || !strings.Contains(stdout, "At most ") {
		t.Errorf("%d\n%s\n%s", code, stdout, stderr)
	}
	run, err := experiment.Read("run")
	if err != nil {
		t.Fatal(err)
	}
	if stored := strings.Count(read(t, "run/plan.yml"), "concurrency:"); stored != len(run.Levels) || stored < 4 || stored > 9 {
		t.Errorf("%d levels in the plan, %d run", stored, len(run.Levels))
	}
}

// The levels of each experiment, with its defaults and with flags.
func TestLevels(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"concurrency", "c=1 c=2 c=4 c=8 c=16 c=32 c=64 c=128 c=256, 512+128, 0 requests, 2m0s, warm-up 5"},
		{"concurrency --levels=3 --requests=10", "c=3, 512+128, 10 requests, 0s, warm-up 5"},
		{"concurrency --levels=3 --requests=10 --duration=5s --warmup=0", "c=3, 512+128, 10 requests, 5s, warm-up 0"},
		{"rate --levels=2", "2/s, 512+128, 240 requests, 0s, warm-up 16"},
		{"rate --levels=2.5 --duration=10s --prompt-tokens=64", "2.5/s, 64+128, 25 requests, 0s, warm-up 16"},
		{"rate --levels=0.01 --duration=10s", "0.01/s, 512+128, 0 requests, 10s, warm-up 16"},
		{"prompt-length --levels=64,128 --requests=7", "c=4, 64+128, 7 requests, 0s, warm-up 5; c=4, 128+128, 7 requests, 0s, warm-up 5"},
		{"output-length --concurrency=2 --levels=8 --duration=9s", "c=2, 512+8, 0 requests, 9s, warm-up 5"},
		{"grid --concurrency=1,2 --prompt-tokens=64,128", "c=1 c=2, 64+128, 0 requests, 1m0s, warm-up 5; c=1 c=2, 128+128, 0 requests, 1m0s, warm-up 5"},
	} {
		var out strings.Builder
		for i, level := range levelsOf(t, strings.Fields(c.args)) {
			if i > 0 && !strings.HasSuffix(out.String(), "; ") {
				out.WriteString("; ")
			}
			out.WriteString(level)
		}
		if got := out.String(); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.args, got, c.want)
		}
	}
	rates := strings.Join(levelsOf(t, []string{"rate"}), "; ")
	want := "2/s, 512+128, 240 requests, 0s, warm-up 16; 4/s, 512+128, 480 requests, 0s, warm-up 16; 8/s, 512+128, 960 requests, 0s, warm-up 16; 12/s, 512+128, 1440 requests, 0s, warm-up 16"
	if rates != want {
		t.Errorf("rate\n got %s\nwant %s", rates, want)
	}
}

// levelsOf are the levels that flags make, those that differ in their load alone together.
func levelsOf(t *testing.T, args []string) (levels []string) {
	t.Helper()
	i := slices.IndexFunc(experiments(), func(e sweepExperiment) bool { return e.name == args[0] })
	f := &sweepFlags{sweepExperiment: experiments()[i]}
	app, _ := newApp(&strings.Builder{})
	cmd := app.Command("test", "")
	f.loadFlags(cmd)
	f.server.flags(cmd)
	f.results.flags(cmd)
	if _, err := app.Parse(append([]string{"test"}, args[1:]...)); err != nil {
		t.Fatal(err)
	}
	f.url = "http://h"
	e, err := f.plan()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := planOf(e)
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, l := range plan.Levels {
		rest := strings.TrimPrefix(l.String(), l.Load()) + ", " + strings.Join([]string{strconv.Itoa(l.Requests) + " requests", l.Duration.String(), "warm-up " + strconv.Itoa(plan.Warmup)}, ", ")
		if rest == last {
			levels[len(levels)-1] = strings.TrimSuffix(levels[len(levels)-1], rest) + " " + l.Load() + rest
			continue
		}
		last = rest
		levels = append(levels, l.Load()+rest)
	}
	return levels
}
