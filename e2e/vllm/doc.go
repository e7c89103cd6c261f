// Package vllm holds the prober against a real vLLM: what it measures against the server's own account and
// against vLLM's own benchmark, what it says when the engine hangs, dies and comes back, and the simulator
// against the wire.
//
// setup.sh installs vLLM (6 GB), serve.sh starts it. The tests have the build tag vllm and start servers of
// their own on the loopback address:
//
//	./setup.sh && go test -tags vllm -v -timeout 40m .
//
// LLM_PROBER_VLLM_DIR says where vLLM is, if not in ~/.cache/llm_prober/vllm. LLM_PROBER_VLLM_WINDOW, 2m if
// unset, is how long each measurement lasts. What a run on a quiet machine yields is in docs/truth.md.
package vllm
