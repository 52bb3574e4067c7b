#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Training under srun on several nodes: layouts by the plugin's options, ranks that die or hang.
. "$(dirname "$0")/../tap.sh"
[ -f "$MEGATRON_INST/lib/megatron/comm_tcp.so" ] || skip_all "no installed tree; run ./quickstart build"
cluster_up --nodes 3 --gpus 0 --cpus 4 --conf SlurmdTimeout=5
megatron=$MEGATRON_INST/bin/megatron
model=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2
    --global-batch-size 24 --lr 1e-3 --lr-decay-style constant --vocab-size 300 --make-vocab-size-divisible-by 16
    --mock-data --log-interval 1 --eval-iters 0 --device cpu --cpu-threads 1)
train=("$megatron" train "${model[@]}" --train-iters 3)
losses() { sed -nE 's/.*lm loss: ([0-9.]{7})[0-9]*E.*/\1/p' <<<"$out" | xargs; }

try "${train[@]}"
expected=$(losses)
is "$(wc -w <<<"$expected")" 3 "one rank, by hand" || diag "$out"
# The last ones spread their tasks unevenly.
while read -r options; do
    try as_user srun $options "${train[@]}"
    is "$(losses)" "$expected" "$options" || diag "$(tail -n 5 <<<"$out")"
done <<'EOT'
-N1 -n2 --megatron-tp=2
-N2 -n4 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2
-N3 -n3 --megatron-tp=1
-N2 -n4 --ntasks-per-node=2 --megatron-cp=2
-N2 -n8 --ntasks-per-node=4 --megatron-tp=2 --megatron-pp=2 --megatron-cp=2
-N3 -n6 --megatron-tp=2
-N3 -n6 --megatron-tp=2 --distribution=cyclic
EOT

# RoBERTa from words, as a job: the network, the text, the model. Twice: the second run finds data and checkpoint.
work=$(as_user mktemp -d)
roberta=(as_user env MEGATRON="$megatron" DATA_BIN="$work/bin" COMM_TEST_BYTES=4k sbatch -W -D "$work" -N2 --ntasks-per-node=2
    -o "$work/job.log" "$top/sbatch/roberta.sbatch" --mock-data --cpu-threads 1 --save "$work/ck" --load "$work/ck")
try "${roberta[@]}" --max-update 10
is "$rc" 0 "roberta.sbatch on 2 nodes" || diag "$(tail -n 20 "$work/job.log")"
out=$(cat "$work/job.log")
like "$out" 'all_reduce|all-reduce' "  tests the network"
like "$out" 'Wrote the dictionary .*/bin/dict.txt' "  makes a dictionary"
like "$out" 'train_inner \| \{"epoch": 1, .*"num_updates": "10"' "  and trains" || diag "$(tail -n 5 <<<"$out")"
try "${roberta[@]}" --max-update 15
like "$(sed -n '/num_updates": "10"/,$p' "$work/job.log")" '"num_updates": "15"' "  and continues" || diag "$(tail -n 5 "$work/job.log")"
rm -rf "$work"

# The plugin tells the ranks where rank 0 listens. Without it, one line with the remedy.
try as_user srun -N2 -n4 --ntasks-per-node=2 --megatron-tp=2 "${train[@]}"
unlike "$out" MEGATRON_SECRET "ranks have a secret of their step"
try as_user srun -N2 -n4 "${train[@]}"
is "$rc" 2 "ranks that cannot find each other"
is "$(grep -c . <<<"$(grep -vE '^srun: |^[ >-]|^$|^(using|setting|device|note)' <<<"$out")") $(grep -c '^megatron train: cannot determine which node runs rank 0 of 4; add a --megatron option to srun, such as --megatron-tp=1, or set MASTER_ADDR and MASTER_PORT for all ranks$' <<<"$out")" \
    "1 1" "say so once, with what to do" || diag "$out"
try as_user srun -n1 "${train[@]}"
is "$(losses)" "$expected" "one rank needs none" || diag "$out"

# An error on all ranks is reported by one of them.
once() {
    local text=$1
    shift
    try as_user srun -N2 --ntasks-per-node=2 --megatron-tp=1 "${train[@]}" "$@"
    is "$rc $(grep -c "$text" <<<"$out")" "2 1" "said once: $*" || diag "$(tail -n 12 <<<"$out")"
}
once 'unknown option --lrr; did you mean --lr?' --lrr 3
once 'does not divide 4 tasks' --tensor-model-parallel-size 3
# Rank 0 reports it even if it arrives last and the launcher ends all ranks with the first that
# fails.
late=(bash -c '[ "$MEGATRON_RANK" != 0 ] || sleep 1; exec "$@"' late "${train[@]}" --lrr 3)
try as_user srun -N2 --ntasks-per-node=2 --megatron-tp=1 --kill-on-bad-exit=1 "${late[@]}"
is "$(grep -c 'unknown option --lrr' <<<"$out")" 1 "by rank 0 though it comes last" || diag "$(tail -n 12 <<<"$out")"
try as_user "$megatron" launch --nproc-per-node 2 -- "${late[@]}"
is "$(grep -c 'unknown option --lrr' <<<"$out")" 1 "  and under megatron launch" || diag "$(tail -n 12 <<<"$out")"
try as_user srun -N2 --ntasks-per-node=2 --megatron-tp=1 "${train[@]}" --save /dev/null/x
is "$rc $(grep -c 'megatron: cannot save checkpoints: cannot create the directory /dev/null/x' <<<"$out")" "2 1" \
    "a path that cannot work ends all ranks with code 2" || diag "$out"
