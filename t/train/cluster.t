#!/bin/bash
# Training under srun on several nodes: layouts by the plugin's options, ranks that die or hang.
. "$(dirname "$0")/../tap.sh"
[ -f "$MEGATRON_INST/lib/megatron/comm_mpi.so" ] || skip_all "no installed tree with MPI; run ./quickstart build"
cluster_up --nodes 3 --gpus 0 --cpus 4
megatron=$MEGATRON_INST/bin/megatron
model=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2
    --global-batch-size 24 --lr 1e-3 --lr-decay-style constant --vocab-size 300 --make-vocab-size-divisible-by 16
    --mock-data --log-interval 1 --eval-iters 0 --device cpu --cpu-threads 1)
train=("$megatron" train "${model[@]}" --train-iters 3)
losses() { sed -nE 's/.*lm loss: ([0-9.]{7})[0-9]*E.*/\1/p' <<<"$out" | xargs; }

try "${train[@]}"
expected=$(losses)
is "$(wc -w <<<"$expected")" 3 "one rank, by hand" || diag "$out"
while read -r nodes tasks options; do
    try as_user srun -N"$nodes" --ntasks-per-node=$((tasks / nodes)) $options "${train[@]}"
    is "$(losses)" "$expected" "$nodes nodes, $tasks tasks, $options" || diag "$(tail -n 5 <<<"$out")"
done <<'EOT'
1 2 --megatron-tp=2
2 4 --megatron-tp=2 --megatron-pp=2
3 3 --megatron-tp=1
3 6 --megatron-tp=2
2 4 --megatron-cp=2
2 8 --megatron-tp=2 --megatron-pp=2 --megatron-cp=2
EOT

# A rank is hit in the middle of the run. $1: signal; the rest: options.
hit() {
    local signal=$1 log=$MEGATRON_CLUSTER/hit.log victim began
    shift
    : >"$log"
    in_cluster timeout 60 srun -N2 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2 "$megatron" train "${model[@]}" --train-iters 1000000 \
        "$@" >"$log" 2>&1 &
    local job=$!
    for _ in $(seq 200); do
        grep -q 'iteration        3/' "$log" && break
        sleep 0.1
    done
    # The plugin tells each rank its number; this cluster's own process only.
    for victim in $(pgrep -f "^$megatron train") none; do
        tr '\0' '\n' 2>/dev/null <"/proc/$victim/environ" | grep -q '^MEGATRON_RANK=1$' && break
    done
    diag "rank 1 is process $victim"
    began=$SECONDS
    kill -"$signal" "$victim"
    wait "$job"
    rc=$?
    took=$((SECONDS - began))
    out=$(cat "$log")
}
left() { pgrep -f "^$megatron train" | wc -l; }

hit KILL
[ "$rc" -ne 0 ]
ok "a killed rank fails the run" || diag "$out"
[ "$took" -lt 20 ]
ok "soon" || diag "$took s"
is "$(left)" 0 "and no process is left"

hit STOP --distributed-timeout-minutes 0.1
[ "$rc" -ne 0 ]
ok "a rank that hangs fails the run" || diag "$out"
[ "$took" -lt 30 ]
ok "within the deadline" || diag "$took s"
like "$out" 'rank [0-9]+: .* in group [a-z]+ of [0-9]+ ranks was not done after 6 s at step [0-9]+' \
    "with rank, group, operation and step"
is "$(left)" 0 "and no process is left"
done_testing
