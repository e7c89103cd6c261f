// Package experiment is a finite experiment, as it is planned and as it is stored.
//
// A [Plan] is what to do, a list of levels. A [Run] is what was seen: every request with all its time stamps, and
// the server's queue once a second; a [Store] keeps it in a directory. A [Summary] is the figures of a run. Below it,
// none of which imports another but report analyze:
//
//   - load puts a server under one level of load after another, and measures every request with the daemon's own code;
//   - model does the same on a model of a server, on virtual time, and finds the model of a server from a run;
//   - analyze makes the figures with their confidence, the doubts about them and the operating points, says which load
//     to measure next, and tells two runs apart;
//   - report draws the curves.
//
// TTFT, ITL, TPOT and success are those of docs/definitions.md.
package experiment
