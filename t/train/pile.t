#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sbatch/pile.sbatch: NeMo's sizes plan on NeMo's nodes, and a small run goes from JSON lines to a generated text.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
unset SLURM_MPI_TYPE SLURM_JOB_ID SLURM_JOB_GPUS SLURM_GPUS_ON_NODE SLURM_SUBMIT_DIR MEGATRON_MODEL MODEL INPUT DATA_PATH
printf '#!/bin/bash\necho "$*"\n' >shown
chmod +x shown
words() { MEGATRON=$scratch/shown bash "$top/sbatch/pile.sbatch" "$@" | sed -n 's/.* train / /p'; }

# Each size, on NeMo's number of GPUs: the plan exists and has NeMo's parameters and batch.
while read -r size ranks least most batch; do
    # shellcheck disable=SC2046
    try "$megatron" train $(MODEL=$size DATA_PATH=x words | sed 's/--data-path x/--mock-data/') --dry-run --world-size "$ranks"
    is "$rc" 0 "$size on $ranks ranks" || diag "$(tail -n 5 <<<"$out")"
    total=$(sed -n 's/.* model parallel rank ([0-9, ]*): \([0-9]*\)$/\1/p' <<<"$out" | awk '{ sum += $1 } END { printf "%.3f", sum / 1e9 }')
    ok "  with $total billion parameters" awk -v n="$total" -v a="$least" -v b="$most" 'BEGIN { exit !(n > a && n < b) }'
    like "$(MODEL=$size DATA_PATH=x words)" " --global-batch-size $batch " "  and its batch"
done <<'EOT'
126M 64 0.120 0.130 256
5B 128 4.9 5.2 2048
20B 512 20 20.6 2048
40B 1024 38.9 39.5 2048
175B 1024 174 176 2048
EOT
for name in MODEL_NAME MODEL; do
    out=$(env "$name=gpt3" MODEL_SIZE=5b NODE=2 MAX_STEP=5 SLURM_JOB_NUM_NODES=2 DATA_PATH=x MEGATRON="$scratch/shown" bash "$top/sbatch/pile.sbatch")
    like "$out" " --num-layers 24 --hidden-size 4096 .*--train-iters 75000 .*--train-iters 5( |$)" "NeMo's own variables, with $name"
done
try env MODEL=6B DATA_PATH=x MEGATRON="$scratch/shown" bash "$top/sbatch/pile.sbatch"
is "$rc" 2 "an unknown size is refused"
like "$out" "MODEL=6B is unknown; use 126M, 5B, 20B, 40B or 175B" "with those there are"
try env MEGATRON="$scratch/shown" bash "$top/sbatch/pile.sbatch"
is "$rc" 2 "so is a job without data"
like "$out" "set INPUT to the files of the Pile" "with what to set"
for option in '--data-path y' --mock-data; do
    # shellcheck disable=SC2086
    like "$(MODEL=126M words $option)" " --num-layers 12 .* ${option% y}( |$)" "data that $option names need no variable"
done
out=$(MODEL=126M DATA_PATH="0.3 a 0.7 b" TENSOR_PARALLEL=2 words --lr 1e-3 --micro-batch-size 1)
like "$out" "--data-path 0.3 a 0.7 b .*--tensor-model-parallel-size 2 .*--lr 1e-3 --micro-batch-size 1" "the user's options come last"

# A short run warms up for a tenth of its steps, unless the user says otherwise.
like "$(MODEL=126M DATA_PATH=x words --train-iters 300)" '--lr-warmup-iters 30 --train-iters 300' "a short run has a short warm-up"
like "$(MODEL=126M DATA_PATH=x TRAIN_ITERS=300 words)" '--train-iters 300 --lr-warmup-iters 30' "also by the environment"
unlike "$(MODEL=126M DATA_PATH=x words --train-iters=300 --lr-warmup-iters=7)" 'lr-warmup-iters 30' "but not if the user names one"
unlike "$(MODEL=126M DATA_PATH=x words --train-iters 7000)" 'lr-warmup-iters 700' "a long run has the recipe's"

# From JSON lines to a generated text, with a stand-in for srun.
printf '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nexec "$@"\n' >srun
chmod +x srun
for i in {1..40}; do echo "{\"text\": \"the pile is a corpus of many texts, and this is text $i of it\"}"; done >pile.jsonl
try env PATH="$scratch:$PATH" MEGATRON="$megatron" INPUT="$scratch/*.jsonl" MODEL=126M OUTPUT_PREFIX="$scratch/pile" bash "$top/sbatch/pile.sbatch" \
    --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --global-batch-size 4 \
    --train-iters 3 --lr-warmup-iters 1 --eval-iters 0 --split 100,0,0 --save "$scratch/run" --log-interval 1 --cpu-threads 1
is "$rc" 0 "a small run" || diag "$(tail -n 5 <<<"$out")"
like "$out" "iteration +3/ +3 .*lm loss:" "trains on the tokens of the corpus"
ok "which are kept" test -s pile_text_document.bin
try "$megatron" generate --device cpu --cpu-threads 1 --load "$scratch/run" --prompt "the pile" --num-tokens 3
is "$rc" 0 "and its model generates a text" || diag "$(tail -n 5 <<<"$out")"
done_testing
