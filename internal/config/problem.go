package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Problem is one thing that is wrong, or doubtful, and where.
type Problem struct {
	File   string // empty for values that came from flags
	Line   int    // counted from 1; 0 for values that came from flags
	Column int    // counted from 1; 0 for values that came from flags
	Key    string // such as targets[0].interval, or the flag; empty for the file as a whole
	Msg    string // never contains a value that could be a secret
	Hint   string // what to write instead, or empty
}

// String returns the problem on one line: config.yml:12: targets[0].intervall: unknown key (did you mean "interval"?).
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "%s:%d: ", p.File, p.Line)
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Msg)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Errors is everything that is wrong with a configuration, in the order of its lines.
type Errors []Problem

// Error returns one problem a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sorted returns e in the order of lines, without repetitions.
func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(e)
}

// Bounds on what is told: of more nobody reads, and each costs a search for what was meant.
const (
	maxProblems = 1000
	maxHinted   = 100
)

// collector collects what is wrong with one file, or with the flags in its place.
type collector struct {
	file     string
	flags    map[*yaml.Node]string // the flag that a value came from
	problems Errors
	doubts   Errors
	untold   int             // problems beyond maxProblems
	bad      map[string]bool // keys with a problem of their own
	broken   map[string]bool // keys with a problem, their own or below them
}

func newCollector() collector {
	return collector{bad: make(map[string]bool), broken: make(map[string]bool)}
}

// count is how many problems there are.
func (c *collector) count() int { return len(c.problems) + c.untold }

// place returns where n is: its line and path, or its flag. Without n it is the path alone.
func (c *collector) place(n *yaml.Node, key string) Problem {
	if flag, ok := c.flags[n]; ok {
		return Problem{Key: flag}
	}
	if n == nil {
		return Problem{Key: key}
	}
	return Problem{File: c.file, Line: n.Line, Column: n.Column, Key: key}
}

// problem reports that the value n of key is wrong.
func (c *collector) problem(n *yaml.Node, key, format string, args ...any) {
	c.hinted(n, key, "", format, args...)
}

// hinted reports that the value n of key is wrong, and what to write instead.
func (c *collector) hinted(n *yaml.Node, key, hint, format string, args ...any) {
	c.bad[key] = true
	c.report(n, key, hint, format, args...)
}

// report tells a problem with key whose value can be used nevertheless.
func (c *collector) report(n *yaml.Node, key, hint, format string, args ...any) {
	for end := len(key); end > 0 && !c.broken[key[:end]]; end = strings.LastIndexAny(key[:end], ".[") {
		c.broken[key[:end]] = true
	}
	if len(c.problems) >= maxProblems {
		c.untold++
		return
	}
	p := c.place(n, key)
	p.Msg, p.Hint = fmt.Sprintf(format, args...), hint
	c.problems = append(c.problems, p)
}

// doubt reports that the value n of key is legal but probably not what was meant.
func (c *collector) doubt(n *yaml.Node, key, format string, args ...any) {
	if len(c.doubts) >= maxProblems {
		return
	}
	p := c.place(n, key)
	p.Msg = fmt.Sprintf(format, args...)
	c.doubts = append(c.doubts, p)
}

// whole reports a problem of the file rather than of a key.
func (c *collector) whole(line int, format string, args ...any) {
	c.problems = append(c.problems, Problem{File: c.file, Line: line, Column: 1, Msg: fmt.Sprintf(format, args...)})
}

// near is nearHint, as long as there are few enough problems for a person to read.
func (c *collector) near(word string, allowed []string) string {
	if len(c.problems) >= maxHinted {
		return ""
	}
	return nearHint(word, allowed)
}

// refused returns what is wrong, in the order of lines.
func (c *collector) refused() Errors {
	told := c.problems.sorted()
	if c.untold > 0 {
		told = append(told, Problem{File: c.file, Line: 1, Column: 1, Msg: fmt.Sprintf("there are %d more problems", c.untold)})
	}
	return told
}
