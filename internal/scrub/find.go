package scrub

import (
	"encoding/base64"
	"encoding/hex"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxLayers is how many escapes one inside another are undone: a server's JSON in the JSON of a gateway, in a URL.
	maxLayers = 4
	// minPart is the length in bytes from which the beginning of a secret is hidden where a text ends with it, and
	// minEncoded the length in characters from which a part of its base64 is looked for.
	minPart    = 6
	minEncoded = 4
)

// span is a part of the text, from its first byte to the one behind its last.
type span struct{ from, to int }

// view is a text with some of its escapes undone, each byte with the part of the text that it stands for.
type view struct {
	text  []byte
	spans []span
}

func (v *view) put(at span, bytes ...byte) {
	for _, b := range bytes {
		v.text = append(v.text, b)
		v.spans = append(v.spans, at)
	}
}

// putRune leaves out what is not seen: it does not keep an eye from reading what stands around it.
func (v *view) putRune(at span, r rune) {
	switch {
	case unicode.IsSpace(r):
		v.put(at, ' ')
	case seen(r) && !variation(r):
		v.put(at, utf8.AppendRune(nil, r)...)
	}
}

// newView is a text as it is, but for what is not seen.
func newView(text string) *view {
	v := &view{text: make([]byte, 0, len(text)), spans: make([]span, 0, len(text))}
	for i, width := 0, 0; i < len(text); i += width {
		var r rune
		r, width = utf8.DecodeRuneInString(text[i:])
		if at := (span{i, i + width}); r == utf8.RuneError && width == 1 {
			v.put(at, text[i])
		} else {
			v.putRune(at, r)
		}
	}
	return v
}

// unescaped is the view with one more layer of escapes undone; nil if it has none.
func (v *view) unescaped() *view {
	if !slices.ContainsFunc(v.text, func(b byte) bool { return escapes[b] != nil }) {
		return nil
	}
	next := &view{text: make([]byte, 0, len(v.text)), spans: make([]span, 0, len(v.text))}
	changed := false
	for i := 0; i < len(v.text); {
		if undo := escapes[v.text[i]]; undo != nil {
			const longest = 40 // that an escape can be: the name of an entity
			if out, width := undo(string(v.text[i:min(len(v.text), i+longest)])); width > 0 {
				at := span{v.spans[i].from, v.spans[i+width-1].to}
				if r, size := utf8.DecodeRuneInString(out); size == len(out) && r != utf8.RuneError {
					next.putRune(at, r)
				} else {
					next.put(at, []byte(out)...)
				}
				i, changed = i+width, true
				continue
			}
		}
		next.put(v.spans[i], v.text[i])
		i++
	}
	if !changed {
		return nil
	}
	return next
}

// escapes undo the escape at the beginning of a text: what it stands for, and how many bytes it takes; 0 if there is
// none. They are those of JSON and Go strings, of URLs, and of HTML.
var escapes = [256]func(string) (string, int){'\\': backslash, '%': percent, '&': entity}

func backslash(s string) (string, int) {
	if len(s) < 2 {
		return "", 0
	}
	digits, ok := map[byte]int{'u': 4, 'U': 8, 'x': 2}[s[1]]
	switch {
	case ok:
		r, ok := hexadecimal(s[2:], digits)
		if !ok {
			return "", 0
		}
		if s[1] == 'x' {
			return string([]byte{byte(r)}), 4
		}
		if utf16.IsSurrogate(r) && strings.HasPrefix(s[6:], `\u`) {
			if low, ok := hexadecimal(s[8:], 4); ok {
				return string(utf16.DecodeRune(r, low)), 12
			}
		}
		return string(r), 2 + digits
	case strings.IndexByte("nrtbfav", s[1]) >= 0:
		return " ", 2
	case s[1] > ' ' && s[1] <= '~' && !isLetter(s[1]):
		return s[1:2], 2
	}
	return "", 0
}

func percent(s string) (string, int) {
	if len(s) < 3 {
		return "", 0
	}
	r, ok := hexadecimal(s[1:], 2)
	if !ok {
		return "", 0
	}
	return string([]byte{byte(r)}), 3
}

func entity(s string) (string, int) {
	end := 1
	for end < len(s) && (isLetter(s[end]) || s[end] == '#') {
		end++
	}
	if end < len(s) && s[end] == ';' { // it may be left out
		end++
	}
	if out := html.UnescapeString(s[:end]); out != s[:end] {
		return out, end
	}
	return "", 0
}

func hexadecimal(s string, digits int) (rune, bool) {
	if len(s) < digits {
		return 0, false
	}
	n, err := strconv.ParseUint(s[:digits], 16, 32)
	return rune(n), err == nil
}

// folded makes bytes equal that one encoding writes for another: a space is a plus sign in a query, and the alphabet
// of base64 for URLs has - and _ where the other has + and /.
func folded(text []byte) []byte {
	out := slices.Clone(text)
	for i, b := range out {
		switch b {
		case '+', '-':
			out[i] = ' '
		case '_':
			out[i] = '/'
		}
	}
	return out
}

