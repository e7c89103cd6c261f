package prober

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// chunk is what the prober wants to know of one event of a completion stream. Slices point into the event.
type chunk struct {
	scan jsonScanner

	choice             // the choice with index 0
	hasChoices    bool // choices is a list, be it empty
	othersChoices bool // it holds a choice with another index

	model []byte // still escaped

	hasUsage         bool // usage is an object
	promptTokens     int  // -1 where the server sends none, as the four below
	completionTokens int
	cachedTokens     int
	reasoningTokens  int
	badCount         bool // a count is a number, but none of tokens

	// What errors consist of. err is the value of a member that is named so, in whatever place; nil where there is
	// none, or an empty one.
	err     []byte
	failed  bool   // object or type is an error's
	alarm   bool   // a status, a code or a detail as errors have them; they may mean something else beside an answer
	unknown bool   // has a member that nothing is known of
	metrics []byte // vLLM's per-request metrics, raw JSON; nil where it is absent or null
}

// choice is one element of choices. A probe asks for one answer, so that index 0 is it.
type choice struct {
	present bool
	index   int

	role     bool // the delta names a role
	blank    bool // content or text is there, as ""
	answers  bool // the delta has a value that is part of an answer
	reasons  bool // and one that is reasoning
	text     bool // one of them is text or the call of a tool, not what servers put beside an answer
	tokenIDs int  // length of token_ids; -1 where it is absent or null

	// Text as JSON has it between the quotes, still escaped; empty where the field is absent, empty or no string.
	content   []byte // delta.content or text
	reasoning []byte // delta.reasoning or its like
	finish    []byte // finish_reason
}

// payload reports whether the choice carries something that was generated.
func (c *choice) payload() bool { return c.answers || c.reasons }

// reportsError tells an event by which a server says that it failed.
func (c *chunk) reportsError() bool {
	return c.err != nil || c.failed || c.alarm && !c.present && !c.hasUsage
}

// errorText is what the server said about its error: the value of the member that is named so where it has words,
// else the whole event.
func (c *chunk) errorText() []byte {
	if len(c.err) > 0 && (c.err[0] == '{' || c.err[0] == '"') {
		return slices.Concat([]byte(`{"error":`), c.err, []byte("}"))
	}
	return c.scan.data
}

// errMalformed: an event is not JSON, or not an object.
var errMalformed = errors.New("malformed")

// decode reads one event. It is a single pass over the bytes that accepts exactly what encoding/json accepts
// and allocates nothing; encoding/json itself costs 2.6 us and 14 allocations for a chunk of 250 bytes, which
// is more than the rest of the client.
func (c *chunk) decode(data []byte) error {
	*c = chunk{scan: jsonScanner{data: data}, promptTokens: -1, completionTokens: -1, cachedTokens: -1, reasoningTokens: -1}
	c.tokenIDs = -1
	s := &c.scan
	s.blanks()
	if s.peek() != '{' {
		return fmt.Errorf("%w: event is not a JSON object", errMalformed)
	}
	s.object(c, topMember)
	s.blanks()
	if s.pos < len(data) {
		s.bad = true
	}
	if s.bad {
		return fmt.Errorf("%w: invalid JSON at byte %d of the event", errMalformed, s.pos)
	}
	return nil
}

// member reads the value of one member of an object into the chunk.
type member func(s *jsonScanner, c *chunk, key []byte)

func topMember(s *jsonScanner, c *chunk, key []byte) {
	switch string(key) {
	case "choices":
		c.hasChoices = s.peek() == '['
		s.array(c, anyChoice)
	case "usage":
		c.hasUsage = s.peek() == '{'
		s.objectOrOther(c, usageMember)
	case "model":
		c.model = s.text()
	case "metrics":
		c.metrics = s.raw()
	case "object", "type":
		c.failed = errorWord(s.text()) || c.failed
	case "code", "status", "status_code", "statusCode":
		c.alarm = s.badStatus() || c.alarm
	case "detail":
		c.unknown = true
		c.alarm = s.filled(anything) || c.alarm
	case "success", "ok":
		c.alarm = s.peek() == 'f' || c.alarm
		s.value()
	case "base_resp": // MiniMax's status, which it sends beside an ordinary end too; 0 is success
		s.objectOrOther(c, statusMember)
	case "id", "created", "system_fingerprint":
		s.value()
	default:
		c.unknown = true
		c.errorOr(s, key, (*jsonScanner).value)
	}
}

