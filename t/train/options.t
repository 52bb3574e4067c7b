#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `megatron train` prints: golden values of known runs, notes, errors, the order of lines.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
small=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --micro-batch-size 2 --lr 1e-3
    --train-iters 4 --vocab-size 100 --mock-data --device cpu --eval-iters 0 --log-interval 1 --cpu-threads 1)

# --- Golden values: GPT-3 test case with 36 layers on 8-way tensor parallelism.
try "$megatron" train --dry-run --world-size 32 --num-layers 36 --hidden-size 4096 --num-attention-heads 32 \
    --seq-length 2048 --max-position-embeddings 2048 --tensor-model-parallel-size 8 --vocab-size 50257 \
    --micro-batch-size 1 --global-batch-size 288 --train-samples 146484375 --lr-decay-samples 126953125 \
    --lr-warmup-samples 183105 --lr 6.0e-5 --min-lr 6.0e-6 --lr-decay-style cosine --eval-interval 1000 \
    --eval-iters 40 --fp16 --recompute-activations --verbose
is "$rc" 0 "a plan for 32 ranks without starting them"
like "$out" 'context_parallel_size \.+ 1$' "the table shows derived values"
like "$out" 'sequence_parallel \.+ True$' "  fixed values"
like "$out" 'train_iters \.+ None$' "  and options that were not given"
like "$out" 'rank \(7, 0\): 941594624$' "parameters per rank"
like "$out" 'new size: 51200' "padded vocabulary"
like "$out" 'train: +146484375$' "training samples"
like "$out" 'validation: 5863680$' "validation samples"
like "$out" 'test: +11520$' "test samples"
like "$out" 'iterations to 508626$' "iterations"
try "$megatron" train "${small[@]}" --global-batch-size 50 --micro-batch-size 1 --lr 6e-5 --train-iters 1000000 \
    --lr-warmup-iters 3662 --lr-decay-iters 100000 --exit-interval 1 --eval-interval 1000000
like "$out" 'consumed samples: +50 .*learning rate: 1\.638[0-9]+E-08' "learning rate of warm-up after 50 samples"
like "$out" 'exiting program at iteration 1$' "--exit-interval"

# --- Presets of families whose blocks differ from GPT's and Llama's.
for row in "qwen3-8b 8190735360" "qwen2.5-0.5b 494032768" "nemo-4b 4190509056" "mistral-7b-v0.1 7241732096"; do
    try "$megatron" train --dry-run --world-size 1 --megatron-model "${row% *}" --micro-batch-size 1 --train-iters 1 --lr 1e-4
    like "$out" "rank \\(0, 0\\): ${row#* }\$" "parameters of ${row% *}"
done
try "$megatron" train --megatron-model list
is "$(grep -cE '^[A-Za-z0-9.-]+ +[0-9]+ layers' <<<"$out") $(grep -c '^[A-Z][^,]*$' <<<"$out")" "51 7" "presets by family"
# --- The verdict: on which GPUs it fits, and what is too large.
verdict=(--dry-run --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --vocab-size 50257 --lr 1e-4
    --train-iters 10 --bf16)
try "$megatron" train "${verdict[@]}" --micro-batch-size 8
is "$(head -n 1 <<<"$out")" "fits: A100-80, H100, H200, B200" "the first line is the verdict" || diag "$out"
like "$out" 'A100-40: [0-9.]+ GiB too much; the largest part is: activations \([0-9.]+ GiB\)' "  what is too large"
like "$out" '^  the run is too large for some of them; use a smaller --micro-batch-size, ' "  what to do"
unlike "$out" 'context_parallel_size' "  the arguments only with --verbose"
fused=$(sed -nE 's/.*attention workspace ([0-9.]+).*/\1/p' <<<"$out")
try "$megatron" train "${verdict[@]}" --micro-batch-size 8 --attention-backend unfused
is "$(sed -nE 's/.*attention workspace ([0-9.]+).*/\1/p' <<<"$out")" 0.75 "  the scores of unfused attention (16 x 2048^2 x 12 bytes)"
[ "$fused" != 0.75 ]
ok "  which fused attention does not keep"
# Interleaved schedules keep 1 + (p - 1) / pv times the activations (1.29 here), and each chunk its input and output.
stages=(--megatron-model nemo-175b --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --sequence-parallel --dry-run
    --world-size 64 --mock-data --micro-batch-size 1 --global-batch-size 64 --bf16 --train-iters 10 --lr 1e-4)
