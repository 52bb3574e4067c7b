#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# t/gpu/all on a machine without a GPU: what a machine lacks is said before anything runs.
. "$(dirname "$0")/../tap.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/bin" "$scratch/build/runtime"

# stub FILE LINE...: a program
stub() {
    local file=$1
    shift
    printf '%s\n' '#!/bin/bash' "$@" >"$file"
    chmod 755 "$file"
}
build() { stub "$scratch/build/runtime/megatron" "echo 'built with: $*'"; }

# What the machine has, first all of it.
for program in nvidia-smi compute-sanitizer nvidia-cuda-mps-control python3; do stub "$scratch/bin/$program" true; done
all() { try env -u PYTHON TORCH_GPT=x PATH="$scratch/bin:$PATH" "$top/t/gpu/all" "$@" "$scratch/build" "$scratch/logs"; }
missing() { sed -n 's/^missing: \([A-Za-z_-]*\).*/\1/p' <<<"$out" | xargs; }
build openblas nccl simdjson
all -n
is "$rc $out" "0 " "t/gpu/all misses nothing"
build openblas
stub "$scratch/bin/python3" 'exit 1'
all -n
is "$rc $(missing)" "0 NCCL simdjson torch" "  says what is missing"
is "$(grep -c '; skipped: ' <<<"$out")" 3 "  and what is skipped for it"
stub "$scratch/bin/nvidia-smi" 'exit 9'
all
is "$rc $(missing)" "1 a NCCL simdjson torch" "without a GPU it ends there"
ok "  before it builds tests" test ! -e "$scratch/logs/make.log"
done_testing
