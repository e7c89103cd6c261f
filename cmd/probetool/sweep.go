package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"

	"github.com/llm-prober/llm_prober/internal/config"
)

// sweepExperiment is one of the commands sweep concurrency, rate, prompt-length, output-length and grid, or the same of
// simulate: what is varied, and what a level is when no flag says otherwise.
type sweepExperiment struct {
	name, help string
	levels     string // what --levels is and begins with; empty: there is no such flag
	levelsHelp string
	closed     bool // a closed loop
	warmup     int
	duration   time.Duration // of a level; with a rate, how long its requests take to send
	requests   int           // of a level
	demo       demoValues
}

// demoValues replace the defaults with --demo, so that it takes about a minute.
type demoValues struct {
	levels   string
	duration time.Duration
	requests int
	output   int
}

// experiments lists what the articles that this tool follows have measured, with their loads.
func experiments() []sweepExperiment {
	return []sweepExperiment{
		{
			name: "concurrency", help: "Keep so many requests in flight: throughput and latency against concurrency.",
			levels: "1,2,4,8,16,32,64,128,256", levelsHelp: "Requests in flight, one level each.",
			closed: true, warmup: 5, duration: 2 * time.Minute,
			demo: demoValues{levels: "1,2,4,8,16,32", duration: 9 * time.Second, output: 16},
		},
		{
			name: "rate", help: "Send so many requests a second, whatever becomes of those before: when does a queue grow, and how long does it take to drain?",
			levels: "2,4,8,12", levelsHelp: "Requests a second, one level each.",
			warmup: 16, duration: 2 * time.Minute,
			demo: demoValues{levels: "8,16,24", duration: 10 * time.Second, output: 64},
		},
		{
			name: "prompt-length", help: "The same load with longer and longer prompts.",
			levels: "128,512,1024,2048,8192", levelsHelp: "Prompt tokens, one level each.",
			closed: true, warmup: 5, requests: 128,
			demo: demoValues{levels: "128,512,1024,2048", requests: 128, output: 16},
		},
		{
			name: "output-length", help: "The same load with longer and longer answers.",
			levels: "32,128,512", levelsHelp: "Output tokens, one level each.",
			closed: true, warmup: 5, requests: 128,
			demo: demoValues{levels: "8,32,128", requests: 80},
		},
		{
			name: "grid", help: "Every concurrency with every length of prompt and answer: --concurrency, --prompt-tokens and --output-tokens are lists.",
			closed: true, warmup: 5, duration: time.Minute,
			demo: demoValues{requests: 80, output: 16},
		},
	}
}

// sweepFlags are the command line of an experiment.
type sweepFlags struct {
	sweepExperiment
	url string

	list        string // --levels
	concurrency string
	prompt      string
	output      string
	warm        int
	warmSet     bool
	each        time.Duration // --duration
	count       int           // --requests
	arrival     string
	maxInFlight int
	seed        string
	slos        []string

	server  serverFlags
	results results
	model   *modelFlags // nil: a server is measured
}

// serverFlags say how a real server is reached and what it is asked.
type serverFlags struct {
	request                       requestFlags
	file                          fromFile
	from                          *config.Choice // what file names; nil: none
	apiKeyFile, metricsURL        string
	insecure, demo                bool
	timeout, stallTimeout, settle time.Duration
}