activations() { "$megatron" train "${stages[@]}" "$@" 2>&1 | sed -nE '/memory \(GiB\)/{s/.*activations ([0-9.]+),.*/\1/p;q}'; }
is "$(awk -v a="$(activations)" -v b="$(activations --num-layers-per-virtual-pipeline-stage 4)" 'BEGIN { print (a > 0 && b < 1.34 * a) }')" 1 \
    "activations of interleaved pipelines"

# --- Memory of ranks on CPUs: the gradients of the other ranks need a buffer.
try "$megatron" train "${small[@]}" --dry-run --world-size 2 --hidden-size 512 --vocab-size 8000
like "$out" 'total [0-9.]+; reduction buffer 0\.0[1-9][0-9]$' "memory of data-parallel ranks on CPUs"
try "$megatron" train "${small[@]}" --dry-run --hidden-size 512 --vocab-size 8000
unlike "$out" 'reduction buffer' "  and of one rank"
# A dry run is for GPUs, also on a node that has none.
gpus=(--dry-run --world-size 2 --num-layers 2 --hidden-size 512 --num-attention-heads 4 --seq-length 16 --micro-batch-size 2
    --lr 1e-3 --train-iters 4 --vocab-size 8000 --mock-data --bf16 --optimizer muon)
try "$megatron" train "${gpus[@]}" --device cuda
with=$out
try "$megatron" train "${gpus[@]}"
is "$(grep GiB <<<"$out")" "$(grep GiB <<<"$with")" "  and of GPUs on a node without them"
like "$out" 'memory \(GiB\): .* total [0-9.]+$' "  which need no buffer"
try "$megatron" train "${gpus[@]}" --num-layers 200 --hidden-size 16384
like "$out" '^  the run is too large for all of them; use a smaller --micro-batch-size, ' "a run that fits no GPU"

# --- Memory that turns out not to be available. (With sanitizers a limit of address space stops the program itself.)
# shellcheck disable=SC2016
limited=(bash -c 'ulimit -v 800000; exec "$@"' limited)
if "${limited[@]}" "$megatron" --version >/dev/null 2>&1; then
    try "${limited[@]}" "$megatron" train "${small[@]}" --seq-length 1024 --micro-batch-size 256
    is "$rc $(grep '^megatron train' <<<"$out" | sed 's/ 1\.[0-9]* GiB/ 1.X GiB/')" \
        "1 megatron train: activations: cannot allocate another 1.X GiB: out of memory; use a smaller --micro-batch-size, --recompute-granularity full, or more model parallelism (--tensor-model-parallel-size, --pipeline-model-parallel-size)" \
        "memory that runs out: for what, how much, what to do"
else
    skip "memory that runs out" "this build does not start with little address space"
fi

# --- The log line
try "$megatron" train "${small[@]}" --log-throughput
like "$out" '^ \[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\] iteration        4/       4 \| consumed samples:            8 \| elapsed time per iteration \(ms\): [0-9.]+ \| throughput per GPU \(TFLOP/s/GPU\): [0-9.]+ \| learning rate: [0-9.E+-]+ \| global batch size:     2 \| lm loss: [0-9.]+E[+-][0-9]+ \| loss scale: 1\.0 \| grad norm: [0-9.]+ \| number of skipped iterations:   0 \| number of nan iterations:   0 \|' \
    "the log line"
like "$out" 'time to first step: [0-9.]+ s' "time to first step"
like "$out" 'GiB available, .* GiB planned' "memory planned against available"

try "$megatron" train "${small[@]}" --straggler-interval 9223372036854775807 --metrics-file "$scratch/metrics.jsonl"
is "$rc $(grep -c '"record":"ranks"' "$scratch/metrics.jsonl")" "0 1" "ranks are compared once, with the largest --straggler-interval"

# --- Options without effect are named.
try "$megatron" train "${small[@]}" --ckpt-step 3 --recompute-method uniform --exit-on-missing-checkpoint --wandb-entity x \
    --optimizer adam --muon-momentum 0.9 --sgd-momentum 0.9
