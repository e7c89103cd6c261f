#!/usr/bin/env bash
# Serves the tiny model with the vLLM that setup.sh installed, on the loopback address alone, in the foreground
# until SIGINT or SIGTERM. It answers /health after 20 to 60 seconds and takes 4 GB of memory.
#
#   serve.sh [PORT [OPTION...]]        PORT is 8000 if left out; options are those of `vllm serve`
set -euo pipefail
port=${1:-8000}
shift $(( $# > 0 ? 1 : 0 ))
cd "${LLM_PROBER_VLLM_DIR:-$HOME/.cache/llm_prober/vllm}"
export PATH="$PWD/venv/bin:$PATH"
export VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_CI_ENV=1                        # 1 GiB of KV cache; start faster
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1             # talk to nobody
serve=(vllm serve ./tiny --served-model-name tiny --host 127.0.0.1 --port "$port")
serve+=(--load-format dummy --dtype float32 --enforce-eager --max-model-len 4096)
serve+=(--enable-per-request-metrics --enable-prompt-tokens-details) # what lets a probe be checked
exec "${serve[@]}" "$@"
