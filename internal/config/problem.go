package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
