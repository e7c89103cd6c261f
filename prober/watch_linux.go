//go:build linux && (amd64 || arm64)

package prober

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Watch tells when bytes came on connections whose reader may be late. The kernel's stamps tell only when the newest
// of the segments came that waited together. A thread that slept in epoll_wait(2) was woken by the first of them, and
// how long it then waited for the processor is in /proc/self/task/TID/schedstat.
//
// The thread reads nothing and takes about 5 us for each segment, so only connections that need it are watched.
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
	sched := openSchedule()
	started <- err == nil && sched != nil
	if err != nil || sched == nil {
		return
	}
	defer unix.Close(sched.fd)
	events := make([]unix.EpollEvent, 256)
	looked, before := time.Now(), sched.look() // what comes now came after this
	for {
		asked, only := time.Now(), w.only()
		n, err := unix.EpollWait(w.poll, events, -1)
		now := time.Now()
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		after, came := sched.look(), wake{looked, now}
		looked = asked
		if after.sleptSince(before) {
			came = woken(now.Add(-(after.delay - before.delay)), now, only != 0 && only == w.only())
			looked = came.since
		}
		before = after
		if !w.note(events[:n], came) {
			return
		}
	}
}

// only is a number that stands for the one connection that is watched; 0: there are several, or none.
func (w *Watch) only() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.watched) != 1 {
		return 0
	}
	return w.changes
}

// woken is when something came on a connection that epoll_wait(2) tells of, when its thread was woken at one moment and
// given the processor at another. Of several connections, the one that woke the thread may have been read since, and
// what is told of have come later.
func woken(at, now time.Time, only bool) wake {
	if only {
		return wake{at.Add(-wakeSlack), at}
	}
	return wake{at.Add(-wakeSlack), now}
}

// wakeSlack is what it takes from the arrival of a segment until the thread has looked at the clock, the wait for the
// processor left out. It took at most 60 us on a quiet machine.
const wakeSlack = 200 * time.Microsecond

// note tells each connection when something came. It reports false when the thread is to stop.
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

// schedule reads how often a thread was given the processor, and how long it had waited for it (CONFIG_SCHED_INFO).
type schedule struct {
	fd     int
	buffer [96]byte
}

// turns are sums over the life of a thread.
type turns struct {
	delay             time.Duration // waited for the processor
	given             int64         // times that it got it
	slept, interrupts int64         // times that it gave it away (voluntary context switches), and that it was taken
	ok                bool
}

// sleptSince tells that since an earlier look the thread slept once, was woken, and did nothing but wait for the processor.
func (t turns) sleptSince(before turns) bool {
	return t.ok && before.ok && t.given-before.given == 1 && t.slept-before.slept == 1 && t.interrupts == before.interrupts
}

// openSchedule is that of the calling thread; nil where there is none.
func openSchedule() *schedule {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/task/%d/schedstat", unix.Gettid()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	s := &schedule{fd: fd}
	if !s.look().ok {
		unix.Close(fd)
		return nil
	}
	return s
}

func (s *schedule) look() (t turns) {
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
	return turns{time.Duration(delay), count, usage.Nvcsw, usage.Nivcsw, true}
}
