#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The job scripts, each from raw data to a line that its model writes, with the environment variables that the users
# of older recipes know. A stand-in for srun runs one rank; pile.t does the same for pile.sbatch.
. "$(dirname "$0")/../tap.sh"
perl -MJSON::PP -MCompress::Zlib -e 1 2>/dev/null || skip_all "no perl with its modules"
megatron=$MEGATRON_BUILD/runtime/megatron
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
for name in $(compgen -e | grep -E '^(SLURM|OMPI|PMI|PET)_|^MEGATRON_(MODEL|PREFLIGHT|SPARES)$|^(MODEL|LOAD|DUMP|TEXT|TOKENIZER|DATA_PATH|FSX_PATH)$'); do unset "$name"; done
mkdir bin
printf '#!/bin/bash\necho "srun $*" >>"%s/calls"\nwhile [[ $1 == -* ]]; do shift; done\nexec "$@"\n' "$scratch" >bin/srun
chmod +x bin/srun
export PATH=$scratch/bin:$PATH MEGATRON=$megatron MEGATRON_LIBRARY_DIR=$MEGATRON_BUILD/runtime/engine/comm

# job NAME SCRIPT [VARIABLE=VALUE...] [-- OPTION...]
job() {
    local name=$1 script=$2 variables=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1"); shift; done
    : >calls
    try env SLURM_JOB_ID=7 "${variables[@]}" bash "$top/sbatch/$script" "${@:2}"
    is "$rc" 0 "$name" || diag "$(tail -n 5 <<<"$out")"
}
# plan NAME SCRIPT RANKS [VARIABLE=VALUE...] [-- OPTION...]: what the script would train on so many ranks, and the sum of
# the parameters that the stages print, each for one tensor-parallel rank.
mock=--mock-data
printf '#!/bin/bash\necho "$*"\n' >shown
chmod +x shown
plan() {
    local name=$1 script=$2 ranks=$3 variables=() words
    shift 3
    while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1"); shift; done
    words=$(env "${variables[@]}" MEGATRON="$scratch/shown" bash "$top/sbatch/$script" $mock "${@:2}" | sed -n 's/.* train / /p')
    # shellcheck disable=SC2086
    try "$megatron" train $words --dry-run --world-size "$ranks"
    is "$rc" 0 "$name" || diag "$(tail -n 5 <<<"$out")"
    total=$(sed -n 's/.* model parallel rank ([0-9, ]*): \([0-9]*\)$/\1/p' <<<"$out" | awk '{ sum += $1 } END { printf "%.1f", sum / 1e9 }')
}
tiny=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16)
short=(--train-iters 2 --eval-iters 0 --log-interval 1 --cpu-threads 1 --save-interval 2 --split 100,0,0)
writes() { # NAME DIR OPTION...: a line from the model in DIR
    try "$megatron" generate --device cpu --cpu-threads 1 --load "$2" --prompt "The town" --num-tokens 3 "${@:3}"
    is "$rc" 0 "  $1 generates a line" || diag "$(tail -n 5 <<<"$out")"
    # Tokens of an untrained model can be bytes that are no text.
    like "$(LC_ALL=C tr -cd '[:print:]\n' <<<"$out")" '^The town' "  which continues the prompt"
}

# --- GPT-2 on Wikipedia, from a checkpoint of Megatron-LM like NVIDIA's, which says nothing about its heads
"$megatron" train "${tiny[@]}" --tokenizer-type GPT2BPETokenizer --micro-batch-size 1 --global-batch-size 1 --train-iters 1 --lr 1e-3 \
    --mock-data --device cpu --cpu-threads 1 --eval-iters 0 --save first >first.log 2>&1 && "$megatron" checkpoint export first hf >>first.log 2>&1 &&
    "$top/t/checkpoint/make-megatron" hf nvidia form=stream version=none args=0
ok "a checkpoint like that of 345M" test -f nvidia/release/mp_rank_00/model_optim_rng.pt
wiki=(DUMP="$top/t/preprocess/wiki/dump.xml" OUTPUT_PREFIX="$scratch/wiki" MICRO_BATCH_SIZE=1 GLOBAL_BATCH_SIZE=2)
job "wikipedia.sbatch" wikipedia.sbatch "${wiki[@]}" LOAD="$scratch/nvidia" NUM_ATTENTION_HEADS=2 -- "${tiny[@]:0:4}" "${tiny[@]:6}" "${short[@]}"
like "$out" 'iteration +2/ +2 .*lm loss: ' "  trains"
like "$out" 'loaded .*wiki-start' "  from the imported checkpoint" || diag "$out"
writes "wikipedia.sbatch" checkpoints-7
try env "${wiki[@]}" SLURM_JOB_ID=8 OUTPUT_PREFIX="$scratch/none" LOAD="$scratch/nvidia" bash "$top/sbatch/wikipedia.sbatch" "${short[@]}"
is "$rc" 2 "  without the number of heads it is refused"
like "$out" 'its number of attention heads is not stored' "  and the reason printed" || diag "$(tail -n 5 <<<"$out")"
mock= plan "  MODEL=gpt2-345m" wikipedia.sbatch 8 "${wiki[@]}" MODEL=gpt2-345m GLOBAL_BATCH_SIZE=8
like "$out" 'model parallel rank \(0, 0\): 354871296$' "    has its parameters" || diag "$(tail -n 5 <<<"$out")"
rm -rf checkpoints-7 first hf nvidia

