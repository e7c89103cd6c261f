package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/discovery"
	"github.com/llm-prober/llm_prober/prober"
)

const (
	// discoverTimeout is how long service discoveries may take to answer.
	discoverTimeout = 15 * time.Second
	// discoverRest is what is waited for after the last first answer: Prometheus' manager hands out what it has every
	// 3 s at most, and a discovery of several files or objects tells of each by itself.
	discoverRest = 4 * time.Second
)

// discover finds the members of target groups once and prints what became of each. It reports whether every discovery
// answered and every member that is not dropped can be probed.
func discover(ctx context.Context, cfg *config.Config, stdout io.Writer) (groups []discovery.Group, ok bool) {
	ctx, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	finder := discovery.NewFinder(ctx, slog.New(slog.DiscardHandler), promconfig.DialContextFunc(prober.DefaultDial)) // what fails is printed
	finder.Apply(cfg.Groups)
	running.Go(finder.Run)
	timeout := time.After(discoverTimeout)
	for !settled(finder.Found()) {
		select {
		case <-time.After(100 * time.Millisecond):
			continue
		case <-timeout:
		case <-ctx.Done():
		}
		break
	}
	groups, ok = discovery.Resolve(cfg, finder.Found(), nil), ctx.Err() == nil
	for i := range groups {
		printGroup(stdout, &groups[i])
		ok = ok && healthy(&groups[i])
	}
	return groups, ok
}

// settled reports whether each discovery has answered a while ago, or fails. The file's own lists have answered at once.
func settled(found map[string]discovery.Found) bool {
	for _, group := range found {
		for _, s := range group.Sources {
			if s.Err == "" && s.Mechanism != "static" && (s.Answered.IsZero() || time.Since(s.Answered) < discoverRest) {
				return false
			}
		}
	}
	return true
}

// healthy reports whether all of a group was found and can be probed.
func healthy(g *discovery.Group) bool {
	fails := func(s discovery.Source) bool { return s.Err != "" || s.Answered.IsZero() }
	return !slices.ContainsFunc(g.Sources, fails) && g.Count(discovery.Invalid)+g.Count(discovery.OverLimit) == 0
}

func printGroup(out io.Writer, g *discovery.Group) {
	var counts []string
	for _, s := range discovery.States() {
		counts = append(counts, fmt.Sprintf("%d %s", g.Count(s), s))
	}
	fmt.Fprintf(out, "group %q: %s\n", g.Name, strings.Join(counts, ", "))
	for _, s := range g.Sources {
		switch {
		case s.Err != "":
			fmt.Fprintf(out, "  %s discovery: FAILED: %s\n", s.Mechanism, s.Err)
		case s.Answered.IsZero():
			fmt.Fprintf(out, "  %s discovery: FAILED: no answer within %v\n", s.Mechanism, discoverTimeout)
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, m := range g.Members {
		if m.Target != nil {
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", m.State, m.Target.Name, m.Target.URL, m.Labels)
		} else {
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", m.State, m.Discovered.Get("__address__"), m.Reason, m.Discovered)
		}
	}
	_ = table.Flush() // as Fprintf to the same writer
}
