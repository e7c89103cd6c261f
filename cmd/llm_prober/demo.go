package main

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

//go:embed demo.yml
var demoYAML string

// demoConfig is the configuration of --demo.
func demoConfig(address string) (*config.Config, error) {
	return config.Parse("demo.yml", []byte(strings.ReplaceAll(demoYAML, "ADDRESS", address)))
}

// demo is the simulated server of --demo, with the load of other users.
type demo struct {
	sim    *vllmsim.Server
	server *http.Server
	load   context.CancelFunc
	ended  sync.WaitGroup
}

func startDemo(address string, logger log.Logger) (*demo, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w (--demo.address chooses another address)", err)
	}
	d := &demo{sim: vllmsim.New(vllmsim.Config{
		Models: []string{"simulated"}, Engine: vllmsim.DemoModel(), PerRequestMetrics: true, PromptTokensDetails: true,
	})}
	d.server = &http.Server{Handler: d.sim.Handler(), ReadHeaderTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancel(context.Background())
	d.load = cancel
	d.ended.Go(func() { d.sim.RunLoad(ctx, vllmsim.DemoLoad()) })
	d.ended.Go(func() {
		if err := d.server.Serve(listener); err != http.ErrServerClosed {
			level.Error(logger).Log("msg", "the demo's server ended", "err", err)
		}
	})
	level.Info(logger).Log("msg", "demo: a simulated vLLM is running; make it fail to see what happens",
		"hang", fmt.Sprintf("curl -X POST 'http://%s/sim/fault?name=hang'", address),
		"faults", fmt.Sprintf("curl http://%s/sim/fault", address))
	return d, nil
}

func (d *demo) stop() {
	d.load()
	d.server.Close()
	d.sim.Close()
	d.ended.Wait()
}
