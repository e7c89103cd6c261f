package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/prober"
)

// rendered is the report of a run as a page.
func rendered(t *testing.T, run *experiment.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Render(&b, run, analyze.Summarize(run)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// document is what a reader of a page finds in it.
type document struct {
	elements map[string]int
	links    []string // of whatever a browser might load or follow
	text     string   // scripts and styles apart
	code     string   // scripts and styles
}

// parse reads a page strictly, as XML: every element closed, every text escaped.
func parse(t *testing.T, page string) document {
	t.Helper()
	doc := document{elements: map[string]int{}}
	var text, code strings.Builder
	var stack []string
	d := xml.NewDecoder(strings.NewReader(page))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			doc.elements[e.Name.Local]++
			stack = append(stack, e.Name.Local)
			for _, a := range e.Attr {
				if slices.Contains([]string{"src", "href", "srcset", "action", "data", "poster", "style"}, a.Name.Local) || strings.HasPrefix(a.Name.Local, "on") {
					doc.links = append(doc.links, a.Value)
				}
			}
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if len(stack) > 0 && (stack[len(stack)-1] == "script" || stack[len(stack)-1] == "style") {
				code.Write(e)
			} else {
				text.Write(e)
			}
		}
	}
	doc.text, doc.code = text.String(), code.String()
	return doc
}

// titles lists the titles of a page's charts.
func titles(t *testing.T, run *experiment.Run) []string {
	t.Helper()
	summary := analyze.Summarize(run)
	p, err := newRunPage(run, &summary)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, s := range p.Sections {
		for _, c := range s.Charts {
			all = append(all, s.ID+": "+strings.TrimSuffix(c.Title, " ⚠"))
		}
	}
	return all
}

