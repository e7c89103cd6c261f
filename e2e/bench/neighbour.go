//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// neighbourConfig describes a process that shares a processor.
type neighbourConfig struct {
	Idle bool // take only what no one else wants
}

// neighbourRole uses all of the processor that it is given, until it is killed.
func neighbourRole(config json.RawMessage, ready func(string)) (any, error) {
	var c neighbourConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	set := make(chan error)
	go func() {
		runtime.LockOSThread()
		var err error
		if c.Idle {
			err = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
		}
		set <- err
		for {
			_ = time.Now()
		}
	}()
	if err := <-set; err != nil {
		return nil, fmt.Errorf("becoming an idle task: %w", err)
	}
	ready("")
	return nil, nil
}
