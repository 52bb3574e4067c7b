#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every option, from srun, sbatch, salloc, and sbatch with srun inside.
. "$(dirname "$0")/common.sh"
cluster_up --nodes 2 --gpus 4
contract='env | grep -E "^(MEGATRON_(TP|PP|CP|DP|MODEL|RANK|WORLD_SIZE|CONTRACT|CPUS)|MASTER_ADDR)=" | sort | xargs'

# --- srun: values reach the tasks ---------------------------------------------------------------
for who in in_cluster as_user; do
    try $who srun -N2 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2 --megatron-cp=1 --megatron-model=7.5B \
        bash -c "[ \$SLURM_PROCID = 3 ] && $contract; true"
    is "$rc" 0 "$who: srun with four options"
    like "$out" "MASTER_ADDR=127.0.0.1 MEGATRON_CONTRACT=1 MEGATRON_CP=1 MEGATRON_CPUS=[0-9]+ MEGATRON_DP=1 MEGATRON_MODEL=7.5B MEGATRON_PP=2 MEGATRON_RANK=3 MEGATRON_TP=2 MEGATRON_WORLD_SIZE=4" \
        "$who: the contract is in the environment"
done
try as_user srun -n2 bash -c "$contract"
unlike "$out" "MEGATRON_(TP|RANK|CONTRACT)|MASTER" "without an option nothing is set"
try as_user srun -n2 --megatron-tp=2 --megatron-tp=1 bash -c 'echo tp=$MEGATRON_TP'
is "$out" $'tp=1\ntp=1' "the last value wins"
try as_user srun -n2 --megatron-tp=zero --megatron-tp=1 true
is "$rc" 0 "and hides a bad one before it"
for policy in auto none numa core 0-3 0/4; do
    try as_user srun -n2 -N1 --megatron-bind=$policy true
    is "$rc" 0 "--megatron-bind=$policy"
done
try as_user srun -N1 -n2 --megatron-bind=0-7/0-7 true
is "$rc $(grep -c 'megatron: n[12]: some CPUs listed for task [01] are not allocated to this step and are ignored; list only allocated CPUs' <<<"$out")" "0 2" \
    "--megatron-bind with CPUs that the step has not says so" || diag "$out"
try as_user srun -N1 -n2 --exclusive -c4 --megatron-bind=0-7/0-7 true
is "$rc $out" "0 " "and nothing if it has them"
try as_user srun -N1 -n2 --megatron-bind=0-999 true
is "$rc $(grep -c 'megatron: n[12]: .*some of the CPUs 0-999 are not allocated to this step and are ignored; list only allocated CPUs' <<<"$out")" "0 1" \
    "--megatron-bind with one list says so, too" || diag "$out"
for policy in auto none all; do
    try as_user srun -n2 --megatron-nics=$policy true
    is "$rc $out" "0 " "--megatron-nics=$policy"
done
try as_user srun -n2 --megatron-nics=mlx5_9 true
like "$out" "mlx5_9" "--megatron-nics with a NIC that does not exist is rejected by the node"
[ "$rc" -ne 0 ]; ok "and the step fails"
try as_user srun -N2 --ntasks-per-node=2 --megatron-show true
is "$(grep -cE '^n[12]: task [01] rank [0-3] GPU - NICs - CPUs [0-9,-]+ NUMA 0$' <<<"$out")" 4 \
    "--megatron-show: a line for every task"
is "$(grep -cE '^n[12]: megatron [0-9.]+ for Slurm [0-9.]+, 2 tasks, rendezvous at .* on n1$' <<<"$out")" 2 \
    "and one for every node"
try as_user srun -n1 --megatron-show sh -c 'echo the task >&2'
is "$(tail -n 1 <<<"$out")" "the task" "before the tasks start"
like "$out" ', 1 task, rendezvous' "a single one is not \"1 tasks\""
try as_user srun -n2 --megatron-verbose --cpu-bind=none true
like "$out" "megatron: n[12]: CPUs are bound as --cpu-bind or --hint asks" "--megatron-verbose reports what is not changed"
try as_user srun -n2 --megatron-verbose --megatron-tp=1 env MEGATRON_X=1 true
is "$rc" 0 "--megatron-verbose with nothing to say"
try as_user env MASTER_PORT=1234 MEGATRON_TP=7 NCCL_IB_HCA=mine srun -n2 --megatron-tp=2 --megatron-verbose \
    bash -c 'echo $MASTER_PORT $MEGATRON_MASTER_PORT $MEGATRON_TP $NCCL_IB_HCA'
