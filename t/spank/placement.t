#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ranks on nodes that look like a p5: 8 GPUs, 32 NICs, 192 CPUs, device files not in PCI order.
. "$(dirname "$0")/common.sh"
p5=$top/t/topologies/p5.48xlarge.xml
[ -f "$p5" ] || skip_all "$p5 is not there"
scratch=$(mktemp -d)
chmod 755 "$scratch"
fake_p5 "$scratch/root"
for nic in rdmap79s0 rdmap80s0; do
    mkdir -p "$scratch/root/sys/class/infiniband/$nic/device"
    ln -s ../../../bus/pci/drivers/efa "$scratch/root/sys/class/infiniband/$nic/device/driver"
done
cp "$p5" "$scratch/p5.xml"
cluster_up --nodes 2 --gpus 8 --topology "$p5" --plugin-args "topology=$scratch/p5.xml sysroot=$scratch/root"
trap 'cluster_down; rm -rf "$scratch"' EXIT
mine='echo "$MEGATRON_LOCAL_RANK gpu=$MEGATRON_GPU pci=$MEGATRON_GPU_PCI nics=$MEGATRON_NICS cpus=$MEGATRON_CPUS numa=$MEGATRON_NUMA visible=$CUDA_VISIBLE_DEVICES order=$CUDA_DEVICE_ORDER"'
p5_rows=(53:79-82:0 64:96-99:0 75:113-116:0 86:130-133:0 97:147-150:1 a8:164-167:1 b9:181-184:1 ca:198-201:1)

# nics 79-82: "rdmap79s0,rdmap80s0,..."
nics() { seq -f 'rdmap%gs0' -s , "${1%-*}" "${1#*-}"; }

# --- a whole node -----------------------------------------------------------------------------------
for who in as_user in_cluster; do
    try $who srun -N1 -n8 -c 24 --gres=gpu:8 --megatron-tp=8 bash -c "$mine"
    is "$rc" 0 "$who: 8 tasks on a p5"
    for i in {0..7}; do
        IFS=: read -r bus list numa <<<"${p5_rows[$i]}"
        like "$out" "^$i gpu=$i pci=0000:$bus:00.0 nics=$(nics "$list") cpus=[0-9,-]+ numa=$numa visible=0,1,2,3,4,5,6,7 order=PCI_BUS_ID$" \
            "$who: task $i has its GPU, the four NICs beside it, memory of its NUMA node"
    done
    is "$(sed -n 's/.*cpus=\([^ ]*\) .*/\1/p' <<<"$out" | sort -u | wc -l)" 8 "$who: their own CPUs"
    is "$(sed -n 's/^0 .*cpus=\([^ ]*\) .*/\1/p' <<<"$out")" "0-11,96-107" "$who: 12 cores with their threads"
done
try as_user srun -N2 --ntasks-per-node=4 -c 24 --gres=gpu:4 --megatron-tp=4 --megatron-show true
is "$(grep -c '^n[12]: task [0-3] rank [0-7] GPU [0-3] (0000:[0-9a-f:.]*) NICs rdmap\[[0-9]*-[0-9]*\]s0 CPUs [0-9,-]* NUMA [01]$' <<<"$out")" 8 \
    "--megatron-show on two nodes"
for node in n1 n2; do
    first=$(grep -n "^$node: megatron" <<<"$out" | cut -d: -f1)
    is "$(sed -n "$first,$((first + 4))p" <<<"$out" | grep -c "^$node: ")" 5 "the block of $node is in one piece"
done
unlike "$out" "cannot bind memory" "no word about memory unless asked"

if grep -q . /proc/self/numa_maps 2>/dev/null; then
    try as_user srun -N1 -n2 -c 96 --gres=gpu:8 --megatron-tp=2 bash -c '[ $SLURM_PROCID = 1 ] || grep -c " bind:0 " /proc/self/numa_maps'
    like "$out" "^[1-9][0-9]*$" "memory is bound to the NUMA node of the GPUs"
    try as_user srun -N1 -n2 -c 96 --gres=gpu:8 --megatron-tp=2 --mem-bind=none bash -c 'grep -c " bind:0 " /proc/self/numa_maps; true'
    is "$out" $'0\n0' "unless --mem-bind is given"
else
    skip "memory is bound to the NUMA node of the GPUs" "this kernel has no NUMA"
fi