for text in '--ckpt-step has no effect without --load' '--recompute-method has no effect without --recompute-granularity' \
    '--exit-on-missing-checkpoint has no effect without --load' '--wandb-entity has no effect without --wandb-project' \
    '--muon-momentum has no effect without --optimizer muon' '--sgd-momentum has no effect without --optimizer sgd'; do
    like "$out" "^megatron: warning: $text" "a warning: $text"
done

try "$megatron" train "${small[@]}" --power 2 --rotary-base 500 --use-rope-scaling --rotary-seq-len-interpolation-factor 1 --yarn-beta-fast 8
for text in '--power has no effect without --lr-decay-style polynomial' '--rotary-base has no effect without --position-embedding-type rope' \
    '--use-rope-scaling has no effect without --position-embedding-type rope' \
    '--rotary-seq-len-interpolation-factor has no effect without --position-embedding-type rope' \
    '--yarn-beta-fast has no effect without --position-embedding-type yarn'; do
    like "$out" "^megatron: warning: $text" "a warning: $text"
done
try "$megatron" train "${small[@]}" --position-embedding-type yarn --yarn-rotary-scaling-factor 2 --rotary-base 500 --rotary-percent 0.5
unlike "$out" 'no effect' "YaRN uses --rotary-base and --rotary-percent"

# --- A line that a lost node left unfinished does not swallow the first one of the next start.
printf '{"iteration":1,"consumed' >"$scratch/torn.jsonl"
try "$megatron" train "${small[@]}" --metrics-file "$scratch/torn.jsonl"
is "$(sed -n 1p "$scratch/torn.jsonl")$(grep -c '^{.*}$' "$scratch/torn.jsonl")" '{"iteration":1,"consumed6' "a torn line of --metrics-file" || diag "$(cat "$scratch/torn.jsonl")"
try "$megatron" train "${small[@]}" --metrics-file "$scratch/torn.jsonl"
is "$(grep -c '^$' "$scratch/torn.jsonl")" 0 "  and a complete one"

# --- Which steps are profiled.
try "$megatron" train "${small[@]}" --profile --profile-step-start 1 --profile-step-end 3
like "$out" 'mean of 2 steps:' "--profile-step-start and --profile-step-end"

# --- The time of a step by part: what is known and the gaps make up the whole.
try "$megatron" train "${small[@]}" --swiglu --train-iters 6 --profile
like "$out" 'time per step by category, mean of 5 steps:' "--profile counts the steps after the first"
for part in 'matrix multiplications .* TFLOP/s' 'attention .* TFLOP/s' 'norms .* TB/s' 'embeddings .* TB/s' \
    'output layer and loss .* TFLOP/s' 'optimizer .* TB/s' 'idle, copies and communication .* %'; do
    like "$out" "^  $part\$" "--profile: ${part%% .*}"
done
unlike "$out" '^  activations ' "--profile: the gate is part of the products"
is "$(awk '/^  total/ { whole = $2 } /^  [a-z].* ms / && !/^  total/ { sub(/ ms .*/, ""); sum += $NF } END { print (sum > 0.99 * whole && sum < 1.01 * whole) }' <<<"$out")" 1 \
    "--profile: the parts make up the step"
operations() { sed -n 's/^  \([a-z ]*[a-z]\) .* \([0-9]* operations\).*/\1: \2/p' <<<"$out"; }
few=$(operations)
like "$few" '^matrix multiplications: 24 operations$' "--profile: two layers of four products in three directions"
try "$megatron" train "${small[@]}" --swiglu --train-iters 6 --profile --eval-iters 5 --eval-interval 2 --split 80,10,10
like "$out" 'validation loss at iteration 4' "with evaluations in between"
is "$(operations)" "$few" "--profile: a step has as many operations, evaluations do not count"
try "$megatron" train "${small[@]}" --exit-interval 1 --profile
like "$out" 'warning: --profile has nothing to report: only the first step' "--profile of a run that ends after its first step"
try "$megatron" train "${small[@]}" --train-iters 1 --profile
like "$out" 'time per step by category, mean of 1 steps:' "--profile of a single step"
try "$megatron" train "${small[@]}" --profile --profile-step-start 3 --profile-step-end 3
is "$rc $(grep ^megatron <<<"$out")" "2 megatron train: --profile-step-end 3 must be greater than --profile-step-start 3: it is the step after the profiled ones; raise it" \
    "--profile of no steps"
