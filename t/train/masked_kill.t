#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Masked language models that are killed at random and resumed: every step has the loss and the gradient norm of the
# undisturbed run, to all digits, and the last checkpoint has its bytes. So masks, order of samples and dropout go on
# exactly. t/campaign/masked-kill does it more often and with several ranks.
#   ROUNDS: kills of each run (2); RANKS (1); KINDS: names in the table below; SEED of the kills
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
export MEGATRON_LIBRARY_DIR=$MEGATRON_BUILD/runtime/engine/comm
rounds=${ROUNDS:-2} ranks=${RANKS:-1} steps=${STEPS:-30} RANDOM=${SEED:-1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99

small="--masked-lm --num-layers 2 --hidden-size 32 --num-attention-heads 4 --hidden-dropout 0.1 --attention-dropout 0.1"
roberta="$small --recipe fairseq --post-norm --exact-gelu --position-offset 2 --tokens-per-sample 64 --max-sentences 4
    --update-freq 2 --lr 6e-3 --data-path $top/t/train/roberta/data-bin"
declare -A options=(
    [fairseq]="$roberta --masking fairseq-main"
    [packed]="$roberta --pack --sample-break-mode eos"
    [half]="$roberta --memory-efficient-fp16 --freq-weighted-replacement"
    [bert]="$small --bert-binary-head --num-token-types 2 --seq-length 32 --micro-batch-size 4 --global-batch-size 8 --lr 1e-3
        --tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt --data-path b_text_sentence --split 100,0,0"
)

{
    printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n##s\n.\n'
    printf '%s\n' the a dog cat runs sits on mat big red
} >vocab.txt
awk 'BEGIN {
    srand(3); split("the a dog cat runs sits on mat big red", word, " ")
    for (d = 0; d < 30; d++) {
        printf "{\"text\": \""
        for (s = 0; s < 6; s++) {
            printf "The"
            for (i = 0; i < 3 + int(6 * rand()); i++) printf " %s", word[1 + int(10 * rand())]
            printf ". "
        }
        print "\"}"
    }
}' >c.jsonl
"$megatron" preprocess --input c.jsonl --output-prefix b --tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt \
    --split-sentences --punkt-data "$top/t/preprocess/punkt" >log 2>&1 || diag "$(cat log)"

# train KIND DIRECTORY: start or resume the run; its lines go to the pipe 'lines'.
train() {
    local run=()
    [ "$ranks" = 1 ] || run=("${launch[@]}" "$ranks" --)
    # shellcheck disable=SC2086
    exec "${run[@]}" "$megatron" train ${options[$1]} --train-iters "$steps" --save "$2" --load "$2" --save-interval 3 \
        --keep-last 2 --async-save --metrics-file "$2.jsonl" --log-interval 1 --eval-iters 0 --device cpu --cpu-threads 1 \
        --distributed-timeout-minutes 1 >lines 2>"$2.err"
}

# one_life KIND DIRECTORY [STEPS]: run to the end, or kill a rank after so many steps. Returns 1 if it was killed.
one_life() {
    local left=${3:-0} line pid rc victims
    # With a pipe of one page the run is at most 15 lines ahead of the kill, so it cannot have finished before.
    exec 4<>lines
    perl -e 'fcntl(STDIN, 1031, 4096) or die "F_SETPIPE_SZ: $!\n"' <&4
    train "$1" "$2" 4>&- &
    pid=$!
    exec 3<lines
    while read -r -t 120 line <&3; do
        exec 4>&- # the run has opened it by now, and its end is the end of the pipe
        [[ $line =~ " iteration " ]] || continue
        if [ "$left" -eq 1 ]; then
            victims=("$pid")
            [ "$ranks" = 1 ] || mapfile -t victims < <(pgrep -P $pid || echo $pid)
            kill -9 "${victims[RANDOM % ${#victims[@]}]}" 2>/dev/null
        fi
        left=$((left - 1))
    done
    exec 3<&- 4>&-
    wait $pid 2>/dev/null
    rc=$?
    return $((rc != 0))
}

# values FILE: iteration, loss and norm of all its steps.
values() { sed -nE 's/^\{"iteration":([0-9]+),.*"lm_loss":([^,]+),.*"grad_norm":([^,]+),.*/\1 \2 \3/p' "$1"; }

mkfifo lines
for kind in ${KINDS:-fairseq packed bert}; do
    one_life "$kind" "whole-$kind"
    values "whole-$kind.jsonl" >expected
    is "$(wc -l <expected)" "$steps" "$kind: $steps steps" || diag "$(tail -n 3 "whole-$kind.err")"
    kills=0
    for ((i = 0; i < rounds; i++)); do
        one_life "$kind" "$kind" $((1 + RANDOM % 12)) || kills=$((kills + 1))
    done
    one_life "$kind" "$kind" || diag "$(tail -n 3 "$kind.err")"
    values "$kind.jsonl" | sort -u | sort -n >got
    is "$(cat got)" "$(cat expected)" "  killed $kills times: the same losses and norms"
    differs=$(for file in "whole-$kind"/iter_*"$steps"/*.safetensors; do cmp "$file" "${file#whole-}"; done 2>&1)
    is "$differs" "" "  and the same checkpoint"
    # The first kill always comes in time; later ones may come after the end, as may those of a rank among several.
    [ "$ranks" -gt 1 ] && [ "$rounds" -le 5 ] || unlike "$kills" '^0$' "  it was killed"
done
done_testing
