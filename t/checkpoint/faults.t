#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How training reacts to bad checkpoints and bad directories, and how it exits.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"

# flip FILE OFFSET: change one bit.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N1 "$1")
    printf "\\x$(printf %x $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

train 1 --save whole --save-interval 3
is "$rc" 0 "a run that saves" || diag "$(tail -n 5 <<<"$out")"
is "$(ls whole | tr '\n' ' ')" "iter_0000003 iter_0000006 iter_0000008 latest_checkpointed_iteration.txt " \
    "checkpoints by interval and at the end"
is "$(cat whole/latest_checkpointed_iteration.txt)" 8 "the latest is named"

try "$megatron" checkpoint verify whole
like "$out" '^whole/iter_0000008: intact, 1 file, [0-9.]+ MB$' "it verifies"

# Damage to the newest checkpoint: the previous one is loaded, and the result is the same.
damaged() {
    rm -rf run && cp -r whole run && rm -rf run/iter_0000008 && echo 6 >run/latest_checkpointed_iteration.txt
    (cd run/iter_0000006 && eval "$2")
    train 1 --save run --load run
    like "$out" "warning: checkpoint iter_0000006 is damaged: .*$3" "$1 is named"
    like "$out" 'successfully loaded checkpoint from run at iteration 3' "$1: the one before it is used"
    same whole/iter_0000008 run/iter_0000008 "$1: the end is the same"
}
damaged "a flipped bit" "flip rank_00000.safetensors 100000" 'rank_00000.safetensors is damaged between'
damaged "a cut file" "truncate -s 10000 rank_00000.safetensors" 'has 10000 bytes'
damaged "a missing file" "rm rank_00000.safetensors" 'cannot open .*rank_00000.safetensors'
damaged "a missing index" "rm index.json" 'cannot open .*index.json'
damaged "a flipped bit of the index" "flip index.json 300" 'wrong checksum'

# A checkpoint that temporarily cannot be read is not damaged: going back to the previous one would
# lose work.
rm -rf run && cp -r whole run && rm -rf run/iter_0000008 && echo 6 >run/latest_checkpointed_iteration.txt
for file in index rank; do
    if ! command -v "${CC:-cc}" >/dev/null; then
        skip "a file that cannot be opened" "no compiler"
    elif ok "a file can be made busy: $file" closed "iter_0000006/$file" ENFILE; then
        LD_PRELOAD=$scratch/closed.so train 1 --save run --load run
        is "$rc" 1 "it ends the run, which can be started again"
        like "$out" "megatron train: cannot load run/iter_0000006: cannot open .*$file.*: Too many open files in system" "  and is named"
        unlike "$out" 'warning:|iteration +4/' "  and no older one is used"
    fi
    # Data that a disk cannot read is lost.
    if ! command -v "${CC:-cc}" >/dev/null; then
        skip "a disk that fails: $file" "no compiler"
    elif ok "a disk can be made to fail: $file" closed "iter_0000006/$file" EIO; then
        LD_PRELOAD=$scratch/closed.so train 1 --load run
        like "$out" "warning: checkpoint iter_0000006 is damaged: cannot open .*$file.*: Input/output error" "it is named"
        like "$out" 'successfully loaded checkpoint from run at iteration 3' "  and the one before it is used"
    fi
done

for bad in iter_0000003 iter_0000006; do rm -rf run/$bad/index.json; done
train 1 --load run --ckpt-step 6
like "$out" 'the checkpoint of iteration 6 in run is damaged: .*index.json.*; choose another iteration with --ckpt-step' "the one that was asked for"
rm -rf run/iter_0000008
train 1 --load run
is "$rc" 1 "without an intact checkpoint the run does not start"
like "$out" 'run contains no intact checkpoint: .*index.json.*; to start from scratch, use another directory' "  and says what to do"

# Commands that do not train offer what they can do: another checkpoint, not a new run.
rm -rf bad && cp -r whole bad
for shard in bad/iter_*/rank_00000.safetensors; do flip "$shard" 100000; done
evaluate=("$megatron" evaluate "${model[@]}" "${common[@]}" --load bad)
generate=("$megatron" generate --load bad --prompt "1 2" --tokenizer-type NullTokenizer --vocab-size 299 --device cpu --cpu-threads 1)
for words in evaluate generate; do
    declare -n command=$words
    try "${command[@]}"
    is "$rc" 1 "$words: all checkpoints are damaged"
    like "$out" "megatron $words: bad contains no intact checkpoint: bad/iter_0000003/rank_00000.safetensors is damaged between bytes [0-9]+ and [0-9]+; restore it from a copy, or use another checkpoint\$" \
        "  with what to do"