try "$megatron" train "${small[@]}" --profile --profile-step-start 1000
like "$out" 'warning: --profile has nothing to report: the run had no step from --profile-step-start 1000 on; lower it' "--profile of steps that do not come"
try "$megatron" train "${small[@]}" --profile-step-start 3 --profile-step-end 3 --exit-interval 1
is "$rc" 75 "no steps to profile without --profile: only a warning"

# --- Help
is "$("$megatron" help train)" "$("$megatron" train --help)" "megatron help COMMAND"
try "$megatron" help trian
is "$rc $out" "2 megatron: unknown command trian; did you mean train?" "  of an unknown one"
is "$("$megatron" --version)" "$("$megatron" version)" "megatron --version"
try "$megatron" version extra
is "$rc $out" "2 megatron version: unexpected argument extra; version takes no arguments" "  with a word too many"

# --- What is missing or does not fit is named
try "$megatron" train --megatron-model 1.7B --mock-data --train-iters 1 --lr 1e-3 --device cpu
is "$rc $(grep ^megatron <<<"$out")" "2 megatron train: --micro-batch-size is required: the sequences that a rank processes at a time" "a model without a batch"
try "$megatron" train "${small[@]}" --dry-run --world-size 2 --num-layers 3 --pipeline-model-parallel-size 2
like "$out" '--pipeline-model-parallel-size=2 does not divide the 3 layers of the model; use 1 or 3$' "a network without a name"
data=()
for word in "${small[@]}"; do [ "$word" = --mock-data ] || data+=("$word"); done
try "$megatron" train "${data[@]}" --data-path "$scratch/nope"
is "$rc $(grep ^megatron <<<"$out")" "2 megatron: $scratch/nope.idx: cannot open: No such file or directory; check the path" "data that does not exist"
unlike "$out" "number of parameters" "  before weights are made or read"
try "$megatron" train "${data[@]}" --data-path 1 "$scratch/nope" x "$scratch/nope"
like "$out" '^megatron: "x" is not a weight.*; correct --data-path$' "a weight that is not a number"
unlike "$out" "number of parameters" "  as early"
is "$rc" 2 "  as a usage error"
try "$megatron" train "${small[@]}" --split 99,2,a
is "$rc $(grep ^megatron <<<"$out")" "2 megatron: data split 99,2,a: give up to three numbers, such as 949,50,1; change --split" "a split that is not a list of numbers"
try "$megatron" train "${small[@]}" --tokenizer-type Llama2Tokenizer --tokenizer-model "$scratch/nope"
is "$rc $(grep ^megatron <<<"$out")" "2 megatron train: cannot open $scratch/nope: No such file or directory; check the path" "a tokenizer that does not exist"
try "$megatron" train "${small[@]}" --save "" --save-interval 1
is "$rc $(grep ^megatron <<<"$out")" "2 megatron train: --save is empty; give a path, or drop it" "--save of a variable that is not set"

# --- A long run that would be lost
while IFS='|' read -r options count; do
    # shellcheck disable=SC2086
    try "$megatron" train "${small[@]}" --exit-interval 1 $options
    is "$(grep -c '^megatron: note: without --save-interval, a checkpoint is saved only at the end' <<<"$out")" "$count" "a note for ${options//$scratch\//}"
done <<EOT
--train-iters 5000 --save $scratch/long1|1
--train-iters 5000 --save $scratch/long2 --save-interval 1000|0
--train-iters 500 --save $scratch/long3|0
--train-iters 5000|0
EOT

# --- Gradients that are not finite: the step is skipped, and the line has neither loss nor norm.
try "$megatron" train "${small[@]}" --lr 1e30 --clip-grad 0
like "$out" 'iteration        4/ .* global batch size:     2 \| loss scale: 1\.0 \| number of skipped iterations:   1 \| number of nan iterations:   1 \|' \
    "steps whose gradients are inf or NaN are skipped"
# ... and does not go on like this forever, nor do its saves displace good checkpoints.
blown=("${small[@]}" --log-interval 10 --save-interval 10 --keep-last 2 --save "$scratch/blown" --load "$scratch/blown")
try "$megatron" train "${blown[@]}" --train-iters 20 --lr 1e-3
is "$rc" 0 "a run goes well for 20 steps"
try "$megatron" train "${blown[@]}" --train-iters 400 --lr 1e30 --clip-grad 0 --override-opt_param-scheduler
is "$rc" 1 "a run whose gradients stay inf or NaN ends"
like "$out" 'megatron train: no optimizer step since iteration 30 or earlier: the gradients of at least the last 100 steps were inf or NaN; resume from an earlier checkpoint \(--ckpt-step\) with a lower --lr' \
    "and says why and what to do"
