#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Options and lists of datasets in files: --yaml-cfg, --data-args-path, --per-split-data-args-path; and the whole
# validation data in each evaluation.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
[ -f "$MEGATRON_BUILD/runtime/engine/comm/comm_tcp.so" ] || skip_all "built without OpenSSL"
export MEGATRON_LIBRARY_DIR=$MEGATRON_BUILD/runtime/engine/comm
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
for i in $(seq 60); do echo "{\"text\": \"$i 2 3 4 5 6 7 8 9 10 $i 11 12 13 14 15\"}"; done >text.jsonl
"$megatron" preprocess --tokenizer-type NullTokenizer --vocab-size 99 --input text.jsonl --output-prefix d --append-eod >/dev/null 2>&1
small=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --micro-batch-size 2 --lr 1e-3 --vocab-size 100
    --train-iters 4 --device cpu --cpu-threads 1 --log-interval 1 --eval-iters 2 --eval-interval 2 --split 80,20,0)
losses() { sed -nE 's/.*lm loss( value)?: ([0-9.E+-]+) .*/\2/p' <<<"$out" | xargs; }

# --- A list in a file is that of the command line.
try "$megatron" train "${small[@]}" --data-path 0.3 d_text_document 0.7 d_text_document
expected=$(losses)
is "$(wc -w <<<"$expected")" 6 "a blend" || diag "$out"
printf '0.3 d_text_document\n0.7\td_text_document\n' >list
try "$megatron" train "${small[@]}" --data-args-path list
is "$(losses)" "$expected" "--data-args-path"
try "$megatron" train "${small[@]}" --train-data-path d_text_document --valid-data-path d_text_document
expected=$(losses)
echo '{"train": ["d_text_document"], "valid": "d_text_document", "test": null}' >splits.json
try "$megatron" train "${small[@]}" --per-split-data-args-path splits.json
is "$(losses)" "$expected" "--per-split-data-args-path" || diag "$out"
echo '{"train": ["d_text_document"], "validation": ["d_text_document"]}' >misnamed
while IFS='|' read -r options text; do
    # shellcheck disable=SC2086
    try "$megatron" train "${small[@]}" $options
    is "$rc" 2 "rejected: $options"
    like "$out" "$text" "  and why"
done <<'END'
--data-args-path none|--data-args-path: cannot open none
--data-args-path /dev/null|names no datasets
--data-args-path list --data-path d_text_document|--data-args-path cannot be used with --data-path
--per-split-data-args-path misnamed|--per-split-data-args-path: misnamed: "validation" is not "train", "valid" or "test"; correct it
--per-split-data-args-path list|--per-split-data-args-path: list: is not valid JSON
END

# --- Options in a YAML file, which the command line overrides.
cat >run.yaml <<'END'
language_model:
  # the network
  num_layers: 2
  hidden_size: 32
  num_attention_heads: 4
  ffn_hidden_size: null
  add_bias_linear: false
  normalization: "RMSNorm"
  layernorm_epsilon: 1.e-6
  flubber: 3
model_parallel:
  tensor_model_parallel_size: 1
micro_batch_size: 2   # per rank
seq_length: 16
train_iters: 9
lr: 0.001
eval_iters: 0
vocab_size: 100
data_path:
  - 0.3
  - d_text_document
  - 0.7
  - d_text_document
split: '80,20,0'
END
given=(--device cpu --cpu-threads 1 --log-interval 1 --train-iters 3)
try "$megatron" train "${given[@]}" --yaml-cfg run.yaml
yaml=$(losses)
like "$out" 'note: --yaml-cfg: these keys are not options here and are ignored: flubber$' "--yaml-cfg names unknown keys"
like "$out" 'disable_bias_linear \.+ True$' "  takes names of megatron-core"
try "$megatron" train "${given[@]}" --num-layers 2 --hidden-size 32 --num-attention-heads 4 --disable-bias-linear --normalization RMSNorm \
    --norm-epsilon 1e-6 --micro-batch-size 2 --seq-length 16 --lr 0.001 --eval-iters 0 --vocab-size 100 \
    --data-path 0.3 d_text_document 0.7 d_text_document --split 80,20,0
