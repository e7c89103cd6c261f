package main

import (
	"context"
	"errors"
	stdlog "log"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/llm-prober/llm_prober/internal/web"
)

// serve answers HTTP requests until a signal ends the daemon. It returns the exit code.
func (f *flags) serve(d *daemon, logger log.Logger) int {
	var leaving atomic.Bool
	server := &http.Server{
		Handler:           f.handler(d, &leaving, logger),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      2 * time.Minute, // of a whole answer; internal/web gives up earlier a client that does not read
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          stdlog.New(libraryLog{logger}, "", 0),
	}
	ended := handleSignals(func() { _ = d.reload() }) // it has logged its error
	failed := make(chan error, 1)
	go func() { failed <- toolkit.ListenAndServe(server, f.web, slog.New(slogHandler{logger: logger})) }()
	select {
	case err := <-failed:
		level.Error(logger).Log("msg", "cannot serve", "err", err)
		return exitFailed
	case <-ended:
	}
	level.Info(logger).Log("msg", "stopping: probes in flight are abandoned")
	leaving.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		server.Close()
	}
	if err := <-failed; err != nil && !errors.Is(err, http.ErrServerClosed) {
		level.Error(logger).Log("msg", "serving ended", "err", err)
	}
	return exitOK
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
