package prober

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// refusal is the failure of a request that the server refused, with what it said. The body is not clipped, so that
// its structure can be read.
type refusal struct {
	error
	body string
}

func (r *refusal) Unwrap() error { return r.error }

// namedFields finds which of the given fields an error body names as the cause of a refusal: by the place that it
// points to (loc, param), or in a sentence. Servers repeat the request that they refuse, as JSON, as a Python dict or
// as arguments of a constructor, and may cut it anywhere: a field that is a key, or that stands below a key other
// than those of places and sentences, is such an echo and names nothing.
func namedFields(body string, fields []string) map[string]bool {
	n := naming{fields: fields, found: map[string]bool{}}
	n.read(body, 0)
	return n.found
}

// role is what a part of an error body is.
type role int

const (
	echo     role = iota // of the request, or of no interest
	sentence             // the server's words
	place                // where the fault is, such as body.cache_salt
)

// bodyRoles tells the role of what stands below a key. All other keys are echoes: input, body, ctx.
var bodyRoles = map[string]role{
	"error": sentence, "errors": sentence, "message": sentence, "msg": sentence, "detail": sentence, "details": sentence,
	"title": sentence, "reason": sentence, "description": sentence, "error_description": sentence, "error_msg": sentence,
	"loc": place, "param": place, "params": place, "parameter": place, "parameters": place, "field": place, "fields": place,
	"argument": place, "arguments": place, "path": place, "location": place,
}

// remedies begins the part of a sentence that lists what a server does take, as serde writes it: "unknown field `x`,
// expected one of `a`, `b`".
var remedies = regexp.MustCompile("(?i)(?:\\bnot\\s+)?\\b(?:expected\\s+(?:one\\s+of\\b|`)|(?:valid|allowed|accepted|known|supported|permitted)\\s+(?:fields|parameters|params|arguments|keys|options|properties)\\b)")

// maxNested is how deep an error may be quoted within an error's words: gateways quote what the server behind them
// said.
const maxNested = 4

type naming struct {
	fields []string
	found  map[string]bool
	work   int // bytes read, those of quoted errors again
}

// scope is the text itself (open is 0), or what a bracket opened.
type scope struct {
	open byte
	role role // of what is directly in it
	now  role // of the value that is due: that of the last key, or role
}

// read walks a text once. It takes JSON, Python's literals and prose alike, whole or cut.
func (n *naming) read(text string, depth int) {
	if structured := strings.HasPrefix(text, "{") || strings.HasPrefix(text, "["); depth > 0 || !structured {
		text = withoutRemedies(text)
	}
	n.work += len(text)
	scopes := []scope{{role: sentence, now: sentence}}
	last := byte(0) // the last character that is no space
	for i := 0; i < len(text); {
		top := &scopes[len(scopes)-1]
		c := text[i]
		quoted := (c == '"' || c == '\'') && top.open != 0 && strings.IndexByte("{[(,:=", last) >= 0
		if c > ' ' {
			last = c
		}
		switch {
		case quoted:
			value, end := literal(text, i)
			i = end
			last = c
			if next(text, i) == ':' { // a key
				if top.open == '{' || top.role != echo {
					top.now = bodyRoles[value]
				}
				continue
			}
			n.value(value, top.now, depth)
		case wordByte(c):
			start := i
			for i < len(text) && wordByte(text[i]) {
				i++
			}
			last = 'a'
			n.bare(text, start, i, top)
		case c == '{' || c == '[' || c == '(':
			inner := top.now
			if c == '{' {
				inner = echo // until a key says otherwise
				if top.now == echo {
					c = 'x' // nothing in it counts, whatever its keys
				}
			}
			scopes = append(scopes, scope{c, inner, inner})
			i++
		case c == '}' || c == ']' || c == ')':
			if len(scopes) > 1 {
				scopes = scopes[:len(scopes)-1]
			}
			i++
		default:
			if c == ',' {
				top.now = top.role
			}
			i++
		}
	}
}

// value takes one string of a structure.
func (n *naming) value(text string, r role, depth int) {
	switch {
	case r == place:
		n.name(text)
	case r == sentence && depth < maxNested:
		n.read(text, depth+1)
	}
}

// bare takes the word text[start:end] outside of quotes: a key, a name, or nothing.
func (n *naming) bare(text string, start, end int, top *scope) {
	word := text[start:end]
	follows := next(text, end)
	switch {
	case top.open == '{' && follows == ':':
		top.now = bodyRoles[word]
	case top.open != 0 && top.open != '{' && follows == '=': // an argument, as in (parameter=stream_options)
		if top.role != echo {
			top.now = bodyRoles[word]
		}
	case top.now != echo && !echoed(text[end:]):
		n.name(word)
	}
}

// name notes the fields in a dotted name.
func (n *naming) name(word string) {
	for part := range strings.SplitSeq(word, ".") {
		if slices.Contains(n.fields, part) {
			n.found[part] = true
		}
	}
}

func wordByte(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// next is the character that follows at i, spaces left out; 0 at the end.
func next(text string, i int) byte {
	const spaces = 8
	for end := min(len(text), i+spaces); i < end; i++ {
		if text[i] > ' ' {
			return text[i]
		}
	}
	return 0
}

// echoValue is what follows a key of the request that was repeated without the bracket that opened it: a value.
var echoValue = regexp.MustCompile(`^\\{0,4}["']?\s{0,8}(?:=|:\s{0,8}(?:[\\"'{\[0-9-]|[tT]rue|[fF]alse|[nN]ull|None))`)

func echoed(rest string) bool { return echoValue.MatchString(rest[:min(len(rest), 40)]) }

// withoutRemedies cuts a sentence where it begins to list what the server takes.
func withoutRemedies(text string) string {
	for _, at := range remedies.FindAllStringIndex(text, -1) {
		if !strings.HasPrefix(strings.ToLower(text[at[0]:at[1]]), "not") {
			return text[:at[0]]
		}
	}
	return text
}

// literal reads the string that begins with the quote at i. Its end is that of the text where it was cut.
func literal(text string, i int) (value string, end int) {
	var b strings.Builder
	for quote := text[i]; i+1 < len(text); {
		i++
		switch c := text[i]; {
		case c == quote:
			return b.String(), i + 1
		case c == '\\' && i+1 < len(text):
			i++
			i += escape(&b, text[i:])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), len(text)
}

// escape writes what the escape sequence means whose character after the backslash is rest[0]. It returns how many
// more characters belong to it.
func escape(b *strings.Builder, rest string) (more int) {
	switch rest[0] {
	case 'n', 'r', 't':
		b.WriteByte(' ')
	case 'u':
		if len(rest) < 5 {
			return 0
		}
		r, err := strconv.ParseUint(rest[1:5], 16, 16)
		if err != nil {
			return 0
		}
		b.WriteRune(rune(r))
		return 4
	default:
		b.WriteByte(rest[0])
	}
	return 0
}
