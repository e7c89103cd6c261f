package relay

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Bounds on a page, so that the work on it is a bounded multiple of its size. vLLM 0.32 shows 686 lines, 37 labels
// in the longest (its cache configuration), and values of at most 24 characters, as Python writes them.
const (
	maxSamples   = 250_000
	maxLabels    = 128  // of a sample
	maxNumberLen = 1024 // characters of a number
	strideBytes  = 64 << 10
)

// errBounds: a page exceeds one of the bounds.
var errBounds = errors.New("the page is out of bounds")

const (
	faultLabels  = "it has more labels than are read" // maxLabels
	faultSamples = "more samples than are read"       // maxSamples
)

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

	// pause, where set, is called after every strideBytes bytes, or the line in which they end. Its error ends the scan.
	pause func() error
	// steps counts the work: a byte read, a label compared with another, a series looked at is a step each. Tests
	// hold it against the size of the page.
	steps int

	labels    []label // of the line being read; reused
	unescaped []byte  // label values that held an escape; reused
}

// visitFunc is told of a wanted sample. It must not keep labels or anything they point to.
type visitFunc func(want int, labels []label, value float64)

// scan reads a whole page. An error names the first bad line; what was visited before it must be thrown away.
// openMetrics is what the content type says; a page that ends in "# EOF" is OpenMetrics whatever that says.
func (s *scanner) scan(page []byte, openMetrics bool, visit visitFunc) error {
	s.steps = len(page)
	if cap(s.unescaped) > strideBytes {
		s.unescaped = nil
	}
	page = bytes.TrimPrefix(page, []byte("\xEF\xBB\xBF"))
	if i := bytes.IndexByte(page, 0); i >= 0 {
		return lineError(1+bytes.Count(page[:i], []byte("\n")), "it holds a NUL byte")
	}
	if endsInEOF(page) {
		openMetrics = true
	}
	ended := false
	number, samples, stride := 0, 0, 0
	for len(page) > 0 {
		number++
		if stride >= strideBytes && s.pause != nil {
			stride = 0
			if err := s.pause(); err != nil {
				return err
			}
		}
		line, rest, terminated := bytes.Cut(page, []byte("\n"))
		page, stride = rest, stride+len(line)+1
		line = bytes.Trim(bytes.TrimSuffix(line, []byte("\r")), " \t")
		switch {
		case ended:
			return lineError(number, "there is text after # EOF")
		case openMetrics && string(line) == "# EOF":
			ended = true
			continue // the one line that may lack a line feed
		case !terminated:
			return lineError(number, "the page is cut off in this line")
		case len(line) == 0 || line[0] == '#':
			continue
		}
		if samples++; samples > maxSamples {
			return lineError(number, faultSamples)
		}
		if fault := s.sample(line, openMetrics, visit); fault != "" {
			return lineError(number, fault)
		}
	}
	if openMetrics && !ended {
		return lineError(number, "the page is cut off: OpenMetrics without # EOF")
	}
	return nil
}

func lineError(line int, fault string) error {
	if fault == faultLabels || fault == faultSamples {
		return fmt.Errorf("%w: line %d: %s", errBounds, line, fault)
	}
	return fmt.Errorf("line %d: %s", line, fault)
}

// endsInEOF reports whether the last line of a page is "# EOF".
func endsInEOF(page []byte) bool {
	page = bytes.TrimRight(page, "\r\n")
	last := page[bytes.LastIndexByte(page, '\n')+1:]
	return string(last) == "# EOF"
}

// sample reads one line: name, labels, value, timestamp, exemplar. It returns what is wrong with it.
func (s *scanner) sample(line []byte, openMetrics bool, visit visitFunc) (fault string) {
	s.labels, s.unescaped = s.labels[:0], s.unescaped[:0]
	name, rest := cutName(line, true)
	if len(name) == 0 && line[0] != '{' {
		return "it begins with no metric name"
	}
	want, wanted := s.want[string(name)]
	blank := len(rest) > 0 && isBlank(rest[0])
	rest = trimBlanks(rest)
	if len(rest) > 0 && rest[0] == '{' {
		if rest, fault = s.labelSet(rest[1:], &name, wanted || len(name) == 0); fault != "" {
			return fault
		}
		if want, wanted = s.want[string(name)]; len(name) == 0 {
			return "it has labels but no metric name"
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
	if wanted {
		visit(want, s.labels, value)
	}
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
		var stamp []byte
		stamp, rest = cutToken(rest)
		if !isTimestamp(stamp, openMetrics) {
			return fmt.Sprintf("%q after the value is no timestamp", excerpt(stamp))
		}
		if rest = trimBlanks(rest); len(rest) == 0 {
			return ""
		}
	}
	if !openMetrics || rest[0] != '#' {
		return fmt.Sprintf("there is %q after the value", excerpt(rest))
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