done
like "$(try "${evaluate[@]}" --ckpt-step 6; echo "$out")" 'megatron evaluate: the checkpoint of iteration 6 in bad is damaged: .*; choose another iteration with --ckpt-step$' \
    "evaluate: --ckpt-step selects a checkpoint"
train 1 --load bad --finetune --save new
like "$out" 'bad contains no intact checkpoint: .*; restore it from a copy, or use another checkpoint$' "train --finetune needs one, too"
while IFS='|' read -r words text; do
    # shellcheck disable=SC2086
    try "$megatron" checkpoint $words
    is "$rc" 1 "checkpoint $words: it is damaged"
    like "$out" "^(megatron checkpoint: |bad/iter_0000008: damaged: )bad/iter_0000008/$text\$" "  and says what to do"
done <<'END'
export bad x|rank_00000.safetensors is damaged between bytes [0-9]+ and [0-9]+; restore it from a copy, or select another one with --iteration
export bad x --format megatron|rank_00000.safetensors is damaged between .*; restore it from a copy, or select another one with --iteration
export bad/iter_0000008 x|rank_00000.safetensors is damaged between bytes [0-9]+ and [0-9]+; restore it from a copy, or use another checkpoint
verify bad|rank_00000.safetensors is damaged between bytes [0-9]+ and [0-9]+; delete this directory if there is no copy of it
END
rm bad/iter_0000008/index.json
try "$megatron" checkpoint inspect bad
is "$rc $out" "1 megatron checkpoint: cannot open bad/iter_0000008/index.json: No such file or directory; restore it from a copy, or select another one with --iteration" \
    "checkpoint inspect: a file is missing"
rm bad/iter_*/index.json
try "${generate[@]}"
is "$rc $out" "1 megatron generate: cannot open bad/iter_0000008/index.json: No such file or directory; restore it from a copy, or use another checkpoint" \
    "generate: no checkpoint has its index"

# Unfinished saves are not checkpoints and are removed.
rm -rf run && cp -r whole run && cp -r run/iter_0000008 run/iter_0000009.tmp-1234
train 1 --save run --load run
ok "leftovers of a killed save are removed" test ! -e run/iter_0000009.tmp-1234
# Killed while a checkpoint was being replaced, on a file system without atomic exchange: it has no
# final name, and must not be removed.
mv run/iter_0000008 run/iter_0000008.tmp-older && mkdir run/iter_0000008.tmp-1234 run/iter_0000006.tmp-older run/iter_0000006.tmp-mine run/iter_6.tmp-1
train 1 --save run --load run
like "$out" 'successfully loaded checkpoint from run at iteration 8' "a checkpoint that was being replaced is restored"
is "$(ls run | tr '\n' ' ')" "iter_0000003 iter_0000006 iter_0000006.tmp-mine iter_0000008 iter_6.tmp-1 latest_checkpointed_iteration.txt " \
    "  other leftovers are removed, but only names that runs create"
same whole/iter_0000008 run/iter_0000008 "  and it is whole"
rmdir run/iter_0000006.tmp-mine run/iter_6.tmp-1
rm -f run/latest_checkpointed_iteration.txt
train 1 --load run
like "$out" 'loaded checkpoint from run at iteration 8' "without the file that names it the newest is found"
echo 3 >run/latest_checkpointed_iteration.txt
train 1 --load run
like "$out" 'loaded checkpoint from run at iteration 3' "an older checkpoint can be selected"

