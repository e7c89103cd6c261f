package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/wire"
	"github.com/llm-prober/llm_prober/prober"
)

// probe is the command probe.
type probe struct {
	command    string
	url        string
	from       fromFile
	request    requestFlags
	key        string // --api-key-file
	prompt     string
	output     string
	timeout    time.Duration
	timeoutSet bool
	insecure   bool
	asJSON     bool
	verbose    bool
}

func probeCommand(app *kingpin.Application) *probe {
	p := &probe{}
	cmd := app.Command("probe", "Send one request, as the daemon would, and print its time line. Exits with 1 if it fails.")
	cmd.Arg("url", "Base URL of the server, with or without /v1; none with --config.file.").StringVar(&p.url)
	p.from.flags(cmd)
	p.from.workloadFlag(cmd)
	p.request.flags(cmd)
	cmd.Flag("prompt-tokens", "Length of the prompt in tokens, by the server's own count.").PlaceHolder("512").StringVar(&p.prompt)
	cmd.Flag("output-tokens", "Length of the answer in tokens.").PlaceHolder("128").StringVar(&p.output)
	cmd.Flag("api-key-file", "File with the API key.").PlaceHolder("FILE").StringVar(&p.key)
	cmd.Flag("timeout", "Time for the whole request.").PlaceHolder("60s").IsSetByUser(&p.timeoutSet).DurationVar(&p.timeout)
	cmd.Flag("insecure", "Do not verify the server's certificate.").BoolVar(&p.insecure)
	cmd.Flag("json", "Print the result as JSON, with every gap.").BoolVar(&p.asJSON)
	cmd.Flag("verbose", "Log what is found out about the server.").Short('v').BoolVar(&p.verbose)
	p.command = cmd.FullCommand()
	return p
}

// target is what is asked. The error is about flags or about the configuration file.
func (p *probe) target() (*config.Target, error) {
	if (p.url == "") == (p.from.file == "") {
		return nil, errors.New("probetool: give the URL of a server, or --config.file for one of a configuration")
	}
	from, err := p.from.choice(map[string]string{"--api-key-file": p.key})
	if err != nil {
		return nil, err
	}
	target, err := config.ProbeOf(given(append(p.request.settings(),
		config.Setting{Key: "target.url", Flag: "url", Value: p.url, Text: true},
		config.Setting{Key: "target.http_client_config.authorization.credentials_file", Flag: "--api-key-file", Value: p.key, Text: true},
		setting("target.http_client_config.tls_config.insecure_skip_verify", "--insecure", ifTrue(p.insecure)),
		setting("workload.prompt_tokens", "--prompt-tokens", p.prompt),
		setting("workload.output_tokens", "--output-tokens", p.output),
	)), from)
	if err != nil {
		return nil, err
	}
	switch plan := &target.Plans[0]; {
	case p.timeoutSet && (p.timeout <= 0 || p.timeout > config.MaxTimeout):
		return nil, fmt.Errorf("--timeout: must be above 0 and at most %s, not %s", config.MaxTimeout, p.timeout)
	case p.timeoutSet:
		plan.Timeout = p.timeout
	}
	return target, nil
}

func (p *probe) run(ctx context.Context, stdout, stderr io.Writer) int {
	chosen, err := p.target()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	target := wire.Target(*chosen)
	logger := log.NewNopLogger()
	if p.verbose {
		logger = level.NewFilter(log.NewLogfmtLogger(stderr), level.AllowDebug())
	}
	watch := prober.NewWatch()
	defer watch.Close()
	runner, err := prober.NewRunner(target, prober.Options{Logger: logger, UserAgent: userAgent(), Watch: watch})
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	res, err := once(ctx, runner, target.Plans[0].Name)
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

// once sends the probe. A prompt whose length the server had to be asked for by a probe (it has no tokenizer to
// ask) is sent a second time, corrected.
func once(ctx context.Context, runner *prober.Runner, workload string) (*prober.Result, error) {
	res, err := runner.Send(ctx, prober.Order{Workload: workload})
	if err == nil && res.OK() && res.Suspect.Has(prober.SuspectPromptLength) {
		return runner.Send(ctx, prober.Order{Workload: workload})
	}
	return res, err
}
