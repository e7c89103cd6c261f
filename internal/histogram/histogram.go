// Package histogram describes the histograms that are exposed, so that all of them are made the same way.
package histogram

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind says with which buckets histograms are exposed. The zero value is [Both].
type Kind string

// The kinds. A native histogram is one series; a classic one is a series for each bucket, and two more.
const (
	Both    Kind = "both"
	Classic Kind = "classic"
	Native  Kind = "native"
)

// Kinds lists the kinds, the default first.
func Kinds() []Kind { return []Kind{Both, Classic, Native} }

// Opts describes a histogram of the kind. Bounds are those of the classic buckets. Native buckets grow by at most 10 %
// and are kept at 160; when they would be more, the histogram starts afresh, but at most once an hour.
func (k Kind) Opts(name, help string, labels prometheus.Labels, bounds []float64) prometheus.HistogramOpts {
	o := prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: labels}
	if k != Native {
		o.Buckets = bounds
	}
	if k != Classic {
		o.NativeHistogramBucketFactor = 1.1
		o.NativeHistogramMaxBucketNumber = 160
		o.NativeHistogramMinResetDuration = time.Hour
	}
	return o
}
