// Package sweep runs finite experiments: it puts a server under one level of load after another, measures every
// request with the daemon's own code, and says which load the server should be run at.
//
// A [Plan] is what to do, a list of levels. A [Run] is what was seen: every request with all its time stamps, and
// the server's queue once a second. It comes from a real server ([Runner]) or from a model of one on virtual time
// ([Simulate]), and everything after it is the same for both: [Summarize] makes the figures with their confidence,
// the doubts about them and the operating points, [Compare] tells two runs apart, and the report draws the curves.
//
// TTFT, ITL, TPOT and success are those of docs/definitions.md.
package sweep
