#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron supervise, outside of a job: what it restarts, with which options, and when it stops.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset SLURM_JOB_ID
# Exits with the codes in the file "codes", one per line; advances the checkpoint if a line says so.
cat >run <<'EOT'
#!/bin/bash
echo "words: $*"
read -r code at <codes
sed -i 1d codes
[ -z "$at" ] || { mkdir -p save; echo "$at" >save/latest_checkpointed_iteration.txt; }
[ "$code" != 0 ] || [ "$1" != train ] || { mkdir -p save; touch save/.done; }
[ "$code" != nothing ] || exit 0
[ "${code#killed}" = "$code" ] || exit "${code#killed}"
[ "$1" != train ] || { mkdir -p save; touch save/.begun; }
exit "$code"
EOT
chmod +x run
codes() { rm -rf save; printf '%s\n' "$@" >codes; }

codes 1 137 0
try "$megatron" supervise --pause 0 -- ./run --save save --load other
is "$rc" 0 "two crashes, then the end"
is "$(grep -c '^words:' <<<"$out")" 3 "three starts"
is "$(grep -c '^words: --save save --load other$' <<<"$out")" 3 "from its initial checkpoint until it has saved one"
codes "1 10" "1 20" 0
try "$megatron" supervise --pause 0 -- ./run --finetune --load-hf x --save=save --load y --lr 1
is "$rc" 0 "crashes after checkpoints"
is "$(grep '^words:' <<<"$out" | sed -n 2p)" "words: --save=save --lr 1 --load save" "then it resumes from its own"
codes 0
mkdir -p save/iter_0000010
try "$megatron" supervise --pause 0 -- ./run --load_hf x --no_load_rng --save save
is "$(grep '^words:' <<<"$out")" "words: --save save --load save" "even if a kill left a checkpoint that is not named yet"
# Back to one of its own earlier checkpoints, until it has saved from there: across crashes, and
# across a requeue.
codes 1 "1 100" 0
mkdir save && echo 100 >save/latest_checkpointed_iteration.txt
try "$megatron" supervise --pause 0 -- ./run --load save --ckpt-step 40 --save save
is "$(grep '^words:' <<<"$out" | sort | uniq -c | xargs)" \
    "1 words: --save save --load save 2 words: --save save --load save --ckpt-step 40" "--ckpt-step, until the run has saved"
is "$(grep -c 'the run goes back to iteration 40 (--ckpt-step)' <<<"$out")" 2 "  and it is reported"
echo 0 >codes
try "$megatron" supervise --pause 0 -- ./run --load save --ckpt-step=40 --save save
is "$(grep '^words:' <<<"$out")" "words: --save save --load save" "  and a later start of the job does not go back again"
like "$out" 'ignoring --ckpt-step 40: the run has saved checkpoints since .* remove save/.ckpt-step' "  and it is reported"
echo 0 >codes
try "$megatron" supervise --pause 0 -- ./run --ckpt-step 60 --save save
is "$(grep '^words:' <<<"$out")" "words: --save save --load save --ckpt-step 60" "  but to another one"
printf '0\n' >codes
try "$megatron" supervise --pause 0 -- ./run --load save --save save
printf '0\n' >codes
try "$megatron" supervise --pause 0 -- ./run --load save --ckpt-step 60 --save save
is "$(grep '^words:' <<<"$out")" "words: --save save --load save --ckpt-step 60" "  or after a start without it"
printf '0\n' >codes
try "$megatron" supervise --pause 0 -- ./run --load . --ckpt-step 60 --save save
is "$(grep '^words:' <<<"$out")" "words: --save save --load save" "another run's checkpoint is where this one started"
# A file server that is down: this is neither a run without checkpoints nor one that may start from
# scratch.
away='#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int is_away(const char *path)
{
    errno = ESTALE;
    return strncmp(path, "save", 4) == 0 && access("away", F_OK) == 0;
}
FILE *fopen(const char *path, const char *mode)
{
    return is_away(path) ? (errno = ESTALE, NULL) : ((FILE * (*)(const char *, const char *))dlsym(RTLD_NEXT, "fopen"))(path, mode);
}
DIR *opendir(const char *path)
{
    return is_away(path) ? (errno = ESTALE, NULL) : ((DIR * (*)(const char *))dlsym(RTLD_NEXT, "opendir"))(path);
}'
if ! command -v "${CC:-cc}" >/dev/null; then
    skip "a file server that is away" "no compiler"