like "$out" '^ \[.*\] iteration      130/' "after a hundred skipped steps"
is "$(grep -o 'warning: not saving a checkpoint at iteration [0-9]*' <<<"$out")" 'warning: not saving a checkpoint at iteration 40' \
    "saving is withheld, which is reported once"
ok "the last good checkpoint is still there" test -e "$scratch/blown/iter_0000020"
try "$megatron" train "${blown[@]}" --train-iters 45 --lr 1e30 --clip-grad 0 --override-opt_param-scheduler
is "$rc" 1 "a run that ends this way is not marked as finished"
unlike "$out" 'successfully saved' "and not saved"
try "$megatron" train "${blown[@]}" --train-iters 30 --lr 1e-3 --ckpt-step 20 --override-opt_param-scheduler
is "$rc" 0 "the remedy works"
like "$out" '^ \[.*\] iteration       30/ .*number of skipped iterations:   0 ' "with steps that are taken"

# --- Batch size ramp-up, evaluation, JSON
try "$megatron" train "${small[@]}" --train-iters 1 --train-samples 40
like "$out" 'use either --train-iters or --train-samples' "steps or samples, not both"
ramp=("${small[@]}")
unset 'ramp[12]' 'ramp[13]'
try "$megatron" train "${ramp[@]}" --train-samples 40 --global-batch-size 8 --rampup-batch-size 2 2 12 \
    --metrics-file "$scratch/metrics" --tensorboard-dir "$scratch/new/path/events" --eval-iters 2 --eval-interval 3 \
    --log-validation-ppl-to-tensorboard --log-world-size-to-tensorboard --log-memory-to-tensorboard --log-params-norm
is "$(sed -nE 's/.*consumed samples: +([0-9]+) .*batch size: +([0-9]+) .*/\1:\2/p' <<<"$out" | xargs)" \
    "2:2 4:2 8:4 14:6 22:8 30:8 38:8" "the global batch grows"
like "$out" 'validation loss at iteration 3 \| lm loss value: [0-9.]+E' "validation"
is "$(grep -c '^{"iteration"' "$scratch/metrics") $(grep -c '"record":"validation","version":1,"iteration":[0-9]*,"set":"validation","lm_loss":' "$scratch/metrics") $(grep -c '"set":"test"' "$scratch/metrics")" \
    "7 3 1" "a line of JSON per log line and evaluation"
is "$(grep -aoE 'lm loss (test|validation)( vs samples)?' "$scratch"/new/path/events/* | sort -u | xargs)" \
    "lm loss test lm loss test vs samples lm loss validation lm loss validation vs samples" "test losses have a tag of their own"
for tag in 'lm loss validation ppl' 'lm loss validation ppl vs samples' world-size mem-allocated-bytes params-norm 'params-norm vs samples' loss-scale batch-size; do
    grep -aq "$tag" "$scratch"/new/path/events/*
    ok "  TensorBoard: $tag"
done
like "$(grep -v '"record"' "$scratch/metrics" | head -n1)" '^\{"iteration":1,"consumed_samples":2,.*"lm_loss":[0-9.]+,.*\}$' "metrics as JSON"
is "$(ls "$scratch/new/path/events" | grep -c '^events\.out\.tfevents\.')" 1 "an event file"
try "$megatron" train "${ramp[@]}" --train-samples 9 --global-batch-size 8 --rampup-batch-size 2 2 100
is "$rc" 0 "samples that end within the ramp"
is "$(sed -nE 's/.*consumed samples: +([0-9]+) .*/\1/p' <<<"$out" | xargs)" "2 4 6 8" "  are whole steps"
for size in 8 4; do
    try "$megatron" train "${ramp[@]}" --dry-run --world-size 4 --num-layers 8 --pipeline-model-parallel-size 4 \
        --num-layers-per-virtual-pipeline-stage 1 --train-samples 40 --global-batch-size 16 --rampup-batch-size $size $size 12
    is "$rc" $((size == 8 ? 0 : 2)) "interleaved stages, $((size / 2)) micro-batches of 4 stages at first"
