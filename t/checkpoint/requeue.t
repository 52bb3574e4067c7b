#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The job script resumes by itself: after losing a rank, a slurmstepd or a node, after SIGTERM, and
# up to the end of training; and it gives up if nothing helps. ROUNDS: further random kills (0), of
# a rank, of the slurmstepd of either node or of either node, shortly after a save or during one.
. "$(dirname "$0")/../tap.sh"
[ -f "$MEGATRON_INST/lib/megatron/comm_tcp.so" ] || skip_all "no installed tree; run ./quickstart build"
cluster_up --nodes 3 --gpus 0 --cpus 4 --conf SlurmdTimeout=10
megatron=$MEGATRON_INST/bin/megatron
work=$(mktemp -d)
trap 'cluster_down; rm -rf "$work"' EXIT
chmod 777 "$work"
cd "$work" || exit 1
options=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2
    --global-batch-size 32 --vocab-size 300 --make-vocab-size-divisible-by 16 --eod-id 299 --train-iters 100000
    --mock-data --log-interval 1 --eval-iters 0 --device cpu --cpu-threads 1
    --save-interval 5 --keep-last 2 --async-save)
layout=(-N2 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2)
log=$work/train.log

state() { in_cluster squeue -h -j "$job" -o %T 2>/dev/null; }
latest() { cat "$work/run/latest_checkpointed_iteration.txt" 2>/dev/null || echo 0; }
# A requeued job waits for minutes; here only until its previous processes are gone: an earlier
# launch would be rejected and fail the job.
hurry() { in_cluster scontrol update jobid="$job" starttime=now 2>/dev/null; }
starts() { cat "$log" 2>/dev/null | grep -c 'successfully loaded checkpoint'; }
# goes_on STARTS ITERATION: it has resumed that many times, and has saved a checkpoint after that
# iteration.
goes_on() {
    local end=$((SECONDS + 120)) gone=0 pending=0 now
    until [ "$(starts)" -ge "$1" ] && [ "$(latest)" -gt "$2" ]; do
        now=$(state)
        if [ "$now" = PENDING ] && [ -z "$(cluster_processes "^slurmstepd: \\[$job\\.")" ]; then pending=$((pending + 1)); else pending=0; fi
        [ $pending -lt 15 ] || hurry
        # Between two starts a job may be invisible for a moment.
        if [ -n "$now" ]; then gone=0; else gone=$((gone + 1)); fi
        [ $SECONDS -lt $end ] && [ $gone -lt 20 ] || return 1
        sleep 0.3
    done
}
ranks() { cluster_processes "^$megatron train"; }

job=$(SLURM_WAIT=10 as_user sbatch --parsable --chdir="$work" --export="ALL,MEGATRON=$megatron" -o "$log" "${layout[@]}" "$top/sbatch/train.sbatch" \
    "${options[@]}" --save "$work/run" 2>&1)
like "$job" '^[0-9]+$' "the job script is taken" || diag "$job"
goes_on 0 5
ok "the run saves" || { diag "$(tail -n 5 "$log")"; done_testing; }

# The newest step of the job: the one that trains.
step() { in_cluster squeue -h -s -j "$job" -o %i | grep -E "^$job\.[0-9]+\$" | sort -V | tail -n 1; }
# node NUMBER: a node of the job, counted from 1; the first one runs its script. It may have moved.
node() { in_cluster scontrol show hostnames "$(in_cluster squeue -h -j "$job" -o %N)" | sed -n "$1p"; }
# strike WHAT NUMBER: fails if there is no such process at this moment.
strike() {
    case $1 in
    "a rank killed") kill -KILL "$(ranks | shuf -n 1)" ;;
    "a slurmstepd killed")
        victim=$(step)
        [ -n "$victim" ] && "$top/tools/cluster" kill-stepd "$(node "$2")" "$victim"
        ;;
    "a node lost")
        victim=$(node "$2")
        "$top/tools/cluster" kill-node "$victim" || return 1
        sleep 1
        "$top/tools/cluster" start-node "$victim" || true
        ;;
    "SIGTERM for the job") as_user scancel --signal=TERM "$job" ;;
    esac >/dev/null 2>&1
}
# hit WHAT [NUMBER]
hit() {
    local what=$1 number=${2:-2} at before
    at=$(latest)
    before=$(starts)
    began=$SECONDS
    wait_until 60 strike "$what" "$number"
    ok "$what: done" || { diag "$(state) $(node 1) $(node 2)"; done_testing; }
    goes_on $((before + 1)) "$at"
    ok "$what: it resumes by itself" || {
        diag "$(in_cluster squeue -h -j "$job" -o '%T %r %S %N')" "$(in_cluster sinfo -Nho '%N %T %E')" "$(tail -n 8 "$log")" \
            "$(tail -n 20 "$MEGATRON_CLUSTER/log/slurmctld")"
        done_testing
    }
    diag "$((SECONDS - began)) s until it has saved again after $what${2:+ (node $2)}"
}
losses=("a rank killed" "a slurmstepd killed" "SIGTERM for the job" "a node lost")
for what in "${losses[@]}"; do
    hit "$what"
done
unlike "$(cat "$log")" 'launch failed: Unspecified error' "and every step was launched" || diag "$(grep -B2 -A4 'launch failed' "$log")"
kills=("a rank killed" "a slurmstepd killed" "a node lost")
for ((round = 0; round < ${ROUNDS:-0}; round++)); do
    sleep $((RANDOM % 3)).$((RANDOM % 10))
    hit "${kills[RANDOM % 3]}" "$((RANDOM % 2 + 1))"
done
grep -q 'requeueing job' "$log"
ok "SIGTERM saved and requeued the job"
as_user scancel "$job"
ended() { [ -z "$(state)$(ranks)" ]; }
wait_until 60 ended
ok "the job ends when it is told to" || diag "$(state)" "$(ranks)"

# The same steps undisturbed lead to the same checkpoint.
at=$(latest)
TRY_LIMIT=1000 try in_cluster srun "${layout[@]}" "$megatron" train --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine \
    --lr-warmup-fraction .1 --weight-decay 0.1 --clip-grad 1.0 --adam-beta2 0.95 --hidden-dropout 0 --attention-dropout 0 \
    "${options[@]}" --save "$work/whole" --save-interval 100000 --exit-interval "$at"
is "$rc" 75 "$at steps in one go" || diag "$(tail -n 4 <<<"$out")"
name=$(printf 'iter_%07d' "$at")
ok "end with the same checkpoint" diff -r "$work/run/$name" "$work/whole/$name"

# A run that cannot resume ends, here without minutes between its starts.
sed 's/ supervise --report / supervise --pause 1 --report /' "$top/sbatch/train.sbatch" >"$work/quick.sbatch"
bad() {
    try as_user sbatch --wait --chdir="$work" --export="ALL,MEGATRON=$megatron" -o "$work/bad.log" "${layout[@]}" \
        "$work/quick.sbatch" "${options[@]}" "$@"
}
bad --save "$work/run" --hidden-size 64
is "$rc $(grep -c 'the checkpoint belongs to another model: hidden-size (32, here 64)' "$work/bad.log")" "2 1" \
    "a checkpoint of another model ends the job at once" || diag "$(cat "$work/bad.log")"
rm "$work/bad.log"
bad --save "$work/bad" --metrics-file "$work/missing/file"
is "$rc" 1 "a run that cannot start ends" || diag "$out"
like "$(cat "$work/bad.log")" '4 consecutive starts saved no new checkpoint' "after a few tries" || diag "$(cat "$work/bad.log")"
done_testing
