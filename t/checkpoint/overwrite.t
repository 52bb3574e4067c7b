#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --save never overwrites the checkpoints of another run; permanent errors are not retried.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"
train 1 --save first --save-interval 4
is "$rc" 0 "a run" || diag "$(tail -n 3 <<<"$out")"
cp -r first kept

# refused NAME RANKS OPTION...: with both remedies, before the first step, and nothing has changed.
refused() {
    local name=$1 ranks=$2
    shift 2
    train "$ranks" "$@"
    is "$rc $(grep -c '^megatron: --save first already contains checkpoints (the newest is of iteration 8), which this run would overwrite; to resume from them use --load first, otherwise use another directory for --save$' <<<"$out")" \
        "2 1" "$name is refused" || diag "$(tail -n 3 <<<"$out")"
    unlike "$out" 'iteration +1/' "  before the first step"
    ok "  and nothing is overwritten" diff -r --exclude='.*' first kept
}
refused "--save to the checkpoints of another run" 1 --save first
refused "  by two ranks" 2 --tensor-model-parallel-size 2 --save first
train 1 --save other --exit-interval 2
refused "--load elsewhere" 1 --load other --save first
refused "--finetune from elsewhere" 1 --load other --finetune --save first
# With --finetune the run begins at iteration 0: its checkpoints would be mixed with those that are there.
train 1 --load first --finetune --save first
is "$rc $(grep -c '^megatron: --save first contains checkpoints (the newest is of iteration 8), which this run would overwrite, because it starts at iteration 0 with --finetune; to resume from them drop --finetune, otherwise use another directory for --save$' <<<"$out")" \
    "2 1" "--finetune from the same directory is refused" || diag "$(tail -n 3 <<<"$out")"
ok "  and nothing is overwritten" diff -r --exclude='.*' first kept
train 1 --load first --save first
is "$rc" 0 "--load of the same directory is the first remedy" || diag "$(tail -n 3 <<<"$out")"
train 1 --save second --exit-interval 2
is "$rc" 75 "another directory is the second" || diag "$(tail -n 3 <<<"$out")"
# The same run on another disk: --save contains the checkpoint that is loaded.
cp -r second moved
train 1 --load second --save moved
is "$rc $(cat moved/latest_checkpointed_iteration.txt)" "0 8" "a copy of the run continues" || diag "$(tail -n 3 <<<"$out")"
train 1 --load second --ckpt-step 2 --save moved
is "$rc" 0 "  also by --ckpt-step" || diag "$(tail -n 3 <<<"$out")"
like "$out" 'after the one that the run went back to were moved to moved/abandoned-1' "  which replaces no later ones"
is "$(ls moved/abandoned-1 | xargs)" "iter_0000008 latest_checkpointed_iteration.txt" "  but moves them"
cp -r first ahead && rm -rf behind && mkdir behind && cp -r first/iter_0000004 behind
train 1 --load behind --save ahead
is "$rc $(ls ahead ahead/abandoned-1 | xargs)" \
    "0 ahead: abandoned-1 iter_0000004 iter_0000008 latest_checkpointed_iteration.txt ahead/abandoned-1: iter_0000008 latest_checkpointed_iteration.txt" \
    "  nor does a run from an older copy" || diag "$(tail -n 3 <<<"$out")"
same ahead/abandoned-1/iter_0000008 first/iter_0000008 "  the moved checkpoint is the earlier one"
train 1 --load first --ckpt-step 4 --save fork
is "$rc $(ls fork | xargs)" "0 iter_0000008 latest_checkpointed_iteration.txt" "a new directory has nothing to move"
mkdir -p hidden/.probe
train 1 --save hidden --exit-interval 1
is "$rc" 75 "a directory without checkpoints may be used" || diag "$(tail -n 3 <<<"$out")"

# --- supervise exits at once, with the code, if another start cannot help.
while IFS='|' read -r options text; do
    rm -rf again
    # shellcheck disable=SC2086
    try "$megatron" supervise --pause 0 -- "$megatron" train "${model[@]}" "${common[@]}" --train-iters 8 --save again $options
    is "$rc $(grep -cE "^megatron( train)?: $text" <<<"$out")" "2 1" "$options: one start, code 2" || diag "$(tail -n 5 <<<"$out")"
    unlike "$out" 'megatron supervise: ' "  and no other"
