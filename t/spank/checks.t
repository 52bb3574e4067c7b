#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Requests that cannot work are rejected as early as possible, in one line with the remedy.
. "$(dirname "$0")/common.sh"
cluster_up --nodes 2 --gpus 4

# refused NAME REGEX COMMAND...: nothing is queued, rc is not 0, our line is there once.
refused() {
    local name=$1 regex=$2
    shift 2
    try as_user "$@"
    [ "$rc" -ne 0 ] && [ "$(grep -c 'error: megatron: ' <<<"$out")" = 1 ] &&
        grep -qE "error: megatron: .*$regex" <<<"$out" && ! grep -qE 'Submitted|Granted|allocated' <<<"$out"
    ok "$name" || diag "rc $rc: $out"
}

plain=$(batch plain <<'EOT'
#!/bin/bash
#SBATCH -n 6
#SBATCH --gres=gpu:2 -N 2
srun true
EOT
)
layout=$(batch layout <<'EOT'
#!/bin/bash
#SBATCH -n 6 --megatron-tp=4
srun true
EOT
)
het=$(batch het <<'EOT'
#!/bin/bash
#SBATCH -n 2 --megatron-tp=4
#SBATCH hetjob
#SBATCH -n 3
srun true
EOT
)

het_later=$(batch het_later <<'EOT'
#!/bin/bash
#SBATCH -n 2 --megatron-pp=2
#SBATCH hetjob
#SBATCH -n 2 --megatron-tp=2
srun true
EOT
)

# --- the arguments of a job script of ours -------------------------------------------------------
ours=("$top/sbatch/train.sbatch" --mock-data)
refused "an unknown model after our script's name" "did you mean llama3-8b" sbatch -n2 "${ours[@]}" --megatron-model llama3-8
refused "a model that the layout does not divide" "does not divide the 32 attention heads" \
    sbatch -N1 -n3 --megatron-tp=3 "${ours[@]}" --megatron-model=7.5B
refused "  which replaces the option" "does not divide the 32 attention heads" \
    sbatch -N1 -n3 --megatron-tp=3 --megatron-model=gpt2-345m "${ours[@]}" --megatron-model=7.5B

# --- values ---------------------------------------------------------------------------------------
nothing=$(printf '#!/bin/sh\ntrue\n' | batch nothing)
for client in "srun -n2" "sbatch -n2" "salloc -n2"; do
    name=${client%% *}
    command=$([ $name = sbatch ] && echo "$nothing" || echo true)
    refused "$name: a value that is not a number" "--megatron-tp=two is not a whole number" $client --megatron-tp=two "$command"
    refused "$name: out of range" "--megatron-pp=0 " $client --megatron-pp=0 "$command"
    refused "$name: an unknown model" "did you mean llama3-8b" $client --megatron-model=llama3-8 "$command"
    refused "$name: an unknown policy" "--megatron-bind=gpus" $client --megatron-bind=gpus "$command"
    refused "$name: a switch with another word" "--megatron-show=maybe: use yes or no" $client --megatron-show=maybe "$command"
    refused "$name: the layout does not divide the tasks" \
        "--megatron-tp=3 does not divide 2 tasks; use 3 tasks" $client --megatron-tp=3 "$command"
    refused "$name: the model cannot be divided so" \
        "--megatron-tp=5 does not divide the 32 attention heads of 7.5B; use 1, 2, 4, 8, 16 or 32" \
        $client --megatron-tp=5 --megatron-model=7.5B "$command"
    refused "$name: nor its layers" "--megatron-pp=7 does not divide the 36 layers" \
        $client --megatron-pp=7 --megatron-model=7.5B "$command"
    refused "$name: nor its query groups" "query groups" $client --megatron-tp=16 --megatron-model=llama2-70b "$command"
done
long=$(head -c 20000 /dev/zero | tr '\0' x)
refused "a value of 20,000 bytes" "longer than 4095 bytes" srun -n1 --megatron-nics="$long" true
refused "a value with a line's end" "control character" srun -n1 --megatron-bind=$'core\nx' true

# --- an image in a script ---------------------------------------------------------------------------
cut=$(batch cut <<'EOT'
#!/bin/bash
#SBATCH --megatron-image=docker://nvcr.io#nvidia/pytorch:25.01-py3
true
EOT
)
quoted=$(batch quoted <<'EOT'
#!/bin/bash
#SBATCH --megatron-image="docker://nvcr.io#nvidia/pytorch:25.01-py3" --megatron-check
true
EOT
)
refused "#SBATCH: an unquoted # in an image, which sbatch would cut" \
    "--megatron-image in the script: sbatch ignores .* an unquoted #; put the image in quotes in #SBATCH lines" sbatch "$cut"
