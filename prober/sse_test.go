package prober

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// readAll returns the events of a stream, "name|data" each.
func readAll(src io.Reader) (events []string, err error) { return readEvents(newSSEReader(src)) }

func readEvents(s *sseReader) (events []string, err error) {
	for {
		e, err := s.next()
		if err != nil {
			return events, err
		}
		text := string(e.data)
		if len(e.stray) > 0 {
			text += "‖" + string(e.stray)
		}
		if len(e.name) > 0 {
			text = string(e.name) + "|" + text
		}
		events = append(events, text)
	}
}

var sseCases = []struct {
	name   string
	stream string
	want   []string
}{
	{"LF", "data: a\n\ndata: b\n\n", []string{"a", "b"}},
	{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
	{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
	{"mixed line ends", "data: a\n\r\ndata: b\r\n\ndata: c\r\n\r", []string{"a", "b", "c"}},
	{"no space after the colon", "data:a\n\n", []string{"a"}},
	{"only one space belongs to the separator", "data:  a \n\n", []string{" a "}},
	{"no colon", "data\n\n", []string{""}},
	{"lines of no known field", "error: {\"code\":500}\n\n{\"a\":1}\r\nb\r\n\r\ndata: a\nfoo\n\n", []string{"‖error: {\"code\":500}", "‖{\"a\":1}\nb", "a‖foo"}},
	{"comments", ": keep-alive\n\n:\n\ndata: a\n: x\n\n", []string{"a"}},
	{"a thousand comments", strings.Repeat(":\n\n", 1000) + "data: a\n\n", []string{"a"}},
	{"id and retry are skipped", "id: 1\nretry: 5\ndata: a\nid: 2\n\n", []string{"a"}},
	{"an event with a name", "event: error\ndata: a\n\ndata: b\n\n", []string{"error|a", "b"}},
	{"a name alone", "event: ping\n\ndata: b\n\n", []string{"ping|", "b"}},
	{"several data lines", "data: {\ndata:  \"a\":1\ndata: }\n\n", []string{"{\n \"a\":1\n}"}},
	{"several data lines, CRLF", "data: a\r\ndata: b\r\n\r\n", []string{"a\nb"}},
	{"empty data lines", "data:\ndata:\n\n", []string{"\n"}},
	{"byte order mark", "\xEF\xBB\xBFdata: a\n\n", []string{"a"}},
	{"byte order mark of a comment", "\xEF\xBB\xBF: c\n\ndata: a\n\n", []string{"a"}},
	{"only CR and LF end a line", "data: a\u2028b\u2029c\u0085d\ve\ff\n\n", []string{"a\u2028b\u2029c\u0085d\ve\ff"}},
	{"an unfinished event is dropped", "data: a\n\ndata: b\n", []string{"a"}},
	{"many empty lines", "\n\n\r\n\rdata: a\n\n\n\n", []string{"a"}},
	{"other fields", "datas: x\nfoo\ndata: a\n\n", []string{"a‖datas: x\nfoo"}},
	{"nothing", "", nil},
	{"70 kB in one line", "data: " + strings.Repeat("a", 70_000) + "\n\ndata: b\n\n", []string{strings.Repeat("a", 70_000), "b"}},
	{"4 MB in one line", "data: " + strings.Repeat("a", 4_000_000) + "\n\n", []string{strings.Repeat("a", 4_000_000)}},
	{"a buffer's length of events", strings.Repeat("data: 0123456789\n\n", 1000), slicesRepeat("0123456789", 1000)},
}

func slicesRepeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

func TestSSEReader(t *testing.T) {
	for _, c := range sseCases {
		for how, src := range map[string]io.Reader{
			"at once":      strings.NewReader(c.stream),
			"byte by byte": iotest.OneByteReader(strings.NewReader(c.stream)),
			"halves":       iotest.HalfReader(strings.NewReader(c.stream)),
			"error early":  iotest.DataErrReader(strings.NewReader(c.stream)),
		} {
			t.Run(c.name+", "+how, func(t *testing.T) {
				got, err := readAll(src)
				if err != io.EOF {
					t.Errorf("error %v, want EOF", err)
				}
				if !cmp.Equal(got, c.want) {
					t.Errorf("%d events %.200q, want %.200q", len(got), got, c.want)
				}
			})
		}
	}
}

// An event must not wait for bytes after its own: the next may be far away.
func TestSSEReaderReturnsAnEventWithItsLastByte(t *testing.T) {
	for _, stream := range []string{"data: a\n\n", "data: a\r\n\r", "data: a\r\r", "data: a\r\n\n"} {
		stop := errors.New("read past the event")
		s := newSSEReader(io.MultiReader(strings.NewReader(stream), iotest.ErrReader(stop)))
		if e, err := s.next(); err != nil || string(e.data) != "a" {
			t.Errorf("%q: event %q, error %v", stream, e.data, err)
		}
		if _, err := s.next(); err != stop {
			t.Errorf("%q: then error %v", stream, err)
		}
	}
}

// endless repeats a text for ever.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e) <= len(p) {
		n += copy(p[n:], e)
	}
	if n == 0 {
		n = copy(p, e)
	}
	return n, nil
}

func TestSSEReaderIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		stream endless
		want   string
	}{
		"an endless line":         {"aaaaaaaaaaaaaaaa", "event exceeds 8388608 bytes"},
		"an endless event":        {"data: aaaaaaaaa\n", "event exceeds 8388608 bytes"},
		"an event of endless ids": {"data: a\nid: aaaa\n", "stream exceeds 67108864 bytes"},
		"endless comments":        {": aaaaaaaaaaaaa\n", "stream exceeds 67108864 bytes"},
		"endless events":          {"data: aaaaaaaa\n\n", "stream exceeds 67108864 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSSEReader(c.stream)
			var err error
			for err == nil {
				_, err = s.next()
				if len(s.buf) > 4*maxEventBytes || cap(s.joined) > 4*maxEventBytes {
					t.Fatalf("holds %d and %d bytes", len(s.buf), cap(s.joined))
				}
			}
			if !errors.Is(err, errTooLarge) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

// maxWork is how many bytes the reader looks at or moves for each that it reads: a line end is looked for twice, what
// must be kept is moved when the buffer is full, and copied where it is joined.
const maxWork = 8

// However a stream is made, the reader's work is linear in its length.
func TestSSEReaderWorkPerByte(t *testing.T) {
	event := "data: " + strings.Repeat("a", 300_000)
	for name, stream := range map[string]string{
		"comments with CR behind a large event":       event + "\n" + strings.Repeat(":\r", 150_000),
		"comments with LF behind a large event":       event + "\r" + strings.Repeat(":\n", 150_000),
		"comments with CRLF behind a large event":     event + "\n" + strings.Repeat(":\r\n", 100_000),
		"comments with CR and an LF at the end":       strings.Repeat(":\r", 300_000) + "\n",
		"empty lines with CR":                         strings.Repeat("\r", 600_000),
		"unknown lines":                               event + "\n" + strings.Repeat("x\r", 150_000),
		"names":                                       event + "\n" + strings.Repeat("event: x\r", 30_000),
		"empty data lines":                            event + "\n" + strings.Repeat("data:\r", 50_000),
		"tiny events":                                 strings.Repeat("data:\r\r", 100_000),
		"tiny events behind a large one":              event + "\n\n" + strings.Repeat("data:\r\r", 100_000),
		"large events":                                strings.Repeat(event+"\r\n\r\n", 4),
		"events a little larger than the buffer":      strings.Repeat("data: "+strings.Repeat("a", readBufferBytes)+"\n\n", 100),
		"events a little larger than half the buffer": strings.Repeat("data: "+strings.Repeat("a", readBufferBytes/2)+"\n\n", 200),
		"one line without an end":                     event,
	} {
		for how, src := range map[string]io.Reader{
			"at once": strings.NewReader(stream),
			"halves":  iotest.HalfReader(strings.NewReader(stream)),
			"pieces":  &chunkedReader{[]byte(stream), 7},
		} {
			s := newSSEReader(src)
			var err error
			for err == nil {
				_, err = s.next()
			}
			if most := int64(maxWork * len(stream)); err != io.EOF || s.total != int64(len(stream)) || s.work > most {
				t.Errorf("%s, %s: read %d of %d bytes (%v) with work on %d, want at most %d", name, how, s.total, len(stream), err, s.work, most)
			}
		}
	}
}

func TestSSEReaderAllocatesNothingForAnOrdinaryEvent(t *testing.T) {
	s := newSSEReader(endless("data: {\"choices\":[]}\n\n"))
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := s.next(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// A reader that returns nothing and no error must not spin.
func TestSSEReaderGivesUpOnNoProgress(t *testing.T) {
	if _, err := readAll(readerFunc(func([]byte) (int, error) { return 0, nil })); err != io.ErrNoProgress {
		t.Errorf("error %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// FuzzSSEReader: however a stream is cut into reads, the events are the same, and they are those of a
// line-by-line reading of the standard.
func FuzzSSEReader(f *testing.F) {
	for _, c := range sseCases {
		if len(c.stream) < 1000 {
			f.Add([]byte(c.stream), 3)
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		whole, err := readAll(bytes.NewReader(stream))
		if err != io.EOF {
			t.Fatal(err)
		}
		s := newSSEReader(&chunkedReader{stream, max(1, size%97)})
		cut, err := readEvents(s)
		if err != io.EOF {
			t.Fatal(err)
		}
		if s.work > int64(maxWork*len(stream)) {
			t.Errorf("work on %d bytes for %d", s.work, len(stream))
		}
		want := referenceEvents(string(stream))
		if !cmp.Equal(whole, want) || !cmp.Equal(cut, want) {
			t.Errorf("at once %q\nin pieces %q\nreference %q", whole, cut, want)
		}
	})
}

type chunkedReader struct {
	rest []byte
	size int
}

func (r *chunkedReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(r.size, len(p))], r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// referenceEvents is the standard's algorithm in its simplest form: normalise line ends, split, interpret.
func referenceEvents(stream string) (events []string) {
	stream = strings.TrimPrefix(stream, "\xEF\xBB\xBF")
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(stream, "\n")
	var data, stray []string
	var name string
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if data != nil || name != "" || stray != nil {
				text := strings.Join(data, "\n")
				if stray != nil {
					lines := strings.Join(stray, "\n")
					text += "‖" + lines[:min(len(lines), maxStray)]
				}
				if name != "" {
					text = fmt.Sprintf("%s|%s", name, text)
				}
				events = append(events, text)
			}
			data, stray, name = nil, nil, ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data = append(data, value)
		case "event":
			name = value
		case "", "id", "retry":
		default:
			stray = append(stray, line)
		}
	}
	return events
}

// What follows an event in what was read is the rest of it: further events, or the beginning of one.
func TestUnfinished(t *testing.T) {
	for text, want := range map[string]string{
		"data: a\n\n":                "a false",
		"data: a\r\n\r\n":            "a false",
		"data: a\r\r":                "a false",
		"data: a\n\ndata: b\n\n":     "a true, b false",
		"data: a\r\n\r\nd":           "a true",
		"data: a\n\n: a comment\n\n": "a true",
	} {
		s := newSSEReader(strings.NewReader(text))
		var got []string
		for {
			e, err := s.next()
			if err != nil {
				break
			}
			got = append(got, fmt.Sprintf("%s %v", e.data, s.unfinished()))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
