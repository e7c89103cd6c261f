package main

import (
	"context"
	"sync"

	"github.com/llm-prober/llm_prober/internal/web"
	"github.com/llm-prober/llm_prober/prober"
)

// lifetime is that of a name of a target, from the first target that has it to its removal. Targets that replace one
// another share it. It is the observer through which they write the history.
type lifetime struct {
	*web.History
	ctx context.Context // of all that runs under the name; nil before the start
	end context.CancelFunc

	mu   sync.Mutex
	over bool
}

var _ prober.Observer = (*lifetime)(nil)

// close ends all that runs under the name and forgets it. What ends after that is nobody's.
func (l *lifetime) close(name string) {
	l.end()
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.Forget(name)
}

// Ended implements [prober.Observer].
func (l *lifetime) Ended(r *prober.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		late := *r
		late.Abandoned = true
		r = &late
	}
	l.History.Ended(r)
}

// Missed implements [prober.Observer].
func (l *lifetime) Missed(target, workload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.History.Missed(target, workload)
	}
}
