#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron checkpoint: inspect, verify, prune, and convert to Hugging Face and back.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"

check() { try "$megatron" checkpoint "$@"; }

train 2 $t 2 --save run --save-interval 2
is "$rc" 0 "a run that saves" || diag "$(tail -n 5 <<<"$out")"
check inspect run
is "$rc" 0 "inspect"
like "$out" '^iteration: +8, consumed samples 128 \(validation 32\)$' "iteration and samples"
like "$out" '^model: +4 layers, hidden size 32, ffn hidden size 128, 4 attention heads of size 8, 4 query groups, vocabulary 300$' "the model"
like "$out" '^parameters: +61504 in 68 tensors, with optimizer state' "parameters, without padding"
like "$out" '^written by: +tp 2, cp 1, dp 1, pp 1' "the layout"
check inspect run --iteration 4 --tensors
like "$out" '^iteration: +4, ' "another iteration"
like "$out" '^embedding.word.weight +300 x 32$' "tensors"
check inspect run/iter_0000002
like "$out" '^iteration: +2, ' "by the name of its directory"
mv run/latest_checkpointed_iteration.txt .
check inspect run
like "$out" '^iteration: +8, ' "the newest if no file names the latest"
mv latest_checkpointed_iteration.txt run
check verify --all run
is "$rc" 0 "verify"
is "$(grep -c ': intact, 2 files' <<<"$out")" 4 "all are intact"
printf X | dd of=run/iter_0000004/rank_00001.safetensors bs=1 seek=60000 conv=notrunc status=none
check verify run
is "$rc" 0 "verify looks at the latest"
check verify --all run
is "$rc" 1 "a damaged one is an error"
like "$out" 'iter_0000004: damaged: .*rank_00001.safetensors is damaged between bytes' "and is named"
is "$(grep -c ': intact' <<<"$out")" 3 "the others are whole"
check verify --all .
like "$out" '\. contains no checkpoints \(iter_\* directories\); name the --save directory of a run$' "a directory above that of a run"
# A file that cannot be opened is not known to be damaged.
while read -r file number sentence; do
    if ! command -v "${CC:-cc}" >/dev/null; then
        skip "a file that cannot be opened" "no compiler"
    elif ok "a file can be kept from being opened: $file, $number" closed "iter_0000006/$file" $number; then
        try env "LD_PRELOAD=$scratch/closed.so" "$megatron" checkpoint verify run --iteration 6
        is "$rc" 1 "it is an error"
        like "$out" "^run/iter_0000006: not checked: cannot open run/iter_0000006/$file.*: $sentence" "  and no damage"
    fi
done <<'END'
index EACCES Permission denied; it may be intact: verify again as a user and on a node that can read it$
rank_00001 EACCES Permission denied; it may be intact
rank_00000 EMFILE Too many open files; it may be intact
index EIO Input/output error; check the disk or file server, then verify again on another node$
rank_00001 EIO Input/output error; check the disk
END
mv run/iter_0000006/rank_00001.safetensors away
check verify --all run
like "$out" 'iter_0000006: damaged: cannot open .*rank_00001.safetensors: No such file' "a missing file is reported as damage"
mv away run/iter_0000006/rank_00001.safetensors
check prune run
like "$out" 'prune needs to know how many checkpoints to keep; use --keep-last N' "prune asks how many"
check prune run/iter_0000008 --keep-last 2
is "$rc $out" "2 megatron checkpoint: run/iter_0000008 is a single checkpoint; use its parent directory" "prune of a single checkpoint"
mkdir run/iter_0000009.tmp-1
check prune run --keep-last 2
is "$(ls run | tr '\n' ' ')" "iter_0000006 iter_0000008 latest_checkpointed_iteration.txt " "prune"
# Without locks, unfinished files may belong to another run.
unlocked='#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#define REPLACE(name)                                                             \
    int name(int fd, int command, ...)                                            \
    {                                                                             \
        va_list args;                                                             \
        void *argument;                                                           \
                                                                                  \
        va_start(args, command);                                                  \
        argument = va_arg(args, void *);                                          \
        va_end(args);                                                             \
        errno = ENOLCK;                                                           \
        return command == F_OFD_SETLK                                             \
                   ? -1                                                           \
                   : ((int (*)(int, int, ...))dlsym(RTLD_NEXT, #name))(fd, command, argument); \
    }
