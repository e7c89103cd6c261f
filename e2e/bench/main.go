//go:build linux

// Command bench measures what docs/performance.md reports: the cost of a stream event, the error of every
// latency against the server's own clock, what happens to a prober that is starved of processor time, what a
// thousand targets cost, also where a tenth of them is replaced every 10 s, and what a hundred suffer from hostile ones beside them. It needs two processors; server and client run in processes of their own, one each.
//
//	go run ./bench -out ../docs/performance.md
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/e2e/child"
	"github.com/llm-prober/llm_prober/e2e/figures"
	"github.com/llm-prober/llm_prober/e2e/mock"
)

func main() {
	played, err := child.Played(os.Args[1:], roles())
	if !played {
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func roles() map[string]child.Role {
	return map[string]child.Role{"mock": mock.Role, "prober": proberRole, "bare": bareRole, "neighbour": neighbourRole, "hostile": hostileRole}
}

// options are the command line.
type options struct {
	root    string        // of the llm_prober module
	runs    int           // every figure is the median of so many
	cases   string        // of throttle: those whose name contains it
	minute  time.Duration // how long the daemon is watched with many targets
	targets []int
	churn   time.Duration // how long the daemon is watched while targets come and go
	hostile time.Duration // how long the daemon is watched beside hostile targets
	beside  string        // of hostile: which runs
	kinds   string        // of hostile: those whose name or kind contains it
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
		{"churn", churn},
		{"hostile", hostileTargets},
		{"micro", micro},
	}
}

func run() error {
	o := options{targets: []int{100, 1000}}
	only := flag.String("only", "", "comma-separated parts to run: cost, accuracy, throttle, scale, churn, hostile, micro (default all)")
	out := flag.String("out", "", "report to put the figures into, between its markers")
	flag.StringVar(&o.root, "root", "..", "directory of the llm_prober module")
	flag.IntVar(&o.runs, "runs", 5, "runs of everything but scale and hostile; their medians are reported")
	flag.StringVar(&o.cases, "throttle.case", "", "run only the cases of throttle whose name contains this")
	flag.DurationVar(&o.minute, "scale.duration", time.Minute, "how long the daemon is watched with many targets")
	flag.DurationVar(&o.churn, "churn.duration", 10*time.Minute, "how long the daemon is watched while a service discovery replaces a tenth of its targets every 10 s")
	flag.DurationVar(&o.hostile, "hostile.duration", 5*time.Minute, "how long the daemon is watched in each run of hostile")
	flag.StringVar(&o.beside, "hostile.beside", "none,each,all", "comma-separated runs of hostile: beside no hostile target, one of each kind, all")
	flag.StringVar(&o.kinds, "hostile.kind", "", "run only the hostile targets whose name or kind contains this")
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
		if err := figures.Insert(*out, "bench:"+s.name, text); err != nil {
			return err
		}
	}
	return nil
}