func statusMember(s *jsonScanner, c *chunk, key []byte) {
	if string(key) != "status_code" {
		s.value()
		return
	}
	c.failed = s.filled(anything) || c.failed
}

// anyChoice reads one element of choices and keeps the one with index 0.
func anyChoice(s *jsonScanner, c *chunk) {
	if s.peek() != '{' {
		s.value()
		return
	}
	kept := c.choice
	c.choice = choice{present: true, tokenIDs: -1}
	s.object(c, choiceMember)
	if c.index != 0 {
		c.othersChoices = true
	}
	if c.index != 0 || kept.present {
		c.choice = kept
	}
}

func choiceMember(s *jsonScanner, c *chunk, key []byte) {
	switch string(key) {
	case "index":
		c.index = max(0, s.count())
	case "delta":
		if s.peek() == '{' {
			s.object(c, deltaMember)
			return
		}
		c.takeContent(s)
	case "text":
		c.takeContent(s)
	case "finish_reason":
		if s.peek() == '{' {
			s.object(c, finishMember)
			return
		}
		c.finish = s.text()
	case "token_ids":
		if s.peek() != '[' {
			s.value()
			return
		}
		c.tokenIDs = 0
		s.array(c, func(s *jsonScanner, c *chunk) {
			c.tokenIDs++
			s.value()
		})
	default:
		c.errorOr(s, key, (*jsonScanner).value)
	}
}

// finishMember reads a finish_reason that is an object, as SGLang has it inside: {"type":"abort","message":"…"}.
func finishMember(s *jsonScanner, c *chunk, key []byte) {
	if string(key) == "type" {
		c.finish = s.text()
		return
	}
	s.value()
}

// deltaMember looks at values, not at names: engines have always invented new members for what they generate. Any
// string, list or object with something in it is part of the answer, or of the reasoning if its name says so.
// Numbers and booleans are not: no token is one, and servers count and flag with them ("index":0).
func deltaMember(s *jsonScanner, c *chunk, key []byte) {
	switch {
	case string(key) == "role":
		c.role = len(s.text()) > 0
	case string(key) == "content":
		c.takeContent(s)
	case label(key), string(key) == "name": // whose message it is (MiniMax)
		s.value()
	case reasoningWord(key):
		if s.peek() != '"' {
			c.reasons = s.filled(generated) || c.reasons
		} else if text := s.text(); len(text) > 0 {
			c.reasoning, c.reasons = text, true
		}
		c.text = c.reasons || c.text
	case holds(key, "call", "text", "refusal"): // tool_calls, function_call
		filled := s.filled(generated)
		c.answers, c.text = filled || c.answers, filled || c.text
	default:
		c.errorOr(s, key, func(s *jsonScanner) { c.answers = s.filled(generated) || c.answers })
	}
}

// takeContent reads the text of an answer: a string, or a list of parts, some of which may be reasoning.
func (c *chunk) takeContent(s *jsonScanner) {
	switch s.peek() {
	case '"':
		text := s.text()
		c.blank = len(text) == 0
		if len(text) > 0 {
			c.content, c.answers = text, true
		}
	case '[':
		s.array(c, contentPart)
	default:
		c.answers = s.filled(generated) || c.answers
	}
	c.text = c.payload() || c.text
}

// contentPart reads an element of a content that is a list, such as Mistral's
// {"type":"thinking","thinking":[{"type":"text","text":"hm"}]}.
func contentPart(s *jsonScanner, c *chunk) {
	if s.peek() != '{' {
		c.answers = s.filled(generated) || c.answers
		return
	}
	filled, reasons := false, false
	for item := s.open('{', '}'); item; item = s.more('}') {
		key := s.key()
		s.colon()
		switch {
		case string(key) == "type":
			reasons = reasoningWord(s.text()) || reasons
		case label(key):
			s.value()
		default:
			if s.filled(generated) {
				filled, reasons = true, reasoningWord(key) || reasons
			}
		}
	}
	c.reasons = filled && reasons || c.reasons
	c.answers = filled && !reasons || c.answers
}