try as_user sbatch --megatron-image=docker://nvcr.io#nvidia/pytorch --megatron-check "$cut"
is "$rc" 0 "unless the command line has another image" || diag "$out"
cut_too=$(sed '2a #SBATCH --megatron-mounts=/tmp#1:/mnt' "$cut" | batch cut_too)
refused "also if another option is cut, too, and has another value on the command line" \
    "--megatron-image in the script: .* put the image in quotes" sbatch --megatron-mounts=/tmp:/mnt "$cut_too"
comment=$(printf '#!/bin/sh\n#SBATCH --megatron-show --comment=ticket#12\ntrue\n' | batch comment)
try as_user sbatch -H "$comment"
is "$rc" 0 "or if another option is cut" || diag "$out"
try as_user sbatch "$quoted"
is "$rc" 0 "an image in quotes" || diag "$out"
like "$out" "nvcr.io#nvidia/pytorch:25.01-py3" "is the whole image"

# --- counts: command line, variables, script ------------------------------------------------------
refused "srun -N" "does not divide 2 tasks" srun -N2 --megatron-tp=4 true
refused "srun --ntasks-per-node" "does not divide 6 tasks" srun -N2 --ntasks-per-node=3 --megatron-tp=4 true
refused "SLURM_NTASKS" "does not divide 6 tasks" env SLURM_NTASKS=6 srun --megatron-tp=4 true
refused "more than a node's GPUs" "--megatron-tp=4 is more than the 2 GPUs of a node" \
    srun -n8 -N2 --gres=gpu:2 --megatron-tp=4 true
refused "SBATCH_GPUS_PER_NODE" "is more than the 2 GPUs of a node" \
    env SBATCH_GPUS_PER_NODE=2 sbatch --megatron-tp=4 --wrap true
refused "SALLOC_GRES" "is more than the 2 GPUs of a node" env SALLOC_GRES=gpu:2 salloc --megatron-tp=4 true
refused "more tasks than GPUs" "4 tasks per node are more than the 2 GPUs of a node; use 2 tasks per node, or --megatron-bind" \
    srun -n8 -N2 --gres=gpu:2 --megatron-tp=2 true
try as_user srun -n4 -N1 --gres=gpu:2 --megatron-tp=2 --megatron-bind=core true
is "$rc" 0 "unless a policy allows it"
refused "GPUs enough, but a group would need tasks of another node" \
    "--megatron-tp=4 is more than the 2 tasks per node; use 1 or 2, or 4 tasks per node" \
    srun -N2 --ntasks-per-node=2 --gpus-per-node=4 --megatron-tp=4 true
try as_user srun -N2 --ntasks-per-node=1 --gpus-per-node=4 --megatron-tp=2 true
is "$rc" 0 "one task may drive all GPUs of its node"
refused "#SBATCH counts, layout on the command line" "does not divide 6 tasks" sbatch --megatron-tp=4 "$plain"
refused "#SBATCH GPUs" "more than the 2 GPUs" sbatch --megatron-tp=3 "$plain"
refused "#SBATCH layout" "does not divide 6 tasks" sbatch "$layout"
refused "#SBATCH layout, counts on the command line" "does not divide 10 tasks" sbatch -n10 "$layout"
refused "a het job, all components together" "does not divide 5 tasks" sbatch "$het"
refused "srun, a het job" "does not divide 5 tasks" srun -n2 --megatron-tp=4 true : -n3 true
unequal="-N1 -n2 --gpus-per-node=2 --megatron-tp=2"
for first in "sbatch -H $unequal : -N1 -n4 --gpus-per-node=4 --wrap true" "srun $unequal true : -N1 -n4 --gpus-per-node=4 true" \
    "salloc $unequal : -N1 -n4 --gpus-per-node=4 true"; do
    try as_user $first
    is "$rc" 0 "${first%% *}: components of a het job with nodes of different size" || diag "$out"
done
refused "which are checked one by one" "8 tasks per node are more than the 4 GPUs of a node" \
    sbatch $unequal : -N1 -n8 --gpus-per-node=4 --wrap true
try as_user srun $unequal --megatron-check true : -N1 -n4 --gpus-per-node=4 true
like "$out" "2 nodes, 6 tasks, component 0: 2 tasks per node, 2 GPUs per node, component 1: 4 tasks per node, 4 GPUs per node" \
    "--megatron-check prints each"
