// Package vllmsim is a vLLM look-alike for the demo, the tests and the benchmarks.
//
// It has two layers. An [Engine] is the scheduler: it decides when each token of each request is ready, by a
// [Model] of one GPU; a [Simulation] follows the same rules without a clock, an hour in a moment. A [Server] is the
// API server in front of an engine: the wire format of vLLM 0.32, its /metrics page, and faults that can be switched
// while it runs. Its answers are held against recordings of the real one by the tests of this package.
//
//	sim := vllmsim.New(vllmsim.Config{Engine: vllmsim.DemoModel(), PerRequestMetrics: true, PromptTokensDetails: true})
//	defer sim.Close()
//	go sim.RunLoad(ctx, vllmsim.DemoLoad())
//	http.Serve(listener, sim.Handler()) // uvicorn closes idle connections after 5 s: http.Server.IdleTimeout
//
// A fault is switched on by [Server.SetFault], or from outside:
//
//	curl -X POST 'localhost:8000/sim/fault?name=hang'      # and -X DELETE to end it; GET /sim/fault lists all
//
// Nothing here has a clock of its own: under testing/synctest the package runs on virtual time.
package vllmsim