func usageMember(s *jsonScanner, c *chunk, key []byte) {
	switch string(key) {
	case "prompt_tokens":
		c.count(s, &c.promptTokens)
	case "completion_tokens":
		c.count(s, &c.completionTokens)
	case "reasoning_tokens": // SGLang has it here, OpenAI in the details
		c.count(s, &c.reasoningTokens)
	case "prompt_tokens_details", "completion_tokens_details":
		s.objectOrOther(c, func(s *jsonScanner, c *chunk, key []byte) {
			switch string(key) {
			case "cached_tokens":
				c.count(s, &c.cachedTokens)
			case "reasoning_tokens":
				c.count(s, &c.reasoningTokens)
			default:
				s.value()
			}
		})
	default:
		s.value()
	}
}

// count reads a number of tokens. A number that cannot be one is remembered; what is no number is absent.
func (c *chunk) count(s *jsonScanner, to *int) {
	number := s.peek() == '-' || s.peek()-'0' <= 9
	*to = s.count()
	c.badCount = c.badCount || number && *to < 0
}

// errorOr reads the value of a member as an error if it is named so, else in another way.
func (c *chunk) errorOr(s *jsonScanner, key []byte, otherwise func(*jsonScanner)) {
	if !errorName(key) {
		otherwise(s)
		return
	}
	begin := s.pos
	if s.filled(anything) && !s.bad && c.err == nil {
		c.err = s.data[begin:s.pos]
	}
}

// errorName tells members and fields by which a server reports an error: error, errors, error_code, errmsg, api_error.
func errorName(name []byte) bool {
	for _, stem := range []string{"err", "exception", "failure"} {
		if len(name) >= len(stem) && strings.EqualFold(string(name[:len(stem)]), stem) {
			return true
		}
	}
	for _, stem := range []string{"error", "errors", "exception"} {
		if len(name) >= len(stem) && strings.EqualFold(string(name[len(name)-len(stem):]), stem) {
			return true
		}
	}
	return false
}

// nothing are words by which servers say that there is no error.
var nothing = []string{"null", "none", "nil", "undefined", "false", "0", "ok", "success"}

// empty tells a text that says nothing, such as "" and "none".
func empty(text []byte) bool {
	return len(text) == 0 || slices.ContainsFunc(nothing, func(word string) bool { return strings.EqualFold(string(text), word) })
}

// errorWord tells the type, status or event name of an error: "error", "InternalServerError", "response.failed".
func errorWord(word []byte) bool { return holds(word, "error", "fail", "exception") }

// reasoningWord tells names and types of reasoning: reasoning_content, reasoning_details, thinking, thought.
func reasoningWord(word []byte) bool { return holds(word, "reason", "think", "thought") }

// holds reports whether a word contains one of the stems, in whatever case.
func holds(word []byte, stems ...string) bool {
	if len(word) > maxWord {
		return false
	}
	for i, letter := range word {
		for _, stem := range stems {
			if letter|0x20 == stem[0] && i+len(stem) <= len(word) && strings.EqualFold(string(word[i:i+len(stem)]), stem) {
				return true
			}
		}
	}
	return false
}

// maxWord is the length of the longest word that a name or a type is taken for.
const maxWord = 64

// label tells members that name what they stand beside, and are no part of it.
func label(key []byte) bool {
	switch string(key) {
	case "type", "id", "object", "role", "index":
		return true
	}
	return false
}

// jsonScanner reads JSON text in one pass. After the first error it stands still and bad is set.
type jsonScanner struct {
	data  []byte
	pos   int
	depth int
	bad   bool
	work  int // bytes looked at: a test holds that they are few for each byte of the event
}

// maxDepth is encoding/json's own bound on nesting.
const maxDepth = 10_000

