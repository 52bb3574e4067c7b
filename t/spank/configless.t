#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Other kinds of clusters: configless nodes (slurmd --conf-server), Slurm without task plugins (as on
# SageMaker HyperPod), and lines in plugstack.conf that cannot work.
. "$(dirname "$0")/common.sh"
cluster_up --nodes 2 --configless
conf=$MEGATRON_CLUSTER/etc/plugstack.conf
line=$(cat "$conf")
show=(srun -N2 --ntasks-per-node=1 --megatron-show true)

# plugstack WORDS: replace plugstack.conf and have the nodes fetch it.
plugstack() {
    printf '%s\n' "$@" >"$conf"
    in_cluster scontrol reconfigure
    wait_until 60 eval "cmp -s '$conf' '$MEGATRON_CLUSTER/spool/n1/conf-cache/plugstack.conf' && cmp -s '$conf' '$MEGATRON_CLUSTER/spool/n2/conf-cache/plugstack.conf'"
}

try as_user "${show[@]}"
is "$rc $(grep -c ': task 0 rank' <<<"$out")" "0 2" "configless: the plugin's own line reaches both nodes" || diag "$out"
mkdir "$MEGATRON_CLUSTER/etc/plugstack.conf.d"
echo "$line" >"$MEGATRON_CLUSTER/etc/plugstack.conf.d/megatron.conf"
plugstack "include $MEGATRON_CLUSTER/etc/plugstack.conf.d/*.conf"
try as_user "${show[@]}"
is "$rc $(grep -c ': task 0 rank' <<<"$out")" "0 2" "an absolute include works if the nodes have the file" || diag "$out"

# A missing plugin.
missing=${line/spank_megatron.so/missing.so}
plugstack "$missing"
try as_user srun -N2 hostname
is "$rc $(grep -cx 'n[12]' <<<"$out")" "0 2" "an optional plugin that is missing: jobs run" || diag "$out"

# Two copies of the plugin: the first one is used.
cp "$MEGATRON_INST/lib/slurm/spank_megatron.so" "$MEGATRON_CLUSTER/tmp/second.so"
plugstack "$line" "${line/optional */required $MEGATRON_CLUSTER/tmp/second.so}"
try as_user "${show[@]}"
is "$rc $(grep -c ': task 0 rank' <<<"$out")" "0 2" "two copies of the plugin: jobs run" || diag "$out"
is "$(grep -c "loads two copies of the plugin, .*spank_megatron.so and .*second.so; only the first is used" <<<"$out")" 1 \
    "  and one line names them" || diag "$out"
unlike "$out" "provided by both" "  and Slurm has nothing to say"

# Two lines that name one file.
ln -s "$MEGATRON_INST/lib/slurm/spank_megatron.so" "$MEGATRON_CLUSTER/tmp/link.so"
plugstack "$line" "${line/optional */optional $MEGATRON_CLUSTER/tmp/link.so nonsense=1}"
try as_user "${show[@]}"
is "$rc $(grep -c ': task 0 rank' <<<"$out")" "0 2" "two lines for one file, through a link: each task is placed once" || diag "$out"
is "$(grep -c "loads the plugin .*spank_megatron.so twice; only the first line is used" <<<"$out")" 1 "  and one line reports it" ||
    diag "$out"
unlike "$out" "provided by both" "  and Slurm has nothing to say"
unlike "$out $(cat "$MEGATRON_CLUSTER"/log/n?)" nonsense "  and the arguments of the second line are not read"
plugstack "$line"
try as_user "${show[@]}"
is "$rc $(grep -c ': task 0 rank' <<<"$out")" "0 2" "and everything works again without it" || diag "$out"

# Last, as slurmd of newer Slurm does not survive it.
printf '%s\n' "${missing/optional/required}" >"$conf"
try as_user srun -N2 hostname
[ "$rc" -ne 0 ]; ok "a required plugin that is missing: jobs fail" || diag "$out"
like "$out" "missing.so" "and Slurm names it"

# Without munge.
plugins=$(in_cluster scontrol show config | sed -n 's/^PluginDir *= *//p')
cluster_down
if [ -f "$plugins/auth_slurm.so" ]; then
    cluster_up --nodes 2 --gpus 0 --configless --auth slurm
    try as_user sbatch --wait -N2 --ntasks-per-node=1 -o "$MEGATRON_CLUSTER/home/out" --wrap 'srun --megatron-show id -un'
    is "$rc $(grep -c ': task 0 rank' "$MEGATRON_CLUSTER/home/out") $(grep -cx ada "$MEGATRON_CLUSTER/home/out")" "0 2 2" \
        "auth/slurm, configless: a job runs without munge" || diag "$out $(cat "$MEGATRON_CLUSTER/home/out")"
    cluster_down
else
    skip "auth/slurm, configless: a job runs without munge" "this Slurm has no auth/slurm (23.11 or later has)"
fi

# Without task/affinity the plugin binds by itself.
cluster_up --nodes 1 --gpus 0 --conf TaskPlugin=task/none
try as_user srun -n4 -c2 --megatron-bind=core bash -c 'echo "$SLURM_LOCALID cpus=$MEGATRON_CPUS"'
is "$rc $(grep -o 'cpus=[0-9]\+-[0-9]\+' <<<"$out" | sort -u | wc -l)" "0 4" "task/none: each task has cores of its own" || diag "$out"
cluster_down
cluster_up --nodes 1 --gpus 0 --real --conf TaskPlugin=task/none
allowed=$(as_user srun -n2 --megatron-bind=core sh -c 'grep Cpus_allowed_list /proc/self/status' | sort -u | wc -l)
is "$allowed" "$([ "$(nproc)" -gt 1 ] && echo 2 || echo 1)" "and is bound to them"

# A pod that may use one of the machine's CPUs, though /sys shows all of them: its tasks are placed on that one.
pod=/sys/fs/cgroup/cpuset/${MEGATRON_CLUSTER##*/}-pod
if [ "$(nproc)" -gt 1 ] && mkdir "$pod" 2>/dev/null; then
    cat /sys/fs/cgroup/cpuset/cpuset.mems >"$pod/cpuset.mems"
    taskset -cp $$ | sed 's/.*[:,-] *//' >"$pod/cpuset.cpus"
    for thread in /proc/"$(pgrep -f "slurmd -D -N n1 -f $SLURM_CONF" | head -n 1)"/task/*; do echo "${thread##*/}" >"$pod/tasks"; done
    try as_user srun -n2 -O --megatron-bind=core sh -c 'echo "$MEGATRON_CPUS $(sed -n "s/^Cpus_allowed_list:[^0-9]*//p" /proc/self/status)"'
    usable=$(cat "$pod/cpuset.cpus")
    is "$(sort -u <<<"$out")" "$usable $usable" "a pod with one CPU: tasks are placed by what they may use" || diag "$out"
    cluster_down
    wait_until 60 rmdir "$pod"
else
    skip "a pod with one CPU: tasks are placed by what they may use" "one CPU, or no cpuset of cgroup v1"
fi
done_testing