elif ok "a file server can be made to go away" "${CC:-cc}" -shared -fPIC -o away.so -xc - -ldl <<<"$away"; then
    printf '#!/bin/bash\n[ -e was-away ] || { touch was-away away; (sleep 4; rm away) >/dev/null 2>&1 & }\nexec ./run "$@"\n' >leaving
    chmod +x leaving
    codes "1 10" 0
    try env LD_PRELOAD="$work/away.so" "$megatron" supervise --pause 0 -- ./leaving --load-hf x --save save
    is "$rc" 0 "a crash while the file server is away"
    is "$(grep '^words:' <<<"$out" | sed -n 2p)" "words: --save save --load save" "  does not begin anew" || diag "$out"
    is "$(grep -c 'cannot read save/latest_checkpointed_iteration.txt: Stale file handle; waiting for the file system' <<<"$out")" 1 "  and it is reported once"
    codes 0
    touch away
    (sleep 2; rm away) &
    try env LD_PRELOAD="$work/away.so" "$megatron" supervise --pause 0 -- ./run --load-hf x --save save
    is "$(grep -c '^words: --load-hf x --save save$' <<<"$out")" 1 "at the first start, too" || diag "$out"
    wait
fi
cat >unmounting <<'EOT'
#!/bin/bash
./run "$@" && exit
[ "$(cat save/*.txt)" = 10 ] || { mv save unmounted; (sleep 2; mv unmounted save) >/dev/null 2>&1 & }
exit 1
EOT
chmod +x unmounting
codes "1 10" "1 20" 0
try "$megatron" supervise --pause 0 -- ./unmounting --load-hf x --save save
is "$(grep '^words:' <<<"$out" | sed -n 3p)" "words: --save save --load save" "nor does a crash while it is not mounted" || diag "$out"
like "$out" 'the checkpoints in save have disappeared: its file system may not be mounted; waiting for the file system' "  and it is reported"
codes 0
touch file
try "$megatron" supervise --pause 0 -- ./run --save file/save
is "$rc $(grep -c '^words:' <<<"$out")" "1 0" "a directory that can never be"
like "$out" '--save: cannot read file/save/latest_checkpointed_iteration.txt: Not a directory' "  is reported"
codes nothing nothing 0
mkdir save
touch save/.done
cp run megatron
try "$megatron" supervise --pause 0 --starts 1 -- ./megatron train --save save
is "$rc" 0 "a launcher that exits with 0 without a run"
is "$(grep -c '^words:' <<<"$out")" 3 "is started again, which does not count as a start without progress"
like "$out" 'exited with code 0, but the run did not finish' "and it is reported"
# A command that only prints something, directly and through a script.
for option in --help -h --dry-run --dry_run; do
    codes nothing nothing nothing
    try "$megatron" supervise --pause 0 -- ./megatron train --save save $option
    is "$rc $(grep -c '^words:' <<<"$out") $(test -e save; echo $?)" "0 1 1" "megatron train $option runs once"
done
codes nothing
try "$megatron" supervise --pause 0 -- ./megatron train --help
is "$rc" 0 "  also without --save"
codes killed137 killed143 nothing killed137 0
mkdir save
touch save/.begun
mkdir bin
printf '#!/bin/sh\necho RUNNING\n' >bin/squeue
chmod +x bin/squeue
in_job=(env SLURM_JOB_ID=1 "PATH=$work/bin:$PATH")
try "${in_job[@]}" "$megatron" supervise --pause 0 --starts 1 -- ./megatron train --save save
is "$rc" 0 "a launcher that kills a run before it starts"
is "$(grep -c '^words:' <<<"$out")" 5 "is started again, too"
like "$out" 'exited with code 137, but the run did not start' "and it is reported"
codes 137 137 0
try "${in_job[@]}" "$megatron" supervise --pause 0 --starts 1 -- ./megatron train --save save
is "$rc" 1 "one that is killed after it has begun counts as started"
codes killed139 killed139 0
try "${in_job[@]}" "$megatron" supervise --pause 0 --starts 1 -- ./megatron train --save save
is "$rc" 1 "so does one that crashes before"
codes killed137 killed137 0
try "$megatron" supervise --pause 0 --starts 1 -- ./megatron train --save save
is "$rc" 1 "and one that is killed outside of a job"
# Near the end of the job's time limit it is not restarted, but requeued.
printf '#!/bin/sh\necho "words: $*"\nkill -TERM $PPID\n' >bin/scontrol
chmod +x bin/scontrol
while read -r left limit starts text; do
    printf '#!/bin/sh\necho RUNNING %s %s\n' "$left" "$limit" >bin/squeue
    codes "1 10" 0
    try "${in_job[@]}" "$megatron" supervise --pause 0 -- ./run --save save
    is "$(grep -c '^words: --' <<<"$out") $(grep '^words: req' <<<"$out")" "$starts ${text:+words: $text}" "a crash with $left of $limit left"
