#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The same run on every layout of ranks gives the same losses and gradient norms, dropout on.
. "$(dirname "$0")/../tap.sh"
[ -f "$MEGATRON_BUILD/runtime/engine/comm/comm_tcp.so" ] || skip_all "built without OpenSSL"
export MEGATRON_LIBRARY_DIR=$MEGATRON_BUILD/runtime/engine/comm
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

gpt=(--num-layers 4 --hidden-size 32 --num-attention-heads 4)
llama=("${gpt[@]}" --swiglu --position-embedding-type rope --normalization RMSNorm --disable-bias-linear
    --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 2 --rotary-percent 0.5)
common=(--seq-length 32 --micro-batch-size 2 --global-batch-size 16 --lr 1e-3
    --lr-decay-style constant --vocab-size 300 --make-vocab-size-divisible-by 16 --mock-data --log-interval 1
    --eval-iters 0 --device cpu --cpu-threads 1 --distributed-timeout-minutes 1)
length=(--train-iters 3)

# losses RANKS OPTION...: "loss norm" of each step, one per line.
losses() {
    local ranks=$1 run=()
    shift
    [ "$ranks" = 1 ] || run=("${launch[@]}" "$ranks" --)
    timeout 120 "${run[@]}" "$MEGATRON_BUILD/runtime/megatron" train "${common[@]}" "${length[@]}" "$@" >"$scratch/out" 2>&1
    sed -nE 's/.*lm loss: ([^ ]+) .*grad norm: ([^ ]+) .*/\1 \2/p' "$scratch/out"
}

# close A B: the same numbers, to rounding.
close() {
    paste <(echo "$1") <(echo "$2") | awk '
        NF != 4 { bad = 1 }
        { d = $1 - $3; e = $2 - $4; if (d < 0) d = -d; if (e < 0) e = -e
          if (d > 2e-5 * $1 || e > 2e-3 * $2 + 1e-3) bad = 1 }
        END { exit bad || NR != 3 }'
}

# check NAME RANKS OPTION...: as one rank does it.
check() {
    local name=$1 got
    shift
    got=$(losses "$@" "${model[@]}")
    close "$expected" "$got"
    ok "$family, $name" || { diag "expected" $expected; diag "got     " $got; diag "$(tail -n 3 "$scratch/out")"; }
}

t=--tensor-model-parallel-size p=--pipeline-model-parallel-size c=--context-parallel-size
v=--num-layers-per-virtual-pipeline-stage
for family in gpt llama; do
    if [ $family = gpt ]; then model=("${gpt[@]}"); else model=("${llama[@]}"); fi
    expected=$(losses 1 "${model[@]}")
    is "$(wc -l <<<"$expected")" 3 "$family on one rank" || diag "$(tail -n 3 "$scratch/out")"
    check "streams in random order" 1 --random-order
    check "another micro-batch size" 1 --micro-batch-size 4
    check "full recomputation" 1 --recompute-granularity full
    check "selective recomputation" 1 --recompute-activations
    check "some layers recomputed" 1 --recompute-granularity full --recompute-method block --recompute-num-layers 3
    check "tp 2" 2 $t 2
    check "dp 2" 2
    check "pp 2" 2 $p 2
    check "cp 2" 2 $c 2
    check "tp 2, random order" 2 $t 2 --random-order
    check "pp 2, random order" 2 $p 2 --random-order
    check "pp 2 interleaved" 2 $p 2 $v 1
    check "pp 2 interleaved, random order" 2 $p 2 $v 1 --random-order
    check "pp 2 x dp 2 interleaved, full recomputation" 4 $p 2 $v 1 --recompute-granularity full
    check "dp 4" 4
    check "dp 2 in small buckets, random order" 2 --ddp-bucket-size 1 --random-order
    check "dp 2 x pp 2 in small buckets, full recomputation" 4 $p 2 --ddp-bucket-size 1 --recompute-granularity full
    check "pp 4" 4 $p 4
    check "tp 2 x pp 2" 4 $t 2 $p 2
    check "cp 2 x tp 2, random order" 4 $t 2 $c 2 --random-order
    check "cp 2 x dp 2" 4 $c 2
    [ $family = gpt ] || continue
    check "tp 4" 4 $t 4
    check "pp 4, random order" 4 $p 4 --random-order
    check "tp 2 x pp 2 interleaved, random order" 4 $t 2 $p 2 $v 1 --random-order
    check "tp 2 x pp 2 x dp 2 interleaved" 8 $t 2 $p 2 $v 1
    check "cp 2 x pp 2 x tp 2" 8 $t 2 $p 2 $c 2
