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
	pageMaxSamples = 250_000
	pageMaxLabels  = 128  // of a sample
	pageMaxValue   = 1024 // characters of a number
	pageStride     = 64 << 10
)

// errPageBound: a page exceeds one of the bounds.
var errPageBound = errors.New("the page is out of bounds")

const (
	pageFaultLabels  = "it has more labels than are read" // pageMaxLabels
	pageFaultSamples = "more samples than are read"       // pageMaxSamples
)

// pageLabel is one label of a sample. Its parts are valid only while the sample is visited.
type pageLabel struct{ name, value []byte }

// pageScanner reads a metrics page in the Prometheus text format (0.0.4 and 1.0.0) or in OpenMetrics 1.0.
//
// It checks every line and gives out only the samples it was asked for: a page of vLLM is 56 kB, read once a
// second, of which the relay uses some twenty lines; building all families of it costs expfmt about 3 ms and
// 17,000 allocations. It is stricter than expfmt where a half-written or mangled page could pass for a value
// (names and values need a blank or a brace between them, the last line must be complete), and more lenient in
// what cannot change a value: a byte order mark, CR LF, blanks at the end of a line, the wording of comments.
//
// The zero value wants nothing. A scanner is not safe for concurrent use.
type pageScanner struct {
	want map[string]int // sample name to the number that visit is given

	// pause, where set, is called after every pageStride bytes, or the line in which they end. Its error ends the scan.
	pause func() error
	// steps counts the work: a byte read, a label compared with another, a series looked at is a step each. Tests
	// hold it against the size of the page.
	steps int

	labels    []pageLabel // of the line being read; reused
	unescaped []byte      // label values that held an escape; reused
}

// pageVisit is told of a wanted sample. It must not keep labels or anything they point to.
type pageVisit func(want int, labels []pageLabel, value float64)

// scan reads a whole page. An error names the first bad line; what was visited before it must be thrown away.
// openMetrics is what the content type says; a page that ends in "# EOF" is OpenMetrics whatever that says.
func (s *pageScanner) scan(page []byte, openMetrics bool, visit pageVisit) error {
	s.steps = len(page)
	if cap(s.unescaped) > pageStride {
		s.unescaped = nil
	}
	page = bytes.TrimPrefix(page, []byte("\xEF\xBB\xBF"))
	if i := bytes.IndexByte(page, 0); i >= 0 {
		return pageError(1+bytes.Count(page[:i], []byte("\n")), "it holds a NUL byte")
	}
	if pageEnds(page) {
		openMetrics = true
	}
	ended := false
	number, samples, stride := 0, 0, 0
	for len(page) > 0 {
		number++
		if stride >= pageStride && s.pause != nil {
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
			return pageError(number, "there is text after # EOF")
		case openMetrics && string(line) == "# EOF":
			ended = true
			continue // the one line that may lack a line feed
		case !terminated:
			return pageError(number, "the page is cut off in this line")
		case len(line) == 0 || line[0] == '#':
			continue
		}
		if samples++; samples > pageMaxSamples {
			return pageError(number, pageFaultSamples)
		}
		if fault := s.sample(line, openMetrics, visit); fault != "" {
			return pageError(number, fault)
		}
	}
	if openMetrics && !ended {
		return pageError(number, "the page is cut off: OpenMetrics without # EOF")
	}
	return nil
}

func pageError(line int, fault string) error {
	if fault == pageFaultLabels || fault == pageFaultSamples {
		return fmt.Errorf("%w: line %d: %s", errPageBound, line, fault)
	}
	return fmt.Errorf("line %d: %s", line, fault)
}

// pageEnds reports whether the last line of a page is "# EOF".
func pageEnds(page []byte) bool {
	page = bytes.TrimRight(page, "\r\n")
	last := page[bytes.LastIndexByte(page, '\n')+1:]
	return string(last) == "# EOF"
}

