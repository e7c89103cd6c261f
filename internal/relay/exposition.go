package relay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// Bounds on a page, so that the work on it is a bounded multiple of its size. vLLM 0.32 shows 686 lines, 37 labels
// in the longest (its cache configuration), and values of at most 24 characters, as Python writes them.
const (
	maxSamples   = 250_000
	maxWanted    = 30_000 // samples that are wanted: 64 engines of eight ranks show 13,000
	maxLabels    = 128    // of a sample
	maxNumberLen = 1024   // characters of a number
	strideBytes  = 64 << 10
)

// errBounds: a page exceeds one of the bounds.
var errBounds = errors.New("the page is out of bounds")

const (
	faultLine    = "it is longer than is read"        // maxLine
	faultLabels  = "it has more labels than are read" // maxLabels
	faultSamples = "more samples than are read"       // maxSamples, maxWanted
)

// pageFault is what is wrong with a page.
type pageFault struct {
	line int
	text string
}

func (f *pageFault) Error() string { return fmt.Sprintf("line %d: %s", f.line, f.text) }

// label is one label of a sample. Its parts are valid only while the sample is visited.
type label struct{ name, value []byte }

// scanner reads a metrics page in the Prometheus text format (0.0.4 and 1.0.0) or in OpenMetrics 1.0.
//
// It checks every line and gives out only the samples it was asked for: a page of vLLM is 56 kB, read once a
// second, of which the relay uses some twenty lines; building all families of it costs expfmt about 3 ms and
// 17,000 allocations. It is stricter than expfmt where a half-written or mangled page could pass for a value
// (names and values need a blank or a brace between them, the last line must be complete), and more lenient in
// what cannot change a value: a byte order mark, CR LF, blanks at the end of a line, the wording of comments.
//
// The zero value wants nothing. A scanner is not safe for concurrent use.
type scanner struct {
	want map[string]int // sample name to the number that visit is given

	// detect, unless nil, is told the name of each sample before it is looked up, until it reports that it knows enough.
	detect func(name []byte) (enough bool)
	// steps counts the work: a byte read, a label compared with another, a series looked at is a step each. Tests
	// hold it against the size of the page.
	steps int

	lines     lineReader
	number    int     // of the line being read
	wanted    int     // samples so far
	only      error   // the first thing that only OpenMetrics has, where the page was not announced as such
	labels    []label // of the line being read; reused
	unescaped []byte  // label values that held an escape; reused
}

// visitFunc is told of a wanted sample. It must not keep labels or anything they point to.
type visitFunc func(want int, labels []label, value float64)

// scan reads a whole page. An error names the first bad line, or is that of the reader; what was visited before it
// must be thrown away. openMetrics is what the content type says; a page that ends in "# EOF" is OpenMetrics whatever
// that says.
func (s *scanner) scan(page io.Reader, openMetrics bool, visit visitFunc) error {
	s.lines.reset(page)
	defer func() { s.steps += s.lines.release() }()
	if cap(s.unescaped) > lineBuffer {
		s.unescaped = nil
	}
	s.steps, s.number, s.wanted, s.only = 0, 0, 0, nil
	var after error // the first line that follows a "# EOF"
	ended := false
	for samples := 0; ; {
		line, terminated, err := s.lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if s.number++; err != nil {
			return s.readFault(err)
		}
		if line = s.trim(line); ended {
			after = cmp.Or(after, s.fault("there is text after # EOF"))
			if ended = false; openMetrics {
				return after
			}
		}
		switch {
		case string(line) == "# EOF":
			ended = true
			continue // the one line that may lack a line feed
		case bytes.IndexByte(line, 0) >= 0:
			return s.fault("it holds a NUL byte")
		case !terminated:
			return s.fault("the page is cut off in this line")
		case len(line) == 0 || line[0] == '#':
			continue
		}
		if samples++; samples > maxSamples {
			return s.fault(faultSamples)
		}
		if fault := s.sample(line, openMetrics, visit); fault != "" {
			return s.fault(fault)
		}
	}
	switch {
	case ended:
		return after
	case openMetrics:
		return s.fault("the page is cut off: OpenMetrics without # EOF")
	}
	return s.only
}

// trim takes off what surrounds a line and means nothing.
func (s *scanner) trim(line []byte) []byte {
	if s.number == 1 {
		line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
	}
	line = trimBlanks(bytes.TrimSuffix(line, []byte("\r")))
	for len(line) > 0 && isBlank(line[len(line)-1]) {
		line = line[:len(line)-1]
	}
	return line
}

// fault is an error about the line being read.
func (s *scanner) fault(text string) error {
	fault := &pageFault{s.number, text}
	if text == faultLine || text == faultLabels || text == faultSamples {
		return fmt.Errorf("%w: %w", errBounds, fault)
	}
	return fault
}