# refused NAME TEXT OPTION...: with code 2, or $code: 1 if another start might help.
refused() {
    local name=$1 text=$2 code=${code:-2}
    shift 2
    train 1 "$@"
    is "$rc" "$code" "$name is an error" || diag "$out"
    like "$out" "$text" "$name: names the problem"
}
mkdir empty
refused "a directory without checkpoints" 'empty contains no checkpoint' --load empty
refused "a single checkpoint" 'whole/iter_0000008 is a single checkpoint; use its parent directory' --load whole/iter_0000008
mkdir folder && echo {} >folder/config.json
refused "a Hugging Face folder" 'folder is a Hugging Face folder; use --load-hf instead of --load' --load folder
refused "no checkpoint, and one is wanted" 'fresh contains no checkpoint' --load fresh --save fresh --exit-on-missing-checkpoint
refused "an iteration that is not there" 'whole contains no checkpoint of iteration 5; choose another iteration with --ckpt-step' --load whole --ckpt-step 5
refused "nor where the run saves" 'whole contains no checkpoint of iteration 5' --load whole --save whole --ckpt-step 5
for place in iter_0000007/mp_rank_00_000 release/mp_rank_00; do
    rm -rf theirs && mkdir -p "theirs/$place" && touch "theirs/$place/model_optim_rng.pt"
    refused "a checkpoint of Megatron-LM, $place" 'theirs contains a Megatron-LM checkpoint; import it first' --load theirs
done
rm -rf theirs && mkdir -p theirs/iter_0000007 && touch theirs/iter_0000007/metadata.json
refused "a distributed checkpoint of Megatron-LM" 'theirs contains a Megatron-LM checkpoint \(torch_dist\); import it first' --load theirs
train 1 --load whole --ckpt-step 3
like "$out" 'loaded checkpoint from whole at iteration 3' "--ckpt-step takes the one that it names"
refused "no directory" 'nowhere contains no checkpoint' --load nowhere
refused "no directory to save in" 'cannot create the directory /dev/null/x' --save /dev/null/x
refused "--save-interval alone" '--save-interval requires --save' --save-interval 5
refused "another model" \
    'iter_0000008: the checkpoint belongs to another model: hidden-size \(32, here 64\).*embedding.word.weight \(300 x 32, here 300 x 64\)' \
    --load whole --hidden-size 64
refused "another number of heads" 'num-attention-heads \(4, here 2\)' --load whole --num-attention-heads 2
refused "another learning rate" 'lr \(0.001, here 0.002\).*--override-opt_param-scheduler' \
    --load whole --lr 2e-3
train 1 --load run --lr 2e-3 --override-opt_param-scheduler
like "$out" 'iteration +4/ .*learning rate: 1.50' "--override-opt_param-scheduler takes the new one"
train 1 --load run
rates=$(grep -o 'learning rate: [^ ]*' <<<"$out")
train 1 --load run --lr 2e-3 --min-lr 1e-4 --weight-decay 0.5 --lr-decay-style cosine --lr-warmup-iters 1 \
    --use-checkpoint-opt_param-scheduler
is "$(grep -o 'learning rate: [^ ]*' <<<"$out")" "$rates" "--use-checkpoint-opt_param-scheduler takes the checkpoint's" ||
    diag "$(tail -n 3 <<<"$out")"
like "$out" 'weight_decay .* 0.01$' "  and reports it"
for option in finetune no-load-optim; do
    train 1 --load run --$option --use-checkpoint-opt_param-scheduler --exit-interval 1
    like "$out" "warning: --use-checkpoint-opt_param-scheduler has no effect with --$option, which starts a new schedule; drop one\$" \
        "  --$option starts a new one, which is said"
done
train 1 --load fresh --save fresh --use-checkpoint-opt_param-scheduler --exit-interval 1
is "$rc" 75 "--use-checkpoint-opt_param-scheduler at the first start" || diag "$(tail -n 3 <<<"$out")"
refused "both" 'cannot be used together; drop one' --load whole --override-opt_param-scheduler --use-checkpoint-opt_param-scheduler
train 1 --load run --finetune
like "$out" 'iteration +1/ .*consumed samples: +16 .*learning rate: 5.0' "--finetune begins at 0"
train 1 --load run --no-load-optim
like "$out" 'iteration +4/ .*consumed samples: +64 .*learning rate: 5.0' "--no-load-optim restarts the schedule"
train 1 --load run --seed 4321 --no-load-rng
is "$rc" 0 "--no-load-rng"
# Another seed would change the order of the data: a resumed run keeps its own, with or without its
# optimizer state, and saves it.
losses() { grep -o 'iteration  .*lm loss: [^ ]*' <<<"$out" | sed 's/elapsed[^|]*//'; }
for option in "" --no-load-optim; do
    rm -rf anew other third
    train 1 --load run --save anew $option
    kept=$(losses)
    train 1 --load run --save other --seed 4321 $option
    is "$(losses)" "$kept" "another --seed does not affect a resumed run${option:+, $option}"
    like "$out" 'warning: the run continues with seed 1234 of its checkpoint, not with 4321; add --no-load-rng to use the new seed' "and a note is printed"
    same anew/iter_0000008 other/iter_0000008 "and its end is the same"
    train 1 --load run --save third --seed 4321 --no-load-rng $option
    unlike "$out" "$(tail -n 1 <<<"$kept" | grep -o 'lm loss.*')" "with --no-load-rng it counts"
    try "$megatron" checkpoint inspect third
    like "$out" 'seed 4321$' "and is saved"