# --- parts of a node --------------------------------------------------------------------------------
# Slurm's GPUs 0 and 1 are the last two in PCI order. Its list 0,1 could also mean the first two, so
# it is given by name.
try as_user srun -N1 -n2 --gres=gpu:2 --megatron-tp=2 bash -c "$mine"
like "$out" "^0 gpu=0 pci=0000:b9:00.0 nics=$(nics 181-184) .*visible=GPU-00000001-0.*,GPU-00000000-0" "two GPUs: the driver's word counts"
like "$out" "^1 gpu=1 pci=0000:ca:00.0 nics=$(nics 198-201)" "two GPUs: and the second"
try as_user srun -N1 -n2 -c 24 --gres=gpu:8 --megatron-tp=2 bash -c "$mine"
like "$out" "^0 gpu=0,1,2,3 pci=0000:53:00.0,0000:64:00.0,0000:75:00.0,0000:86:00.0 .* numa=0 " "fewer tasks than GPUs"
try as_user srun -N1 -n4 -c 4 --gres=gpu:2 --megatron-bind=core bash -c "$mine"
is "$rc" 0 "more tasks than GPUs with --megatron-bind=core"
is "$(grep -c 'pci=0000:b9:00.0 ' <<<"$out") $(grep -c 'pci=0000:ca:00.0 ' <<<"$out")" "2 2" "share them evenly"
try as_user srun -N1 -n4 -c 4 --gres=gpu:2 --megatron-bind=gpu bash -c "$mine"
like "$out" "4 tasks per node are more than the 2 GPUs" "which gpu does not allow"
try as_user srun -N1 -n2 -c 8 --megatron-tp=2 bash -c "$mine"
like "$out" "^1 gpu= pci= nics=rdmap.* visible= order=$" "no GPUs asked for: none given"
script=$(batch none <<EOT
#!/bin/bash
#SBATCH -N1 -n2 --gres=gpu:2 --megatron-tp=2
srun --gres=none bash -c '$mine'
EOT
)
try_batch as_user "$script"
like "$out" "^1 gpu= pci= " "a step without GPUs in a job with some: none given"

# --- binding and NIC policies -------------------------------------------------------------------
try as_user srun -N1 -n2 -c 4 --gpus-per-task=1 --megatron-tp=2 --megatron-verbose bash -c "$mine"
like "$out" "^0 gpu=0 pci=0000:ca:00.0 " "--gpus-per-task: Slurm's choice stays"
like "$out" "^1 gpu=0 pci=0000:b9:00.0 .* visible=6 " "--gpus-per-task: numbered as CUDA will"
like "$out" "GPUs are used as Slurm assigned them" "--gpus-per-task: and it is reported"
try as_user srun -N1 -n2 -c 4 --gres=gpu:8 --gpu-bind=map_gpu:4,2 --megatron-tp=2 bash -c "$mine"
like "$out" "^0 gpu=0 pci=0000:86:00.0 .* visible=3 " "--gpu-bind"
try as_user srun -N1 -n2 -c 96 --gres=gpu:8 --cpu-bind=map_cpu:5,60 --megatron-tp=2 bash -c "$mine"
like "$out" "^0 gpu=[0-9,]+ .* cpus=5 " "--cpu-bind: CPUs stay as they were bound"
like "$out" "^1 gpu=[0-9,]+ .* cpus=60 " "--cpu-bind: of each task"
script=$(batch bound <<EOT
#!/bin/bash
#SBATCH -N1 -n2 -c 96 --gres=gpu:8 --megatron-tp=2
SLURM_CPU_BIND=map_cpu:60,5 srun bash -c '$mine'
# Newer Slurm counts the 96 CPUs of a task as cores with this hint.
SLURM_HINT=nomultithread srun -c 48 --megatron-verbose true
EOT
)
try_batch as_user "$script"
like "$out" "^0 gpu=[0-9,]+ .* cpus=60 " "SLURM_CPU_BIND in a job: as the option"
like "$out" "^1 gpu=[0-9,]+ .* cpus=5 " "SLURM_CPU_BIND in a job: for each task"
like "$out" "n1: CPUs are bound as --cpu-bind or --hint asks" "SLURM_HINT in a job: also"
try as_user srun -N1 -n2 -c 4 --gres=gpu:2 --megatron-bind=none bash -c "$mine"
is "$(sed -n 's/.*cpus=\([^ ]*\) .*/\1/p' <<<"$out" | sort -u | wc -l)" 2 "--megatron-bind=none: CPUs as Slurm bound them"
try as_user srun -N1 -n2 -c 4 --gres=gpu:2 --megatron-nics=none bash -c "$mine"
like "$out" "^0 gpu=0 pci=0000:b9:00.0 nics= " "--megatron-nics=none"
try as_user srun -N1 -n2 -c 4 --gres=gpu:2 --megatron-nics=all bash -c "$mine"
is "$(sed -n 's/^0 .*nics=\([^ ]*\) .*/\1/p' <<<"$out" | tr , '\n' | wc -l)" 32 "--megatron-nics=all"
try as_user srun -N1 -n2 -c 4 --gres=gpu:2 --megatron-nics=rdmap79s0,rdmap181s0 bash -c "$mine"
like "$out" "^0 gpu=0 pci=0000:b9:00.0 nics=rdmap181s0 " "--megatron-nics with a list"
try as_user env CUDA_DEVICE_ORDER=FASTEST_FIRST srun -N1 -n2 --gres=gpu:2 --megatron-tp=2 bash -c "$mine"
like "$out" "visible=0,1 order=FASTEST_FIRST" "the user's order is kept, and so is Slurm's list"
try as_user srun -N2 -n2 --gres=gpu:8 --megatron-tp=1 bash -c 'echo $NCCL_SOCKET_IFNAME'
like "$out" "^\^docker,lo,veth$" "EFA: NCCL's sockets stay off docker's bridges"
like "$out" "^megatron: n1: warning: this node has 2 EFA devices, but no libfabric: NCCL will use TCP" "a silent fallback to TCP is reported"
like "$out" "^megatron: n1: warning: only [0-9]+ KiB of memory can be locked, too little for RDMA" "so is a small limit of locked memory"
is "$(grep -c '^megatron: n2' <<<"$out")" 0 "by one node for all"

