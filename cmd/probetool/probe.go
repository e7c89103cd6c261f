package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/common/version"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/wire"
	"github.com/llm-prober/llm_prober/prober"
)

// probe is the command probe.
type probe struct {
	command  string
	url      string
	quick    config.QuickOptions
	api      string
	timeout  time.Duration
	insecure bool
	asJSON   bool
	verbose  bool
}

func probeCommand(app *kingpin.Application) *probe {
	p := &probe{}
	cmd := app.Command("probe", "Send one request, as the daemon would, and print its time line. Exits with 1 if it fails.")
	cmd.Arg("url", "Base URL of the server, with or without /v1.").Required().StringVar(&p.url)
	cmd.Flag("model", "Model to ask for; the first that the server lists if omitted.").StringVar(&p.quick.Model)
	cmd.Flag("api", "Endpoint: chat, completions.").Default("chat").EnumVar(&p.api, "chat", "completions")
	cmd.Flag("prompt-tokens", "Length of the prompt in tokens, by the server's own count.").Default("512").IntVar(&p.quick.PromptTokens)
	cmd.Flag("output-tokens", "Length of the answer in tokens.").Default("128").IntVar(&p.quick.OutputTokens)
	cmd.Flag("api-key-file", "File with the API key.").PlaceHolder("FILE").StringVar(&p.quick.APIKeyFile)
	cmd.Flag("timeout", "Time for the whole request.").Default("60s").DurationVar(&p.timeout)
	cmd.Flag("insecure", "Do not verify the server's certificate.").BoolVar(&p.insecure)
	cmd.Flag("json", "Print the result as JSON, with every gap.").BoolVar(&p.asJSON)
	cmd.Flag("verbose", "Log what is found out about the server.").Short('v').BoolVar(&p.verbose)
	p.command = cmd.FullCommand()
	return p
}

func (p *probe) run(ctx context.Context, stdout, stderr io.Writer) int {
	p.quick.URLs = []string{p.url}
	cfg, err := config.Quick(p.quick)
	if err != nil {
		fmt.Fprintln(stderr, ourFlags().Replace(err.Error()))
		return exitUsage
	}
	if p.timeout <= 0 || p.timeout > config.MaxTimeout {
		fmt.Fprintf(stderr, "--timeout: must be above 0 and at most %s, not %s\n", config.MaxTimeout, p.timeout)
		return exitUsage
	}
	target := wire.Target(*cfg.Targets[0])
	target.HTTP.TLSConfig.InsecureSkipVerify = p.insecure
	plan := &target.Plans[0]
	plan.API, plan.Timeout = prober.API(p.api), p.timeout
	logger := log.NewNopLogger()
	if p.verbose {
		logger = level.NewFilter(log.NewLogfmtLogger(stderr), level.AllowDebug())
	}
	runner, err := prober.NewRunner(target, prober.Options{Logger: logger, UserAgent: "llm_prober/" + cmp.Or(version.Version, "devel")})
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	res, err := p.once(ctx, runner, plan.Name)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, err)
		return exitUsage
	case ctx.Err() != nil:
		return exitInterrupted
	}
	if p.asJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(res); err != nil {
			fmt.Fprintln(stderr, err)
			return exitFailed
		}
	} else {
		printTimeline(stdout, target.URL.String(), res)
	}
	if !res.OK() {
		return exitFailed
	}
	return exitOK
}

// ourFlags turns the flags of the daemon, which the errors of config.Quick name, into those of this command.
func ourFlags() *strings.Replacer {
	return strings.NewReplacer("--target.url", "url", "--target.", "--", "--probe.", "--")
}

// once sends the probe. A prompt whose length the server had to be asked for by a probe (it has no tokenizer to
// ask) is sent a second time, corrected.
func (p *probe) once(ctx context.Context, runner *prober.Runner, workload string) (*prober.Result, error) {
	res, err := runner.Send(ctx, prober.Order{Workload: workload})
	if err == nil && res.OK() && res.Suspect.Has(prober.SuspectPromptLength) {
		return runner.Send(ctx, prober.Order{Workload: workload})
	}
	return res, err
}