done
train 1 --save light --no-save-optim
ok "--no-save-optim saves a third" test "$(stat -c %s light/iter_0000008/rank_00000.safetensors)" -lt \
    $(($(stat -c %s whole/iter_0000008/rank_00000.safetensors) / 2))
refused "a checkpoint without optimizer" 'saved without optimizer state; use --no-load-optim' --load light
train 1 --load light --no-load-optim
is "$rc" 0 "it loads with --no-load-optim"
# Steps of 16 samples, then of 2: the remaining ones would need more data than there is. Fewer of
# them help if a corpus is repeated as a whole, but not if exactly the requested samples are
# indexed.
seq -f '{"text": "one two three four five six seven eight nine ten %g"}' 400 >corpus.jsonl
try "$megatron" preprocess --input corpus.jsonl --output-prefix corpus --append-eod
is "$rc" 0 "a corpus of 145 samples" || diag "$(tail -n 3 <<<"$out")"
while read -r iters data remedy; do
    small=("${model[@]}" --micro-batch-size 2 --seq-length 32 --lr 1e-3 --tokenizer-type GPT2BPETokenizer
        --eval-iters 0 --device cpu --cpu-threads 1 --override-opt_param-scheduler ${data//,/ })
    [ -d "changed$data" ] || try "$megatron" train "${small[@]}" --global-batch-size 16 --train-iters 6 --save "changed$data"
    try "$megatron" train "${small[@]}" --global-batch-size 2 --load "changed$data" --train-iters $iters
    like "$out" "needs 108 more; resume with the original --global-batch-size${remedy:+ $remedy}\$" "$data: the way out" ||
        diag "$(tail -n 3 <<<"$out")"
    is "$rc" 2 "$data: the code for options that do not go with the checkpoint"
done <<'END'
60 --data-path,corpus_text_document or lower --train-iters
60 --data-path,1,corpus_text_document,1,corpus_text_document
60 --mock-data
END
# With --train-samples the run ends with its data, whatever its steps: 6 of 16 and 12 of 2, 20 of 2
# and 5 of 16.
small+=(--train-samples 120 --save changed)
for batches in "16 6 2 18" "2 20 16 25"; do
    read -r before at after end <<<"$batches"
    rm -rf changed
    try "$megatron" train "${small[@]}" --global-batch-size "$before" --exit-interval "$at"
    try "$megatron" train "${small[@]}" --global-batch-size "$after" --load changed
    like "$out" "iteration +$end/ +$end .*consumed samples: +120 .*global batch size: +$after " \
        "steps of $before, then of $after: all samples, and no more" || diag "$(tail -n 3 <<<"$out")"
    is "$rc" 0 "  which is the end"
done
for again in 1 2; do train 1 --save twice --exit-interval 4; done
try "$megatron" checkpoint verify twice
like "$out" 'iter_0000004: intact' "an iteration that is saved a second time replaces the first"
is "$(ls twice | tr '\n' ' ')" "iter_0000004 latest_checkpointed_iteration.txt " "and leaves nothing else"
train 1 --save few --save-interval 1 --keep-last 2
is "$(ls few | tr '\n' ' ')" "iter_0000007 iter_0000008 latest_checkpointed_iteration.txt " "--keep-last 2"
# Back to an earlier checkpoint: what the run saves from there is kept, and so are the abandoned
# ones, in a separate directory.
rm -rf few
train 1 --save few --save-interval 2 --keep-last 3
train 1 --save few --load few --ckpt-step 4 --save-interval 1 --keep-last 3 --exit-interval 5
is "$(ls few | tr '\n' ' ')" "abandoned-1 iter_0000004 iter_0000005 latest_checkpointed_iteration.txt " "--ckpt-step 4 of 8"
is "$(cat few/latest_checkpointed_iteration.txt)" 5 "  resumes from its own checkpoints"
like "$out" 'the checkpoints after the one that the run went back to were moved to few/abandoned-1' "  reports where the others are"
train 1 --load few/abandoned-1
like "$out" 'loaded checkpoint from few/abandoned-1 at iteration 8' "  from which another run can resume"
train 1 --save few --load few --save-interval 1 --keep-last 3
is "$(ls few few/abandoned-1 | xargs)" "few: abandoned-1 iter_0000006 iter_0000007 iter_0000008 latest_checkpointed_iteration.txt \
few/abandoned-1: iter_0000006 iter_0000008 latest_checkpointed_iteration.txt" "  and this one with the same numbers"
same few/iter_0000008 few/abandoned-1/iter_0000008 "  to the same end"
# Users put files into the directory of a checkpoint, such as an export of it.
rm -rf few
train 1 --save few --exit-interval 4
mkdir -p few/iter_0000004/hf/more && touch few/iter_0000004/hf/config.json
train 1 --save few --load few --save-interval 1 --keep-last 2
unlike "$out" 'warning:' "a folder in a checkpoint that goes away"
is "$(ls few | tr '\n' ' ')" "iter_0000007 iter_0000008 latest_checkpointed_iteration.txt " "  is removed with it"

# Saves that are slower than the steps between them delay the run; this is reported once, with the
# remedy. No checkpoint reaches the disk before the file "go" exists.
slow='#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int fsync(int fd)
{
    char link[64], path[4096] = "";

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof(path) - 1) > 0 && strstr(path, "/iter_"))
        while (access("go", F_OK) != 0)
            usleep(10000);
    return (int)syscall(SYS_fsync, fd);
}'
# slowly ITERATION OPTION...: saves proceed after that step, and after a wait that is longer than
# all steps before it.
slowly() {
    local at=$1 began=$SECONDS pid
    shift
    rm -rf go log late
    LD_PRELOAD=$scratch/slow.so timeout 120 "$megatron" train "${model[@]}" "${common[@]}" --train-iters 8 --save late \
        --async-save "$@" >log 2>&1 &
    pid=$!
    wait_until 100 eval "grep -q 'iteration        $at/' log || ! kill -0 $pid"
    sleep $((SECONDS - began + 1))
    touch go
    wait $pid
    rc=$?
    out=$(cat log)
}
if ! command -v "${CC:-cc}" >/dev/null; then
    skip "saves that take longer than the steps between them" "no compiler"