REPLACE(fcntl)
REPLACE(fcntl64)'
if ! command -v "${CC:-cc}" >/dev/null; then
    skip "no locks" "no compiler"
elif ok "locks can be taken away" "${CC:-cc}" -shared -fPIC -o unlocked.so -xc - -ldl <<<"$unlocked"; then
    mkdir run/iter_0000009.tmp-1
    LD_PRELOAD=$scratch/unlocked.so train 1 --load run --save run
    is "$rc $(grep -c 'megatron: warning: cannot lock files in run: No locks available: another run' <<<"$out")" "0 1" \
        "a file system without locks is reported" || diag "$(tail -n 3 <<<"$out")"
    try env "LD_PRELOAD=$scratch/unlocked.so" "$megatron" checkpoint prune run --keep-last 2
    like "$out" 'unfinished checkpoints were not removed: cannot lock files in run' "  and so does prune"
    ok "  and unfinished files are kept" rmdir run/iter_0000009.tmp-1
fi
# Checkpoints after the one that a run resumed from were not saved by it, and it must not remove
# them.
mkdir run/iter_000000{2,4}
echo 6 >run/latest_checkpointed_iteration.txt
check prune run --keep-last 2
is "$(ls run | tr '\n' ' ')" "iter_0000004 iter_0000006 iter_0000008 latest_checkpointed_iteration.txt " "prune counts from the latest down"
like "$out" '^kept 1 checkpoint newer than iteration 6, which latest_checkpointed_iteration.txt names$' "  and reports what is kept"
rmdir run/iter_0000004
echo 8 >run/latest_checkpointed_iteration.txt
# A bind mount of the same file system inside a checkpoint has the same device number.
if unshare -rm true 2>/dev/null; then
    mkdir -p theirs/more run/iter_0000006/{a,bound,c} && touch theirs/more/kept
    try unshare -rm sh -c 'mount --bind theirs run/iter_0000006/bound && exec "$0" checkpoint prune run --keep-last 1' "$megatron"
    is "$rc" 1 "prune with a mount inside a checkpoint"
    like "$out" 'cannot remove run/iter_0000006.tmp-removed-0: Device or resource busy' "  reports what is kept"
    ok "  the mounted files are kept" test -e theirs/more/kept
    is "$(ls run/iter_0000006.tmp-removed-0)" bound "  and everything else is removed"
    check prune run --keep-last 1
    is "$rc $(ls run | tr '\n' ' ')" "0 iter_0000008 latest_checkpointed_iteration.txt " "  then all of it"
    ok "  and the mounted files are kept" test -e theirs/more/kept
else
    skip "prune where something is mounted in a checkpoint" "no user and mount namespaces here"
    rm -r run/iter_0000006
fi

check export run hf
is "$rc" 0 "export" || diag "$out"
is "$(ls hf | tr '\n' ' ')" "config.json model.safetensors " "as a Hugging Face folder"
check import hf again
is "$rc" 0 "import" || diag "$out"
check verify again
is "$rc" 0 "the imported checkpoint verifies"
check export again hf2
same hf hf2 "exported again, the files are the same"
check export again hf
is "$rc" 2 "no export over the folder that was imported"
check export again hf2
is "$rc" 0 "  but over an earlier export"
same hf hf2 "  which leaves the same files"
cp -r hf theirs-hf && sed -i 's/"vocab_size": /&1/' theirs-hf/config.json && cp -r theirs-hf theirs-before
check export run theirs-hf
is "$rc" 2 "no export over other weights"
train 1 --save-hf theirs-hf
is "$rc" 2 "  nor by --save-hf" || diag "$(tail -n 3 <<<"$out")"
same theirs-hf theirs-before "  they stay as they were"
train 1 --load-hf hf --save-hf ./hf
is "$rc" 2 "no --save-hf into --load-hf" || diag "$(tail -n 3 <<<"$out")"
same hf hf2 "  whose files stay as they were"
train 1 --load again --finetune --exit-interval 1
is "$rc" 75 "training starts from what was imported" || diag "$(tail -n 3 <<<"$out")"
imported=$(sed -nE 's/.*lm loss: ([^ ]+) .*/\1/p' <<<"$out")
train 1 --load run --finetune --exit-interval 1
like "$imported" '^[0-9]' "with a loss"
is "$imported" "$(sed -nE 's/.*lm loss: ([^ ]+) .*/\1/p' <<<"$out")" "which is that of the original"
check import hf again
like "$out" 'again already contains checkpoints' "no import over a run"
mkdir released unnamed unnamed/iter_0000000
echo release >released/latest_checkpointed_iteration.txt
for place in released unnamed; do
    check import hf $place
    like "$out" "$place already contains checkpoints" "nor over what is there without a number: $place"
