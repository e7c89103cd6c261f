// Package prober sends fixed-shape streaming requests to LLM servers at a low open-loop rate and
// measures, from the outside, when each token arrives.
//
// A [Runner] owns one target: it decides when a probe is due ([Schedule]), sends it without waiting for
// the one before (open loop), and tells an [Observer] what happens while it happens. One probe is one
// streaming HTTP request; its outcome is a [Result] of plain time stamps and counts. The package knows
// nothing of Prometheus metrics and never formats a page.
//
// The definitions of TTFT, ITL, TPOT, success and every reason are those of docs/definitions.md.
package prober