refused "sbatch, a het job: options of a later component, which Slurm would drop" \
    "sbatch ignores --megatron-tp in a later component of a heterogeneous job; give --megatron options in the first component" \
    sbatch "$het_later"
refused "also if the first one has none" "sbatch ignores --megatron-tp in a later component" \
    sbatch -n2 : -n2 --megatron-tp=2 --wrap true
refused "also --megatron-off" "sbatch ignores --megatron-off in a later component" \
    sbatch -n2 --megatron-tp=2 : -n2 --megatron-off --wrap true
refused "also with --megatron-check" "sbatch ignores --megatron-tp in a later component" sbatch --megatron-check "$het_later"
try as_user sbatch -H -n2 --megatron-tp=2 : -n2 --megatron-tp=2 --wrap true
is "$rc" 0 "unless the first one has the same" || diag "$out"
het_none=$(printf '#!/bin/sh\n#SBATCH -n 4\n#SBATCH hetjob\n#SBATCH -n 4\ntrue\n' | batch het_none)
for twice in "--megatron-tp=2 --megatron-tp=4" "--megatron-show --megatron-show=no"; do
    try as_user sbatch -H $twice "$het_none"
    is "$rc" 0 "  or the option is given twice on the command line: $twice" || diag "$out"
done
refused "  but not if its last value differs" "sbatch ignores --megatron-tp in a later component" \
    sbatch -n2 --megatron-tp=2 : -n2 --megatron-tp=2 --megatron-tp=1 --wrap true
for first in "srun -n2 --megatron-tp=4 --megatron-check true" "salloc -n2 --megatron-tp=4 --megatron-check"; do
    try as_user $first : -n3 --megatron-tp=5 true
    is "$rc $(grep -c 'layout *tp 5 x' <<<"$out")" "0 1" "${first%% *}: --megatron-check prints what the last component asks for" || diag "$out"
done
try as_user salloc -n2 --megatron-tp=2 --megatron-check true : -n3
is "$rc $(grep -c 'layout *tp 2 x cp 1 x dp 1 x' <<<"$out")" "0 1" "a colon among the arguments of salloc's command is its own" || diag "$out"
try as_user sbatch -n8 --megatron-tp=4 "$layout"
is "$rc" 0 "counts that fit are taken"
try as_user sh -c "sbatch --megatron-tp=4 --parsable < $plain"
is "$rc" 0 "a script from a pipe is Slurm's alone"
scancel -u ada 2>/dev/null
scancel --state=PENDING 2>/dev/null

# --- words that only look like counts --------------------------------------------------------------
try as_user srun -n2 --megatron-tp=2 echo -n 3
is "$rc $out" "0 33" "options of the command are not ours"
try as_user srun -n2 -J -n3 --megatron-tp=2 true
is "$rc" 0 "nor values of other options"

# --- known on the node only -------------------------------------------------------------------------
# Without a driver the GPUs are unknown, but their number is known.
try as_user srun -n4 -N1 --gres=gpu:4 --megatron-tp=4 true
is "$rc" 0 "GPUs that only Slurm knows are counted"
printf 'n1\nn1\nn1\nn2\n' >"$MEGATRON_CLUSTER/home/hosts"
try as_user env SLURM_HOSTFILE="$MEGATRON_CLUSTER/home/hosts" srun -n4 -m arbitrary --megatron-tp=2 sleep 30
[ "$rc" -ne 0 ]; ok "a node with 3 tasks and tp 2"
is "$(grep -c 'megatron: n1: --megatron-tp=2 does not divide 3 tasks per node; use 1 or 3, or sbatch --ntasks-per-node with a multiple of 2$' <<<"$out")" 1 "one line for the failing node"
is "$(grep -c 'spank' <<<"$out")" 0 "and none of Slurm's about the plugin"
try as_user srun -N2 --ntasks-per-node=4 --gpus-per-node=4 --distribution=cyclic --megatron-tp=4 sleep 30
[ "$rc" -ne 0 ]; ok "groups that --distribution tears apart"
is "$(grep -c 'megatron: n1: only 2 of the 4 ranks in the tensor-parallel group of rank 0 run on this node; use --distribution=block' <<<"$out")" 1 "one line with the remedy"
try as_user srun -N2 --ntasks-per-node=4 --gpus-per-node=4 --distribution=cyclic --megatron-tp=1 true
is "$rc" 0 "without groups any distribution will do"
try as_user srun -N2 --ntasks-per-node=4 --distribution=cyclic --megatron-tp=4 true
is "$rc" 0 "so it will without GPUs"
nodes_well "no node is drained"
done_testing