elif ok "a save can be made slow" "${CC:-cc}" -shared -fPIC -o slow.so -xc - <<<"$slow"; then
    slowly 4 --save-interval 2
    is "$(grep -c '^megatron: warning: training waited [0-9.]* s at iteration 4 for the checkpoint of iteration 2' <<<"$out")" 1 \
        "saves that take longer than the interval between them are reported once" || diag "$(grep -i checkpoint <<<"$out")"
    like "$out" 'saving every [0-9]+ iterations would avoid this; raise --save-interval' "with the interval that helps"
    slowly 8 --save-interval 5
    is "$rc" 0 "a save that is under way at the end"
    unlike "$out" 'training waited' "at the end no training waits"
    same late/iter_0000008 whole/iter_0000008 "and the end is the same"
fi

# A save without progress ends all ranks, and the error names the rank and what it was doing; the
# unfinished save does not delay the exit.
stuck='#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
static void hang(const char *call, const char *path)
{
    char what[4200];

    snprintf(what, sizeof(what), "%s %s", call, path);
    while (strstr(what, getenv("STUCK_CALL")) && strstr(what, getenv("STUCK_PATH")))
        pause();
}
int fsync(int fd)
{
    char link[64], path[4096] = "";

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof(path) - 1) > 0)
        hang("fsync", path);
    return NEXT(fsync)(fd);
}
int renameat2(int from, const char *name, int to, const char *other, unsigned flags)
{
    hang("renameat2", name);
    return NEXT(renameat2)(from, name, to, other, flags);
}
int unlinkat(int at, const char *name, int flags)
{
    hang("unlinkat", name);
    return NEXT(unlinkat)(at, name, flags);
}'
if ! command -v "${CC:-cc}" >/dev/null; then
    skip "a save that does not get on" "no compiler"