func (s *jsonScanner) blanks() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end or after an error.
func (s *jsonScanner) peek() byte {
	s.work++
	if s.bad || s.pos >= len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

// accept consumes b, or fails.
func (s *jsonScanner) accept(b byte) {
	if s.peek() != b {
		s.bad = true
		return
	}
	s.pos++
}

// open consumes an opening bracket and reports whether an item follows.
func (s *jsonScanner) open(opening, closing byte) bool {
	s.accept(opening)
	if s.depth++; s.depth > maxDepth {
		s.bad = true
	}
	s.blanks()
	if s.peek() == closing {
		s.pos++
		s.depth--
		return false
	}
	return !s.bad
}

// more consumes what stands after an item and reports whether another follows.
func (s *jsonScanner) more(closing byte) bool {
	s.blanks()
	if s.peek() == closing {
		s.pos++
		s.depth--
		return false
	}
	s.accept(',')
	s.blanks()
	return !s.bad
}

// object hands each member of an object to visit, which must consume its value.
func (s *jsonScanner) object(c *chunk, visit member) {
	for item := s.open('{', '}'); item; item = s.more('}') {
		key := s.key()
		s.colon()
		visit(s, c, key)
	}
}

func (s *jsonScanner) colon() {
	s.blanks()
	s.accept(':')
	s.blanks()
}

// objectOrOther reads an object, or skips a value of another type, such as null.
func (s *jsonScanner) objectOrOther(c *chunk, visit member) {
	if s.peek() == '{' {
		s.object(c, visit)
		return
	}
	s.value()
}

// array hands each element of an array to visit, or skips a value of another type.
func (s *jsonScanner) array(c *chunk, visit func(*jsonScanner, *chunk)) {
	if s.peek() != '[' {
		s.value()
		return
	}
	for item := s.open('[', ']'); item; item = s.more(']') {
		visit(s, c)
	}
}

// value skips one value of any type.
func (s *jsonScanner) value() {
	switch b := s.peek(); {
	case b == '"':
		s.str()
	case b == '{':
		for item := s.open('{', '}'); item; item = s.more('}') {
			s.str()
			s.colon()
			s.value()
		}
	case b == '[':
		for item := s.open('[', ']'); item; item = s.more(']') {
			s.value()
		}
	case b == 't':
		s.literal("true")
	case b == 'f':
		s.literal("false")
	case b == 'n':
		s.literal("null")
	default:
		s.number()
	}
}

// What a value can hold that counts: of an error its whole numbers do as well, of an answer only what was generated.
const (
	generated = iota
	anything
)

// filled skips one value and reports whether there is anything in it: "", {}, [], null, false, 0 and what consists of
// these only are empty. Of an error, words for nothing and fractions ("error_rate":0.01) are empty too.
func (s *jsonScanner) filled(by int) (full bool) {
	switch s.peek() {
	case '"':
		text := s.str()
		return len(text) > 0 && (by == generated || !empty(text))
	case '{':
		for item := s.open('{', '}'); item; item = s.more('}') {
			key := s.key()
			s.colon()
			full = s.filled(by) && (by == anything || !label(key)) || full
		}
		return full
	case '[':
		for item := s.open('[', ']'); item; item = s.more(']') {
			full = s.filled(by) || full
		}
		return full
	default:
		begin := s.pos
		s.value()
		literal := s.data[begin:s.pos]
		return by == anything && !zero(literal) && bytes.IndexByte(literal, '.') < 0
	}
}

// zero tells null, false and 0, in whatever form, from true and other numbers.
func zero(literal []byte) bool {
	if exponent := bytes.IndexAny(literal, "eE"); exponent >= 0 {
		literal = literal[:exponent]
	}
	return !bytes.ContainsAny(literal, "t123456789")
}

// badStatus skips one value and reports whether it is a status or a code that stands for an error.
func (s *jsonScanner) badStatus() bool {
	if s.peek() == '"' {
		text := s.text()
		number := jsonScanner{data: text}
		return errorWord(text) || number.count() >= 400
	}
	return s.count() >= 400
}

// raw skips one value and returns its text; nil for null.
func (s *jsonScanner) raw() []byte {
	begin := s.pos
	s.value()
	if s.bad || s.data[begin] == 'n' {
		return nil
	}
	return s.data[begin:s.pos]
}

// text returns a string value as it stands between its quotes; nil for a value of another type.
func (s *jsonScanner) text() []byte {
	if s.peek() == '"' {
		return s.str()
	}
	s.value()
	return nil
}

// key returns a member's name. Only one with an escape in it costs an allocation.
func (s *jsonScanner) key() []byte {
	name := s.str()
	if bytes.IndexByte(name, '\\') >= 0 {
		return []byte(unescape(name))
	}
	return name
}

// str consumes a string and returns what stands between its quotes.
func (s *jsonScanner) str() []byte {
	s.accept('"')
	if s.bad {
		return nil
	}
	begin := s.pos
	for !s.bad {
		n := ordinary(s.data[s.pos:])
		s.work += n
		s.pos += n
		switch s.peek() {
		case '"':
			s.pos++
			return s.data[begin : s.pos-1]
		case '\\':
			s.escape()
		default: // a raw control character, NUL included, or the end of the text
			s.bad = true
		}
	}
	return nil
}

// ordinary is the number of bytes at the beginning of a text that stand for themselves in a JSON string: neither a
// quote, nor a backslash, nor a control character. It looks at eight at a time, since events can be megabytes long.
//
// Of x, a byte without its high bit, 0x80 - x has the high bit only if x is 0, and 0x7f + 0x20 - x only if x < 0x20. No
// byte of such a difference borrows from the next.
func ordinary(text []byte) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(text)-n >= 8; n += 8 {
		word := binary.LittleEndian.Uint64(text[n:])
		low := word &^ high
		special := 0x80*each - (low ^ '"'*each) // a byte that is equal
		special |= 0x80*each - (low ^ '\\'*each)
		special |= (0x7f+' ')*each - low
		if special &= high &^ word; special != 0 {
			return n + bits.TrailingZeros64(special)/8
		}
	}
	for ; n < len(text); n++ {
		if b := text[n]; b == '"' || b == '\\' || b < ' ' {
			break
		}
	}
	return n
}