like "$out" "^1234 1234 7 mine$" "variables that the user exported are kept"
like "$out" "warning: variables of the job override the options that were checked: MEGATRON_TP.*; unset them" "with a warning"
try as_user env MEGATRON_TP=7 srun -N2 -n2 --megatron-tp=2 true
is "$(grep -c 'megatron: n1: warning: variables of the job override the options that were checked: MEGATRON_TP; unset them' <<<"$out")" 1 \
    "once, also where nobody asked, since the layout was checked" || diag "$out"
try as_user env MASTER_PORT=1234 NCCL_IB_HCA=mine srun -n2 --megatron-tp=2 true
is "$out" "" "which other variables are not"
try as_user env NCCL_IB_HCA=mine MASTER_PORT=1234 srun -n2 --megatron-tp=2 --megatron-verbose true
unlike "$out" "unset them" "nor with --megatron-verbose"

# --- check, list, help --------------------------------------------------------------------------
try as_user srun -N2 -n8 --gres=gpu:4 --megatron-tp=4 --megatron-model=llama2-7b --megatron-check sleep 1
is "$rc" 0 "--megatron-check: rc 0"
like "$out" "layout +tp 4 x cp 1 x dp 2 x pp 1" "it prints the layout"
like "$out" "every task of a node has a GPU: ok" "and the checks"
like "$out" "environment +MEGATRON_DP=2" "and the environment"
is "$(tail -n 1 <<<"$out" | xargs)" "verdict ok: accepted" "and a verdict at the end"
unlike "$out" "stay idle" "and no idle GPUs"
like "$out" "^megatron [0-9.]+ for Slurm [0-9.]+: check only" "and the versions"
try as_user srun -N2 -n6 --megatron-tp=4 --megatron-check sleep 1
is "$rc" 1 "--megatron-check of a layout that cannot work: rc 1"
like "$out" "FAILED: --megatron-tp=4 does not divide 6 tasks; use 4 or 8 tasks" "and why"
like "$(tail -n 1 <<<"$out")" "^  verdict +rejected" "  with the verdict"
try as_user srun -N2 -n6 --gpus-per-node=4 --megatron-tp=1 --megatron-check sleep 1
like "$out" "note +2 of 8 GPUs stay idle" "idle GPUs of a placement are mentioned"
try as_user srun -N2 -n7 --gpus-per-node=4 --megatron-tp=1 --megatron-check sleep 1
like "$out" "note +1 of 8 GPUs stay idle" "  also of an uneven one"
try as_user sbatch --megatron-check --megatron-tp=2 -n4 --wrap true
is "$rc" 0 "sbatch --megatron-check"
like "$(tail -n 1 <<<"$out")" "^  verdict +accepted; [1-9] check" "  with what is not known yet"
is "$(grep -c '^  check .*: not known' <<<"$out")" "$(sed -n 's/^  verdict .*; \([0-9]*\) check.*/\1/p' <<<"$out")" "  as many checks as lines say so"
unlike "$out" "Submitted" "submits nothing"
try as_user salloc --megatron-check --megatron-tp=2 -n4 true
is "$rc" 0 "salloc --megatron-check"
unlike "$out" "Granted" "allocates nothing"
for client in "srun" "sbatch --wrap=true" "salloc"; do
    try as_user $client --megatron-model=list
    is "$rc" 0 "${client%% *} --megatron-model=list"
    is "$(grep -cE '^[A-Za-z0-9.-]+ +[0-9]+ layers' <<<"$out")" 51 "lists the presets"
    like "$out" '^Qwen 3$' "  grouped by family"
done
for client in srun sbatch salloc; do
    try as_user $client --help
    for name in tp pp cp model bind nics show check off verbose; do
        like "$out" "^ +--megatron-$name[=[]" "$client --help knows --megatron-$name"
    done
done