elif ok "a save can be made to hang" "${CC:-cc}" -shared -fPIC -o stuck.so -xc - -ldl <<<"$stuck"; then
    while read -ru 3 call path options sentence; do
        rm -rf stuck
        STUCK_CALL=$call STUCK_PATH=$path LD_PRELOAD=$scratch/stuck.so train 2 $t 2 --save stuck --save-interval 2 \
            --distributed-timeout-minutes 0.1 ${options//,/ }
        is "$rc" 1 "a save that does not get on with $call $path ends the run, $options"
        like "$out" ": $sentence; check its file system, or raise --distributed-timeout-minutes" "  and is named"
    done 3<<'END'
fsync /rank_00001 --keep-last,8 rank 1 has made no progress writing checkpoint 2 for [0-9]+ s: stuck/iter_0000002.tmp-.*/rank_00001.safetensors
fsync /rank_00001 --async-save rank 1 has made no progress writing checkpoint 2 for [0-9]+ s: stuck/iter_0000002.tmp-.*/rank_00001.safetensors
fsync /index.json --keep-last,8 rank 1 has made no progress renaming checkpoint 2 for [0-9]+ s: stuck/iter_0000002.tmp-[0-9a-f]+
renameat2 iter_0000002 --async-save rank 1 has made no progress renaming checkpoint 2 for [0-9]+ s: stuck/iter_0000002.tmp-[0-9a-f]+
unlinkat rank_00000 --keep-last,1 rank 1 has made no progress removing old checkpoints in stuck for [0-9]+ s; checkpoint 4 is saved
END
fi

# The last save is retried after a failure. Without a compiler the pauses are real.
hasty='#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
int nanosleep(const struct timespec *time, struct timespec *left)
{
    return time->tv_sec >= 5 ? 0 : ((__typeof__(&nanosleep))dlsym(RTLD_NEXT, "nanosleep"))(time, left);
}
int mkdir(const char *path, mode_t mode)
{
    static int failures;
    const char *most = getenv("FAILURES");

    errno = EIO;
    if (most && strstr(path, "iter_0000008.tmp") && failures++ < atoi(most))
        return -1;
    return ((__typeof__(&mkdir))dlsym(RTLD_NEXT, "mkdir"))(path, mode);
}'
hasty_library=
if ! command -v "${CC:-cc}" >/dev/null; then
    skip "a last save that fails" "no compiler"
elif ok "a last save can be made to fail" "${CC:-cc}" -shared -fPIC -o hasty.so -xc - -ldl <<<"$hasty"; then
    hasty_library=$scratch/hasty.so
    for interval in 4 5; do
        for failures in 2 9; do
            rm -rf late
            MEGATRON_JOB_END=$(($(date +%s) + 100000)) FAILURES=$failures LD_PRELOAD=$hasty_library \
                train 2 $t 2 --save late --save-interval $interval --async-save
            is "$rc $(cat late/latest_checkpointed_iteration.txt)" "$([ $failures = 2 ] && echo 0 8 || echo 1 $interval)" \
                "a last save that fails $failures times, --save-interval $interval" || diag "$(tail -n 5 <<<"$out")"
            is "$(grep -o 'retrying the last checkpoint in [0-9]* s' <<<"$out" | grep -o '[0-9]*' | xargs)" "$([ $failures = 2 ] && echo 5 15 || echo 5 15 45)" \
                "  is tried again"
        done
        like "$out" 'cannot save the last checkpoint \(iteration 8\) to late; see the warnings above' "  or is an error"
    done
    rm -rf late
    MEGATRON_JOB_END=$(($(date +%s) + 13)) FAILURES=1 LD_PRELOAD=$hasty_library train 1 --save late --save-interval 8
    is "$rc $(grep -c 'tried again' <<<"$out")" "1 0" "not where the job ends before" || diag "$(tail -n 5 <<<"$out")"
fi

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$scratch"
    mkdir -m 555 sealed
    try setpriv --reuid=65534 --clear-groups "$megatron" train "${model[@]}" "${common[@]}" --train-iters 8 --save sealed
    like "$out" 'cannot write to sealed: Permission denied' "an unwritable directory is reported"
    unlike "$out" ' iteration +1/' "before the first step"
    chmod 700 sealed
    try setpriv --reuid=65534 --clear-groups "$megatron" train "${model[@]}" "${common[@]}" --train-iters 8 --load sealed
    is "$rc" 2 "a directory that cannot be read is rejected"
    like "$out" 'cannot load a checkpoint: cannot read sealed/.*: Permission denied' "and why"
    mkdir small
    if mount -t tmpfs -o size=1500k none small 2>/dev/null; then
        LD_PRELOAD=$hasty_library train 1 --save small --save-interval 4
        like "$out" 'successfully saved checkpoint from iteration +4' "the first one fits a small disk"
        like "$out" 'warning: cannot save a checkpoint at iteration 8: .*No space left on device; .*training continues' "the second does not"
        like "$out" 'cannot save the last checkpoint \(iteration 8\)' "which is an error at the end only"
        is "$(ls small | tr '\n' ' ')" "iter_0000004 latest_checkpointed_iteration.txt " "the good one stays"
        train 1 --load small --save small2
        same whole/iter_0000008 small2/iter_0000008 "and is intact"
        umount small
        mount -t tmpfs -o size=64k none small && head -c 65536 /dev/zero >small/full 2>/dev/null
        train 1 --metrics-file small/metrics --tensorboard-dir small
        is "$rc" 0 "no space for metrics and events: the run continues"
        is "$(grep -c 'warning: cannot write to small/.*No space left on device; .*training continues' <<<"$out")" 1 "and a warning is printed once"
        like "$out" 'iteration +8/ ' "to its end"
        umount small
        # Files that cannot be removed neither fail a save nor keep the next run from starting.
        rm -rf few
        train 1 --save few --exit-interval 4
        mkdir few/iter_0000004/busy && mount -t tmpfs none few/iter_0000004/busy && touch few/iter_0000004/busy/theirs
        train 1 --save few --load few --save-interval 1 --keep-last 2
        is "$rc $(grep -c 'warning: cannot save a checkpoint' <<<"$out")" "0 0" "an old checkpoint that cannot be removed"
        like "$out" 'warning: cannot remove old checkpoints: cannot remove few/iter_0000004' "  is reported"
        train 1 --save few --load few
        like "$out" 'warning: cannot remove files of an unfinished save: cannot remove few/iter_0000004' "  and so at the next start"
        is "$rc" 0 "  and the run continues"
        ok "  the mounted files are kept" test -e few/iter_0000004.tmp-removed-0/busy/theirs
        mkdir -p few/iter_00000{10..29}.tmp-1
        train 1 --save few --load few
        is "$(ls few | tr '\n' ' ')" \
            "iter_0000004.tmp-removed-0 iter_0000007 iter_0000008 latest_checkpointed_iteration.txt " "  and everything else is removed"
        mkdir -p few/iter_000000{3,4}/more few/iter_0000005/busy && mount -t tmpfs none few/iter_0000005/busy
        try "$megatron" checkpoint prune few --keep-last 2
        is "$rc" 1 "prune: one of three cannot be removed"
        like "$out" 'cannot remove few/iter_0000005' "  and a warning is printed"
        is "$(ls few | tr '\n' ' ')" \
            "iter_0000004.tmp-removed-0 iter_0000005.tmp-removed-0 iter_0000007 iter_0000008 latest_checkpointed_iteration.txt " \
            "  and the others are removed, one of them although its first name is taken"
        umount few/iter_*/busy
    else
        skip "small, full and busy disks" "cannot mount a tmpfs"
    fi
else
    skip "directories that cannot be written to, small and busy disks" "needs root and setpriv"
fi
out=$(ulimit -f 100; LD_PRELOAD=$hasty_library "$megatron" train "${model[@]}" "${common[@]}" --train-iters 8 --save limit --save-interval 4 2>&1)
like "$out" 'warning: cannot save a checkpoint at iteration 4: .*File too large; .*training continues' "a limit on the size of files"
like "$out" 'iteration +8/ ' "the run continues anyway"

# Signals, and the end of the job.
long=(--train-iters 100000 --exit-signal-handler --lr-decay-iters 100000)
stopped() {
    rm -rf run log
    "$megatron" train "${model[@]}" "${common[@]}" "${long[@]}" --save run >log 2>&1 &
    pid=$!
    wait_until 100 eval "grep -q 'iteration        3/' log || ! kill -0 $pid 2>/dev/null"
    grep -q 'iteration        3/' log || diag "no third step: $(tail -n 3 log)"
    if [ "$1" = TERM ]; then
        mkdir run/iter_9999999.tmp-1
        try "$megatron" checkpoint prune run --keep-last 5
        is "$rc" 0 "prune beside a run that saves" || diag "$out"
        like "$out" 'unfinished checkpoints were not removed: another run is saving to run' "  leaves files that may belong to the run"
        ok "  in place" rmdir run/iter_9999999.tmp-1
    fi
    [ "$1" != TERM ] || code=1 refused "a second run in the same directory" \
        "cannot save checkpoints: another run is saving to run: process $pid on .*, which must end first; choose another directory with --save" --save run
    kill "-$1" $pid
    wait $pid
    is $? 75 "SIG$1 ends a run with code 75"
    out=$(cat log)
    at=$(cat run/latest_checkpointed_iteration.txt)
    like "$out" "exiting program at iteration $at\$" "SIG$1: and the last step is saved"
}
stopped TERM
stopped USR1
train 1 "${long[@]}" --load run --exit-interval 1
like "$out" "iteration +$((at + 1))/" "it resumes with the next step"
rm -rf run
SECONDS=0
MEGATRON_JOB_END=$(($(date +%s) + 15)) train 1 "${long[@]}" --save run
is "$rc" 75 "a job that is about to end is saved" || diag "$(tail -n 3 <<<"$out")"
ok "in time" test $SECONDS -lt 15
# Startup time must not count as step time: 3 s to the first step, and then 150 s are left, by a
# clock that stands still.
begin='#include <time.h>
#include <unistd.h>
time_t time(time_t *out)
{
    static int begun;
    time_t now = begun ? 1850 : 1000;

    if (!begun)
        sleep(3);
    begun = 1;
    if (out)
        *out = now;
    return now;
}'
if ! command -v "${CC:-cc}" >/dev/null; then
    skip "a slow start" "no compiler"
elif ok "a start can be made slow" "${CC:-cc}" -shared -fPIC -o begin.so -xc - <<<"$begin"; then
    rm -rf run
    MEGATRON_JOB_END=2000 LD_PRELOAD=$scratch/begin.so train 1 --save run --global-batch-size 2 --train-iters 500 --eval-iters 0
    is "$rc" 0 "a slow start does not end a run early" || diag "$(tail -n 3 <<<"$out")"
    like "$(cat run/.save-seconds)" '^[0-9]+\.[0-9]+$' "the duration of the last save is recorded"
    # 150 s are left, and the last save of the previous job took 100.
    rm -rf run/* && echo 100 >run/.save-seconds
    MEGATRON_JOB_END=2000 LD_PRELOAD=$scratch/begin.so train 1 --save run --global-batch-size 2 --train-iters 500 --eval-iters 0
    is "$rc" 75 "  and counts before the first one of the next run" || diag "$(tail -n 3 <<<"$out")"
fi

rm -rf run
train 1 "${long[@]}" --save run --exit-duration-in-mins 0.03
is "$rc" 75 "--exit-duration-in-mins ends a run with code 75" || diag "$(tail -n 3 <<<"$out")"
like "$out" "exiting program at iteration $(cat run/latest_checkpointed_iteration.txt)\$" "and the last step is saved"

# SIGKILL at random times, during training and saving, until the run finishes.
rm -rf run whole
TRAIN_LIMIT=400 train 2 $t 2 --save whole --train-iters 120
kills=0
for ((try = 0; try < 40; try++)); do
    "${launch[@]}" 2 -- "$megatron" train "${model[@]}" "${common[@]}" $t 2 --train-iters 120 --save run --load run \
        --save-interval 1 --keep-last 3 --async-save >log 2>&1 &
    pid=$!
    if [ $try -lt 6 ]; then
        # Half of them within a run that saves, the others at any time.
        if [ $((try % 2)) = 0 ]; then
            wait_until 100 grep -q 'successfully saved checkpoint' log
            sleep 0.0$((RANDOM % 9 + 1))
        else
            sleep 0.$((RANDOM % 9 + 1))
        fi
        victim=$(pgrep -P $pid -f "$megatron" | shuf -n 1)
        [ -z "$victim" ] || { kill -9 "$victim" 2>/dev/null && kills=$((kills + 1)); }
    fi
    wait $pid || continue
    [ $kills = 0 ] || break
    # It finished before it could be killed.
    rm -rf run
done
diag "$kills kills, $((try + 1)) starts"
ok "a run is killed" test $kills -ge 1
ok "a run that was killed again and again ends" test $try -lt 40
same whole/iter_0000120 run/iter_0000120 "with the same checkpoint"
done_testing
