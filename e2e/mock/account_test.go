//go:build linux

package mock

import (
	"testing"
	"time"
)

// What is still in the kernel's queue when write(2) returns may leave at any time until the queue is seen empty.
func TestAccountOfWhatHasLeft(t *testing.T) {
	a := Account{Writes: []int64{1, 2, 3}, Returns: []int64{1}}
	before := time.Now().UnixNano()
	a.left()
	if len(a.Returns) != 3 || a.Returns[0] != 1 || a.Returns[1] < before || a.Returns[1] != a.Returns[2] {
		t.Errorf("%v", a.Returns)
	}
}
