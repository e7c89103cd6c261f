package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

func TestFormats(t *testing.T) {
	nan := math.NaN()
	tests := []struct{ got, want string }{
		{formatSeconds(0.0198), "19.8 ms"},
		{formatSeconds(0.8716), "872 ms"},
		{formatSeconds(2.184), "2.18 s"},
		{formatSeconds(0.000352), "352 µs"},
		{formatSeconds(0.99996), "1.00 s"},
		{formatSeconds(0), "0 s"},
		{formatSeconds(nan), "–"},
		{formatSeconds(math.Inf(1)), "–"},
		{exactSeconds(0.87163), "871.6 ms"},
		{formatRate(854.6), "855"},
		{formatRate(12345.6), "12346"},
		{formatMean(512), "512"},
		{formatMean(511.72), "511.7"},
		{formatPercent(0.956), "96 %"},
		{formatPercent(0.0123), "1.2 %"},
		{formatCount(1, "level"), "1 level"},
		{formatCount(12345, "request"), "12\u202f345 requests"},
		{formatSpan(200 * time.Second), "3 min 20 s"},
		{formatSpan(2 * time.Hour), "2 h"},
		{formatBytes(80 << 20), "80.0 MiB"},
		{interval(experiment.Estimate{Low: 0.58, High: 0.66}, formatSeconds), "580 – 660 ms"},
		{interval(experiment.Estimate{Low: 0.9, High: 1.2}, formatSeconds), "900 ms – 1.20 s"},
		{interval(experiment.Estimate{Low: 0.9, High: experiment.Figure(nan)}, formatSeconds), "≥ 900 ms"},
		{interval(experiment.Estimate{Low: experiment.Figure(nan), High: experiment.Figure(nan)}, formatSeconds), ""},
		{objective(experiment.Objective{Indicator: experiment.TTFT, Quantile: 0.95, Threshold: time.Second}), "TTFT p95 ≤ 1 s"},
		{objective(experiment.Objective{Indicator: experiment.Duration, Quantile: 0.999, Threshold: 1500 * time.Millisecond}), "duration p99.9 ≤ 1.5 s"},
		{cleanURL("https://user:pass@host:8000/v1?key=x#y"), "https://host:8000/v1"},
		{cleanURL("%zz"), "(an address that cannot be read)"},
		{clean("a\x00b\nc\u202ed\xff"), "a\ufffdb c\ufffdd\ufffd"},
	}
	for _, test := range tests {
		if got := strings.ReplaceAll(test.got, nbsp, " "); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	if long := clean(strings.Repeat("ü", 10_000)); len([]rune(long)) != maxText || !strings.HasSuffix(long, "…") {
		t.Errorf("a long text is %d runes", len([]rune(long)))
	}
}