is "$yaml" "$(losses)" "  and trains the same" || diag "$out"
echo 'num_layers 3' >wrong.yaml
try "$megatron" train --yaml-cfg wrong.yaml
is "$rc $out" '2 megatron train: --yaml-cfg: wrong.yaml:1: "num_layers 3" is not "key: value"; correct the line' "  a line that is not YAML"
for truth in true yes on; do
    printf 'swiglu: %s\nadd_qkv_bias: off\n' "$truth" >truth.yaml
    try "$megatron" train "${small[@]}" --data-path d_text_document --yaml-cfg truth.yaml
    like "$out" 'swiglu \.+ True$' "  $truth is true"
    like "$out" 'add_qkv_bias \.+ False$' "  off is false"
done
while IFS='|' read -r line text; do
    echo "$line" >wrong.yaml
    try "$megatron" train "${small[@]}" --data-path d_text_document --yaml-cfg wrong.yaml
    is "$rc $out" "2 megatron train: --yaml-cfg: wrong.yaml:1: $text" "  rejected: $line"
done <<'END'
swiglu: maybe|swiglu: "maybe" is not true or false; write one
swiglu: 1|swiglu: "1" is not true or false; write one
add_bias_linear: nein|add-bias-linear: nein is not supported; correct it, or drop the line
activation_func: silu|activation-func: silu is not supported; correct it, or drop the line
num_moe_experts: 8|num-moe-experts: 8 is not supported; correct it, or drop the line
multi_latent_attention: True|multi-latent-attention: True is not supported; correct it, or drop the line
END
echo 'fp8: hybrid' >fp8.yaml
try "$megatron" train "${small[@]}" --data-path d_text_document --yaml-cfg fp8.yaml
like "$out" 'fp8_format \.+ hybrid$' "  fp8"
printf 'data_path:\n  - ${PREFIX}_document\nlr: ${RATE}\nsave: "${PREFIX}-${RATE}"\n' >environment.yaml
try env PREFIX=d_text RATE=2e-3 "$megatron" train "${small[@]/--lr/--min-lr}" --min-lr 0 --yaml-cfg environment.yaml
is "$rc $(compgen -G 'd_text-2e-3/iter_*')" "0 d_text-2e-3/iter_0000004" "  environment variables" || diag "$out"
try "$megatron" train "${small[@]}" --yaml-cfg environment.yaml
is "$rc $out" '2 megatron train: --yaml-cfg: environment.yaml:2: the environment variable PREFIX is not set; export it, or correct the line' \
    "  one that is not set"
# The keys of Megatron-LM's own example that need another option: its files contain all options.
cat >all.yaml <<'END'
language_model:
  activation_func: swiglu
  gated_linear_unit: False
  fp8: null
  fp8_margin: 0
  num_moe_experts: null
  multi_latent_attention: False
  init_method_xavier_uniform: True
bert_binary_head: True
mask_prob: 0.15
short_seq_prob: 0.1
save: null
save_interval: 20000
initial_loss_scale: 4294967296
profile: False
profile_ranks: [0]
profile_step_start: 10
wandb_project: ''
moe_input:
  - 1
  - 2
END
try "$megatron" train "${small[@]}" --data-path d_text_document --yaml-cfg all.yaml
is "$rc" 0 "  a file with all options" || diag "$out"
like "$out" 'swiglu \.+ True$' "  activation_func: swiglu"
is "$(grep '^megatron: ' <<<"$out")" "megatron: note: --yaml-cfg: these keys are not options here and are ignored: init-method-xavier-uniform moe-input" \
    "  options without effect are left out"
try "$megatron" train "${small[@]}" --data-path d_text_document --yaml-cfg all.yaml --save run
like "$out" 'save_interval \.+ 20000$' "  but not with the one that they need"

# --- The whole validation data: each evaluation of unchanged weights gives the same loss.
try "$megatron" train "${small[@]}" --data-path d_text_document --full-validation --lr 0
is "$(sed -nE 's/.*lm loss value: ([0-9.E+-]+) .*/\1/p' <<<"$out" | sort | uniq -c | xargs | cut -d ' ' -f 1)" 2 "--full-validation" || diag "$out"
try timeout 60 "${launch[@]}" 2 -- "$megatron" train "${small[@]}" --data-path d_text_document --full-validation --global-batch-size 100
is "$rc $(grep -c 'iteration  *1/' <<<"$out")" "2 0" "  of less than a global batch is refused before the first step" || diag "$out"
like "$out" 'megatron: --full-validation: the validation data have fewer samples \([0-9]+\) than a global batch; lower --global-batch-size' "  with the reason"
done_testing
