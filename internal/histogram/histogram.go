// Package histogram describes the histograms that are exposed, so that all of them are made the same way.
package histogram

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Opts describes a histogram that is classic and native at once. Bounds are those of the classic buckets. Native
// buckets grow by at most 10 % and are kept at 160; when they would be more, the histogram starts afresh, but at most
// once an hour.
func Opts(name, help string, labels prometheus.Labels, bounds []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name:                            name,
		Help:                            help,
		ConstLabels:                     labels,
		Buckets:                         bounds,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}
