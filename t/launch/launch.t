#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron launch: ranks of one pod and of several, found in the environment of each kind, over TCP.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
[ -x "$megatron" ] || skip_all "no $megatron; build first"
[ -f "$MEGATRON_BUILD/runtime/engine/comm/comm_tcp.so" ] || skip_all "built without OpenSSL"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export MEGATRON_LIBRARY_DIR=$MEGATRON_BUILD/runtime/engine/comm
for name in $(compgen -e | grep -E '^(SLURM|OMPI|PMI|PET_|MEGATRON_(RANK|SECRET))|^(RANK|WORLD_SIZE|MASTER_|NNODES)'); do unset "$name"; done
secret=0123456789abcdef0123456789abcdef

train=("$megatron" train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2
    --global-batch-size 8 --lr 1e-3 --lr-decay-style constant --vocab-size 300 --make-vocab-size-divisible-by 16
    --mock-data --log-interval 1 --eval-iters 0 --device cpu --cpu-threads 1 --distributed-timeout-minutes 1)
losses() { sed -nE 's/.*iteration +([0-9]+).*lm loss: ([0-9.]{7})[0-9]*E.*/\1=\2/p' "$@" | xargs; }
last_loss() { losses "$@" | grep -oE '[^ ]+$'; }

# --- One pod ---
try "${train[@]}" --train-iters 3
expected=$(losses <<<"$out")
is "$(wc -w <<<"$expected")" 3 "one rank" || diag "$out"
try "$megatron" launch --nproc-per-node 4 -- "${train[@]}" --train-iters 3 --tensor-model-parallel-size 2
is "$rc" 0 "four ranks"
is "$(losses <<<"$out")" "$expected" "have the same losses" || diag "$out"
like "$out" '^3: ' "and their lines begin with the rank"
try "$megatron" launch --nproc-per-node 2 --no-label -- "${train[@]}" --train-iters 3 --tensor-model-parallel-size 2
unlike "$out" '^[01]: ' "unless that is not wanted"
try "$megatron" launch -- bash -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE ${#MEGATRON_SECRET}'
is "$out" "0/1 0/1 64" "one rank where there is no GPU"
try "$megatron" launch --nproc-per-node 3 --bind none -- bash -c 'echo $RANK$LOCAL_RANK$WORLD_SIZE; echo end >&2; printf "%70000s" x | wc -c; printf half'
is "$(sort <<<"$out" | xargs)" "0: 003 0: 70000 0: end 0: half 1: 113 1: 70000 1: end 1: half 2: 223 2: 70000 2: end 2: half" "output of all ranks"
try "$megatron" launch --nproc-per-node 2 --bind 0/0 -- bash -c 'taskset -cp $$ | sed "s/.*: //"'
is "$(sort <<<"$out" | xargs)" "0: 0 1: 0" "ranks are bound as asked"

# --- Ends ---
began=$SECONDS
try "$megatron" launch --nproc-per-node 3 -- bash -c '[ $RANK = 1 ] && exit 7; exec sleep 60'
is "$rc" 7 "the code of the rank that fails"
[ $((SECONDS - began)) -lt 30 ]
ok "and the others are ended"
try "$megatron" launch --nproc-per-node 2 -- bash -c '[ $RANK = 0 ] || kill -SEGV $$; exec sleep 60'
is "$rc" 139 "the code of a signal"
like "$out" 'rank 1 was killed by signal 11' "which is named"
try "$megatron" launch -- /nonexistent/program
is "$rc" 127 "a program that does not exist"
try "$megatron" launch --nproc-per-node 2 -- "${train[@]}" --train-iters 3 --save "$scratch/usage" --lrr 3
is "$rc $(grep -c 'unknown option --lrr' <<<"$out")" "2 1" "a usage error ends at once, reported once" || diag "$out"

# A rank is killed after the first checkpoint: the run continues from it and reaches the same result.
run=("${train[@]}" --tensor-model-parallel-size 2)
long=("${run[@]}" --train-iters 150 --save-interval 20)
kill_later='[ $RANK != 1 ] || [ $MEGATRON_RESTARTS != 0 ] || (while [ ! -f "$0/latest_checkpointed_iteration.txt" ]; do sleep 0.02; done; kill -9 $$) & exec "$@"'
try "$megatron" launch --nproc-per-node 2 -- "${run[@]}" --train-iters 150
whole=$(last_loss <<<"$out")
try "$megatron" launch --nproc-per-node 2 --pause 0 -- bash -c "$kill_later" "$scratch/killed" "${long[@]}" --save "$scratch/killed"
is "$rc $(last_loss <<<"$out")" "0 $whole" "a run with a killed rank reaches the loss of an undisturbed run" || diag "$(tail -n 5 <<<"$out")"
like "$out" '^megatron supervise: the run exited with code (137|1); its last checkpoint is iteration [0-9]+$' "after a restart from its checkpoint"

# SIGTERM: all ranks save, and the launcher ends with 75. As PID 1 it also reaps what others leave behind.
stop() { # PID: once the run trains
    wait_until 60 grep -q 'iteration  *3/' "$scratch/log" && kill -TERM "$1"
}
"$megatron" launch --nproc-per-node 2 -- "${run[@]}" --train-iters 100000 --save-interval 100000 --save "$scratch/stopped" --exit-signal-handler >"$scratch/log" 2>&1 &
stop $!
wait $!
is "$?" 75 "after SIGTERM the code is 75" || diag "$(tail -n 5 "$scratch/log")"
ok "and there is a checkpoint" test -s "$scratch/stopped/latest_checkpointed_iteration.txt"
if unshare --pid --fork --kill-child --mount-proc true 2>/dev/null; then
    : >"$scratch/log"
    unshare --pid --fork --kill-child --mount-proc "$megatron" launch --nproc-per-node 2 -- \
        bash -c '(sleep 0.3 & ) ; [ $RANK = 0 ] && { sleep 1; ps -e -o stat= | grep -c Z; }; exec "$@"' x "${run[@]}" \
        --train-iters 100000 --save-interval 100000 --save "$scratch/first" --exit-signal-handler >"$scratch/log" 2>&1 &
    unshare=$!
    wait_until 60 grep -q 'iteration  *3/' "$scratch/log"
    kill -TERM "$(pgrep -P $unshare)"
    wait $unshare
    is "$?" 75 "as PID 1, too" || diag "$(tail -n 5 "$scratch/log")"
    ok "and there is a checkpoint" test -s "$scratch/first/latest_checkpointed_iteration.txt"
    like "$(cat "$scratch/log")" '^0: 0$' "and no process is left as a zombie"
else
    skip "as PID 1, too" "no PID namespace"
fi

# --- Several pods: here, several launchers ---
port=$((21000 + RANDOM % 9000))
# pods N NAME=VALUE... -- COMMAND...: %i in a variable is the number of the pod. The output is in $scratch/pod*.
pods() {
    local n=$1 variables=() i pids=()
    shift
    while [ "$1" != -- ]; do variables+=("$1"); shift; done
    shift
    port=$((port + 1))
    for ((i = 0; i < n; i++)); do
        env MASTER_PORT=$port "${variables[@]//%i/$i}" timeout 300 "$@" >"$scratch/pod$i" 2>&1 &
        pids+=($!)
    done
    rcs=
    for i in "${pids[@]}"; do wait "$i"; rcs+="$? "; done
    out=$(cat "$scratch"/pod[0-9])
    rm -f "$scratch"/pod[0-9]
}
two=("$megatron" launch --nproc-per-node 2 -- "${train[@]}" --train-iters 3 --tensor-model-parallel-size 2)
while read -r name variables; do
    pods 2 $variables MEGATRON_SECRET=$secret -- "${two[@]}"
    is "$rcs$(losses <<<"$out")" "0 0 $expected" "$name: $variables" || diag "$(tail -n 4 <<<"$out")"
done <<'EOT'
job JOB_COMPLETION_INDEX=%i NNODES=2 MASTER_ADDR=localhost
EOT

# What each kind results in, without starting anything: NODE_RANK NODES LOCAL_SIZE WORLD_SIZE ADDRESS PORT.
while IFS='|' read -r variables options wanted; do
    got=$(env $variables MEGATRON_SECRET=$secret "$megatron" launch --dry-run $options 2>&1 | awk -F= '
        sub(/^ *MEGATRON_/, "") { v[$1] = $2 }
        END { print v["NODE_RANK"], v["NODES"], v["LOCAL_SIZE"], v["WORLD_SIZE"], v["MASTER_ADDR"], v["MASTER_PORT"] }')
    is "$got" "$wanted" "$variables $options"
done <<'EOT'
JOB_COMPLETION_INDEX=3 NNODES=4 MASTER_ADDR=train-0.train|--nproc-per-node 8|3 4 8 32 train-0.train 29500
JOB_COMPLETION_INDEX=0 NPROC_PER_NODE=4 MASTER_ADDR=a MASTER_PORT=5000|--nnodes 2|0 2 4 8 a 5000
PET_NODE_RANK=1 PET_NNODES=2 MASTER_ADDR=p-0 MASTER_PORT=23456|--nnodes 2 --node-rank 1 --nproc-per-node 8|1 2 8 16 p-0 23456
JOB_COMPLETION_INDEX=1 NNODES=2 MASTER_ADDR=a WORLD_SIZE=16|--nproc-per-node 8|1 2 8 16 a 29500
JOB_COMPLETION_INDEX=1 NNODES=2 MASTER_ADDR=a WORLD_SIZE=2|--nproc-per-node 8|1 2 8 16 a 29500
SLURM_NODEID=1 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=n[1-2] SLURM_LOCALID=0 MASTER_ADDR=n1|--nproc-per-node 2|1 2 2 4 n1 29500
A=b|--nnodes 2 --node-rank 1 --master-addr h --master-port 6000 --nproc-per-node 2|1 2 2 4 h 6000
EOT
# Pods without a secret have to ask for it; the ranks are told.
while IFS='|' read -r variables options; do
    got=$(env JOB_COMPLETION_INDEX=1 NNODES=2 MASTER_ADDR=localhost $variables "$megatron" launch --nproc-per-node 1 --no-label \
        $options -- printenv MEGATRON_SECRET 2>&1)
    is "$got" none "a launch without a secret: $variables$options"
done <<'EOT'
A=b|--no-secret
MEGATRON_SECRET=none|
EOT
if [ -n "$("$megatron" topo --topology "$top/t/topologies/p5.48xlarge.xml" 2>/dev/null)" ]; then
    try "$megatron" launch --dry-run --topology "$top/t/topologies/p5.48xlarge.xml"
    is "$(grep -c '^rank' <<<"$out") $(sed -nE 's/ *MEGATRON_GPU_PCI=//p' <<<"$out" | xargs)" \
        "8 0000:53:00.0 0000:64:00.0 0000:75:00.0 0000:86:00.0 0000:97:00.0 0000:a8:00.0 0000:b9:00.0 0000:ca:00.0" "one rank per GPU of a p5"
    like "$out" '^  MEGATRON_NICS=rdmap198s0,rdmap199s0,rdmap200s0,rdmap201s0$' "with its NICs"
    like "$out" '^  NCCL_SOCKET_IFNAME=\^docker,lo,veth,pod-id-link$' "and NCCL's interfaces"
    for options in "--nics no_such0 -- true" "--dry-run --topology $top/t/topologies/p5.48xlarge.xml --nics no_such0"; do
        try "$megatron" launch --nproc-per-node 1 $options
        is "$rc:$out" "2:megatron launch: this node has no NIC no_such0; \`megatron topo\` lists its NICs" "a list that does not fit the node: $options"
    done
else
    skip "one rank per GPU of a p5" "no hwloc"
fi

# --- Wrong input ---
while IFS='|' read -r variables options code text; do
    try env $variables "$megatron" launch $options -- true
    is "$rc $(grep -cF -- "$text" <<<"$out")" "$code 1" "$variables $options: $text" || diag "$out"
done <<EOT
A=b|--kind pod|2|--kind=pod is unknown; use auto, job,
A=b|--kind job|2|--kind=job, but JOB_COMPLETION_INDEX is not set
A=b|--nproc-per-node gpu|2|this pod has no GPU
A=b|--nproc-per-node many|2|--nproc-per-node=many; use a number
A=b|--topology x.xml|2|--topology requires --dry-run
A=b|--bind sideways|2|--bind
JOB_COMPLETION_INDEX=1 MASTER_ADDR=a||2|does not contain the number of pods; set NNODES or --nnodes
JOB_COMPLETION_INDEX=4 NNODES=4 MASTER_ADDR=a||2|this is pod 4 of only 4
JOB_COMPLETION_INDEX=x NNODES=4 MASTER_ADDR=a||2|JOB_COMPLETION_INDEX
JOB_COMPLETION_INDEX=1 NNODES=2||2|cannot determine where rank 0 of 2 pods runs
JOB_COMPLETION_INDEX=1 NNODES=2 MASTER_ADDR=a||2|several pods need a common secret
JOB_COMPLETION_INDEX=1 NNODES=2 MASTER_ADDR=a MEGATRON_SECRET=short||2|fewer than 16 characters
JOB_COMPLETION_INDEX=1 NNODES=2 MASTER_ADDR=a|--secret-file $scratch/none|2|cannot open $scratch/none
JOB_COMPLETION_INDEX=1 NNODES=2 MASTER_ADDR=a|--secret-file $scratch|2|cannot read $scratch: Is a directory
WORLD_SIZE=8|--nproc-per-node 2|2|WORLD_SIZE=8 is not the number of ranks, 2 (pods: 1, ranks per pod: 2); unset it, or correct --nnodes or --nproc-per-node
JOB_COMPLETION_INDEX=1 NNODES=4 MASTER_ADDR=a WORLD_SIZE=16 MEGATRON_SECRET=$secret|--nproc-per-node 2|2|WORLD_SIZE=16 is not the number of ranks, 8 (pods: 4, ranks per pod: 2)
JOB_COMPLETION_INDEX=1 NNODES=2 MASTER_ADDR=a WORLD_SIZE=3 MEGATRON_SECRET=$secret|--nproc-per-node 2|2|WORLD_SIZE=3 is not the number of ranks, 4 (pods: 2, ranks per pod: 2)
RANK=1||2|RANK is set, so this may be one of several pods; number them with --nnodes, --node-rank and --master-addr, or unset it
PET_NODE_RANK=0 PET_NNODES=1:4||2|PET_NNODES is set
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4||2|OMPI_COMM_WORLD_RANK is set
TORCHELASTIC_RUN_ID=none RANK=0 WORLD_SIZE=1||2|torchrun has started a process per rank
JOB_COMPLETION_INDEX=1 NNODES=2 MASTER_ADDR=no-such-pod.invalid MEGATRON_SECRET=$secret|--timeout 1|1|cannot resolve no-such-pod.invalid, the name of the pod with rank 0, within 1 s
EOT
try "$megatron" launch
is "$rc" 2 "no command"
perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 1, LocalPort => 0) or exit 1; $| = 1; print $s->sockport, "\n"; sleep 600' >"$scratch/port" &
listener=$!
wait_until 60 test -s "$scratch/port"
try "$megatron" launch --master-port "$(cat "$scratch/port")" -- true
kill $listener
like "$out" "port $(cat "$scratch/port") is in use on this node" "a port that is in use"
is "$rc" 1 "may be free later"
done_testing
