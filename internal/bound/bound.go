// Package bound holds the door through which numbers from outside come in.
package bound

// Within lets a number of a server pass: one that is finite, at least 0 and at most most, which is what can have been
// received or measured. Every number from outside that becomes a size, a sum, an index or a duration goes through
// here, before it is converted. ok is false for any other, NaN included; whoever asked counts or tells that, and goes
// on as if the server had sent none. most is finite.
func Within[N int | int64 | float64](n, most N) (value N, ok bool) {
	if n >= 0 && n <= most { // false for NaN
		return n, true
	}
	return 0, false
}