done
like "$out" 'START=4 and INCREMENT=4 must be multiples of micro-batch size x data-parallel size x pipeline-parallel size = 8; change them$' "  and what it must be"
while read -r size nearest; do
    try "$megatron" train "${ramp[@]}" --dry-run --train-samples 40 --global-batch-size $size --rampup-batch-size 4 6 12
    like "$out" "--global-batch-size=$size must be START=4 plus a multiple of INCREMENT=6 of --rampup-batch-size; the nearest size is $nearest$" \
        "a ramp that misses $size"
done <<'END'
2 4
12 10
14 16
END

# --- Ignored options, old names, nearest names, impossible combinations
try "$megatron" train "${small[@]}" --use-mcore-models --transformer-impl local --use-flash-attn --no-masked-softmax-fusion \
    --no-rope-fusion --no-position-embedding --optimizer adam --dataloader-type single --num-workers 2 --distributed-backend nccl --DDP-impl local
is "$rc" 0 "options without meaning here are accepted"
like "$out" '^megatron: note: ignored options: --use-mcore-models' "with a note"
try "$megatron" train "${small[@]}" --cross-entropy-loss-fusion --manual-gc --empty-unused-memory-level 1 --manual-gc-interval 10 \
    --no-check-for-nan-in-loss-and-grad --no-mmap-bin-files --profile-step-start 4 --profile-step-end 6 \
    --dist-ckpt-strictness log_all --ckpt-fully-parallel-save --tp-comm-overlap --auto-detect-ckpt-format
is "$rc" 0 "those of newer examples of Megatron-LM are accepted, too" || diag "$out"
try "$megatron" train "${small[@]}" --train_iters 1 --manual_gc_interval 10 --tokenizer_hf_use_fast --tp_comm_overlap_cfg f --use_flash-attn
is "$rc" 0 "every option takes _ for -" || diag "$out"
like "$out" '^megatron: note: ignored options: --tp_comm_overlap_cfg; communication is planned' "options that match a pattern are named, too"
like "$("$megatron" train --help)" '^  --tokenizer-type .*\|NullTokenizer$' "--help shows long choices in full"
while IFS='|' read -r options text; do
    try "$megatron" train "${small[@]}" $options
    is "$rc" 2 "$options is rejected"
    like "$out" "$text" "with the remedy"
