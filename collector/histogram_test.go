package collector

import (
	"math"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/llm-prober/llm_prober/internal/histogram"
)

func TestBounds(t *testing.T) {
	tests := []struct {
		name        string
		bounds      []float64
		first, last float64
		most        int
	}{
		{"waits", waitBounds(), 0.001, LongestTimeout.Seconds(), 31},
		{"gaps", gapBounds(), 0.0005, 30, 31},
		{"connect", connectBounds(), 0.0005, 10, 8},
		{"delays", delayBounds(), 0.0001, 2, 8},
		{"phases", phaseBounds(), 0.001, 60, 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.bounds
			if b[0] != tt.first || b[len(b)-1] != tt.last || len(b) > tt.most || !slices.IsSorted(b) {
				t.Errorf("%v: want at most %d, rising from %v to %v", b, tt.most, tt.first, tt.last)
			}
		})
	}
}

func TestFiveToSixBoundsADecade(t *testing.T) {
	for name, bounds := range map[string][]float64{"waits": waitBounds(), "gaps": gapBounds()} {
		perDecade := make(map[int]int)
		for _, b := range bounds {
			perDecade[int(math.Floor(math.Log10(b)+1e-9))]++
		}
		for decade := -3; decade <= 0; decade++ { // those that a table covers as a whole
			if n := perDecade[decade]; n < 5 || n > 6 {
				t.Errorf("%s: %d bounds from 1e%d s on, want 5 or 6", name, n, decade)
			}
		}
	}
}

// Native buckets grow by at most 10 %, which is schema 3. Classic ones are one series each, and two more for the sum and
// the count; one of a native histogram carries an exemplar.
func TestKinds(t *testing.T) {
	for _, kind := range []struct {
		histogram.Kind
		classic, native bool
	}{{histogram.Both, true, true}, {"", true, true}, {histogram.Classic, true, false}, {histogram.Native, false, true}} {
		t.Run(string(kind.Kind), func(t *testing.T) {
			families, err := completeTarget(kind.Kind).Gather()
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, f := range families {
				if f.GetType() != dto.MetricType_HISTOGRAM {
					continue
				}
				n++
				h := f.GetMetric()[0].GetHistogram()
				if native, classic := h.Schema != nil && h.GetSchema() == 3, len(h.GetBucket()) > 1; native != kind.native || classic != kind.classic {
					t.Errorf("%s: native schema %v, %d classic buckets", f.GetName(), h.Schema, len(h.GetBucket()))
				}
			}
			if n != 10 {
				t.Errorf("%d histograms, want 10", n)
			}
		})
	}
	opts := histogram.Native.Opts("h", "H.", nil, waitBounds())
	if opts.NativeHistogramMaxBucketNumber != 160 || opts.NativeHistogramMinResetDuration != time.Hour {
		t.Errorf("native histograms keep %d buckets and reset after %v, want 160 and 1h", opts.NativeHistogramMaxBucketNumber, opts.NativeHistogramMinResetDuration)
	}
}
