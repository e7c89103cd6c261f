package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
)

// search is the command sweep search, or simulate search.
type search struct {
	url            string
	concurrency    int
	rate           float64
	max            float64
	prompt, output string
	each           time.Duration
	warmup         int
	slos           []string
	server         serverFlags
	results        results
	model          *modelFlags // nil: a server is measured
}

func searchCommand(parent *kingpin.CmdClause, model *modelFlags) (string, command) {
	s := &search{model: model}
	cmd := parent.Command("search", "Find the highest load that holds the objectives, in as few levels as it takes. A ceiling is named only if a load above it was measured and does not hold.")
	cmd.Flag("slo", "Bound on a percentile of a latency, as ttft_p95=1s or itl_p99=100ms. Repeatable; all must hold.").PlaceHolder("OBJECTIVE").Required().StringsVar(&s.slos)
	cmd.Flag("concurrency", "Search the requests in flight, beginning with so many.").PlaceHolder("8").IntVar(&s.concurrency)
	cmd.Flag("rate", "Search the requests a second (Poisson arrivals) instead, beginning with so many.").PlaceHolder("RATE").Float64Var(&s.rate)
	cmd.Flag("max", "Highest load to try. No bound if omitted.").PlaceHolder("LOAD").Float64Var(&s.max)
	cmd.Flag("prompt-tokens", "Length of the prompt in tokens, by the server's own count.").PlaceHolder("512").StringVar(&s.prompt)
	cmd.Flag("output-tokens", "Length of the answer in tokens.").PlaceHolder("128").StringVar(&s.output)
	cmd.Flag("duration", "Time for one level.").Default("1m").DurationVar(&s.each)
	cmd.Flag("warmup", "Requests before each level that measure nothing.").Default("5").IntVar(&s.warmup)
	s.results.flags(cmd)
	if model != nil {
		s.server.virtual()
		model.flags(cmd, 0)
		return cmd.FullCommand(), s.run
	}
	s.server.flags(cmd)
	cmd.Arg("url", "Base URL of the server, with or without /v1; none with --config.file or --demo.").StringVar(&s.url)
	return cmd.FullCommand(), s.run
}

func (s *search) run(ctx context.Context, stdout, stderr io.Writer) int {
	if s.model != nil {
		e, err := s.plan()
		if err != nil {
			fmt.Fprintln(stderr, err)
			return exitUsage
		}
		return simulated(ctx, e, s.model, s.results, &analyze.Search{Max: s.max}, stdout, stderr)
	}
	return s.server.with(&s.url, stderr, func() int {
		e, err := s.plan()
		if err != nil {
			fmt.Fprintln(stderr, err)
			return exitUsage
		}
		return measure(ctx, e, s.results, &analyze.Search{Max: s.max}, stdout, stderr)
	})
}

// plan makes the experiment of one level that the search begins with.
func (s *search) plan() (*config.Experiment, error) {
	prompt, output := config.Defaults().PromptTokens, config.Defaults().OutputTokens
	if from := s.server.from; from != nil {
		prompt, output = from.Plan.Workload.PromptTokens, from.Plan.Workload.OutputTokens
	}
	settings := append(s.server.settings(s.url),
		config.Setting{Key: "name", Flag: "--name", Value: orElse(s.results.name, "search"), Text: true},
		setting("warmup", "--warmup", strconv.Itoa(s.warmup)),
		setting("levels[0].prompt_tokens", "--prompt-tokens", orElse(s.prompt, strconv.Itoa(prompt))),
		setting("levels[0].output_tokens", "--output-tokens", orElse(s.output, strconv.Itoa(output))),
		setting("levels[0].duration", "--duration", s.each.String()),
	)
	switch {
	case s.rate != 0 && s.concurrency != 0:
		return nil, fmt.Errorf("--rate: give it or --concurrency, not both")
	case s.max < 0:
		return nil, fmt.Errorf("--max: must not be negative")
	case s.rate != 0:
		settings = append(settings, setting("levels[0].rate", "--rate", strconv.FormatFloat(s.rate, 'f', -1, 64)))
	default:
		if s.concurrency == 0 {
			s.concurrency = 8
		}
		settings = append(settings, setting("levels[0].concurrency", "--concurrency", strconv.Itoa(s.concurrency)))
	}
	for i, slo := range s.slos {
		settings = append(settings, config.Setting{Key: fmt.Sprintf("slos[%d]", i), Flag: "--slo", Value: slo, Text: true})
	}
	return config.ExperimentOf(settings, rules(s.model != nil, s.server.from))
}
