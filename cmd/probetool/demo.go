package main

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// demo is a simulated server in this process.
type demo struct {
	sim    *vllmsim.Server
	server *http.Server
	url    string
	ended  sync.WaitGroup
}

func startDemo() (*demo, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the demo's server: %w", err)
	}
	model := vllmsim.DemoModel()
	model.KVTokens = 1 << 17 // room for the long prompts
	d := &demo{
		sim: vllmsim.New(vllmsim.Config{
			Models: []string{"simulated"}, MaxModelLen: 32768, Engine: model, PerRequestMetrics: true, PromptTokensDetails: true,
		}),
		url: "http://" + listener.Addr().String(),
	}
	d.server = &http.Server{Handler: d.sim.Handler(), ReadHeaderTimeout: 10 * time.Second}
	d.ended.Go(func() { _ = d.server.Serve(listener) }) // ends when the server is closed
	return d, nil
}

func (d *demo) stop() {
	d.server.Close()
	d.sim.Close()
	d.ended.Wait()
}
