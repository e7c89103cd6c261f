//go:build linux && (amd64 || arm64)

package prober

import (
	"testing"
	"time"
)

// A thread that watches several connections may be woken by one of them and told of another.
func TestWakeOfSeveralConnectionsEndsWhenItIsSeen(t *testing.T) {
	at := time.Now()
	now := at.Add(20 * time.Millisecond)
	for only, want := range map[bool]wake{true: {at.Add(-wakeSlack), at}, false: {at.Add(-wakeSlack), now}} {
		if got := wokenBy(at, now, only); got != want {
			t.Errorf("only one watched %v: came from %v to %v, want %v to %v", only, got.since, got.by, want.since, want.by)
		}
	}
	w := &Watch{watched: map[int32]*wakes{1: {}}, changes: 7}
	if got := w.only(); got != 7 {
		t.Errorf("one connection is watched: %d, want 7", got)
	}
	w.watched[2] = &wakes{}
	if got := w.only(); got != 0 {
		t.Errorf("two connections are watched: %d, want 0", got)
	}
}
