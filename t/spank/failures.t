#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every callback of the plugin fails in every context, arguments are wrong, versions differ: what
# the user sees, and what everyone else sees (nothing).
. "$(dirname "$0")/common.sh"
cluster_up --nodes 2 --gpus 4
conf=$MEGATRON_CLUSTER/etc/plugstack.conf
line=$(cat "$conf")

# Clients and steps read plugstack.conf when they start, so it can change under a running cluster.
plugstack() { echo "$line $*" >"$conf"; }

# others NAME: a job that does not use the plugin runs.
others() {
    try as_user srun -n2 hostname
    is "$rc" 0 "$1: other jobs run"
    unlike "$out" "megatron" "$1: and see nothing of it"
}

# --- callbacks ------------------------------------------------------------------------------------
said="plugstack.conf has the test hook fail=%s; remove it"
for where in local:init local:init_post_opt; do
    plugstack fail=$where
    try as_user srun -n2 --megatron-tp=2 echo ran
    is "$rc" 1 "$where: srun ends with 1"
    like "$out" "srun: error: megatron: $(printf "$said" $where)" "$where: and reports why"
    unlike "$out" "^ran$" "$where: nothing ran"
    others $where
done
for where in allocator:init allocator:init_post_opt; do
    plugstack fail=$where
    try as_user sbatch -n2 --megatron-tp=2 --wrap true
    is "$rc" 1 "$where: sbatch ends with 1"
    like "$out" "sbatch: error: megatron: $(printf "$said" $where)" "$where: and reports why"
    unlike "$out" "Submitted" "$where: nothing is submitted"
    try as_user salloc -n2 --megatron-tp=2 true
    [ "$rc" -ne 0 ]; ok "$where: salloc fails too"
    others $where
done
plugstack fail=local:local_user_init
try as_user srun -n2 --megatron-tp=2 echo ran
is "$rc" 1 "local:local_user_init: srun ends with 1"
like "$out" "megatron: $(printf "$said" local:local_user_init)" "local:local_user_init: and reports why"
unlike "$out" "^ran$" "local:local_user_init: nothing ran"
wait_until 60 eval '[ -z "$(squeue -h)" ]'
ok "local:local_user_init: the job is gone"
others local:local_user_init
for where in remote:init remote:init_post_opt remote:user_init remote:task_init; do
    plugstack fail=$where
    try as_user srun -N2 --ntasks-per-node=2 --megatron-tp=2 sleep 30
    [ "$rc" -ne 0 ]; ok "$where: the step fails"
    n1=$(grep -c "slurmstepd-n1: error: megatron: $(printf "$said" $where)" <<<"$out")
    n2=$(grep -c "slurmstepd-n2: error: megatron: $(printf "$said" $where)" <<<"$out")
    # Newer Slurm prints the time instead of the node.
    timed=$(grep -cE "^\[[0-9T:.-]+\] error: megatron: $(printf "$said" $where)" <<<"$out")
    # A node whose task is ended before it could report prints nothing.
    [ $((n1 + n2 + timed)) -ge 1 ] && [ $n1 -le 1 ] && [ $n2 -le 1 ] && [ $((n1 + n2 + timed)) -le 2 ]
    ok "$where: one line from a node" || diag "$out"
    try_batch as_user -N2 --ntasks-per-node=2 --megatron-tp=2 --wrap 'echo the script runs; srun true; echo "srun: $?"'
    like "$out" "^the script runs$" "$where: a batch script is not affected"
    like "$out" "^srun: [1-9]" "$where: its step fails"
    others $where
    nodes_well "$where: no node is drained"