// readFault is the error for a line that could not be read.
func (s *scanner) readFault(err error) error {
	if errors.Is(err, errLine) {
		return s.fault(faultLine)
	}
	return err
}

// note keeps in mind the first thing that only OpenMetrics has. Whether it is a fault, the end of the page tells.
func (s *scanner) note(format string, quoted []byte) {
	if s.only == nil {
		s.only = s.fault(fmt.Sprintf(format, excerpt(quoted)))
	}
}

// lookUp tells whether a sample is wanted.
func (s *scanner) lookUp(name []byte) (want int, wanted bool) {
	if s.detect != nil && s.detect(name) {
		s.detect = nil
	}
	want, wanted = s.want[string(name)]
	return want, wanted
}

// sample reads one line: name, labels, value, timestamp, exemplar. It returns what is wrong with it.
func (s *scanner) sample(line []byte, openMetrics bool, visit visitFunc) (fault string) {
	s.labels, s.unescaped = s.labels[:0], s.unescaped[:0]
	name, rest := cutName(line, true)
	bare := len(name) > 0
	if !bare && line[0] != '{' {
		return "it begins with no metric name"
	}
	var want int
	var wanted bool
	if bare {
		want, wanted = s.lookUp(name)
	}
	blank := len(rest) > 0 && isBlank(rest[0])
	rest = trimBlanks(rest)
	if len(rest) > 0 && rest[0] == '{' {
		if rest, fault = s.labelSet(rest[1:], &name, wanted || !bare); fault != "" {
			return fault
		}
		if len(name) == 0 {
			return "it has labels but no metric name"
		}
		if !bare {
			want, wanted = s.lookUp(name)
		}
	} else if !blank {
		return "the metric name holds a character that is not allowed, or has no value"
	}
	value, rest, fault := cutNumber(rest)
	if fault != "" {
		return fault
	}
	if fault := s.tail(rest, openMetrics); fault != "" {
		return fault
	}
	if !wanted {
		return ""
	}
	if s.wanted++; s.wanted > maxWanted {
		return faultSamples
	}
	visit(want, s.labels, value)
	return ""
}

// labelSet reads labels after their opening brace, up to and with the closing one. Where the metric name is in
// the braces (`{"name",a="b"}`, text 1.0.0), it is stored in name, which must be empty then.
func (s *scanner) labelSet(rest []byte, name *[]byte, keep bool) (after []byte, fault string) {
	first := len(*name) == 0
	begin := len(s.labels)
	for {
		rest = trimBlanks(rest)
		if len(rest) > 0 && rest[0] == '}' {
			if !keep {
				s.labels = s.labels[:begin]
			}
			return rest[1:], ""
		}
		var key, value []byte
		quoted := len(rest) > 0 && rest[0] == '"'
		if key, rest, fault = s.labelName(rest); fault != "" {
			return nil, fault
		}
		rest = trimBlanks(rest)
		switch {
		case len(rest) > 0 && rest[0] == '=':
			if rest, fault = s.labelValue(trimBlanks(rest[1:]), &value); fault != "" {
				return nil, fault
			}
			if s.repeated(key, begin) {
				return nil, "a label name is used twice or reserved"
			}
			if len(s.labels)-begin == maxLabels {
				return nil, faultLabels
			}
			s.labels = append(s.labels, label{key, value})
		case first && quoted:
			*name = key
		default:
			return nil, "a label has no value"
		}
		first = false
		rest = trimBlanks(rest)
		switch {
		case len(rest) > 0 && rest[0] == ',':
			rest = rest[1:]
		case len(rest) == 0 || rest[0] != '}':
			return nil, "neither a comma nor a closing brace follows a label"
		}
	}
}

func (s *scanner) repeated(name []byte, begin int) bool {
	s.steps += len(s.labels) - begin
	for _, l := range s.labels[begin:] {
		if bytes.Equal(l.name, name) {
			return true
		}
	}
	return string(name) == "__name__"
}

// labelName reads a bare label name or a quoted name.
func (s *scanner) labelName(rest []byte) (name, after []byte, fault string) {
	if len(rest) > 0 && rest[0] == '"' {
		if after, fault = s.labelValue(rest, &name); fault == "" && (len(name) == 0 || !utf8.Valid(name)) {
			fault = "a quoted name is empty or not UTF-8"
		}
		return name, after, fault
	}
	if name, after = cutName(rest, false); len(name) == 0 {
		return nil, nil, "a label name is missing or holds a character that is not allowed"
	}
	return name, after, ""
}

