package main

import (
	"context"
	stdlog "log"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/llm-prober/llm_prober/internal/web"
)

// serve answers HTTP requests and reloads the configuration until a signal ends the daemon, and then ends everything. It
// returns the exit code.
func (f *flags) serve(d *daemon, changed func() bool, stopDemo func(), logger log.Logger) int {
	var leaving atomic.Bool
	server := &http.Server{
		Handler:           f.handler(d, &leaving, logger),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      2 * time.Minute, // of a whole answer; internal/web gives up earlier a client that does not read
		IdleTimeout:       2 * time.Minute,
		HTTP2:             web.HTTP2(),
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          stdlog.New(libraryLog{logger}, "", 0),
	}
	hup, ended := handleSignals()
	go keepReloading(hup, f.autoReload, changed, func() { _ = d.reload() }, ended) // reload logs its error
	failed := make(chan error, 1)
	go func() { failed <- toolkit.ListenAndServe(server, f.web, slog.New(slogHandler{logger: logger})) }()
	select {
	case err := <-failed:
		level.Error(logger).Log("msg", "cannot serve", "err", err)
		d.stop()
		stopDemo()
		return exitFailed
	case <-ended:
	}
	defer time.AfterFunc(exitTimeout, func() { os.Exit(exitOK) }).Stop()
	level.Info(logger).Log("msg", "stopping: probes in flight are abandoned")
	leaving.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if left := stopAll(ctx, d, server, stopDemo); left != nil {
		level.Warn(logger).Log("msg", "stopped, and left behind what did not end", "after", shutdownTimeout, "left", strings.Join(left, ", "))
	}
	return exitOK
}

// stopAll ends everything at once and names what has not ended when ctx is done.
func stopAll(ctx context.Context, d *daemon, server *http.Server, stopDemo func()) (left []string) {
	parts := []func() []string{
		func() []string { return d.stopWithin(ctx) },
		func() []string {
			if server.Shutdown(ctx) == nil {
				return nil
			}
			server.Close()
			return []string{"requests to our own pages"}
		},
		func() []string {
			ended := make(chan struct{})
			go func() {
				stopDemo()
				close(ended)
			}()
			select {
			case <-ended:
				return nil
			case <-ctx.Done():
				return []string{"the demo's server"}
			}
		},
	}
	lists := make(chan []string)
	for _, stop := range parts {
		go func() { lists <- stop() }()
	}
	for range parts {
		left = append(left, <-lists...)
	}
	slices.Sort(left)
	return left
}

// handler is everything that is served.
func (f *flags) handler(d *daemon, leaving *atomic.Bool, logger log.Logger) http.Handler {
	metrics := promhttp.InstrumentMetricHandler(d.self.Registerer(), promhttp.HandlerFor(d.targets, promhttp.HandlerOpts{
		ErrorLog:            stdlog.New(log.NewStdlibAdapter(level.Error(logger)), "", 0),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: f.maxRequests,
		EnableOpenMetrics:   true,
		CoalesceGather:      true,
	}))
	options := web.Options{
		Version: buildVersion(), TelemetryPath: f.telemetryPath, Metrics: metrics, History: d.history, Logger: logger,
		Targets: func() []web.Target {
			cfg, units := d.current()
			targets := make([]web.Target, len(units))
			for i, u := range units {
				targets[i] = shown(cfg, u)
			}
			return targets
		},
		Groups: d.members,
		Server: func(target string) (web.Server, bool) {
			_, units := d.current()
			for _, u := range units {
				if u.target.Name == target {
					return serverOf(u)
				}
			}
			return web.Server{}, false
		},
		ConfigYAML: func() ([]byte, error) {
			cfg, _ := d.current()
			return cfg.Redacted()
		},
		Ready: func() bool { return !leaving.Load() },
		Pprof: f.enablePprof,
	}
	if f.enableLifecycle {
		options.Reload = d.reload
	}
	return web.New(options)
}
