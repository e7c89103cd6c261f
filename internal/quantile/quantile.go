// Package quantile is the one definition of a percentile: that by nearest rank, a value that was measured and never one
// between two.
package quantile

import "math"

// Rank is the nearest rank of the q-quantile among n values in ascending order, from 1 to n: ⌈q·n⌉. Of no values it
// is 0. A product that is a whole number but for the error of its representation is that number.
func Rank(n int, q float64) int {
	return min(n, max(1, int(math.Ceil(q*float64(n)-1e-9))))
}

// NearestRank is the q-quantile of values in ascending order, of which there must be one at least.
func NearestRank[T any](sorted []T, q float64) T { return sorted[Rank(len(sorted), q)-1] }
