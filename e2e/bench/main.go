//go:build linux

// Command bench measures what docs/performance.md reports: the cost of a stream event, the error of every
// latency against the server's own clock, what happens to a prober that is starved of processor time, and what
// a thousand targets cost. It needs two processors; server and client run in processes of their own, one each.
//
//	go run ./bench -out ../docs/performance.md
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == childArgument {
		if err := runChild(os.Args[2]); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %s\n", os.Args[2], err)
			os.Exit(1)
		}
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	root    string        // of the llm_prober module
	runs    int           // every figure is the median of so many
	cases   string        // of throttle: those whose name contains it
	minute  time.Duration // how long the daemon is watched with many targets
	targets []int
}

// section is one part of the report.
type section struct {
	name    string // in -only, and in the markers of the report
	measure func(options) (string, error)
}

func sections() []section {
	return []section{
		{"machine", machine},
		{"cost", cost},
		{"accuracy", accuracy},
		{"throttle", throttle},
		{"scale", scale},
		{"micro", micro},
	}
}

func run() error {
	o := options{targets: []int{100, 1000}}
	only := flag.String("only", "", "comma-separated parts to run: cost, accuracy, throttle, scale, micro (default all)")
	out := flag.String("out", "", "report to put the figures into, between its markers")
	flag.StringVar(&o.root, "root", "..", "directory of the llm_prober module")
	flag.IntVar(&o.runs, "runs", 5, "runs of everything but scale; their medians are reported")
	flag.StringVar(&o.cases, "throttle.case", "", "run only the cases of throttle whose name contains this")
	flag.DurationVar(&o.minute, "scale.duration", time.Minute, "how long the daemon is watched with many targets")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	for _, s := range sections() {
		if *only != "" && s.name != "machine" && !slices.Contains(strings.Split(*only, ","), s.name) {
			continue
		}
		text, err := s.measure(o)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Println(text)
		if *out == "" {
			continue
		}
		if err := insert(*out, s.name, text); err != nil {
			return err
		}
	}
	return nil
}

// insert replaces what stands between the markers of one part of a report.
func insert(file, name, text string) error {
	report, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the report: %w", err)
	}
	begin, end := []byte("<!-- bench:"+name+" -->\n"), []byte("<!-- end -->")
	head, rest, found := bytes.Cut(report, begin)
	if !found {
		return fmt.Errorf("%s has no marker %q", file, begin)
	}
	_, tail, found := bytes.Cut(rest, end)
	if !found {
		return fmt.Errorf("%s: no %q after %q", file, end, begin)
	}
	report = slices.Concat(head, begin, []byte(strings.TrimSpace(text)+"\n"), end, tail)
	if err := os.WriteFile(file, report, 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
