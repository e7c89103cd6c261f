//go:build linux

package main

import (
	"sync/atomic"
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

// counting is an observer that punches a ticket of the mock.
type counting struct {
	prober.Observers
	read *atomic.Int64
}

func (c counting) Started(*prober.Probe)                         { c.read.Store(0) }
func (c counting) Token(*prober.Probe, time.Time, time.Duration) { c.read.Add(1) }
