//go:build !unix

package load

// usage is not known here.
func usage() (cpu float64, rss int64) { return 0, 0 }

// loadAverage is not known here.
func loadAverage() float64 { return 0 }