done <<'EOT'
--split 99,2,a|data split 99,2,a: .*; change --split
--tokenizer-type Llama2Tokenizer --tokenizer-model nowhere|cannot open nowhere: 
--load-hf nowhere|--load-hf: directory nowhere does not exist
EOT
data=()
for word in "${common[@]}"; do [ "$word" = --mock-data ] || data+=("$word"); done
try "$megatron" supervise --pause 0 -- "$megatron" train "${model[@]}" "${data[@]}" --train-iters 8 --save again --data-path nowhere
is "$rc $(grep -c '^megatron: nowhere.idx: cannot open: No such file or directory' <<<"$out")" "2 1" "--data-path nowhere: one start, code 2" || diag "$out"
# A run that fails before its first checkpoint does not have one "of iteration 0".
try "$megatron" supervise --pause 0 --starts 1 -- false --save none
like "$out" 'the run exited with code 1 before its first checkpoint$' "a missing checkpoint is not taken for iteration 0"

# --- A finished run says so, and other data on resume are named.
rm -rf done
train 1 --save done
train 1 --save done --load done
like "$out" 'training is already finished: the checkpoint in done is at iteration 8 of 8' "a finished run is reported"
unlike "$out" 'the data differs' "  the same data are not named"
like "$out" 'raise --train-iters or --train-samples to continue, with --override-opt_param-scheduler' "  and how to continue"
train 1 --save done --load done --train-iters 9 --override-opt_param-scheduler --seed 77
unlike "$out" 'the data differs' "  another seed that is not used makes no other data"
# A start that is refused does not change the record: the next one is still compared with the run's data.
train 1 --save done --load done --train-iters 10 --override-opt_param-scheduler --num-layers 6 --seq-length 16
is "$rc" 2 "other data with another model: refused"
train 1 --save done --load done --train-iters 10 --override-opt_param-scheduler --no-load-rng --seed 76 --metrics-file /dev/null/x
is "$rc" 2 "another seed with a log that cannot be written: refused"
train 1 --save done --load done --train-iters 10 --override-opt_param-scheduler --no-load-rng --seed 77
like "$out" 'warning: the data differs from that of the resumed run: it was --seed 1234; now it is --seed 77' "other data are named"
unlike "$out" '--seq-length 16|--seed 76' "  and those of the refused starts are not"
# So are options that change samples or their order.
train 1 --save done --load done --train-iters 11 --override-opt_param-scheduler --dataloader-type cyclic --eod-mask-loss
is "$(grep -oE 'it was .*; now it is .*; restore' <<<"$out" | xargs -d '\n')" \
    "it was --dataloader-type single; now it is --dataloader-type cyclic; restore it was without --eod-mask-loss; now it is --eod-mask-loss; restore" \
    "options that change samples or their order are named"
cyclic=(--dataloader-type cyclic --save shuffled --eval-iters 0)
train 2 "${cyclic[@]}"
train 2 "${cyclic[@]}" --load shuffled --train-iters 9 --override-opt_param-scheduler --tensor-model-parallel-size 2
like "$out" 'the data differs from that of the resumed run: it was data-parallel size 2; now it is data-parallel size 1; restore' \
    "so is the number of parts that are shuffled"
train 2 --save layout --eval-iters 0
train 2 --save layout --eval-iters 0 --load layout --train-iters 9 --override-opt_param-scheduler --tensor-model-parallel-size 2
unlike "$out" 'the data differs' "  which is of no interest otherwise"
masked=(--masked-lm --mask-id 5 --exact-gelu)
train 1 "${masked[@]}" --save masked
train 1 "${masked[@]}" --save masked --load masked --train-iters 9 --override-opt_param-scheduler
unlike "$out" 'the data differs' "a masked language model with the same data"
train 1 "${masked[@]}" --save masked --load masked --train-iters 10 --override-opt_param-scheduler --mask-prob 0.3 --masking huggingface
is "$(grep -oE 'it was .*; now it is .*; restore' <<<"$out" | xargs -d '\n')" \
    "it was --mask-prob 0.15; now it is --mask-prob 0.3; restore it was --masking fairseq; now it is --masking huggingface; restore" "  and with other masks"
done_testing