done <<'END'
4:59 2-00:00:00 1 requeue 1
5:01 1:00:00 2
0:59 10:00 1 requeue 1
1:01 10:00 2
1-00:00:10 2-00:00:00 2
UNLIMITED UNLIMITED 2
END
codes 2 0
try "$megatron" supervise --pause 0 -- ./run --save save
is "$rc" 2 "options that are wrong: its code"
is "$(grep -c '^words:' <<<"$out")" 1 "and no further start"
codes "75 10"
try "$megatron" supervise --pause 0 -- ./run --save save
is "$rc" 75 "ended early outside of a job: its code"
codes 1 1 1 1 1 1
try "$megatron" supervise --pause 0 --starts 1 -- ./run --save save
is "$rc" 1 "without progress it gives up"
like "$out" '2 consecutive starts saved no new checkpoint in save' "and reports it"
ok "and a manual start resets the count" test ! -e save/.starts
# An outage of minutes must not use up all starts: the pauses grow, on a simulated clock.
quick='#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <time.h>
int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
    static const struct timespec none;

    (void)timeout;
    return ((__typeof__(&sigtimedwait))dlsym(RTLD_NEXT, "sigtimedwait"))(set, info, &none);
}'
if ! command -v "${CC:-cc}" >/dev/null; then
    skip "pauses" "no compiler"
elif ok "pauses can be left out" "${CC:-cc}" -shared -fPIC -o quick.so -xc - -ldl <<<"$quick"; then
    codes 1 1 1 1 1 1
    try env LD_PRELOAD="$work/quick.so" "$megatron" supervise --starts 4 -- ./run --save save
    like "$rc $(grep -oE 'restarting in [0-9]+' <<<"$out" | grep -oE '[0-9]+' | xargs)" \
        '^1 1[0-5] (5[0-9]|60) 2[34][0-9] (29[0-9]|300)$' "pauses without progress"
    codes $(printf 'nothing %.0s' {1..30})
    cp run megatron
    try env LD_PRELOAD="$work/quick.so" "$megatron" supervise -- ./megatron train --save save
    is "$rc $(grep -c '^words:' <<<"$out")" "1 8" "a command that exits with 0 and never trains is not repeated for ever"
    codes "1 10" "1 20" "1 30" 1 0
    try env LD_PRELOAD="$work/quick.so" "$megatron" supervise --pause 20 -- ./run --save save
    like "$rc $(grep -oE 'restarting in [0-9]+' <<<"$out" | grep -oE '[0-9]+' | xargs)" \
        '^0 (1[0-9]|20) (1[0-9]|20) (1[0-9]|20) (7[0-9]|80)$' "  and with it"
fi
codes "1 10" "1 20" "1 30" 0
try "$megatron" supervise --pause 0 --starts 1 -- ./run --save save
is "$rc" 0 "with progress it does not"
codes 1 0
mkdir save
echo 10 >save/latest_checkpointed_iteration.txt
echo 10 1 >save/.starts
try "$megatron" supervise --pause 0 --starts 1 -- ./run --save save
is "$rc" 1 "a later start of the job counts on"
small=("$megatron" train --num-layers 1 --num-attention-heads 2 --seq-length 8 --micro-batch-size 1 --lr 1e-3
    --vocab-size 16 --make-vocab-size-divisible-by 8 --mock-data --eval-iters 0 --device cpu --cpu-threads 1 --save kept)
try "$megatron" supervise --pause 0 -- "${small[@]}" --hidden-size 8 --train-iters 2
is "$rc" 0 "a run"
try "$megatron" supervise --pause 0 -- "${small[@]}" --hidden-size 16 --train-iters 4
is "$rc" 2 "a checkpoint of another model: the code for wrong options"
is "$(grep -c 'the checkpoint belongs to another model: hidden-size (8, here 16)' <<<"$out")" 1 "is rejected once"
# The arguments are printed whole once, and after a crash only those that differ; also a run of its own prints all.
printf '#!/bin/bash\n"$@"\n[ -e crashed ] || { touch crashed; exit 1; }\n' >crashing
chmod +x crashing
try "$megatron" supervise --pause 0 -- ./crashing "${small[@]}" --hidden-size 8 --train-iters 2 --save once
is "$rc $(grep -c '^  hidden_size \.' <<<"$out") $(grep '^  load \.' <<<"$out" | sed 's/.* //' | xargs)" "0 1 None once" \
    "the arguments are printed whole once" || diag "$out"
