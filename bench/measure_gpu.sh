#!/usr/bin/env bash
# Measures every figure of a GPU that docs/benchmarks.md shows, into bench/results (or the folder named).
# The conversation trace of Mooncake (JSON lines) is no part of the project: TRACE names it, or the joint row
# is left out. HICACHE names the command (.venv/bin/hicache). About 11 minutes on an H200 with 16 cores; nothing
# else should run on the machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
results=${1:-bench/results}
hicache=${HICACHE:-.venv/bin/hicache}
mkdir -p "$results"

measure() {  # NAME COMMAND [OPTION ...]
    local name=$1
    shift
    "$hicache" bench "$@" --device cuda --json "$results/cuda_$name.json"
}

both=page_first,layer_first
measure link link --again
measure transfer transfer --layout $both --runs 1,64
measure few_pages transfer --layout $both --pages 8,16,32 --rounds 15
if [ -n "${TRACE:-}" ]; then
    measure joint transfer --gemm --beside-compute yes --rounds 8 --replay "$TRACE" --pool 8192
fi
measure gemm transfer --layout $both --gemm --beside-compute yes --rounds 8
measure both transfer --both --filter '*/both'
measure packed transfer --packed
measure overlap overlap
measure pin pin --size 64GiB --memory-limit "${MEMORY_LIMIT:-110GiB}"
measure verify verify
measure ways transfer --layout $both --io-backend direct,kernel,staged
measure gemm_ways transfer --gemm --beside-compute yes --rounds 8 --io-backend kernel,staged
measure overlap_gemm overlap --work gemm