done
plugstack fail=remote:exit
try as_user srun -n2 --megatron-tp=2 echo ran
is "$rc" 0 "remote:exit: too late to fail the step"
is "$(grep -c '^ran$' <<<"$out")" 2 "remote:exit: it ran"
plugstack fail=local:exit
try as_user srun -n2 --megatron-tp=2 echo ran
is "$rc" 0 "local:exit: too late to fail srun"
plugstack fail=allocator:exit
try as_user sbatch -W -N1 -n1 -o /dev/null --megatron-tp=1 --wrap true
is "$rc" 0 "allocator:exit: too late to fail sbatch"
plugstack fail=slurmd:init
"$top/tools/cluster" kill-node n2 && "$top/tools/cluster" start-node n2
wait_until 60 grep -q "megatron: $(printf "$said" slurmd:init)" "$MEGATRON_CLUSTER/log/n2"
ok "slurmd:init: slurmd logs why" || diag "$(tail -n 20 "$MEGATRON_CLUSTER/log/n2")"
wait_until 60 eval '[ "$(sinfo -h -n n2 -o %T)" = idle ]'
ok "slurmd:init: and runs on"
plugstack
try as_user srun -w n2 -n2 --megatron-tp=2 echo ran
is "$(grep -c '^ran$' <<<"$out")" 2 "slurmd:init: steps find out for themselves"
exported=$(ls "$MEGATRON_CLUSTER"/run/megatron/n2-*.topology)
ln "$exported" "$exported.before"
"$top/tools/cluster" kill-node n2 && "$top/tools/cluster" start-node n2
wait_until 60 eval '[ ! "$exported" -ef "$exported.before" ]'
ok "slurmd discovers the node at each start: a driver may have been loaded since"
rm "$exported.before"
wait_until 60 eval '[ "$(sinfo -h -n n2 -o %T)" = idle ]'
ok "and the node is back"

# --- arguments --------------------------------------------------------------------------------------
for argument in tipi=2 topology=relative.xml bind=sideways ports=1 off=noses; do
    plugstack $argument
    for client in "srun -n2" "salloc -n2"; do
        try as_user $client --megatron-tp=2 true
        [ "$rc" -ne 0 ]; ok "$argument: ${client%% *} with an option fails"
        like "$out" "megatron: plugstack.conf: .*${argument%%=*}" "$argument: and names it"
    done
    others "$argument"
done
plugstack tp=2 model=gpt2-345m show
try as_user srun -n2 --megatron-pp=1 bash -c 'echo $MEGATRON_TP $MEGATRON_MODEL'
is "$(grep -c '^2 gpt2-345m$' <<<"$out")" 2 "defaults of the administrator"
like "$out" "^n1: task 1 rank 1" "also of switches"
try as_user srun -n2 --megatron-tp=1 --megatron-show=no bash -c 'echo $MEGATRON_TP'
is "$out" $'1\n1' "which the user overrides"
others "defaults"
plugstack always=yes
try as_user srun -n2 bash -c 'echo $MEGATRON_RANK'
is "$(sort <<<"$out")" $'0\n1' "always=yes: every step has the contract"
try as_user srun -n2 --megatron-off bash -c 'echo x$MEGATRON_RANK'
is "$out" $'x\nx' "except with --megatron-off"
plugstack off
try as_user srun -n2 --megatron-tp=3 bash -c 'echo x$MEGATRON_RANK'
is "$rc" 0 "off: options have no effect"
like "$out" "megatron: warning: the plugin is switched off in plugstack.conf" "off: and it is reported"
plugstack off=checks
try as_user srun -n3 --megatron-tp=2 true
is "$rc" 0 "off=checks"
plugstack off=rendezvous
try as_user srun -n1 --megatron-tp=1 bash -c 'env | grep -c MASTER_; true'
is "$out" 0 "off=rendezvous"
plugstack off=bind
try as_user srun -n2 --megatron-show true
is "$(grep -c 'CPUs [0-9,-]* (left alone)' <<<"$out")" 2 "off=bind"

# --- versions, topology, values that reach a node unchecked ------------------------------------------
plugstack client-version=0.0.9
try as_user srun -w n1 -n2 --megatron-tp=2 echo ran
is "$rc" 0 "another version in srun is not a failure"
like "$out" "megatron: n1: warning: plugin version 0.0.9 \(for Slurm [0-9.]+\) on the submit host, [0-9.]+ \(for Slurm [0-9.]+\) here" "but a warning is printed"
is "$(grep -c 'warning: plugin version' <<<"$out")" 1 "once for a node"
plugstack topology=/nonexistent.xml run=/nonexistent/run
try as_user srun -w n1 -n2 --megatron-tp=2 echo ran
like "$out" "megatron: n1: .*/nonexistent.xml" "a topology that is not there fails the step"
unlike "$out" "^ran$" "and only that"
others "topology"
# A client without our checks: the node must handle any value.
plugstack
for value in "" 0 -1 99999999999999999999 1e3 $'\x01' "$(head -c 3000 /dev/zero | tr '\0' 9)"; do
    plugin=$(awk '{print $2}' "$conf")
    try as_user env SLURM_SPANK__SLURM_SPANK_OPTION_spank_megatron_megatron_tp="$value" srun -n1 true
    [ "$rc" -ne 0 ] || [ -z "$value" ]
    ok "an inherited value of ${#value} bytes is refused" || diag "$out"
done
nodes_well "no node is drained"
done_testing