// sweepCommands adds the command sweep and all below it. The returned functions run them, by their full names.
func sweepCommands(app *kingpin.Application) map[string]command {
	sweepCmd := app.Command("sweep", "Run a finite experiment: put a server under one level of load after another, and say which it should be run at.")
	commands := map[string]command{}
	for _, e := range experiments() {
		f := &sweepFlags{sweepExperiment: e}
		cmd := sweepCmd.Command(e.name, e.help)
		f.loadFlags(cmd)
		f.server.flags(cmd)
		f.results.flags(cmd)
		cmd.Arg("url", "Base URL of the server, with or without /v1; none with --config.file or --demo.").StringVar(&f.url)
		commands[cmd.FullCommand()] = f.run
	}
	search := func(c *kingpin.CmdClause) (string, command) { return searchCommand(c, nil) }
	for _, add := range []func(*kingpin.CmdClause) (string, command){search, compareCommand, reportCommand} {
		name, run := add(sweepCmd)
		commands[name] = run
	}
	run := &planRun{}
	cmd := sweepCmd.Command("run", "Run a plan file: an experiment that can be repeated. Every run stores its plan as plan.yml.")
	cmd.Arg("plan", "Plan file; see docs/sweep.md.").Required().StringVar(&run.file)
	run.from.flags(cmd)
	run.results.flags(cmd)
	commands[cmd.FullCommand()] = run.run
	return commands
}

// loadFlags adds the flags that say what is sent, and when.
func (f *sweepFlags) loadFlags(cmd *kingpin.CmdClause) {
	lists := ""
	if f.levels != "" {
		cmd.Flag("levels", f.levelsHelp).PlaceHolder(f.levels).StringVar(&f.list)
	} else {
		lists = " One level each, separated by commas."
	}
	if f.name != "prompt-length" {
		cmd.Flag("prompt-tokens", "Length of the prompt in tokens, by the server's own count."+lists).PlaceHolder(f.promptDefault()).StringVar(&f.prompt)
	}
	if f.name != "output-length" {
		cmd.Flag("output-tokens", "Length of the answer in tokens."+lists).PlaceHolder(f.outputDefault()).StringVar(&f.output)
	}
	if f.closed && f.name != "concurrency" {
		cmd.Flag("concurrency", "Requests in flight."+lists).PlaceHolder(f.concurrencyDefault()).StringVar(&f.concurrency)
	}
	limits := "A level ends after so long, and when all is answered"
	if !f.closed {
		limits = "A level sends as many requests as come in so long"
	}
	duration, requests := "none", "none"
	if f.duration > 0 {
		duration = short(f.duration)
	}
	if f.requests > 0 {
		requests = strconv.Itoa(f.requests)
	}
	cmd.Flag("duration", limits+". The defaults of this and of --requests hold if neither is given.").PlaceHolder(duration).DurationVar(&f.each)
	cmd.Flag("requests", "A level ends after so many requests.").PlaceHolder(requests).IntVar(&f.count)
	cmd.Flag("warmup", "Requests before each level that measure nothing.").PlaceHolder(strconv.Itoa(f.warmup)).IsSetByUser(&f.warmSet).IntVar(&f.warm)
	if !f.closed {
		cmd.Flag("arrival", "How requests come: poisson, constant.").Default("poisson").EnumVar(&f.arrival, "poisson", "constant")
		cmd.Flag("max-in-flight", "Bound on requests in flight; those due beyond it are missed and counted. None if omitted.").PlaceHolder("N").IntVar(&f.maxInFlight)
		cmd.Flag("seed", "Of the random arrivals: the same seed gives the same times.").Default("42").StringVar(&f.seed)
	}
	cmd.Flag("slo", "Bound on a percentile of a latency that the operating point must hold, as ttft_p95=1s or itl_p99=100ms. Repeatable.").PlaceHolder("OBJECTIVE").StringsVar(&f.slos)
}

// virtual sets what is not asked for where no server is: the defaults of a plan.
func (s *serverFlags) virtual() {
	v := config.DefaultExperiment()
	s.timeout, s.stallTimeout, s.settle = v.Timeout, v.StallTimeout, v.Settle
}

