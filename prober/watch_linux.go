//go:build linux && (amd64 || arm64)

package prober

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watch tells when segments came on connections that are read late. Of segments that wait together the kernel keeps only
// the time stamp of the newest. But a thread that sleeps in epoll_wait(2) is woken by the first. How long it then waits
// for the processor (run delay) is in /proc/self/task/TID/schedstat. So the first segment came when epoll_wait returned,
// less the growth of the run delay.
//
// The thread reads nothing and takes about 5 us of processor time for each segment, so only connections that need it are
// watched.
type Watch struct {
	poll int // epoll(7)
	stop int // eventfd(2)

	mu      sync.Mutex
	watched map[int32]*wakes
	changes int // of what is watched
	done    chan struct{}
}

// NewWatch starts the thread. It returns nil, which watches nothing, where the kernel does not tell how long a thread
// waited for the processor, as under gVisor.
func NewWatch() *Watch {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(poll)
		return nil
	}
	w := &Watch{poll: poll, stop: stop, watched: make(map[int32]*wakes), done: make(chan struct{})}
	started := make(chan bool)
	go w.run(started)
	if !<-started {
		return nil
	}
	return w
}

// Close ends the thread. No connection may be made with the watch afterwards.
func (w *Watch) Close() {
	if w != nil {
		_, _ = unix.Write(w.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // eventfd(2): a number of eight bytes
		<-w.done
	}
}

// add watches a socket until remove is called, which must be before it is closed. The result is nil where it cannot
// be watched.
func (w *Watch) add(stamps *kernelStamps) (k *wakes, remove func()) {
	if w == nil || stamps == nil {
		return nil, func() {}
	}
	err := stamps.raw.Control(func(socket uintptr) {
		fd := int32(socket)
		w.mu.Lock()
		defer w.mu.Unlock()
		if unix.EpollCtl(w.poll, unix.EPOLL_CTL_ADD, int(fd), &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: fd}) != nil {
			return
		}
		k = &wakes{}
		w.watched[fd] = k
		w.changes++
		remove = sync.OnceFunc(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.watched, fd)
			w.changes++
			_ = unix.EpollCtl(w.poll, unix.EPOLL_CTL_DEL, int(fd), nil)
		})
	})
	if err != nil || k == nil {
		return nil, func() {}
	}
	return k, remove
}

// count is how many connections are watched now.
func (w *Watch) count() int {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watched)
}

// run waits for segments until it is told to stop.
func (w *Watch) run(started chan<- bool) {
	runtime.LockOSThread() // for ever: the thread ends with the goroutine
	defer close(w.done)
	defer unix.Close(w.stop)
	defer unix.Close(w.poll)
	err := unix.EpollCtl(w.poll, unix.EPOLL_CTL_ADD, w.stop, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(w.stop)})
	sched := openThreadStat()
	started <- err == nil && sched != nil
	if err != nil || sched == nil {
		return
	}
	defer unix.Close(sched.fd)
	events := make([]unix.EpollEvent, 256)
	since := time.Now() // all that came before it was told of
	for {
		only, before, asked := w.only(), sched.look(), time.Now()
		n, err := epollNow(w.poll, events)
		waited := n == 0 && err == nil
		if waited {
			n, err = unix.EpollWait(w.poll, events, -1)
		}
		now := time.Now()
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		came := wake{since, now}
		if after := sched.look(); waited && after.sleptSince(before) {
			came = wokenBy(now.Add(-(after.delay - before.delay)), now, only != 0 && only == w.only())
			asked = came.since
		}
		if n < len(events) { // else there may be more to tell of
			since = asked
		}
		if !w.note(events[:n], came) {
			return
		}
	}
}

// epollNow is epoll_wait(2) that does not wait. Without this first look, a wake-up could be taken for that of a segment
// that had come earlier. A thread of a Go program may sleep after epoll_wait has returned, until the runtime has a
// processor for it. If epoll_wait itself did not sleep, the run delay is that of this later sleep.
func epollNow(poll int, events []unix.EpollEvent) (n int, err error) {
	r, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(poll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}

// only identifies the one connection that is watched. It is 0 if several are, or none.
func (w *Watch) only() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.watched) != 1 {
		return 0
	}
	return w.changes
}

// wokenBy is when a segment came on a connection that epoll_wait(2) returned. The thread was woken at one moment, at, and
// given the processor at another, now. If several connections are watched, another one may have woken the thread, and
// this connection's segment may have come at any time until now.
func wokenBy(at, now time.Time, only bool) wake {
	if only {
		return wake{at.Add(-wakeSlack), at}
	}
	return wake{at.Add(-wakeSlack), now}
}

// wakeSlack is the time from the arrival of a segment until the thread looks at the clock, without its run delay. It was
// at most 60 us on a quiet machine.
const wakeSlack = 200 * time.Microsecond

// note tells the connections of events when a segment came. It reports false when the thread is to stop.
func (w *Watch) note(events []unix.EpollEvent, came wake) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		if int(e.Fd) == w.stop {
			return false
		}
		if k := w.watched[e.Fd]; k != nil {
			k.add(came)
		}
	}
	return true
}

// threadStat reads what the scheduler counts of a thread (CONFIG_SCHED_INFO).
type threadStat struct {
	fd     int
	buffer [96]byte
}

// threadCounts are sums over the life of a thread.
type threadCounts struct {
	delay     time.Duration // run delay: for how long it waited for the processor
	runs      int64         // times that it was given the processor
	sleeps    int64         // voluntary context switches
	preempted int64         // involuntary context switches
	ok        bool
}

// sleptSince reports whether the thread has slept exactly once since an earlier look, and was not preempted: then all
// growth of the run delay is the wait after its wake-up.
func (t threadCounts) sleptSince(before threadCounts) bool {
	return t.ok && before.ok && t.runs-before.runs == 1 && t.sleeps-before.sleeps == 1 && t.preempted == before.preempted
}

// openThreadStat is that of the calling thread; nil where the kernel has none.
func openThreadStat() *threadStat {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/task/%d/schedstat", unix.Gettid()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	s := &threadStat{fd: fd}
	if !s.look().ok {
		unix.Close(fd)
		return nil
	}
	return s
}

func (s *threadStat) look() (t threadCounts) {
	n, err := unix.Pread(s.fd, s.buffer[:], 0)
	if err != nil {
		return t
	}
	fields := bytes.Fields(s.buffer[:n])
	if len(fields) < 3 {
		return t
	}
	delay, err := strconv.ParseInt(string(fields[1]), 10, 64)
	count, err2 := strconv.ParseInt(string(fields[2]), 10, 64)
	var usage unix.Rusage
	if err != nil || err2 != nil || count == 0 || unix.Getrusage(unix.RUSAGE_THREAD, &usage) != nil {
		return t
	}
	return threadCounts{time.Duration(delay), count, usage.Nvcsw, usage.Nivcsw, true}
}
