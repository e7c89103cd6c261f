#!/usr/bin/env bash
# Installs the clients that `go run ./compare` puts beside probetool, in the versions of docs/comparison.md:
#   vllm bench serve 0.32.0, with the vLLM that e2e/vllm/setup.sh installs (6 GB), and its tiny model's tokenizer
#   EvalScope 1.9.1, into ~/.cache/llm_prober/evalscope (1.5 GB)
#   vllm-bench 0.1.0, into ~/.cache/llm_prober/vllm-bench. It is in no registry; cargo builds it from its repository,
#     or from a clone named by VLLM_BENCH_GIT. Where neither is to be had, the comparison goes without.
# What is there already is kept.
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$HOME/.cache/llm_prober

"$scripts/../vllm/setup.sh"

if [[ ! -x $cache/evalscope/venv/bin/evalscope ]]; then
  mkdir -p "$cache/evalscope"
  "${PYTHON:-python3}" -m venv "$cache/evalscope/venv"
  "$cache/evalscope/venv/bin/python" -m pip install --quiet uv
  "$cache/evalscope/venv/bin/uv" pip install --quiet --python "$cache/evalscope/venv/bin/python" \
    'evalscope[perf]==1.9.1' 'transformers==5.15.0' 'tokenizers==0.22.2'
fi

if [[ ! -x $cache/vllm-bench/bin/vllm-bench ]]; then
  cargo install --quiet --locked --root "$cache/vllm-bench" \
    --git "${VLLM_BENCH_GIT:-https://github.com/vllm-project/vllm-bench}" --rev f3131823f167aa1e6f31a48be1ae15a18667a534 vllm-bench ||
    echo "vllm-bench could not be built; the comparison goes without it" >&2
fi
echo "ready: cd e2e && go run ./compare clients"