# --- one discovery ----------------------------------------------------------------------------------
exported=$(ls "$MEGATRON_CLUSTER"/run/megatron/n1-*.topology)
devices=$scratch/root/sys/class/infiniband
is "$(stat -c '%U %a' "$exported")" "root 644" "slurmd leaves the topology to its steps"
mv "$scratch/p5.xml" "$scratch/away.xml"
try as_user srun -N1 -n1 --gres=gpu:1 --megatron-tp=1 bash -c "$mine"
like "$out" "^0 gpu=0 pci=0000:ca:00.0" "they do not look again"
mkdir -p "$devices/mlx5_late"
try as_user srun -w n1 -n1 --gres=gpu:1 --megatron-tp=1 true
like "$out" "p5.xml" "except if a NIC's driver was loaded after slurmd started"
ln -s ../here "$devices/mlx5_moved"
rmdir "$devices/mlx5_late"
try as_user srun -w n1 -n1 --gres=gpu:1 --megatron-tp=1 true
like "$out" "p5.xml" "or a NIC is called something else by now"
rm "$devices/mlx5_moved"
chown 65534 "$exported"
try as_user srun -w n1 -n1 --gres=gpu:1 --megatron-tp=1 true
like "$out" "p5.xml" "nor trust a file that is not root's"
chown 0 "$exported"
rm "$exported"
mv "$scratch/away.xml" "$scratch/p5.xml"
try as_user srun -w n1 -n1 --gres=gpu:1 --megatron-tp=1 bash -c "$mine"
like "$out" "^0 gpu=0 pci=0000:ca:00.0" "and discover the node themselves if there is none"
nodes_well "no node is drained"

# --- names of InfiniBand NICs -------------------------------------------------------------------------
# rdma-core renames mlx5_0 by its PCI address, as systemd does with network devices.
sed -E 's/"mlx5_([0-9])"/"ibp\13s0"/' "$top/t/topologies/hgx4.xml" >"$scratch/renamed.xml"
for row in "$top/t/topologies/hgx4.xml mlx5_[0-9]" "$scratch/renamed.xml ibp[0-9]3s0"; do
    read -r file name <<<"$row"
    cluster_down
    cluster_up --nodes 1 --topology "$file"
    trap 'cluster_down; rm -rf "$scratch"' EXIT
    try as_user srun -n2 --megatron-tp=2 bash -c 'echo "nics=$MEGATRON_NICS hca=$NCCL_IB_HCA ucx=$UCX_NET_DEVICES"'
    is "$(grep -cE "^nics=($name,?)+ hca==($name,?)+ ucx=($name:1,?)+$" <<<"$out")" 2 "NCCL and UCX are told of NICs called $name" || diag "$out"
done
done_testing