try as_user srun -N2 --ntasks-per-node=2 --megatron-tp=1 "${train[@]}" --metrics-file /dev/null/x
like "$out" 'rank [0-3] aborts all ranks: --metrics-file: cannot write /dev/null/x' "a later error ends all ranks"
try as_user srun -N2 --ntasks-per-node=2 --megatron-tp=1 "${train[@]}" --dry-run
is "$(grep -c 'using world size: 4' <<<"$out")" 1 "one rank prints a plan"

# The processes of this cluster's ranks.
ranks() { cluster_processes "^$megatron train"; }

# kill_rank SIGNAL: the process of rank 1. The plugin tells each rank its number.
kill_rank() {
    local victim
    for victim in $(ranks) none; do
        tr '\0' '\n' 2>/dev/null <"/proc/$victim/environ" | grep -q '^MEGATRON_RANK=1$' && break
    done
    kill -"$1" "$victim"
}

none_left() { [ -z "$(ranks)" ]; }

# hit COMMAND...: run the command in the middle of a run. $took: how long srun kept running. If the machine is too slow for
# the first of the deadlines, the run is started again with the next one.
deadlines=(10) # minutes
hit() {
    local log=$MEGATRON_CLUSTER/hit.log began job minutes
    for minutes in "${deadlines[@]}"; do
        : >"$log"
        in_cluster timeout -k 5 300 srun --wait=10 -N2 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2 "$megatron" train \
            "${model[@]}" --train-iters 1000000 --distributed-timeout-minutes "$minutes" >"$log" 2>&1 &
        job=$!
        wait_until 100 eval 'grep -q "iteration        3/" "$log" || ! kill -0 "$job" 2>/dev/null'
        ! grep -q 'iteration        3/' "$log" || break
        wait "$job"
    done
    grep -q 'iteration        3/' "$log"
    ok "a run is under way" || { diag "$(tail -n 12 "$log")"; done_testing; }
    began=$SECONDS
    "$@"
    ok "and hit: ${*##*/}" || done_testing
    wait "$job"
    rc=$?
    took=$((SECONDS - began))
    out=$(cat "$log")
}

# Long before the deadline, or soon after a short one, on a machine that may be slow.
ended() {
    [ "$rc" -ne 0 ] && [ "$rc" -ne 124 ] && [ "$took" -lt 200 ]
    ok "$1" || { diag "rc $rc after $took s"; diag "$out"; }
    wait_until 60 none_left
    ok "and no process is left" || { diag "$(ranks | xargs -r ps -fp)"; ranks | xargs -r kill -KILL; }
}

# Ctrl-C and SIGTERM for the command that the user started: the run saves and ends, and is not restarted.
saved=$(mktemp -d)
chmod 777 "$saved"
while read -r signal code checkpoints name; do
    rm -rf "$saved/run"
    as_user env --default-signal=INT "$megatron" supervise --pause 0 -- srun -N2 --ntasks-per-node=1 --megatron-tp=1 "$megatron" train \
        "${model[@]}" --train-iters 1000000 --log-interval 1 --exit-signal-handler --save "$saved/run" >"$saved/log" 2>&1 </dev/null &
    wait_until 60 grep -q 'iteration  *5/' "$saved/log"
    cluster_processes "^$megatron supervise" | xargs -r kill "-$signal"
    wait_until 60 none_left
    wait $!
    is "$? $(compgen -G "$saved/run/iter_*" | wc -l)" "$code $checkpoints" "$name" || diag "$(tail -n 12 "$saved/log")"
done <<'EOT'
INT 75 1 Ctrl-C saves a checkpoint and ends the run
TERM 75 1 SIGTERM, too
EOT
rm -rf "$saved"

hit kill_rank KILL
ended "a killed rank ends the run"

deadlines=(0.1 0.5 2)
hit kill_rank STOP
deadlines=(10)
ended "a rank that hangs ends the run"
like "$out" 'rank [0-9]+: .* in group [a-z]+ of [0-9]+ ranks timed out after (6|30|120) s at step [0-9]+' \
    "with rank, group, operation and step"

# Slurm does not notice this; the ranks do, long before the deadline of their waits. srun of newer Slurm ends
# only with --wait.
hit "$top/tools/cluster" kill-stepd n2
ended "a killed slurmstepd ends the run"
like "$out" 'at step [0-9]+: rank 0: rank [23] on n2 has ended; see the output of rank [23], and sacct' "with rank, node and step"
hit "$top/tools/cluster" kill-stepd n1
ended "and so does that of rank 0"
like "$out" 'at step [0-9]+: rank [23]: rank 0 has ended' "which the others notice"
done_testing
