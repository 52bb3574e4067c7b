#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With task/cgroup: CPUs that were not granted cannot be used, and nothing outside the grant is
# assigned.
. "$(dirname "$0")/common.sh"
scratch=$(mktemp -d)
chmod 755 "$scratch"
cluster_up --cgroup --nodes 2 --gpus 4
trap 'cluster_down; rm -rf "$scratch"' EXIT
allowed='echo "$MEGATRON_LOCAL_RANK cpus=$MEGATRON_CPUS allowed=$(sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status) visible=$CUDA_VISIBLE_DEVICES step=$SLURM_STEP_GPUS"'
for who in as_user in_cluster; do
    try $who srun -N2 --ntasks-per-node=1 --megatron-tp=2 bash -c "$allowed"
    is "$rc" 0 "$who: a step under task/cgroup"
    is "$(sed -n 's/^0 cpus=\([0-9,-]*\) allowed=\1 .*/same/p' <<<"$out" | xargs)" "same same" "$who: bound as the contract says"
done
if [ "$(nproc)" -ge 2 ]; then
    try as_user srun -N1 -n1 -c1 --megatron-tp=1 bash -c "$allowed"
    is "$(sed -n 's/^0 cpus=\([0-9]*\) .*/one/p' <<<"$out")" one "one CPU granted, one given"
    try as_user srun -N1 -n2 -c1 --megatron-tp=2 bash -c "$allowed"
    is "$(sed -n 's/.* cpus=\([0-9]*\) allowed=\1 .*/\1/p' <<<"$out" | sort | xargs)" "0 1" "two tasks, one CPU each"
    try as_user srun -N1 -n1 -c2 --cpu-bind=map_cpu:1 --megatron-tp=1 bash -c "$allowed"
    like "$out" "^0 cpus=1 allowed=1 " "--cpu-bind wins"
    try as_user srun -N1 -n1 -c2 --cpu-bind=map_cpu:1 bash -c "$allowed"
    try as_user srun -N1 -n1 -c2 --megatron-bind=1 bash -c "$allowed"
    like "$out" "^0 cpus=1 allowed=1 " "--megatron-bind with a list"
else
    skip "tasks with fewer CPUs than the node has" "this machine has one CPU"
fi
try as_user srun -N1 -n1 --gres=gpu:1 --megatron-tp=1 bash -c 'for i in 0 1 2 3; do : </dev/nvidia$i && echo "open $i"; done 2>/dev/null; true'
unlike "$out" "open [123]" "GPUs that were not granted stay closed"

# Here a signal reaches every process of a step: the task that reports why it ends, and a task of a slow
# node that has not called the plugin yet.
conf=$MEGATRON_CLUSTER/etc/plugstack.conf
cp "$conf" "$scratch/plugstack.conf"
if cc -shared -fPIC ${MEGATRON_TEST_SLURM:+-I"$MEGATRON_TEST_SLURM/include"} -o "$scratch/late.so" "$top/t/spank/late.c" 2>"$scratch/errors"; then
    printf 'required %s n2 700\n%s\n' "$scratch/late.so" "$(cat "$scratch/plugstack.conf")" >"$conf"
else
    skip "one node starts later than the other" "cannot compile a plugin: $(head -n1 "$scratch/errors")"
fi
try as_user srun -N2 -n2 --overcommit --megatron-image=/nowhere.sqsh sleep 100
is "$rc" 1 "a step that fails on its nodes ends with 1, not with a signal" || diag "$out"
cp "$scratch/plugstack.conf" "$conf"

# The process that ends such a step on the other nodes outlives it, and must not keep Slurm from
# removing its cgroups.
cgroups_of_jobs() { xargs -I{} find {} -type d -name 'job_*' <"$MEGATRON_CLUSTER/run/cgroups"; }
wait_until 60 eval '[ -z "$(cgroups_of_jobs)" ]'
is "$(cgroups_of_jobs)" "" "and leaves no cgroup behind"

# Slurm counts GPUs from 0 in every task if it hides the others; the device files that can be opened
# are unambiguous.
fake_driver "$scratch/root" 3=0000:53:00.0 2=0000:64:00.0 1=0000:75:00.0 0=0000:86:00.0
chmod -R a+rX "$scratch"
cluster_down
cluster_up --cgroup --nodes 1 --gpus 4 --plugin-args "topology=$top/t/topologies/p5.48xlarge.xml sysroot=$scratch/root"
mine='echo "$MEGATRON_LOCAL_RANK gpu=$MEGATRON_GPU pci=$MEGATRON_GPU_PCI visible=$CUDA_VISIBLE_DEVICES"'
# Slurm 26.05 refuses -O here; it is needed on a machine with one CPU only.
try as_user srun -n2 $([ "$(nproc)" -gt 1 ] || echo -O) --gpus-per-task=1 --megatron-tp=2 bash -c "$mine"
is "$(sort <<<"$out")" "0 gpu=0 pci=0000:86:00.0 visible=0
1 gpu=0 pci=0000:75:00.0 visible=0" "--gpus-per-task: each task claims the GPU that it can open"
try as_user srun -n2 -O --gres=gpu:4 --gpu-bind=map_gpu:3,1 --megatron-tp=2 bash -c "$mine"
is "$(sort <<<"$out")" "0 gpu=0 pci=0000:53:00.0 visible=0
1 gpu=0 pci=0000:75:00.0 visible=0" "--gpu-bind=map_gpu: also"
try as_user srun -n2 -O --gres=gpu:3 --gpu-bind=none --megatron-bind=core bash -c "$mine"
# Newer Slurm lists the GPUs of the step also with --gpu-bind=none.
like "$out" "^0 gpu=[0-2,]+ pci=0000:.* visible=(0,1,2)?$" "--gpu-bind=none: those of the step are known"
unlike "$out" "0000:53:00.0" "--gpu-bind=none: and no other is claimed"
try as_user srun -n1 --gres=gpu:4 bash -c 'srun --overlap --gres=none --megatron-tp=1 bash -c "$1"' x "$mine"
unlike "$out" "pci=0000" "a step without GPUs in a job with some claims none"
try as_user srun -N1 -n1 --megatron-bind=64 true
[ "$rc" -ne 0 ]; ok "a CPU outside the grant is rejected"
like "$out" "megatron: n1: " "with a line that reports it"
nodes_well "no node is drained"
done_testing