done <<'EOT'
--batch-size 4|use --micro-batch-size
--lr 1e-4 --min-lr 1e-3|--min-lr=0.001 is greater than --lr=0.0001
--weight-decay -1|--weight-decay=-1 must not be negative
--adam-eps 0|--adam-eps=0 must be greater than 0
--hidden-dropout 1|--hidden-dropout=1 must be at least 0 and less than 1
--model-parallel-size 4|use --tensor-model-parallel-size
--hiden-size 4|did you mean --hidden-size
--num-layer 4|did you mean --num-layers, 
--global-batch-size 3|not a multiple of --micro-batch-size=2
--fp16 --bf16|cannot be used together; drop one
--bf16|the CPU backend supports fp32 only; drop --bf16
--tensor-model-parallel-size 2|does not divide 1 task;
--swiglu --hidden-size 16|too small for the default of --ffn-hidden-size
--num-attention-heads 5|not a multiple of --num-attention-heads=5
--hidden-dropout 1|less than 1
--lr-warmup-iters 4|must be shorter than the decay
--max-position-embeddings 8|greater than --max-position-embeddings=8
--megatron-model gpt3-1T|unknown model
--num-layers-per-virtual-pipeline-stage 1|requires --pipeline-model-parallel-size of 2
--wandb-project x|--wandb-project requires --wandb-exp-name; add it
--optimizer lion|--optimizer=lion is unknown; use adam.sgd.muon.dist_muon
--optimizer muon --muon-momentum 1|--muon-momentum=1 must be at least 0 and less than 1
--optimizer muon --muon-num-ns-steps 7|--muon-num-ns-steps=7 is not a multiple of the 5 steps of --muon-coefficient-type quintic
--optimizer muon --muon-coefficient-type polar_express|--muon-num-ns-steps=5 is less than the 8 steps
--optimizer dist_muon --muon-extra-scale-factor 0|--muon-extra-scale-factor=0 must be greater than 0
--optimizer sgd --sgd-momentum 1|--sgd-momentum=1 must be at least 0 and less than 1
--lr-decay-style WSD|--lr-decay-style WSD requires --lr-wsd-decay-iters
--lr-decay-style WSD --lr-wsd-decay-iters 5|the decay of WSD .10 samples. is longer than the whole schedule
--lr-wsd-decay-iters 2|requires --lr-decay-style WSD
--lr-warmup-init 1|--lr-warmup-init=1 must be at most --lr=0.001
--start-weight-decay 0.1|requires --weight-decay-incr-style linear
--weight-decay-incr-style cosine|requires --start-weight-decay and --end-weight-decay
--decoupled-min-lr 1e-5|requires --decoupled-lr
--decoupled-lr 1e-5 --decoupled-min-lr 1e-4|must be at least --decoupled-min-lr
--decoder-first-pipeline-num-layers 1|require --pipeline-model-parallel-size of 2
--fp8-multi-head-attention|--fp8-multi-head-attention is an option of Megatron-LM that does not exist here; fp8 is for linear layers
--num-experts 8|--num-experts is an option of Megatron-LM that does not exist here; models are dense
--moe-router-topk 2|--moe-router-topk is an option of Megatron-LM that does not exist here
--optimizer-cpu-offload --optimizer-offload-fraction 1.5|--optimizer-offload-fraction=1.5 must be from 0 to 1
--tensor-parallel-size 2|did you mean --tensor-model-parallel-size\?
--flubber-format 2|unknown option --flubber-format; --help lists all
--dataloader-type external|--dataloader-type=external is unknown; use single.cyclic
--lr -1|--lr=-1 must not be negative
--adam-beta2 1|must be at least 0 and less than 1
--clip-grad -1|--clip-grad=-1 must not be negative
--norm-epsilon -1|--norm-epsilon=-1 must not be negative
--window-size 5,3|--window-size=5,3: a window after the token is not supported; its second number must be 0
--window-size wide|--window-size=wide must be LEFT,0: the number of tokens that each token sees before itself, and 0
--window-size -2,0|--window-size=-2,0 must be LEFT,0
--window-attn-skip-freq 2|--window-attn-skip-freq requires --window-size
--swiglu --squared-relu|--swiglu and --squared-relu cannot be used together; drop one
--geglu --exact-gelu|--geglu and --exact-gelu cannot be used together; drop one
--use-parallel-residual --norm-placement both|--use-parallel-residual and --norm-placement cannot be used together
--norm-without-weights --norm-placement output|--norm-without-weights and --norm-placement cannot be used together
--apply-layernorm-1p --norm-without-weights|--apply-layernorm-1p and --norm-without-weights cannot be used together; drop one
--clip-qkv 8 --qk-layernorm|--clip-qkv and --qk-layernorm cannot be used together; drop one
--position-embedding-type yarn|--position-embedding-type yarn requires --yarn-rotary-scaling-factor
--position-embedding-type yarn --yarn-rotary-scaling-factor 2 --use-rope-scaling|cannot be used with other scalings of rotary embeddings
--rotary-seq-len-interpolation-factor 0|--rotary-seq-len-interpolation-factor=0 must be greater than 0
--use-rope-scaling --rotary-seq-len-interpolation-factor 2|--use-rope-scaling and --rotary-seq-len-interpolation-factor cannot be used together
--attn-logit-softcapping -1|--attn-logit-softcapping=-1 must not be negative
--rotary-base 0|--rotary-base=0 must be greater than 0
--memory-efficient-fp16 --loss-scale -5|--loss-scale=-5 must not be negative
--memory-efficient-fp16 --min-loss-scale 0|--min-loss-scale=0 must be greater than 0
--memory-efficient-fp16 --min-loss-scale 4 --initial-loss-scale 2|--min-loss-scale=4 must be at most --initial-loss-scale=2; change one of them
--eod-id 100|--eod-id=100 is not in the vocabulary \(0 to 99\), so no document would end; change it
--rope-scaling-factor 0|--rope-scaling-factor=0 must be greater than 0
--position-embedding-type rope --rotary-percent 0.7|with --rotary-percent=0.7, RoPE rotates 5 of the 8 channels of a head, and it needs an even number; change --rotary-percent or --kv-channels
--position-embedding-type rope --rotary-percent 0.1|RoPE rotates 0 of the 8 channels
--position-embedding-type yarn --yarn-rotary-scaling-factor 2 --kv-channels 7|RoPE rotates 7 of the 7 channels
--lr-decay-style polynomial --power -1|--power=-1 must not be negative
--hidden-size 4294967296|--hidden-size=4294967296
--hidden-size 2000000000|would have [0-9.e+]+ parameters; check --num-layers
--train-iters 9000000000000000000|--train-iters=9000000000000000000 is too large
--dry-run --world-size 9223372036854775807|--world-size=9223372036854775807 is out of range; use 1 to 2147483647
--dry-run --world-size 2147483647 --micro-batch-size 2147483647|--train-iters=4 is too large; lower it
--dry-run --world-size 2147483647 --micro-batch-size 2147483647 --update-freq 2147483647|--update-freq=2147483647 is too large; lower it
--dry-run --tensor-model-parallel-size 2147483647 --pipeline-model-parallel-size 2147483647 --context-parallel-size 2147483647|is too large; use smaller sizes
--cpu-threads 4294967297|--cpu-threads=4294967297 is out of range; use 1 to 4096
--eval-iters 9000000000000000000|too many validation samples
--eval-iters 5000000000000000000 --train-iters 4000000000 --eval-interval 1|too many validation samples
--data-path x|--mock-data and --data-path cannot be used together; drop one
--test-data-path x|--mock-data and --test-data-path cannot be used together; drop one
EOT
try "$megatron" train "${small[@]}" --metrics-file /nonexistent/x
is "$rc" 2 "a file that cannot be written at all"
like "$out" "megatron train: --metrics-file: cannot write /nonexistent/x: No such file or directory" "  is named"
try "$megatron" train "${small[@]/--mock-data/--log-throughput}" --data-path 0.5 a 0.5
like "$out" '"0.5" is a weight without a prefix.*correct --data-path$' "a prefix is missing"
try env MEGATRON_LIBRARY_DIR=/nonexistent "$megatron" train "${small[@]}" --device cuda
is "$rc" 1 "no GPU"
like "$out" '--device cpu' "and how to continue without it"
for environment in LANG=C RANK=x MEGATRON_CONTRACT=99; do
    try env "$environment" "$megatron" train --help
    like "$out" '--tensor-model-parallel-size N' "--help with $environment"
