package collector

import "time"

// The classic bounds, in seconds. They are one fixed table so that series of different versions, targets and
// sites can be added up. A threshold that lies on a bound is read without interpolation.

// waitBounds serve what a user waits for: 1 ms to 120 s, which is also the longest timeout a probe may have.
func waitBounds() []float64 {
	return []float64{
		0.001, 0.0015, 0.002, 0.003, 0.005, 0.007,
		0.01, 0.015, 0.02, 0.03, 0.05, 0.07,
		0.1, 0.15, 0.2, 0.3, 0.5, 0.7,
		1, 1.5, 2, 3, 5, 7,
		10, 15, 20, 30, 60, 120,
	}
}

// gapBounds serve the time between tokens: 0.5 ms to 30 s.
func gapBounds() []float64 {
	return []float64{
		0.0005, 0.0007,
		0.001, 0.0015, 0.002, 0.003, 0.005, 0.007,
		0.01, 0.015, 0.02, 0.03, 0.05, 0.07,
		0.1, 0.15, 0.2, 0.3, 0.5, 0.7,
		1, 1.5, 2, 3, 5, 7,
		10, 15, 20, 30,
	}
}

// connectBounds serve DNS, TCP and TLS together; 1 s and 3 s are where TCP repeats a lost SYN.
func connectBounds() []float64 { return []float64{0.0005, 0.002, 0.01, 0.05, 0.2, 1, 3, 10} }

// delayBounds serve the prober's own delays: from what is normal to what spoils a measurement.
func delayBounds() []float64 { return []float64{0.0001, 0.0005, 0.001, 0.005, 0.02, 0.1, 0.5, 2} }

// phaseBounds serve the server's own account of a request, which is read as a mean.
func phaseBounds() []float64 { return []float64{0.001, 0.01, 0.05, 0.2, 1, 5, 20, 60} }

// LongestTimeout is the last bound of the TTFT and duration histograms: a probe that may take longer would
// end beyond every bucket.
const LongestTimeout = 120 * time.Second