# --- GPT-3 on OSCAR: compressed JSON lines as they are, the layout in variables
for i in {1..60}; do echo "{\"id\": $i, \"text\": \"The town number $i has a harbour, and the harbour has $((i * 7 % 11)) ships.\"}"; done | tee oscar.jsonl | xz >oscar-1GB.jsonl.xz
job "preprocess.sbatch" preprocess.sbatch INPUT="$scratch/oscar-1GB.jsonl.xz" OUTPUT_PREFIX="$scratch/my-gpt2"
sizes=(NUM_LAYERS=1 HIDDEN_SIZE=16 NUM_ATTENTION_HEADS=2 SEQ_LENGTH=16 MAX_POSITION_EMBEDDINGS=16 MICRO_BATCH_SIZE=1 GLOBAL_BATCH_SIZE=2)
job "train.sbatch" train.sbatch "${sizes[@]}" TENSOR_PARALLEL=4 PIPELINE_PARALLEL=2 DATA_PATH="$scratch/my-gpt2_text_document" -- "${short[@]}"
like "$(cat calls)" '--megatron-tp=4 --megatron-pp=2 ' "  gives the layout to the plugin"
like "$out" 'iteration +2/ +2 .*lm loss: ' "  trains"
writes "train.sbatch" checkpoints-7
rm -rf checkpoints-7
while read -r size ranks tp pp billions; do
    plan "  MODEL=$size on $ranks GPUs" train.sbatch "$ranks" MODEL="$size" GLOBAL_BATCH_SIZE=3840 MICRO_BATCH_SIZE=1 -- \
        --tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp"
    # Padding of the vocabulary, and a copy of the embedding in the last stage.
    ok "    has its parameters: $total" awk -v a="$total" -v b="$billions" 'BEGIN { exit !(a >= b - .05 && a < 1.015 * b) }'
done <<'EOF'
1.7B 32 1 1 1.7
3.6B 64 2 1 3.6
7.5B 128 4 1 7.5
18.4B 256 8 1 18.4
39.1B 512 8 2 39.1
76.1B 1024 8 4 76.1
145.6B 1536 8 8 145.6
310.1B 1920 8 16 310.1
EOF

# --- Llama 2 with a SentencePiece model
try "$megatron" tokenizer train --type unigram --vocab-size 300 --input oscar.jsonl --output words
is "$rc" 0 "a SentencePiece model" || diag "$(tail -n 3 <<<"$out")"
model=$(find words -name '*.model')
job "preprocess.sbatch for Llama 2" preprocess.sbatch INPUT="$scratch/oscar.jsonl" OUTPUT_PREFIX="$scratch/llama" TOKENIZER_TYPE=Llama2Tokenizer TOKENIZER_MODEL="$scratch/$model"
job "train-llama2.sbatch" train-llama2.sbatch TENSOR_PARALLEL=1 MICRO_BATCH_SIZE=1 GLOBAL_BATCH_SIZE=2 DATA_PATH="$scratch/llama_text_document" TOKENIZER_TYPE=Llama2Tokenizer \
    TOKENIZER_MODEL="$scratch/$model" -- "${short[@]}" --num-layers 1
like "$out" 'iteration +2/ +2 .*lm loss: ' "  trains"
writes "train-llama2.sbatch" checkpoints-7
rm -rf checkpoints-7
while read -r size billions; do
    plan "  MODEL=$size" train-llama2.sbatch 8 MODEL="$size" GLOBAL_BATCH_SIZE=8 MICRO_BATCH_SIZE=1
    is "$total" "$billions" "    has its parameters"
done <<'EOF'
7B 6.7
13B 13.0
70B 69.0
EOF

# --- RoBERTa on words, as in wikitext-103
mkdir text
for part in train valid test; do
    for i in {1..80}; do echo " = Town $i = "; echo " The town has a harbour , and the harbour has $((i % 7)) ships . "; done >text/wiki.$part.tokens
done
job "roberta.sbatch" roberta.sbatch TEXT="$scratch/text" DATA_BIN="$scratch/bin-7" COMM_TEST_BYTES=4k -- --max-update 3 --max-sentences 2 --cpu-threads 1 --log-interval 1
like "$out" '"num_updates": "3"' "  trains"
try "$megatron" fill-mask --device cpu --cpu-threads 1 --load checkpoints-7 --tokenizer-type FairseqWords --vocab-file bin-7/dict.txt --prompt 'The town has a <mask> .' --top-k 2
is "$rc" 0 "  and fills a mask" || diag "$(tail -n 5 <<<"$out")"
done_testing