func (s *serverFlags) flags(cmd *kingpin.CmdClause) {
	s.file.flags(cmd)
	s.file.workloadFlag(cmd)
	s.request.flags(cmd)
	cmd.Flag("api-key-file", "File with the API key.").PlaceHolder("FILE").StringVar(&s.apiKeyFile)
	cmd.Flag("insecure", "Do not verify the server's certificate.").BoolVar(&s.insecure)
	cmd.Flag("metrics-url", "The server's own metrics, for the queue.").PlaceHolder("URL/metrics").StringVar(&s.metricsURL)
	v := config.DefaultExperiment()
	cmd.Flag("timeout", "Time for one request.").Default(short(v.Timeout)).DurationVar(&s.timeout)
	cmd.Flag("stall-timeout", "Time without a token in mid stream after which a request has failed.").Default(short(v.StallTimeout)).DurationVar(&s.stallTimeout)
	cmd.Flag("settle", "Most time to wait after a level for the server's queue to drain.").Default(short(v.Settle)).DurationVar(&s.settle)
	cmd.Flag("demo", "Load a simulated server in this process instead, with short levels.").BoolVar(&s.demo)
}

func (f *sweepFlags) promptDefault() string {
	switch from := f.server.from; {
	case f.name == "grid":
		return "128,512,2048"
	case from != nil:
		return strconv.Itoa(from.Plan.Workload.PromptTokens)
	}
	return "512"
}

func (f *sweepFlags) outputDefault() string {
	if f.server.demo && f.demo.output > 0 {
		return strconv.Itoa(f.demo.output)
	}
	if from := f.server.from; from != nil && f.name != "grid" {
		return strconv.Itoa(from.Plan.Workload.OutputTokens)
	}
	return "128"
}

func (f *sweepFlags) concurrencyDefault() string {
	if f.name == "grid" {
		return "1,4,16"
	}
	return "4"
}

func (f *sweepFlags) run(ctx context.Context, stdout, stderr io.Writer) int {
	if f.model != nil {
		e, err := f.plan()
		if err != nil {
			fmt.Fprintln(stderr, err)
			return exitUsage
		}
		return simulated(ctx, e, f.model, f.results, nil, stdout, stderr)
	}
	return f.server.with(&f.url, stderr, func() int {
		e, err := f.plan()
		if err != nil {
			fmt.Fprintln(stderr, err)
			return exitUsage
		}
		return measure(ctx, e, f.results, nil, stdout, stderr)
	})
}

// with does something with a server: that of the URL, that of a configuration file, or, with --demo, a simulated one
// whose URL it fills in.
func (s *serverFlags) with(url *string, stderr io.Writer, do func() int) int {
	ways := 0
	for _, way := range []bool{*url != "", s.file.file != "", s.demo} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		tell(stderr, "give the URL of a server, --config.file for one of a configuration, or --demo for a simulated one")
		return exitUsage
	}
	var err error
	if s.from, err = s.file.choice(map[string]string{"--api-key-file": s.apiKeyFile}); err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	if s.demo {
		d, err := startDemo()
		if err != nil {
			tell(stderr, "%v", err)
			return exitFailed
		}
		defer d.stop()
		*url = d.url
	}
	return do()
}

