package prober

import (
	"sync/atomic"
	"time"
)

// segments is what the kernel knows of the TCP segments with data of a connection.
type segments struct {
	count   int           // received so far
	waiting int           // bytes received that are still unread
	full    int           // bytes in a segment that holds as much as fits
	idle    time.Duration // since one was sent
}

// segmentCounter tells whether bytes came in more TCP segments than one write of the server for each batch explains.
// More segments mean that the server wrote several times before the reader looked.
type segmentCounter struct {
	full    int                      // bytes of a write that surely fill a segment; 0: not known yet
	needed  int                      // segments that the bytes before the current read took at least
	atClose atomic.Pointer[segments] // the last look at a connection that is closed

	seenCount, seenNeeded int // at the last look
}

// fullSegment is how many bytes of a long write a segment holds at least. Segments of a loopback interface hold 64 KiB,
// but the kernel sends no more than half a window at a time.
const fullSegment = 16 << 10

// atLeast is how many segments so many bytes of one write take at least.
func (s *segmentCounter) atLeast(bytes int) int {
	switch {
	case bytes == 0:
		return 0
	case s.full == 0:
		return 1
	}
	return (bytes + s.full - 1) / s.full
}

// readAll adds bytes whose reads took all there was.
func (s *segmentCounter) readAll(bytes int) { s.needed += s.atLeast(bytes) }

// since compares the segments that came since the last look with what the bytes need. bytes were returned since a read
// took all there was; more tells that the last read filled its buffer, so that what waits belongs to the same write.
// surplus is how many segments there are beyond those needed. long tells that the current bytes came in several
// segments, though one long write would explain them.
func (s *segmentCounter) since(now segments, bytes int, more bool) (surplus int, long bool) {
	s.full = min(now.full, fullSegment)
	read := s.atLeast(bytes)
	current, next := read, s.atLeast(now.waiting)
	if more {
		current, next = s.atLeast(bytes+now.waiting), 0
	}
	count, needed := now.count-s.seenCount, s.needed+current+next-s.seenNeeded
	if now.waiting == 0 {
		s.seenCount = now.count
	} else {
		// Nobody knows which segments hold the bytes that wait. All that the bytes read so far do not need are left to
		// the next batch: rather too many than too few.
		s.seenCount += s.needed + read - s.seenNeeded
	}
	s.seenNeeded = s.needed + read
	return count - needed, current > 1 && count-(needed-current) > 1
}