like "$out" 'restarting now: restart 1 of at most 3' "  and which restart follows"
try "${small[@]}" --hidden-size 8 --train-iters 2 --save once --load once
is "$(grep -c '^  hidden_size \.' <<<"$out")" 1 "  and by hand"
# A run that started without another run's optimizer state and seed resumes with its own, if it has
# saved.
printf '#!/bin/bash\necho "words: $*"\nexec "$@"\n' >shown
chmod +x shown
began=(--load kept --hidden-size 8 --train-iters 6 --exit-interval 4 --no-load-rng --no-load-optim)
for light in "" --no-save-optim; do
    rm -rf next
    for start in first second; do
        try "$megatron" supervise --pause 0 -- ./shown "${small[@]}" --save next "${began[@]}" $light
        like "$out" "$([ $start = first ] && echo 'exiting program at iteration 4' || echo 'iteration +6/')" \
            "without the optimizer of another run ${light:+and its own}, $start start" || diag "$(tail -n 3 <<<"$out")"
    done
    is "$(grep '^words:' <<<"$out" | grep -oE -e '--no-load-(rng|optim)' | xargs)" "${light:+--no-load-optim}" "  loads what exists"
done
# A run that saves beside the weights that it is fine-tuned from: it begins with --finetune and resumes without.
"${small[@]}" --hidden-size 8 --train-iters 2 --load kept --save-hf weights >/dev/null 2>&1
"$megatron" checkpoint import weights tuned >/dev/null
for start in first second; do
    try "$megatron" supervise --pause 0 -- ./shown "${small[@]}" --hidden-size 8 --load tuned --finetune --save tuned --train-iters 6 --exit-interval 4
    like "$out" "$([ $start = first ] && echo 'exiting program at iteration 4' || echo 'iteration +6/')" \
        "--finetune of imported weights, $start start" || diag "$(tail -n 3 <<<"$out")"
    is "$(grep -c '^words:.* --finetune' <<<"$out")" "$([ $start = first ] && echo 1 || echo 0)" "  begins once"
done
try "$megatron" supervise --pause 0 -- ./nothing --save save
is "$rc" 127 "a command that cannot be started"
try "$megatron" supervise --pause 0 -- ./run
is "$rc" 2 "no --save: a usage error"
like "$out" 'add --save DIR' "no --save"
# SIGTERM for this process alone, as in a pod: the run is told, and is not restarted.
cat >long <<'EOT'
#!/bin/bash
trap 'echo told; exit 143' TERM
trap 'echo asked; exit 75' USR1
trap 'echo interrupted; exit 75' INT
echo started
for i in $(seq 600); do sleep 0.1; done
EOT
chmod +x long
cp long srun
while read -r signal command expected; do
    rm -rf save
    : >said
    # A shell's background commands ignore SIGINT; this one must not.
    env --default-signal=INT "$megatron" supervise --pause 0 -- "./$command" --save save >said 2>&1 &
    pid=$!
    for i in $(seq 200); do grep -q started said && break; sleep 0.1; done
    kill -$signal $pid
    for i in $(seq 100); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
    ! kill -0 $pid 2>/dev/null || { pkill -9 -P $pid; kill -9 $pid; }
    wait $pid
    rc=$?
    is "$rc $(grep -v '^megatron supervise: ' said | tr '\n' ' ')" "$expected " "SIG$signal is passed on to $command"
    is "$(grep -c '^megatron supervise: stopped .*--save save$' said)" 1 "  and how to continue is printed"
done <<'END'
TERM long 143 started told
USR1 long 75 started asked
INT long 75 started interrupted
TERM srun 75 started asked
END

# SageMaker HyperPod: srun repeats the step itself.
codes 1 1 0
try "$megatron" supervise --pause 0 -- ./run --auto-resume=1 --save save
is "$rc" 1 "--auto-resume=1: supervise does not restart the run"
is "$(grep '^words:' <<<"$out")" "words: --auto-resume=1 --save save --load save" "  which resumes by itself from the first start on"
like "$out" "srun restarts the step itself" "  and it is reported"
codes 1 0
try "$megatron" supervise --pause 0 -- ./run --auto-resume 1 --load other --save save
is "$(grep '^words:' <<<"$out")" "words: --auto-resume 1 --load other --save save" "  unless it begins somewhere else"
codes 1 0
try env SLURM_SPANK__SLURM_SPANK_OPTION_hyperpod_auto_resume=1 "$megatron" supervise --pause 0 -- ./run --save save
is "$rc" 1 "  the same if sbatch has the option"
codes 1 0
try "$megatron" supervise --pause 0 -- ./run --auto-resume=0 --save save
is "$rc" 0 "--auto-resume=0: it does"
done_testing