// plan makes the experiment that the flags ask for. Its errors name the flags.
func (f *sweepFlags) plan() (*config.Experiment, error) {
	if f.server.demo {
		f.duration, f.requests = f.demo.duration, f.demo.requests
		if f.levels != "" {
			f.levels = f.demo.levels
		}
	}
	settings := f.server.settings(f.url)
	add := func(key, flag, value string) {
		if value != "" {
			settings = append(settings, config.Setting{Key: key, Flag: flag, Value: value})
		}
	}
	settings = append(settings, config.Setting{Key: "name", Flag: "--name", Value: orElse(f.results.name, f.name), Text: true})
	warm := f.warmup
	if f.warmSet {
		warm = f.warm
	} else if f.server.demo {
		warm = min(warm, 5)
	}
	add("warmup", "--warmup", strconv.Itoa(warm))
	add("seed", "--seed", f.seed)
	for i, slo := range f.slos {
		settings = append(settings, config.Setting{Key: fmt.Sprintf("slos[%d]", i), Flag: "--slo", Value: slo, Text: true})
	}
	for i, l := range f.loads() {
		for _, s := range l {
			settings = append(settings, setting(fmt.Sprintf("levels[%d].%s", i, s.Key), s.Flag, s.Value))
		}
	}
	return config.ExperimentOf(settings, rules(f.model != nil, f.server.from))
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// settings are those of the target and the workload.
func (s *serverFlags) settings(url string) []config.Setting {
	return given(append(s.request.settings(),
		config.Setting{Key: "target.url", Flag: "url", Value: url, Text: true},
		config.Setting{Key: "target.metrics_url", Flag: "--metrics-url", Value: s.metricsURL, Text: true},
		config.Setting{Key: "target.http_client_config.authorization.credentials_file", Flag: "--api-key-file", Value: s.apiKeyFile, Text: true},
		setting("target.http_client_config.tls_config.insecure_skip_verify", "--insecure", ifTrue(s.insecure)),
		config.Setting{Key: "timeout", Flag: "--timeout", Value: s.timeout.String(), Text: true},
		config.Setting{Key: "stall_timeout", Flag: "--stall-timeout", Value: s.stallTimeout.String(), Text: true},
		config.Setting{Key: "settle", Flag: "--settle", Value: s.settle.String(), Text: true},
	))
}

// loads lists the settings of each level, without the prefix of their keys.
func (f *sweepFlags) loads() (levels [][]config.Setting) {
	concurrency := setting("concurrency", "--concurrency", orElse(f.concurrency, f.concurrencyDefault()))
	prompt := setting("prompt_tokens", "--prompt-tokens", orElse(f.prompt, f.promptDefault()))
	output := setting("output_tokens", "--output-tokens", orElse(f.output, f.outputDefault()))
	list := orElse(f.list, f.levels)
	for _, value := range strings.Split(list, ",") {
		value = strings.TrimSpace(value)
		switch f.name {
		case "concurrency":
			levels = append(levels, f.limited(setting("concurrency", "--levels", value), prompt, output))
		case "rate":
			levels = append(levels, f.limited(setting("rate", "--levels", value), prompt, output))
		case "prompt-length":
			levels = append(levels, f.limited(concurrency, setting("prompt_tokens", "--levels", value), output))
		case "output-length":
			levels = append(levels, f.limited(concurrency, prompt, setting("output_tokens", "--levels", value)))
		}
	}
	if f.name == "grid" {
		for _, o := range each(output) {
			for _, p := range each(prompt) {
				for _, c := range each(concurrency) {
					levels = append(levels, f.limited(c, p, o))
				}
			}
		}
	}
	return levels
}

func setting(key, flag, value string) config.Setting {
	return config.Setting{Key: key, Flag: flag, Value: value}
}

// each makes one setting of each item of a list.
func each(s config.Setting) (all []config.Setting) {
	for _, value := range strings.Split(s.Value, ",") {
		all = append(all, setting(s.Key, s.Flag, strings.TrimSpace(value)))
	}
	return all
}

// short writes a duration as Prometheus does: 2m, not 2m0s.
func short(d time.Duration) string { return model.Duration(d).String() }

// limited adds to the settings of a level how it ends.
func (f *sweepFlags) limited(level ...config.Setting) []config.Setting {
	duration, requests := f.each, f.count
	if duration == 0 && requests == 0 {
		duration, requests = f.duration, f.requests
	}
	if !f.closed {
		level = append(level, setting("arrival", "--arrival", f.arrival))
		if f.maxInFlight != 0 {
			level = append(level, setting("max_in_flight", "--max-in-flight", strconv.Itoa(f.maxInFlight)))
		}
		// A fixed count makes the levels of two runs equal; how many Poisson arrivals come in a time is chance.
		if rate, err := strconv.ParseFloat(level[0].Value, 64); err == nil && requests == 0 && rate*duration.Seconds() >= 1 {
			requests, duration = int(rate*duration.Seconds()+0.5), 0
		}
	}
	if duration != 0 {
		level = append(level, setting("duration", "--duration", duration.String()))
	}
	if requests != 0 {
		level = append(level, setting("requests", "--requests", strconv.Itoa(requests)))
	}
	return level
}
