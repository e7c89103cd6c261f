// Command llm_prober probes LLM servers and exposes what it measures to Prometheus.
package main

import (
	"fmt"
	stdlog "log"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"
	"k8s.io/klog/v2"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/web"
	"github.com/llm-prober/llm_prober/prober"
)

// Exit codes, as documented in the README.
const (
	exitOK     = 0
	exitFailed = 1 // could not listen, or a bug
	exitUsage  = 2 // bad flags or configuration
)

func main() { os.Exit(run(os.Args[1:])) }

// flags are the command line.
type flags struct {
	configFile      string
	configCheck     bool
	autoReload      time.Duration // between two looks at the file; 0: never
	telemetryPath   string
	maxRequests     int
	enableLifecycle bool
	enablePprof     bool
	demo            bool
	demoAddress     string
	quick           config.QuickOptions
	logLevel        string
	logFormat       string
	web             *toolkit.FlagConfig
}

// parseFlags reads the command line. The error is about its use.
func parseFlags(args []string) (*flags, error) {
	f := &flags{}
	app := kingpin.New("llm_prober", "Probes LLM servers with fixed-shape streaming requests and exposes TTFT, ITL and throughput to Prometheus.\n\n"+
		"One of --config.file, --target.url and --demo says what to probe.")
	app.Version(version.Print("llm_prober"))
	app.HelpFlag.Short('h')
	app.UsageWriter(os.Stdout)

	app.Flag("config.file", "Configuration file.").PlaceHolder("FILE").StringVar(&f.configFile)
	app.Flag("config.check", "Check the configuration, print every error in it, and exit: 0 if it is valid, 2 if not.").BoolVar(&f.configCheck)
	app.Flag("config.auto-reload-interval", "Time between two looks at the configuration file, which is reloaded if its content has changed; 0s for never.").Default("0s").DurationVar(&f.autoReload)
	app.Flag("target.url", "Probe this server without a configuration file: its base URL, with or without /v1. Repeatable.").PlaceHolder("URL").StringsVar(&f.quick.URLs)
	app.Flag("target.model", "Model to ask for; the first that the server lists if omitted.").PlaceHolder("NAME").StringVar(&f.quick.Model)
	app.Flag("target.api-key-file", "File with the API key of the servers given by --target.url.").PlaceHolder("FILE").StringVar(&f.quick.APIKeyFile)
	app.Flag("probe.interval", "Time between two probes of a server given by --target.url.").PlaceHolder("15s").DurationVar(&f.quick.Interval)
	app.Flag("probe.prompt-tokens", "Length of a prompt in tokens, by the server's own count.").PlaceHolder("512").IntVar(&f.quick.PromptTokens)
	app.Flag("probe.output-tokens", "Length of an answer in tokens.").PlaceHolder("128").IntVar(&f.quick.OutputTokens)
	app.Flag("demo", "Start a simulated vLLM with background load and probe it.").BoolVar(&f.demo)
	app.Flag("demo.address", "Where the simulated vLLM listens.").Default("127.0.0.1:9878").StringVar(&f.demoAddress)

	f.web = kingpinflag.AddFlags(app, ":9877")
	app.Flag("web.telemetry-path", "Path under which metrics are exposed.").Default(web.DefaultTelemetryPath).StringVar(&f.telemetryPath)
	app.Flag("web.max-requests", "Scrapes that may run at once; 0 for no limit.").Default("40").IntVar(&f.maxRequests)
	app.Flag("web.enable-lifecycle", "Enable reloading by POST /-/reload.").BoolVar(&f.enableLifecycle)
	app.Flag("web.enable-pprof", "Serve Go's profiles of the prober under /debug/pprof/.").BoolVar(&f.enablePprof)

	app.Flag("log.level", "Only log messages of this severity or above: debug, info, warn, error.").Default("info").EnumVar(&f.logLevel, "debug", "info", "warn", "error")
	app.Flag("log.format", "Output format of log messages: logfmt, json.").Default("logfmt").EnumVar(&f.logFormat, "logfmt", "json")

	if _, err := app.Parse(args); err != nil {
		return nil, err
	}
	return f, f.check()
}

// check finds flags that contradict each other.
func (f *flags) check() error {
	var given []string
	for name, set := range map[string]bool{"--config.file": f.configFile != "", "--target.url": len(f.quick.URLs) > 0, "--demo": f.demo} {
		if set {
			given = append(given, name)
		}
	}
	switch {
	case len(given) == 0:
		return fmt.Errorf("nothing to probe: give --target.url=http://HOST:8000, --config.file=FILE, or --demo for a simulated server")
	case len(given) > 1:
		return fmt.Errorf("give only one of --config.file, --target.url and --demo")
	case len(f.quick.URLs) == 0 && (f.quick.Model != "" || f.quick.APIKeyFile != "" || f.quick.Interval != 0 || f.quick.PromptTokens != 0 || f.quick.OutputTokens != 0):
		return fmt.Errorf("--target.* and --probe.* describe a server given by --target.url; a configuration file has its own keys for them")
	case f.autoReload != 0 && f.configFile == "":
		return fmt.Errorf("--config.auto-reload-interval looks at a file: give --config.file as well")
	case f.autoReload != 0 && f.autoReload < minAutoReload:
		return fmt.Errorf("--config.auto-reload-interval: %v is less than %v; 0s is never", f.autoReload, minAutoReload)
	}
	if err := web.CheckTelemetryPath(f.telemetryPath); err != nil {
		return fmt.Errorf("--web.telemetry-path: %w", err)
	}
	return nil
}

