package load

import (
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// keeper holds what a run has seen so far and tells the watcher of it, on one goroutine of its own: no request
// waits while a file is written.
type keeper struct {
	run     *experiment.Run
	watcher experiment.Watcher
	jobs    chan func()
	ended   chan struct{}
}

func newKeeper(run *experiment.Run, watcher experiment.Watcher) *keeper {
	k := &keeper{run: run, watcher: watcher, jobs: make(chan func(), 4096), ended: make(chan struct{})}
	go func() {
		defer close(k.ended)
		for job := range k.jobs {
			job()
		}
	}()
	return k
}

// do has something done, after all that was asked for before.
func (k *keeper) do(job func()) { k.jobs <- job }

// settled has something done and waits for it.
func (k *keeper) settled(job func()) {
	done := make(chan struct{})
	k.do(func() {
		defer close(done)
		job()
	})
	<-done
}

// close waits until all is done.
func (k *keeper) close() {
	close(k.jobs)
	<-k.ended
}

// request keeps a request that has ended.
func (k *keeper) request(r *experiment.Request) {
	k.do(func() {
		k.run.Requests = append(k.run.Requests, *r)
		k.watcher.Ended(r)
	})
}

func (k *keeper) entered(index int, phase experiment.Phase, at time.Time) {
	k.do(func() { k.watcher.Entered(index, phase, at) })
}

func (k *keeper) noted(text string) { k.do(func() { k.watcher.Noted(text) }) }