// sample reads one line: name, labels, value, timestamp, exemplar. It returns what is wrong with it.
func (s *pageScanner) sample(line []byte, openMetrics bool, visit pageVisit) (fault string) {
	s.labels, s.unescaped = s.labels[:0], s.unescaped[:0]
	name, rest := pageName(line, true)
	if len(name) == 0 && line[0] != '{' {
		return "it begins with no metric name"
	}
	want, wanted := s.want[string(name)]
	blank := len(rest) > 0 && pageBlank(rest[0])
	rest = pageTrim(rest)
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
	value, rest, fault := pageValue(rest)
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
func (s *pageScanner) labelSet(rest []byte, name *[]byte, keep bool) (after []byte, fault string) {
	first := len(*name) == 0
	begin := len(s.labels)
	for {
		rest = pageTrim(rest)
		if len(rest) > 0 && rest[0] == '}' {
			if !keep {
				s.labels = s.labels[:begin]
			}
			return rest[1:], ""
		}
		var label, value []byte
		quoted := len(rest) > 0 && rest[0] == '"'
		if label, rest, fault = s.labelName(rest); fault != "" {
			return nil, fault
		}
		rest = pageTrim(rest)
		switch {
		case len(rest) > 0 && rest[0] == '=':
			if rest, fault = s.labelValue(pageTrim(rest[1:]), &value); fault != "" {
				return nil, fault
			}
			if s.repeated(label, begin) {
				return nil, "a label name is used twice or reserved"
			}
			if len(s.labels)-begin == pageMaxLabels {
				return nil, pageFaultLabels
			}
			s.labels = append(s.labels, pageLabel{label, value})
		case first && quoted:
			*name = label
		default:
			return nil, "a label has no value"
		}
		first = false
		rest = pageTrim(rest)
		switch {
		case len(rest) > 0 && rest[0] == ',':
			rest = rest[1:]
		case len(rest) == 0 || rest[0] != '}':
			return nil, "neither a comma nor a closing brace follows a label"
		}
	}
}

func (s *pageScanner) repeated(label []byte, begin int) bool {
	s.steps += len(s.labels) - begin
	for _, l := range s.labels[begin:] {
		if bytes.Equal(l.name, label) {
			return true
		}
	}
	return string(label) == "__name__"
}

// labelName reads a bare label name or a quoted name.
func (s *pageScanner) labelName(rest []byte) (name, after []byte, fault string) {
	if len(rest) > 0 && rest[0] == '"' {
		if after, fault = s.labelValue(rest, &name); fault == "" && (len(name) == 0 || !utf8.Valid(name)) {
			fault = "a quoted name is empty or not UTF-8"
		}
		return name, after, fault
	}
	if name, after = pageName(rest, false); len(name) == 0 {
		return nil, nil, "a label name is missing or holds a character that is not allowed"
	}
	return name, after, ""
}

// labelValue reads a quoted string and resolves its escapes.
func (s *pageScanner) labelValue(rest []byte, value *[]byte) (after []byte, fault string) {
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
func (s *pageScanner) tail(rest []byte, openMetrics bool) (fault string) {
	if rest = pageTrim(rest); len(rest) == 0 {
		return ""
	}
	if rest[0] != '#' {
		var stamp []byte
		stamp, rest = pageToken(rest)
		if !pageTimestamp(stamp, openMetrics) {
			return fmt.Sprintf("%q after the value is no timestamp", pageExcerpt(stamp))
		}
		if rest = pageTrim(rest); len(rest) == 0 {
			return ""
		}
	}
	if !openMetrics || rest[0] != '#' {
		return fmt.Sprintf("there is %q after the value", pageExcerpt(rest))
	}
	return s.exemplar(pageTrim(rest[1:]))
}

// exemplar checks `{labels} value [timestamp]` and keeps nothing of it.
func (s *pageScanner) exemplar(rest []byte) (fault string) {
	if len(rest) == 0 || rest[0] != '{' {
		return "an exemplar has no labels"
	}
	name := []byte("exemplar") // it has none of its own: none may stand in the braces
	if rest, fault = s.labelSet(rest[1:], &name, false); fault != "" {
		return "exemplar: " + fault
	}
	if _, rest, fault = pageValue(rest); fault != "" {
		return "exemplar: " + fault
	}
	if rest = pageTrim(rest); len(rest) > 0 && !pageTimestamp(rest, true) {
		return fmt.Sprintf("exemplar: %q is no timestamp", pageExcerpt(rest))
	}
	return ""
}

// pageName cuts a metric name (which may hold colons) or a label name off the front; empty if there is none.
func pageName(b []byte, metric bool) (name, rest []byte) {
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

// pageValue reads a value as Go and Python write it; hexadecimal and underscores, which Go would read, are refused.
func pageValue(b []byte) (value float64, rest []byte, fault string) {
	token, rest := pageToken(pageTrim(b))
	if len(token) == 0 {
		return 0, nil, "the value is missing"
	}
	if len(token) > pageMaxValue {
		return 0, nil, fmt.Sprintf("%q is no value", pageExcerpt(token))
	}
	value, err := strconv.ParseFloat(string(token), 64)
	if err != nil || bytes.ContainsAny(token, "pP_") {
		return 0, nil, fmt.Sprintf("%q is no value", pageExcerpt(token))
	}
	return value, rest, ""
}

// pageTimestamp tells whether b is a timestamp: whole milliseconds in text, seconds with a fraction in OpenMetrics.
func pageTimestamp(b []byte, openMetrics bool) bool {
	if !openMetrics {
		_, err := strconv.ParseInt(string(b), 10, 64)
		return err == nil
	}
	if len(b) > pageMaxValue {
		return false
	}
	_, err := strconv.ParseFloat(string(b), 64)
	return err == nil && !bytes.ContainsAny(b, "pPnN_") // not NaN, not Inf
}

func pageToken(b []byte) (token, rest []byte) {
	for i, c := range b {
		if pageBlank(c) {
			return b[:i], b[i:]
		}
	}
	return b, nil
}

func pageTrim(b []byte) []byte {
	for len(b) > 0 && pageBlank(b[0]) {
		b = b[1:]
	}
	return b
}

func pageBlank(c byte) bool { return c == ' ' || c == '\t' }

// pageExcerpt bounds what a message quotes of a page.
func pageExcerpt(b []byte) []byte { return b[:min(len(b), 40)] }
