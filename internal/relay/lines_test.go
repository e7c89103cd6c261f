package relay

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// A line is read in place, or pieced together; what no label can show is left out of a long one and nothing else is.
func TestLineReader(t *testing.T) {
	long := strings.Repeat("v", lineBuffer)
	kept := strings.Repeat("v", maxQuoted)
	escapes := strings.Repeat(`\"`, lineBuffer)
	tests := []struct {
		name, page string
		want       []string
	}{
		{"lines", "a\n\nb\r\n", []string{"a", "", "b\r"}},
		{"no last line feed", "a\nb", []string{"a", "b (cut)"}},
		{"nothing", "", nil},
		{"a long value", `a{x="` + long + `",y="z"} 1` + "\nb\n", []string{`a{x="` + kept + `",y="z"} 1`, "b"}},
		{"a long value with no end", `a{x="` + long, []string{`a{x="` + kept + " (cut)"}},
		{"two long values", `a{x="` + long + `",y="` + long + `"} 1` + "\n", []string{`a{x="` + kept + `",y="` + kept + `"} 1`}},
		{"escapes stay whole", `a{x="` + escapes + `"} 1` + "\n", []string{`a{x="` + escapes[:2*maxQuoted] + `"} 1`}},
		{"escapes behind a character", `a{x="v` + escapes + `"} 1` + "\n", []string{`a{x="v` + escapes[:2*(maxQuoted-1)] + `"} 1`}},
		{"a long name", long + "n 1\n", []string{long + "n 1"}},
		{"a long exemplar", `a 1 # {x="` + long + `"} 1` + "\n", []string{`a 1 # {x="` + kept + `"} 1`}},
		{"a long comment", " # " + long + "\nb\n", []string{"#", "b"}},
		{"NUL in what is left out", `a{x="` + long + "\x00" + `"} 1` + "\n", []string{`a{x="` + kept + "\x00" + `"} 1`}},
	}
	for _, tt := range tests {
		for how, page := range map[string]io.Reader{
			"at once": strings.NewReader(tt.page), "in pieces": iotest.OneByteReader(strings.NewReader(tt.page)), "the end with the last": iotest.DataErrReader(strings.NewReader(tt.page)),
		} {
			t.Run(tt.name+" "+how, func(t *testing.T) {
				var lines lineReader
				lines.reset(page)
				var got []string
				for {
					line, terminated, err := lines.next()
					if err != nil {
						if !errors.Is(err, io.EOF) {
							t.Error(err)
						}
						break
					}
					got = append(got, string(line))
					if !terminated {
						got[len(got)-1] += " (cut)"
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
				if n := lines.release(); n != len(tt.page) {
					t.Errorf("%d bytes were read of %d", n, len(tt.page))
				}
			})
		}
	}
}

// A line without an end ends at the bound, and a reader's error is that of the page.
func TestLineReaderErrors(t *testing.T) {
	gone := errors.New("gone")
	for _, tt := range []struct {
		page io.Reader
		want error
	}{
		{strings.NewReader(strings.Repeat("x", maxLine+1)), errLine},
		{io.MultiReader(strings.NewReader("a 1"), iotest.ErrReader(gone)), gone},
		{io.MultiReader(strings.NewReader(strings.Repeat("x", lineBuffer)), iotest.ErrReader(gone)), gone},
	} {
		var lines lineReader
		lines.reset(tt.page)
		if line, _, err := lines.next(); !errors.Is(err, tt.want) || line != nil {
			t.Errorf("%.20q %v, want %v", line, err, tt.want)
		}
	}
}