func run(args []string) int {
	f, err := parseFlags(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "llm_prober: %s\nSee llm_prober --help.\n", err)
		return exitUsage
	}
	logger := newLogger(os.Stderr, f.logLevel, f.logFormat)
	// net/http, as a client, writes to the standard logger and can be given no other.
	stdlog.SetFlags(0)
	stdlog.SetOutput(libraryLog{logger})
	// So does the client of Kubernetes, of failed lists and watches.
	klog.SetSlogLogger(slog.New(slogHandler{logger: log.With(logger, "component", "kubernetes")}))
	load, changed := f.loader()
	cfg, err := load()
	if err != nil {
		printErrors(err)
		return exitUsage
	}
	if err := toolkit.Validate(*f.web.WebConfigFile); err != nil {
		printErrors(fmt.Errorf("--web.config.file: %w", err))
		return exitUsage
	}
	if f.configCheck {
		for _, w := range cfg.Warnings() {
			fmt.Println("warning:", w)
		}
		fmt.Println("configuration is valid")
		return exitOK
	}
	level.Info(logger).Log("msg", "Starting llm_prober", "version", version.Info())
	level.Info(logger).Log("msg", "Build context", "build_context", version.BuildContext())
	noteProxy(logger)

	stopDemo := func() {}
	if f.demo {
		sim, err := startDemo(f.demoAddress, logger)
		if err != nil {
			level.Error(logger).Log("msg", "starting the demo's server", "err", err)
			return exitFailed
		}
		stopDemo = sim.stop
	}
	// It has no end of its own: it is needed as long as there are probes, and the process ends after them.
	watch := prober.NewWatch()
	d, err := newDaemon(cfg, load, prober.Options{Logger: logger, UserAgent: userAgent(), Watch: watch, Seed: replicaSeed(*f.web.WebListenAddresses)})
	if err != nil {
		printErrors(err)
		return exitUsage
	}
	return f.serve(d, changed, stopDemo, logger)
}

// loader returns what reads the configuration, now and at every reload, and what tells that it is another one by now.
func (f *flags) loader() (load func() (*config.Config, error), changed func() bool) {
	never := func() bool { return false }
	switch {
	case f.demo:
		return func() (*config.Config, error) { return demoConfig(f.demoAddress) }, never
	case f.configFile != "":
		file := config.NewFile(f.configFile)
		return file.Load, file.Changed
	default:
		return func() (*config.Config, error) { return config.Quick(f.quick) }, never
	}
}

// printErrors prints one error a line.
func printErrors(err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(os.Stderr, "llm_prober:", strings.TrimSuffix(line, "\n"))
	}
}

// noteProxy says that a proxy in the environment is not used: a probe must not take another way by accident.
func noteProxy(logger log.Logger) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		if os.Getenv(name) != "" {
			level.Info(logger).Log("msg", "proxy of the environment is not used for probes; proxy_from_environment: true in http_client_config asks for it", "variable", name)
		}
	}
}

// handleSignals closes ended at the first SIGTERM or SIGINT. A second one ends the process at once, as the system does
// by default. A reload that hangs does not keep a signal from us. hup gets each SIGHUP.
func handleSignals() (hup <-chan os.Signal, ended <-chan struct{}) {
	term, hups, done := make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(hups, syscall.SIGHUP)
	go func() {
		<-term
		signal.Stop(term)
		close(done)
	}()
	return hups, done
}

// minAutoReload bounds how often the configuration file is read.
const minAutoReload = time.Second

// keepReloading reloads the configuration at each signal of hup and, unless interval is 0, each time that changed
// reports a change, which it is asked once an interval. It returns when ended is closed.
func keepReloading(hup <-chan os.Signal, interval time.Duration, changed func() bool, reload func(), ended <-chan struct{}) {
	var looks <-chan time.Time
	if interval > 0 {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		looks = ticker.C
	}
	for {
		select {
		case <-hup:
			reload()
		case <-looks:
			if changed() {
				reload()
			}
		case <-ended:
			return
		}
	}
}

const (
	// shutdownTimeout bounds the end in good order: what goes on after it is left behind.
	shutdownTimeout = 2500 * time.Millisecond
	// exitTimeout bounds the end in any order, as when nobody takes what is logged. Both leave some of the 3 s that
	// are promised.
	exitTimeout = 2800 * time.Millisecond
)
