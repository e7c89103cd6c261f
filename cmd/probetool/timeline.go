package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/internal/quantile"
	"github.com/llm-prober/llm_prober/prober"
)

// printTimeline explains one result to a person: what happened when, counted from the start, and where the time
// to the first token went.
func printTimeline(w io.Writer, url string, r *prober.Result) {
	fmt.Fprintf(w, "%s at %s%s\n", cmp.Or(r.Model, "unknown model"), url, remote(r))
	fmt.Fprintf(w, "%s, %d prompt and %d output tokens, request id %s\n\n", r.Workload.API, r.Workload.PromptTokens, r.Workload.OutputTokens, r.RequestID)

	start := r.DialStart
	if start.IsZero() {
		start = r.Started // it failed before, while the server was asked how to probe it
	}
	line := func(at time.Time, what, detail string) {
		if !at.IsZero() {
			fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%10s  %-16s %s", humanize.Duration(at.Sub(start)), what, detail), " "))
		}
	}
	line(r.DialStart, "connect", "")
	line(r.Connected, "connected", "DNS, TCP and TLS; not part of TTFT")
	line(r.Sent, "request sent", "TTFT counts from here")
	line(r.Headers, "headers", fmt.Sprintf("HTTP %d; no token yet", r.Status))
	line(r.FirstToken, "first token", "")
	printTTFT(w, r)
	line(r.FirstAnswer, "first answer", "until here the model was thinking")
	line(r.LastToken, "last token", fmt.Sprintf("%d tokens in %d events", r.OutputTokens, len(r.Gaps)+1))
	line(r.Ended, "end", finish(r))
	fmt.Fprintln(w)
	printGaps(w, r)
	printVerdict(w, r)
}

func remote(r *prober.Result) string {
	if r.RemoteAddr == "" || strings.Contains(r.Target, r.RemoteAddr) {
		return ""
	}
	return " (" + r.RemoteAddr + ")"
}

func finish(r *prober.Result) string {
	if r.FinishReason == "" {
		return ""
	}
	return "finish_reason " + r.FinishReason
}

// printTTFT splits the time to first token where the server tells how.
func printTTFT(w io.Writer, r *prober.Result) {
	latency, known := r.TTFT()
	if !known {
		return
	}
	ttft := latency.Value
	fmt.Fprintf(w, "%30s %9s\n", "TTFT", within(latency))
	if r.Server == nil {
		fmt.Fprintf(w, "%30s\n", "(the server does not say where it went: vLLM does with --enable-per-request-metrics)")
		return
	}
	for _, part := range []struct {
		name string
		d    time.Duration
	}{
		{"queue", r.Server.Queue},
		{"prefill", r.Server.Prefill},
		{"outside engine", ttft - r.Server.Queue - r.Server.Prefill},
	} {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%30s %9s  %s", part.name, humanize.Duration(part.d), bar(part.d.Seconds()/ttft.Seconds(), 30)), " "))
	}
}

// histogramRows is how many bars the gaps are sorted into.
const histogramRows = 8

// printGaps prints percentiles of the gaps and a small histogram. Its bounds are logarithmic from half the median
// on: what is faster than that came together with its neighbour, and how fast exactly says nothing.
func printGaps(w io.Writer, r *prober.Result) {
	if len(r.Gaps) == 0 {
		return
	}
	gaps := slices.Sorted(slices.Values(r.Gaps))
	p50, p95, longest := quantile.NearestRank(gaps, 0.5), quantile.NearestRank(gaps, 0.95), gaps[len(gaps)-1]
	fmt.Fprintf(w, "gaps between tokens (ITL): p50 %s, p95 %s, longest %s", humanize.Duration(p50), humanize.Duration(p95), humanize.Duration(longest))
	if tpot, known := r.TPOT(); known {
		fmt.Fprintf(w, "; TPOT %s, %s tokens/s", within(tpot), humanize.Number(1/tpot.Value.Seconds()))
	}
	fmt.Fprintln(w)
	from := max(p50/2, time.Microsecond)
	step := math.Pow(float64(longest)/float64(from), 1.0/(histogramRows-1))
	label, rest := "up to", gaps
	for row := range histogramRows {
		to := time.Duration(float64(from) * math.Pow(step, float64(row)))
		n := len(rest)
		if row < histogramRows-1 {
			n, _ = slices.BinarySearch(rest, to+1)
		}
		fmt.Fprintf(w, "%12s %9s  %s\n", label, humanize.Duration(to), strings.TrimSpace(fmt.Sprintf("%s %d", bar(float64(n)/float64(len(gaps)), 40), n)))
		label, rest = "", rest[n:]
	}
	fmt.Fprintln(w)
}

func printVerdict(w io.Writer, r *prober.Result) {
	if r.OutputTokens > 0 {
		cached := ""
		if r.CachedTokens >= 0 {
			cached = fmt.Sprintf(", %d from the cache", r.CachedTokens)
		}
		fmt.Fprintf(w, "prompt tokens: %s of %d asked%s; output tokens: %d of %d asked (counted by %s)\n",
			humanize.Whole(r.PromptTokens), r.Workload.PromptTokens, cached, r.OutputTokens, r.Workload.OutputTokens, r.TokenSource)
	}
	switch {
	case r.Abandoned:
		fmt.Fprintf(w, "NOT SENT: %v\n", r.Err)
	case !r.OK():
		fmt.Fprintf(w, "FAILED (%s): %v\n", r.Reason, r.Err)
		if r.Body != "" {
			fmt.Fprintf(w, "the server said: %s\n", r.Body)
		}
	case r.Suspect != 0:
		fmt.Fprintf(w, "SUSPECT: %s\n", strings.Join(r.Suspect.Names(), ", "))
	default:
		fmt.Fprintln(w, "nothing suspect")
	}
}

// within writes a latency; as its bounds if the prober read too late to know it well enough.
func within(l prober.Latency) string {
	if l.Sound() {
		return humanize.Duration(l.Value)
	}
	return humanize.Range(l.Least.Seconds(), l.Most.Seconds(), humanize.Seconds)
}

// bar draws a share of a width.
func bar(share float64, width int) string {
	return strings.Repeat("█", max(0, min(width, int(math.Round(share*float64(width))))))
}