# --- sbatch, salloc, and the srun inside --------------------------------------------------------
script=$(batch inherit <<'EOT'
#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=2 --megatron-tp=2
#SBATCH --megatron-model=gpt2-345m
echo "script: $(env | grep -cE '^MEGATRON_(RANK|TP|CONTRACT|CPUS)|^MASTER_|^SLURM_SPANK_MEGATRON_(CLIENT|STEP)')"
taskset -pc $$ >/dev/null
echo "inherits $(srun bash -c 'echo $MEGATRON_TP-$MEGATRON_MODEL' | sort -u)"
echo "inner $(srun --megatron-tp=4 bash -c 'echo $MEGATRON_TP-$MEGATRON_MODEL' | sort -u)"
echo "off $(srun --megatron-off bash -c 'env | grep -cE "^MEGATRON_(RANK|TP)"' | sort -u)"
echo "again $(srun --megatron-off=no bash -c 'echo $MEGATRON_TP' | sort -u)"
srun -n3 -N1 true
echo "three tasks: $?"
EOT
)
try_batch as_user "$script"
like "$out" "^script: 0$" "the batch script itself gets nothing"
like "$out" "^inherits 2-gpt2-345m$" "#SBATCH lines: srun inside inherits"
like "$out" "^inner 4-gpt2-345m$" "inner srun over outer sbatch"
like "$out" "^off 0$" "--megatron-off: a step without any of it"
like "$out" "^again 2$" "--megatron-off=no"
like "$out" "does not divide 3 tasks; use 2 or 4 tasks" "srun inside checks its own counts"
like "$out" "does not divide 3 tasks.*sbatch.*--megatron-off" "  and says where the layout comes from"
like "$out" "^three tasks: 1$" "and fails alone"
try_batch as_user --megatron-tp=4 "$script"
like "$out" "^inherits 4-gpt2-345m$" "command line over script"
try_batch in_cluster --megatron-show -n2 --wrap 'srun true; srun --megatron-show=no true'
is "$(grep -c '^n1: task' <<<"$out")" 2 "a switch is inherited, and turned off inside"
try_batch as_user --megatron-off -n2 --wrap 'srun --megatron-tp=2 env; srun --megatron-off=no --megatron-tp=2 env'
is "$(grep -c '^MEGATRON_TP=2' <<<"$out")" 2 "--megatron-off of the job holds until it is taken back"
try as_user salloc -N2 --ntasks-per-node=2 --megatron-tp=2 srun bash -c 'echo tp=$MEGATRON_TP'
is "$(grep -c '^tp=2$' <<<"$out")" 4 "salloc: srun inside inherits"
try as_user salloc -n4 -N2 --megatron-tp=2 bash -c 'env | grep -c ^MEGATRON_TP'
like "$out" "^0$" "salloc's own command gets nothing"
try as_user salloc -n4 -N2 srun -n3 --megatron-tp=2 true
like "$out" "does not divide 3 tasks" "srun within salloc"
unlike "$out" "megatron-off" "  whose own layout is not said to be another's"
# A rejected step must not keep the job's resources: nobody could end it.
try as_user salloc -n4 -N2 bash -c 'srun --megatron-tp=3 echo ran; echo "refused: $?"
    timeout 120 srun -n4 --immediate=100 hostname; echo "next: $?"'
is "$(grep -c 'does not divide 4 tasks' <<<"$out")" 1 "an srun that is rejected within a job reports it once"
unlike "$out" "^ran$" "and runs nothing"
like "$out" "^refused: 1$" "and ends with 1"
like "$out" "^next: 0$" "and the next one has the job's CPUs" || diag "$out"
job=$("$top/tools/cluster" run --user salloc -n4 -N1 --no-shell 2>&1 | sed -n 's/.*job allocation //p')
try as_user srun --jobid="$job" --megatron-tp=3 echo ran
is "$rc" 1 "srun --jobid is rejected, too"
try as_user timeout 120 srun --jobid="$job" -n4 --immediate=100 echo ran
is "$rc" 0 "and leaves the job as it was" || diag "$out"
in_cluster scancel "$job"
try as_user salloc -n3 -N1 srun --megatron-tp=2 true
like "$out" "does not divide 3 tasks" "what only the allocation shows is checked inside it"
nodes_well "no node is drained"

# --- srun within a step --------------------------------------------------------------------------
try as_user srun -n1 -N1 --megatron-tp=1 bash -c 'srun --overlap -n1 --megatron-tp=1 --export=ALL,MEGATRON_NICS= \
    bash -c "echo inner \$MEGATRON_RANK \$MEGATRON_WORLD_SIZE \$MASTER_PORT"; echo outer $MASTER_PORT;
    srun --overlap -n1 bash -c "env | grep -cE \"^MEGATRON_(RANK|CPUS|EXPORTED)|^MASTER_\""'
inner=$(sed -n 's/^inner 0 1 //p' <<<"$out")
outer=$(sed -n 's/^outer //p' <<<"$out")
[ -n "$inner" ] && [ -n "$outer" ] && [ "$inner" != "$outer" ]
ok "a step within a step has its own contract" || diag "$out"
like "$out" "^0$" "and one that does not ask for it has none"
done_testing
