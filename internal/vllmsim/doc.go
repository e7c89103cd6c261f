// Package vllmsim is a vLLM look-alike for the demo, the tests and the benchmarks.
//
// It has two layers. An [Engine] is the scheduler: it decides when each token of each request is ready, by a
// [Model] of one GPU. A [Server] is the API server in front of it: the wire format of vLLM 0.32, its /metrics
// page, and faults that can be switched while it runs. Its answers are held against recordings of the real one
// by the tests of this package.
//
// Nothing here has a clock of its own: under testing/synctest the package runs on virtual time.
package vllmsim
