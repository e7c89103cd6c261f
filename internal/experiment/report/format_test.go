package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

func TestFormats(t *testing.T) {
	nan := math.NaN()
	tests := []struct{ got, want string }{
		{formatMean(512), "512"},
		{formatMean(511.72), "511.7"},
		{interval(experiment.Estimate{Low: 0.58, High: 0.66}, humanize.Seconds), "580 to 660 ms"},
		{interval(experiment.Estimate{Low: 0.9, High: 1.2}, humanize.Seconds), "900 ms to 1.20 s"},
		{interval(experiment.Estimate{Low: 0.9, High: experiment.Figure(nan)}, humanize.Seconds), "≥ 900 ms"},
		{interval(experiment.Estimate{Low: experiment.Figure(nan), High: experiment.Figure(nan)}, humanize.Seconds), ""},
		{objective(experiment.Objective{Indicator: experiment.TTFT, Quantile: 0.95, Threshold: time.Second}), "TTFT p95 ≤ 1 s"},
		{objective(experiment.Objective{Indicator: experiment.Duration, Quantile: 0.999, Threshold: 1500 * time.Millisecond}), "duration p99.9 ≤ 1.5 s"},
		{cleanURL("https://user:pass@host:8000/v1?key=x#y"), "https://host:8000/v1"},
		{cleanURL("%zz"), "(an address that cannot be read)"},
		{clean("a\x00b\nc\u202ed\xff"), "a\ufffdb c\ufffdd\ufffd"},
	}
	for _, test := range tests {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
	if long := clean(strings.Repeat("ü", 10_000)); len([]rune(long)) != maxText || !strings.HasSuffix(long, "…") {
		t.Errorf("a long text is %d runes", len([]rune(long)))
	}
}
