// Package analyze makes figures of runs: statistics of each level, doubts about them, operating points, comparisons.
package analyze