func TestWhichChartsFollowFromWhatVaries(t *testing.T) {
	tests := []struct {
		name string
		plan experiment.Plan
		want []string
	}{
		{"concurrency", concurrencyPlan(4, 1, 2, 128), []string{
			"load: Output tokens per second", "load: Time to first token", "load: Inter-token latency",
			"load: TTFT against throughput", "load: ITL against throughput", "load: Request duration",
			"queue: Queue at c=128",
			"requests: TTFT of each request, c=1", "requests: TTFT of each request, c=2", "requests: TTFT of each request, c=128",
		}},
		{"rate", ratePlan(4, 2, 4), []string{
			"rate: Output tokens per second", "rate: Time to first token", "rate: TTFT counted from when it was due",
			"rate: Inter-token latency", "rate: TTFT against throughput", "rate: ITL against throughput",
			"queue: Queue at 2/s", "queue: Queue at 4/s",
			"requests: TTFT of each request, 2/s", "requests: TTFT of each request, 4/s",
		}},
		{"two lengths", lengthsPlan(40), []string{
			"prompt: Time to first token", "prompt: Inter-token latency", "prompt: Output tokens per second",
			"output: Time to first token", "output: Request duration", "output: Output tokens per second",
			// The objective on ITL is not held by a chart of output lengths that leaves ITL out.
			"output: Inter-token latency",
			"requests: TTFT of each request, 128+128", "requests: TTFT of each request, 512+128", "requests: TTFT of each request, 1024+128",
			"requests: TTFT of each request, 2048+128", "requests: TTFT of each request, 8192+128",
			"requests: TTFT of each request, 512+32", "requests: TTFT of each request, 512+512",
		}},
		{"one level", concurrencyPlan(4, 4), []string{"requests: TTFT of each request, c=4, 512+128"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, titles(t, modelRun(test.plan))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGridHasALineEachLengthAndHeatTables(t *testing.T) {
	run := modelRun(gridPlan(4))
	summary := analyze.Summarize(run)
	all := families(&summary)
	if len(all) != 1 || all[0].kind != "load" {
		t.Fatalf("%d families, want one of loads", len(all))
	}
	var names []string
	for _, c := range all[0].curves {
		names = append(names, c.name)
	}
	if diff := cmp.Diff([]string{"128 prompt", "512 prompt", "2048 prompt"}, names); diff != "" {
		t.Error(diff)
	}
	h := heats(&all[0])[0]
	if diff := cmp.Diff([]string{"1", "4", "16", "64"}, h.Head); diff != "" {
		t.Error(diff)
	}
	if got, want := h.Rows[0].Cells[3].Value, humanize.Number(float64(summary.Levels[3].OutputRate.Value)); got != want {
		t.Errorf("cell of c=64 and 128 prompt tokens: %s, want %s", got, want)
	}
	if got := h.Rows[0].Cells[3].Class; got != "h9" {
		t.Errorf("the highest throughput is painted %s, want h9", got)
	}
}

func TestPageNeedsNothingBesideItAndIsWellFormed(t *testing.T) {
	for name, plan := range map[string]experiment.Plan{
		"concurrency": concurrencyPlan(4, 1, 2, 64), "rate": ratePlan(4, 2, 4), "lengths": lengthsPlan(4), "grid": gridPlan(2), "single": concurrencyPlan(2, 1),
		"empty": newPlan("empty"),
	} {
		t.Run(name, func(t *testing.T) {
			page := rendered(t, modelRun(plan))
			doc := parse(t, page)
			for _, link := range doc.links {
				if !strings.HasPrefix(link, "#") {
					t.Errorf("refers to %q", link)
				}
				if !strings.Contains(page, `id="`+strings.TrimPrefix(link, "#")+`"`) {
					t.Errorf("%q leads nowhere", link)
				}
			}
			for _, loads := range []string{"url(", "@import", "http:", "https:", "fetch(", "//"} {
				if strings.Contains(strings.ReplaceAll(doc.code, "// ", ""), loads) {
					t.Errorf("style or script contains %q", loads)
				}
			}
			if strings.Contains(page, "NaN") || strings.Contains(page, "ZgotmplZ") {
				t.Error("contains NaN or what the template refused")
			}
		})
	}
}

func TestPageTellsNoSecret(t *testing.T) {
	page := rendered(t, modelRun(concurrencyPlan(2, 1, 2)))
	if strings.Contains(page, "secret") {
		t.Error("the user, password or query of the address is told")
	}
	if !strings.Contains(page, "http://10.0.0.1:8000") {
		t.Error("the address is not told")
	}
}

// hostile is a text that a server may send as its model, version or error.
const hostile = "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>\" onload=\"x' ]]> & \x00\x1b[31m \u202eevil {{.}}"

func TestHostileTextIsTextOnly(t *testing.T) {
	plan := concurrencyPlan(2, 1, 2)
	plan.Name = hostile
	plan.SLOs[0].Indicator = hostile
	calm := parse(t, rendered(t, modelRun(concurrencyPlan(2, 1, 2))))
	run := modelRun(plan)
	run.Facts.Model, run.Facts.Version, run.Facts.Engine, run.Facts.Tool, run.Facts.Host = hostile, hostile, hostile, hostile, hostile
	run.Facts.URL = "http://host/" + hostile
	run.Facts.Server = map[string]string{hostile: hostile}
	run.Levels[1].Cut = hostile
	run.Requests[0].Reason, run.Requests[0].Err = prober.ReasonServerError, errors.New(hostile)
	summary := analyze.Summarize(run)
	summary.Levels[0].Doubts = []experiment.Doubt{{Kind: hostile, Text: hostile}}
	summary.Operating[0].Text, summary.Operating[0].Curve = hostile, hostile
	var b bytes.Buffer
	if err := Render(&b, run, summary); err != nil {
		t.Fatal(err)
	}
	doc := parse(t, b.String())
	for _, name := range []string{"script", "style", "img", "title"} {
		if name != "title" && doc.elements[name] != calm.elements[name] {
			t.Errorf("%d elements %s, want %d", doc.elements[name], name, calm.elements[name])
		}
	}
	for _, link := range doc.links {
		if !strings.HasPrefix(link, "#") {
			t.Errorf("refers to %q", link)
		}
	}
	if !strings.Contains(doc.text, "<script>alert(1)</script>") {
		t.Error("the text is not shown as text")
	}
	if strings.ContainsAny(doc.text, "\x00\x1b\u202e") {
		t.Error("control characters are shown")
	}
	if doc.code != calm.code {
		t.Error("script or style differ by what the server sent")
	}
}

func TestWriteMakesAFileOfEachChart(t *testing.T) {
	dir := t.TempDir()
	run := modelRun(ratePlan(4, 2, 4))
	if err := Write(dir, run, analyze.Summarize(run)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f))
		content, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		doc := parse(t, string(content))
		if strings.HasSuffix(f, ".svg") && strings.Contains(doc.code, "var(") {
			t.Errorf("%s needs colours from elsewhere", f)
		}
	}
	want := []string{
		"chart-queue-1.svg", "chart-queue-2.svg", "chart-rate-itl-against-throughput.svg", "chart-rate-itl.svg", "chart-rate-throughput.svg",
		"chart-rate-ttft-against-throughput.svg", "chart-rate-ttft-from-schedule.svg", "chart-rate-ttft.svg",
		"chart-requests-1.svg", "chart-requests-2.svg", "report.html",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestWriteSaysWhatItCouldNotWrite(t *testing.T) {
	run := modelRun(concurrencyPlan(2, 1))
	err := Write(filepath.Join(t.TempDir(), "missing"), run, analyze.Summarize(run))
	if err == nil || !strings.Contains(err.Error(), "the report: writing") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestSizeIsBounded(t *testing.T) {
	const most = 3 << 20
	t.Run("a full sweep of nine levels", func(t *testing.T) {
		if n := len(rendered(t, modelRun(concurrencyPlan(120, 1, 2, 4, 8, 16, 32, 64, 128, 256)))); n > most {
			t.Errorf("%d bytes, want at most %d", n, most)
		}
	})
	for _, test := range []struct {
		name         string
		levels, each int
		most         int
	}{
		{"a hundred thousand requests", 1, 100_000, 300 << 10},
		{"a hundred levels", 100, 2000, 4 << 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			run, summary := manyRequests(test.levels, test.each)
			var b bytes.Buffer
			if err := Render(&b, run, summary); err != nil {
				t.Fatal(err)
			}
			if b.Len() > test.most {
				t.Errorf("%d bytes, want at most %d", b.Len(), test.most)
			}
		})
	}
}

// manyRequests is a run of levels that have so many requests each, of which one in fifty failed.
func manyRequests(levels, each int) (*experiment.Run, experiment.Summary) {
	run, summary := &experiment.Run{Plan: newPlan("long")}, experiment.Summary{}
	for l := range levels {
		start := began().Add(time.Duration(l) * time.Hour)
		at := experiment.Level{Rate: 100 + float64(l), PromptTokens: 1, OutputTokens: 1}
		run.Plan.Levels = append(run.Plan.Levels, at)
		run.Levels = append(run.Levels, experiment.LevelRun{Start: start, End: start.Add(time.Duration(each) * 10 * time.Millisecond)})
		summary.Levels = append(summary.Levels, experiment.LevelSummary{Index: l, Level: at})
		for i := range each {
			at := start.Add(time.Duration(i) * 10 * time.Millisecond)
			r := experiment.Request{Level: l, Result: prober.Result{
				Probe: &prober.Probe{Started: at},
				Sent:  at, FirstToken: at.Add(time.Duration(i%977) * time.Millisecond), Ended: at.Add(time.Second),
			}}
			if i%50 == 0 {
				r.Reason, r.Err = prober.ReasonTimeout, errors.New("timeout")
			}
			run.Requests = append(run.Requests, r)
		}
		for i := range each / 100 {
			run.Queue = append(run.Queue, experiment.QueueSample{At: start.Add(time.Duration(i) * time.Second), Level: l, Running: float64(i % 100), Waiting: float64(i % 7)})
		}
	}
	return run, summary
}
