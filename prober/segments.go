package prober

import "time"

// segments is what the kernel knows of the TCP segments with data of a connection.
type segments struct {
	count   int           // received so far
	waiting int           // bytes of them that are still unread
	full    int           // bytes in one that holds as much as fits
	idle    time.Duration // since one was sent
}

// segmentCounts tells whether bytes came in more TCP segments than it takes to hold them.
type segmentCounts struct {
	full  int // bytes of a write that surely fill a segment; 0: not known yet
	least int // segments that the batches so far needed at least, the current one left out

	seenCount, seenLeast int // at the last look
}

// fullSegment is what a long write fills segments to at least. Those of a loopback hold 64 KiB, but the kernel
// sends no more than half a window at a time.
const fullSegment = 16 << 10

func (s *segmentCounts) leastFor(bytes int) int {
	switch {
	case bytes == 0:
		return 0
	case s.full == 0:
		return 1
	}
	return (bytes + s.full - 1) / s.full
}

// newSegments looks at the segments that came since it was called last. extra is how many they are beyond those that
// one write a batch would explain. long: the current batch came in several, but one long write would explain it.
func (c *stampedConn) newSegments() (extra int, long bool) {
	now, ok := c.kernel.segments()
	if !ok {
		last := c.last.Load()
		if last == nil {
			return 0, false
		}
		now = *last
	}
	s := &c.counts
	s.full = min(now.full, fullSegment)
	read := s.leastFor(c.arrival.bytes)
	current, next := read, s.leastFor(now.waiting)
	if c.filled {
		current, next = s.leastFor(c.arrival.bytes+now.waiting), 0
	}
	count, least := now.count-s.seenCount, s.least+current+next-s.seenLeast
	if now.waiting == 0 {
		s.seenCount = now.count
	} else {
		// Nobody knows how many of the segments are those that wait. So all that need not have been read are
		// left to the next batch: rather too many than too few.
		s.seenCount += s.least + read - s.seenLeast
	}
	s.seenLeast = s.least + read
	return count - least, current > 1 && count-(least-current) > 1
}