func (s *jsonScanner) escape() {
	s.pos++ // the backslash
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
	case 'u':
		s.pos++
		for range 4 {
			b := s.peek()
			if b-'0' > 9 && (b|0x20)-'a' > 5 {
				s.bad = true
				return
			}
			s.pos++
		}
	default:
		s.bad = true
	}
}

func (s *jsonScanner) literal(word string) {
	for i := range len(word) {
		s.accept(word[i])
	}
}

func (s *jsonScanner) number() {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else {
		s.digits()
	}
	if s.peek() == '.' {
		s.pos++
		s.digits()
	}
	if b := s.peek(); b == 'e' || b == 'E' {
		s.pos++
		if b := s.peek(); b == '+' || b == '-' {
			s.pos++
		}
		s.digits()
	}
}

// digits consumes at least one digit, or fails.
func (s *jsonScanner) digits() {
	if s.peek()-'0' > 9 {
		s.bad = true
		return
	}
	for s.peek()-'0' <= 9 {
		s.pos++
	}
}

// count reads a whole number; -1 for anything that is none, or is larger than anything that is counted here.
func (s *jsonScanner) count() int {
	begin := s.pos
	s.value()
	digits := s.data[begin:s.pos]
	if s.bad || len(digits) > 9 {
		return -1
	}
	n := 0
	for _, b := range digits {
		if b < '0' || b > '9' {
			return -1
		}
		n = 10*n + int(b-'0')
	}
	return n
}

// unescape turns a JSON string without its quotes into text.
func unescape(raw []byte) string {
	var text string
	if err := json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &text); err != nil {
		return ""
	}
	return text
}

// sameCharacter tells whether an escaped text repeats one character, and which: the first, still escaped.
func sameCharacter(raw []byte) (first []byte, same bool) {
	first = raw[:firstCharacter(raw)]
	for rest := raw; len(rest) > 0; rest = rest[len(first):] {
		if len(rest) < len(first) || string(rest[:len(first)]) != string(first) {
			return first, false
		}
	}
	return first, true
}

// firstCharacter is the length of the first character of an escaped text.
func firstCharacter(raw []byte) int {
	switch {
	case len(raw) == 0:
		return 0
	case raw[0] != '\\':
		_, size := utf8.DecodeRune(raw)
		return size
	case len(raw) > 1 && raw[1] == 'u':
		return min(6, len(raw))
	default:
		return min(2, len(raw))
	}
}
