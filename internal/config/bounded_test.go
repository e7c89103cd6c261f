//go:build unix

package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llm-prober/llm_prober/internal/cputest"
)

// boundedParse parses within a bound on its work.
func boundedParse(t testing.TB, data []byte) (c *Config, err error) {
	t.Helper()
	cputest.Linear(t, len(data), func() { c, err = Parse("config.yml", data) })
	return c, err
}

// numbered repeats a form with growing numbers up to a size.
func numbered(size int, form string) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, form, i)
	}
	return b.String()
}

// Whatever the shape of a large file, it is read or refused in time that is linear in its size.
func TestWorkIsBounded(t *testing.T) {
	const size = 1 << 20
	const target = "targets: [{url: 'http://h'}]\n"
	var laughs strings.Builder
	laughs.WriteString("l0: &l0 [ha, ha]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&laughs, "l%d: &l%[1]d [*l%d, *l%[2]d, *l%[2]d, *l%[2]d]\n", i, i-1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"aliases of aliases":             {laughs.String() + target, "aliases that expand to too much"},
		"one list":                       {"targets: [" + strings.Repeat("a,", size) + "]", "has more than 1000000 lines and values"},
		"lists in lists":                 {strings.Repeat("[", size/2), "exceeded max depth"},
		"mappings by indentation":        {numbered(size, "%[1]*[1]da:\n"), ""},
		"one mapping":                    {numbered(size, "k%d: 1\n"), "more problems"},
		"a long line":                    {"targets: " + strings.Repeat("x", 4*size), "must be a list"},
		"merges":                         {"a: &a {b: 1}\ntargets:\n" + strings.Repeat("- {<<: *a}\n", size/20), "items, and may have at most 10000"},
		"names that there are not":       {target[:len(target)-3] + ", workloads: [" + numbered(size, "k%d, ") + "]}]", "more problems"},
		"many targets at one address":    {"targets:\n" + numbered(size/2, "- {url: 'http://h', name: t%d, http_client_config: {basic_auth: {username: 'u%[1]d'}}}\n"), ""},
		"many workloads, many targets":   {"workloads:\n" + numbered(size/80, "- {name: w%d}\n") + "targets:\n" + numbered(size/8, "- {url: 'http://h%d'}\n"), "runs more than 100000 workloads"},
		"objectives that name targets":   {"targets:\n" + numbered(size/8, "- {name: t%d, url: 'http://h%[1]d'}\n") + "slos:\n" + strings.Repeat("- {name: s, indicator: success, objective: 99, targets: [t1, t2, t3, t4, t5, t6, t7, t8]}\n", 900), "is the name of"},
		"labels":                         {"targets: [{url: 'http://h', labels: {" + numbered(size, "l%d: v, ") + "}}]", "must be at most 20 labels"},
		"unknown keys nearly known":      {"targets:\n" + strings.Repeat("- {urll: x, namee: y}\n", 9000), "more problems"},
		"problems in a client's headers": {"targets: [{url: 'http://h', http_client_config: {http_headers: {" + numbered(size, "'h %d': x, ") + "}}}]", "more problems"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := boundedParse(t, []byte(c.text))
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%.300v, want %q", err, c.want)
			}
			if err != nil && len(err.Error()) > 1<<20 {
				t.Errorf("%d bytes are told", len(err.Error()))
			}
		})
	}
}