// labelValue reads a quoted string and resolves its escapes.
func (s *scanner) labelValue(rest []byte, value *[]byte) (after []byte, fault string) {
	if len(rest) == 0 || rest[0] != '"' {
		return nil, "a label value is not quoted"
	}
	rest = rest[1:]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return nil, "a quoted string has no end"
	}
	if bytes.IndexByte(rest[:end], '\\') < 0 { // nearly always
		*value = rest[:end]
		return rest[end+1:], ""
	}
	begin := len(s.unescaped)
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		switch c {
		case '"':
			*value = s.unescaped[begin:len(s.unescaped):len(s.unescaped)]
			return rest[i+1:], ""
		case '\\':
			if i++; i == len(rest) {
				return nil, "a quoted string has no end"
			}
			switch c = rest[i]; c {
			case '\\', '"':
			case 'n':
				c = '\n'
			default:
				return nil, fmt.Sprintf("a quoted string holds the escape \\%c, which does not exist", c)
			}
		}
		s.unescaped = append(s.unescaped, c)
	}
	return nil, "a quoted string has no end"
}

// tail checks what may follow a value: a timestamp and, in OpenMetrics, an exemplar.
func (s *scanner) tail(rest []byte, openMetrics bool) (fault string) {
	if rest = trimBlanks(rest); len(rest) == 0 {
		return ""
	}
	if rest[0] != '#' {
		const noStamp = "%q after the value is no timestamp"
		var stamp []byte
		stamp, rest = cutToken(rest)
		switch {
		case isTimestamp(stamp, openMetrics):
		case !openMetrics && isTimestamp(stamp, true):
			s.note(noStamp, stamp)
		default:
			return fmt.Sprintf(noStamp, excerpt(stamp))
		}
		if rest = trimBlanks(rest); len(rest) == 0 {
			return ""
		}
	}
	const more = "there is %q after the value"
	switch {
	case rest[0] != '#':
		return fmt.Sprintf(more, excerpt(rest))
	case !openMetrics:
		s.note(more, rest)
	}
	return s.exemplar(trimBlanks(rest[1:]))
}

// exemplar checks `{labels} value [timestamp]` and keeps nothing of it.
func (s *scanner) exemplar(rest []byte) (fault string) {
	if len(rest) == 0 || rest[0] != '{' {
		return "an exemplar has no labels"
	}
	name := []byte("exemplar") // it has none of its own: none may stand in the braces
	if rest, fault = s.labelSet(rest[1:], &name, false); fault != "" {
		return "exemplar: " + fault
	}
	if _, rest, fault = cutNumber(rest); fault != "" {
		return "exemplar: " + fault
	}
	if rest = trimBlanks(rest); len(rest) > 0 && !isTimestamp(rest, true) {
		return fmt.Sprintf("exemplar: %q is no timestamp", excerpt(rest))
	}
	return ""
}

// cutName cuts a metric name (which may hold colons) or a label name off the front; empty if there is none.
func cutName(b []byte, metric bool) (name, rest []byte) {
	i := 0
	for i < len(b) {
		c := b[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || metric && c == ':'
		if !letter && (i == 0 || c < '0' || c > '9') {
			break
		}
		i++
	}
	return b[:i], b[i:]
}

// cutNumber reads a value as Go and Python write it; hexadecimal and underscores, which Go would read, are refused.
func cutNumber(b []byte) (value float64, rest []byte, fault string) {
	token, rest := cutToken(trimBlanks(b))
	if len(token) == 0 {
		return 0, nil, "the value is missing"
	}
	if len(token) > maxNumberLen {
		return 0, nil, fmt.Sprintf("%q is no value", excerpt(token))
	}
	value, err := strconv.ParseFloat(string(token), 64)
	if err != nil || bytes.ContainsAny(token, "pP_") {
		return 0, nil, fmt.Sprintf("%q is no value", excerpt(token))
	}
	return value, rest, ""
}

// isTimestamp tells whether b is a timestamp: whole milliseconds in text, seconds with a fraction in OpenMetrics.
func isTimestamp(b []byte, openMetrics bool) bool {
	if !openMetrics {
		_, err := strconv.ParseInt(string(b), 10, 64)
		return err == nil
	}
	if len(b) > maxNumberLen {
		return false
	}
	_, err := strconv.ParseFloat(string(b), 64)
	return err == nil && !bytes.ContainsAny(b, "pPnN_") // not NaN, not Inf
}

func cutToken(b []byte) (token, rest []byte) {
	for i, c := range b {
		if isBlank(c) {
			return b[:i], b[i:]
		}
	}
	return b, nil
}

func trimBlanks(b []byte) []byte {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	return b
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// excerpt bounds what a message quotes of a page.
func excerpt(b []byte) []byte { return b[:min(len(b), 40)] }
