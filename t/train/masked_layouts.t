#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Masked language models on every layout of ranks: the losses and gradient norms of one rank, dropout on; stopped runs
# continue exactly, on the same layout and on another.
. "$(dirname "$0")/../tap.sh"
[ -f "$MEGATRON_BUILD/runtime/engine/comm/comm_tcp.so" ] || skip_all "built without OpenSSL"
export MEGATRON_LIBRARY_DIR=$MEGATRON_BUILD/runtime/engine/comm
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

common=(--masked-lm --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2
    --global-batch-size 16 --lr 1e-3 --lr-decay-style constant --vocab-size 300 --mask-id 299 --mock-data
    --make-vocab-size-divisible-by 16 --log-interval 1 --eval-iters 0 --device cpu --cpu-threads 1
    --distributed-timeout-minutes 1)
roberta=(--post-norm --exact-gelu --position-offset 2)
megatron=(--num-token-types 2 --bert-binary-head)

# losses RANKS OPTION...: "norm loss" of each step, with a binary head "norm loss loss", one per line.
losses() {
    local ranks=$1 run=()
    shift
    [ "$ranks" = 1 ] || run=("${launch[@]}" "$ranks" --)
    timeout 120 "${run[@]}" "$MEGATRON_BUILD/runtime/megatron" train --train-iters 3 "${common[@]}" "$@" >"$scratch/out" 2>&1
    sed -nE 's/.* lm loss: ([^ ]+) \|( sop loss: ([^ ]+) \|)?.* grad norm: ([^ ]+) .*/\4 \1 \3/p' "$scratch/out"
}

# check NAME RANKS OPTION...: as one rank does it, to rounding.
check() {
    local name=$1 got
    shift
    got=$(losses "$@" "${model[@]}")
    paste <(echo "$expected") <(echo "$got") | awk '
        function differ(a, b, limit) { return a - b > limit || b - a > limit }
        NF != fields { bad = 1 }
        differ($1, $(1 + NF / 2), 2e-3 * $1 + 1e-3) { bad = 1 }
        { for (i = 2; i <= NF / 2; i++) if (differ($i, $(i + NF / 2), 2e-5 * $i)) bad = 1 }
        END { exit bad || NR != 3 }' fields=$([ $family = roberta ] && echo 4 || echo 6)
    ok "$family, $name" || { diag "expected" $expected; diag "got     " $got; diag "$(tail -n 3 "$scratch/out")"; }
}

t=--tensor-model-parallel-size p=--pipeline-model-parallel-size c=--context-parallel-size
v=--num-layers-per-virtual-pipeline-stage
for family in roberta megatron; do
    if [ $family = roberta ]; then model=("${roberta[@]}"); else model=("${megatron[@]}"); fi
    expected=$(losses 1 "${model[@]}")
    is "$(wc -l <<<"$expected")" 3 "$family on one rank" || diag "$(tail -n 3 "$scratch/out")"
    check "full recomputation, random order" 1 --recompute-granularity full --random-order
    check "tp 2, random order" 2 $t 2 --random-order
    check "pp 2 interleaved, random order" 2 $p 2 $v 1 --random-order
    check "cp 2" 2 $c 2
    check "dp 2 in small buckets" 2 --ddp-bucket-size 1
    check "cp 2 x tp 2, selective recomputation" 4 $t 2 $c 2 --recompute-activations
    check "tp 2 x pp 2, full recomputation" 4 $t 2 $p 2 --recompute-granularity full
done
check "pp 2 x dp 2" 4 $p 2

# The weights after a stop and a resume are those of a run without one.
cd "$scratch" || exit 99
model=("${roberta[@]}" --save-hf)
losses 1 "${model[@]}" whole >whole.txt
losses 1 "${roberta[@]}" --save part --exit-interval 2 >part.txt
losses 1 "${roberta[@]}" --save-hf rest --load part >>part.txt
is "$(cat part.txt)" "$(cat whole.txt)" "a stopped run continues with the same losses"
ok "  and ends with the same weights" cmp whole/model.safetensors rest/model.safetensors
is "$(losses 2 "${roberta[@]}" $t 2 --load part | cut -c 1-9)" "$(tail -n 1 whole.txt | cut -c 1-9)" "  or with tp 2"
done_testing
