package prober

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"
)

// Schedule tells when probes are due. It is absolute: a probe that starts late delays none of those after it,
// and what was missed is never caught up, for a burst would measure itself.
type Schedule struct {
	interval time.Duration
	phase    time.Duration // of the constant schedule, since the Unix epoch
	random   *rand.Rand    // of the Poisson schedule; nil: constant
	due      time.Time     // the slot that was returned last
}

// Phase spreads targets and replicas over the interval: probes that all start together measure each other. It
// depends on names only, so that it is the same after a restart.
func Phase(target, workload string, seed uint64, interval time.Duration) time.Duration {
	h := fnv.New64a()
	for _, part := range []string{target, workload, strconv.FormatUint(seed, 16)} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	// The low bits of FNV-1a of similar names are similar; spread them (the finalizer of SplitMix64).
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return time.Duration((x ^ x>>31) % uint64(interval))
}

// NewSchedule makes the schedule of one workload of one target. random is used by Poisson arrivals only.
func NewSchedule(arrival Arrival, interval, phase time.Duration, random *rand.Rand) *Schedule {
	s := &Schedule{interval: interval, phase: phase}
	if arrival == Poisson {
		s.random = random
	}
	return s
}

// Next returns when the next probe is due, later than now, and how many slots have passed unused since the one
// it returned before. The time carries now's monotonic reading, so that waiting for it survives a step of the
// wall clock; a step moves the slots of a constant schedule along.
func (s *Schedule) Next(now time.Time) (due time.Time, missed int) {
	if s.random != nil {
		return s.nextPoisson(now)
	}
	// Slots are counted on the wall clock, distances on the monotonic one.
	wait := s.interval - (time.Duration(now.UnixNano())-s.phase)%s.interval
	due = now.Add(wait)
	if s.due.IsZero() {
		s.due = due
		return due, 0
	}
	// The timer may have fired a moment before its slot by the wall clock: that slot has been used.
	if due.Sub(s.due) < s.interval/2 {
		due = due.Add(s.interval)
	}
	missed = int((due.Sub(s.due) - s.interval/2) / s.interval)
	s.due = due
	return due, missed
}

func (s *Schedule) nextPoisson(now time.Time) (due time.Time, missed int) {
	if s.due.IsZero() {
		s.due = now
	}
	missed = -1 // the slot that was returned before is not missed, nor is the start
	for missed < 0 || !s.due.After(now) {
		s.due = s.due.Add(time.Duration(s.random.ExpFloat64() * float64(s.interval)))
		missed++
	}
	return s.due, missed
}