done
is "$(cat released/latest_checkpointed_iteration.txt)" release "which stays as it was"
check export run half --dtype bf16
like "$(cat half/config.json)" bfloat16 "export as bf16"

# Two floats of the file's first tensor: the largest fp16 number, and one that would overflow.
large() { printf "$1" | dd of=hf-large/model.safetensors bs=1 seek=$((8 + $(od -An -tu8 -N8 hf/model.safetensors))) conv=notrunc status=none; }
cp -r hf hf-large
large '\x00\xe0\x7f\x47'
check import hf-large fits
check export fits fitting --dtype fp16
is "$rc" 0 "export of 65504 as fp16" || diag "$out"
large '\x00\xe0\x7f\x47\x00\xb8\x88\xc7'
check import hf-large large
cp -r fitting kept
for folder in kept fresh; do
    check export large $folder --dtype fp16
    is "$rc $out" "2 megatron checkpoint: tensor layers.0.attention.query.bias contains -70000, which overflows fp16 (maximum 65504); export it as bf16 or fp32; choose the type with --dtype" \
        "export of a value beyond the range of fp16"
done
same kept fitting "  leaves an earlier export as it was"
ok "  and no folder of its own" test ! -e fresh
check export large fresh --dtype bf16
is "$rc" 0 "  which bf16 holds" || diag "$out"

bad() {
    local name=$1 text=$2
    shift 2
    check "$@"
    [ "$rc" -ne 0 ]
    ok "$name is an error"
    like "$out" "$text" "$name: names the problem"
}
bad "an unknown action" 'unknown action look; use inspect' look run
bad "no directory" 'inspect takes one directory' inspect
bad "a directory without checkpoints" 'nowhere is not a checkpoint directory' inspect nowhere
bad "an iteration that is not there" 'run does not contain a checkpoint of iteration 5; it contains 8; select one' verify run --iteration 5
mkdir -p gone/iter_00000{{02..10..2},{11..14}} && echo 100 >gone/latest_checkpointed_iteration.txt
bad "a latest checkpoint that does not exist" \
    'gone/latest_checkpointed_iteration.txt names iteration 100, but iter_0000100 does not exist; gone contains 14, 13, 12, 11, 10, 8, 6, 4 and 1 older one; select one with --iteration$' inspect gone
rm -r gone/iter_*
bad "a latest one where there is none" 'iter_0000100 does not exist; gone contains no other checkpoint$' inspect gone
bad "a folder without config.json" 'run/config.json does not exist, .*; for a Megatron-LM checkpoint, add --format megatron' import run x
mkdir odd && echo '{"model_type": "t5"}' >odd/config.json
bad "another kind of model" 'model_type t5 is not supported; use a model of one of these types: gpt2, llama, mistral, .*, megatron-bert$' import odd x
cp -r hf cut && truncate -s 5000 cut/model.safetensors
bad "a cut file" 'cut/model.safetensors' import cut x
rm -rf damaged && cp -r run damaged
printf X | dd of=damaged/iter_0000008/rank_00000.safetensors bs=1 seek=60000 conv=notrunc status=none
for format in hf megatron torch_dist; do
    bad "$format: export of a damaged checkpoint" 'rank_00000.safetensors is damaged' export damaged x/exported --format $format
done
mkdir kept-folder
bad "export of a damaged checkpoint to a folder that exists" 'rank_00000.safetensors is damaged' export damaged kept-folder
ok "a failed import or export leaves nothing" test ! -e x -a -d kept-folder
done_testing