done
# Another rank reports the error, and gets time for it: a launcher may end all ranks with the first
# that fails.
try env RANK=1 WORLD_SIZE=2 timeout --preserve-status 2 "$megatron" train --lrr 3
is "$rc $out" "2 " "a rank that is terminated while it waits for rank 0 to report keeps its exit code"
SECONDS=0
try env RANK=0 WORLD_SIZE=2 "$megatron" train --lrr 3
is "$rc" 2 "rank 0 reports"
ok "  and waits for the others to get there" test $SECONDS -ge 1
try "$megatron" train --megatron-model list
like "$out" 'llama2-70b' "--megatron-model list"
try "$megatron" train --megatron-model llama2-7b --dry-run --micro-batch-size 1 --lr 1e-4 --train-iters 10
like "$out" 'rank \(0, 0\): 6738415616$' "parameters of Llama 2 7B"
try "$megatron" train --megatron-model llama2-7b --hidden-size 1024 --dry-run --verbose --micro-batch-size 1 --lr 1e-4 --train-iters 10
like "$out" 'ffn_hidden_size .* 2688$' "a preset with another width: the MLP's follows"
like "$out" 'kv_channels .* 32$' "  and that of the heads"

# --- The order of lines. With --random-order all work is queued, as on a GPU: log lines are written while the next step runs.
lines() {
    try "$megatron" train "${small[@]/--train-iters/--train-samples}" --train-samples 90 --eval-iters 1 --eval-interval 3 \
        --global-batch-size 12 --rampup-batch-size 4 4 24 --save "$scratch/c$1" --save-interval 5 --exit-interval 8 --log-interval "$@"
    out=$(sed -E 's/^ \[.*\] +//; s/\(ms\): [0-9.]+//' <<<"$out" | grep 'iteration  *[0-9]' | grep -v 'successfully saved')
}
for n in 1 2; do
    lines $n
    expected=$out
    is "$rc $(grep -c 'lm loss:' <<<"$expected")" "75 $((8 / n))" "a log line every $n step(s)" || diag "$out"
    rm -r "$scratch/c$n"
    lines $n --random-order
    is "$out" "$expected" "  the same lines if they are written while the next step runs"
done
done_testing