// pattern is one form of a secret, folded.
type pattern struct {
	text    string
	word    bool // it counts as a whole word only
	encoded bool // base64 or hexadecimal: what stands around it belongs to it
}

// index finds patterns by their first bytes.
type index struct {
	patterns map[[minSecret]byte][]pattern
	first    [256]bool
}

func newIndex(secrets []string) index {
	x := index{patterns: map[[minSecret]byte][]pattern{}}
	for _, s := range secrets {
		x.add(pattern{text: s, word: len(s) < minAnywhere})
		for v, layer := newView(s), 0; v != nil && layer < maxLayers; v, layer = v.unescaped(), layer+1 {
			x.add(pattern{text: string(v.text), word: len(s) < minAnywhere})
		}
		x.add(pattern{text: string(newView(latin1(s)).text), word: len(s) < minAnywhere})
		for _, part := range base64Parts(s) {
			x.add(pattern{text: part, encoded: true})
		}
		x.add(pattern{text: hex.EncodeToString([]byte(s)), encoded: true})
		x.add(pattern{text: strings.ToUpper(hex.EncodeToString([]byte(s))), encoded: true})
	}
	return x
}

func (x *index) add(p pattern) {
	p.text = string(folded([]byte(p.text)))
	if len(p.text) < minSecret {
		return
	}
	key := [minSecret]byte([]byte(p.text[:minSecret]))
	if !slices.Contains(x.patterns[key], p) {
		x.patterns[key] = append(x.patterns[key], p)
		x.first[key[0]] = true
	}
}

// latin1 is a text whose bytes were taken for characters, as many servers do with the values of headers.
func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// base64Parts are those characters of the base64 of any text with the secret in it that depend on nothing but the
// secret, for each of the three places in which it can begin.
func base64Parts(secret string) []string {
	var parts []string
	for before := range 3 {
		text := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + secret))
		from := (before*8 + 5) / 6
		to := (before + len(secret)) * 8 / 6
		if part := text[from:to]; len(part) >= minEncoded {
			parts = append(parts, part)
		}
	}
	return parts
}

// find returns the parts of a text that are secrets, in any order, and how many bytes and patterns were looked at.
func (x *index) find(text string) (found []span, work int) {
	for v, layer := newView(text), 0; v != nil && layer <= maxLayers; v, layer = v.unescaped(), layer+1 {
		more, steps := x.findIn(v)
		found, work = append(found, more...), work+steps
	}
	return found, work
}

func (x *index) findIn(v *view) (found []span, work int) {
	text := string(folded(v.text))
	end := len(strings.TrimRight(text, `"'.…)]}>; `)) // what a quotation or a cut leaves behind the last word
	for i := 0; i+minSecret <= len(text); i++ {
		work++
		if !x.first[text[i]] {
			continue
		}
		longest := 0
		for _, p := range x.patterns[[minSecret]byte([]byte(text[i:i+minSecret]))] {
			work++
			from, to := i, i+len(p.text)
			switch {
			case !strings.HasPrefix(text[i:], p.text):
				if p.word || end-i < minPart || !strings.HasPrefix(p.text, text[i:max(i, end)]) {
					continue
				}
				to = end
			case p.word && (wordAt(v.text, from-1) || wordAt(v.text, to)):
				continue
			case p.encoded:
				from, to = encodedAround(v.text, from, to)
				work += to - from
			}
			found = append(found, span{v.spans[from].from, v.spans[to-1].to})
			longest = max(longest, to-i)
		}
		i += max(0, longest-1)
	}
	return found, work
}

func wordAt(text []byte, i int) bool {
	return i >= 0 && i < len(text) && (isLetter(text[i]) || text[i] == '_' || text[i] >= utf8.RuneSelf)
}

func isLetter(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// encodedAround is the run of base64 or hexadecimal around a part of it.
func encodedAround(text []byte, from, to int) (int, int) {
	in := func(b byte) bool { return isLetter(b) || strings.IndexByte("+/-_=", b) >= 0 }
	for from > 0 && in(text[from-1]) {
		from--
	}
	for to < len(text) && in(text[to]) {
		to++
	}
	return from, to
}

// replace puts the word for a secret in the place of each part; parts that overlap or touch are one.
func replace(text string, parts []span) string {
	if len(parts) == 0 {
		return text
	}
	slices.SortFunc(parts, func(a, b span) int { return a.from - b.from })
	var b strings.Builder
	done := 0
	for i := 0; i < len(parts); {
		from, to := parts[i].from, parts[i].to
		for i++; i < len(parts) && parts[i].from <= to; i++ {
			to = max(to, parts[i].to)
		}
		b.WriteString(text[done:from])
		b.WriteString(hidden)
		done = to
	}
	b.WriteString(text[done:])
	return b.String()
}