done
# Words are scaled before learned positions are added.
family=scaled model=("${gpt[@]}" --embedding-scale 5.6)
expected=$(losses 1 "${model[@]}")
is "$(wc -l <<<"$expected")" 3 "scaled words on one rank" || diag "$(tail -n 3 "$scratch/out")"
check "tp 2 x pp 2" 4 $t 2 $p 2
# Networks that turn on everything else. Norms of all heads together need one tensor-parallel rank.
modern=(--position-embedding-type rope --normalization RMSNorm --disable-bias-linear --group-query-attention
    --num-query-groups 2 --add-qkv-bias --qk-layernorm --geglu --norm-placement both --window-size 9,0
    --window-attn-skip-freq 2 --rotary-base-local 100 --attn-logit-softcapping 0.5 --final-logit-softcapping 0.5
    --embedding-scale 5.6 --softmax-scale 0.3 --apply-layernorm-1p --reset-attention-mask)
parallel=(--position-embedding-type yarn --yarn-rotary-scaling-factor 4 --yarn-beta-fast 2 --use-parallel-residual
    --exact-gelu --qk-layernorm --untie-embeddings-and-output-weights)
outputs=(--position-embedding-type rope --rotary-seq-len-interpolation-factor 2 --norm-placement output --squared-relu
    --qk-layernorm-whole)
plain=(--position-embedding-type rope --no-rope-freq 2 --norm-without-weights --clip-qkv 0.05 --swiglu --disable-bias-linear)
for family in modern parallel outputs plain; do
    declare -n options=$family
    model=("${gpt[@]}" "${options[@]}")
    expected=$(losses 1 "${model[@]}")
    is "$(wc -l <<<"$expected")" 3 "$family on one rank" || diag "$(tail -n 3 "$scratch/out")"
    check "selective recomputation, random order" 1 --recompute-activations --random-order
    case $family in parallel | outputs) check "norm weights minus 1" 1 --apply-layernorm-1p ;; esac
    check "pp 2 interleaved, full recomputation" 2 $p 2 $v 1 --recompute-granularity full
    if [ $family = outputs ]; then
        check "cp 2 x dp 2" 4 $c 2
        losses 2 "${model[@]}" $t 2 >/dev/null
        like "$(cat "$scratch/out")" 'need all heads on one rank; use --tensor-model-parallel-size 1' "  tp 2 is refused"
    else
        check "cp 2 x tp 2" 4 $t 2 $c 2
    fi
done

# Layers without rotary positions, by their numbers in the whole model, from a checkpoint of another layout.
model=("${gpt[@]}" --position-embedding-type rope --no-rope-freq '[0,1,1,0]')
family="some layers without RoPE"
expected=$(losses 1 "${model[@]}")
[ "$expected" != "$(losses 1 "${gpt[@]}" --position-embedding-type rope)" ]
is $? 0 "$family: other losses than with RoPE in all"
check "cp 2 x tp 2, random order" 4 $t 2 $c 2 --random-order
check "pp 2 x dp 2 interleaved, full recomputation" 4 $p 2 $v 1 --recompute-granularity full --save "$scratch/no-rope"
length=(--train-iters 6 --override-opt_param-scheduler)
expected=$(losses 1 "${model[@]}" --load "$scratch/no-rope")
check "tp 2 x pp 2, resumed from another layout" 4 $t 2 $p 2 --load "$scratch/no-rope"
losses 1 "${gpt[@]}" --position-embedding-type rope --no-rope-freq 2 --load "$scratch/no-rope" >/dev/null
like "$(cat "$scratch/out")" 'another model: no-rope-freq' "  other layers are refused"
length=(--train-iters 3)

model=("${gpt[@]}" --reset-attention-mask --reset-position-ids --eod-mask-loss)
family="documents"
expected=$(losses 1 "${model[@]}")
check "cp 2" 2 $c 2
check "tp 2 x pp 2" 4 $t 2 $p 2

# Muon orthogonalizes whole matrices, wherever their parts are.
model=("${gpt[@]}" --swiglu --optimizer muon --lr 1e-2)
family="Muon"
expected=$(losses 1 "${model[@]}")
check "tp 2 x dp 2, random order" 4 $t 2 --random-order
check "pp 2 x dp 2 interleaved in small buckets, random order" 4 $p 2 $v 1 --ddp-bucket-size 1 --random-order

# Unequal pipeline stages, and from a checkpoint of one layout to another.
model=("${gpt[@]}" --num-layers 7)
family="unequal stages"
expected=$(losses 1 "${model[@]}")
check "2 and 5 layers" 2 $p 2 --decoder-first-pipeline-num-layers 2
check "embedding and interleaved" 2 $p 2 --num-virtual-stages-per-pipeline-rank 2 --account-for-embedding-in-pipeline-split
check "output layer" 2 $p 2 --account-for-loss-in-pipeline-split --save "$scratch/unequal"
length=(--train-iters 6 --override-opt_param-scheduler)
expected=$(losses 1 "${model[@]}" --load "$scratch/unequal")
check "3 and 4 layers, resumed from others" 2 $p 2 --decoder-last-pipeline-num-layers 4 --load "$scratch/unequal"
length=(--train-iters 3)

# Between two log lines nothing waits: weights are gathered while the next step's forward pass runs.
model=("${gpt[@]}" --train-iters 9 --log-interval 3)
family="three steps a line"
expected=$(losses 1 "${model[@]}")
check "dp 2 in small buckets, random order" 2 --ddp-bucket-size 1 --random-order
check "dp 2 x pp 2 interleaved in small buckets, random order" 4 $p 2 $v 1 --ddp-bucket-size 1 --random-order

# Steps with as many micro-batches as stages, all forward before all backward, then a larger one.
model=("${gpt[@]}" --num-layers 8 --micro-batch-size 1 --global-batch-size 8 --rampup-batch-size 4 4 8)
length=(--train-samples 16)
family="a batch that grows"
expected=$(losses 1 "${model[@]}")
check "pp 4 interleaved" 4 $p 4 $v 1
check "pp 2 x dp 2 interleaved" 4 $p 2 $v 2
length=(--train-iters 3)

# Evaluations between steps: losses only, forward passes without backward ones.
validation() {
    losses "$@" "${gpt[@]}" --eval-iters 2 --eval-interval 1 >/dev/null
    sed -nE 's/.*validation loss at .*lm loss value: ([^ ]+).*/\1/p' "$scratch/out"
}
expected=$(validation 1)
is "$(wc -l <<<"$expected")" 4 "an evaluation after each step, and the last one" || diag "$(tail -n 3 "$scratch/out")"
for layout in "2 $p 2 --random-order" "4 $p 4" "4 $p 4 --random-order" "2 $p 2 $v 1 --random-order"; do
    # shellcheck disable=SC2086
    got=$(validation $layout)
    paste <(echo "$expected") <(echo "$got") | awk '
        { d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > 2e-5 * $1) bad = 1 } END { exit bad || NR != 4 }'
    ok "evaluations, ranks $layout" || { diag "expected" $expected; diag "got     " $got; diag "$(tail -n 3 "$scratch/out")"; }
done

# --- Weights as files: written by any layout, read by any other.
model=("${gpt[@]}")
family="weights"
losses 8 $t 2 $p 2 $v 1 "${model[@]}" --save-hf "$scratch/many" >/dev/null
losses 1 "${model[@]}" --save-hf "$scratch/one" >/dev/null
is "$(stat -c %s "$scratch/many/model.safetensors")" "$(stat -c %s "$scratch/one/model.safetensors")" "files of one size"
expected=$(losses 1 "${model[@]}" --load-hf "$scratch/one")
check "written by 8 ranks, read by one" 1 --load-hf "$scratch/many"
check "written by one rank, read by 4" 4 $t 2 $p 2 --load-hf "$scratch/one"
done_testing
