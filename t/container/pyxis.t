#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Together with Pyxis, before or after it in plugstack.conf: steps in Pyxis's containers get their
# placement, contract and rendezvous, and no second container; a step has one image. Needs the real
# programs:
#     MEGATRON_TEST_ENROOT=DIR MEGATRON_TEST_PYXIS=/path/spank_pyxis.so t/container/pyxis.t
cd "$(dirname "$0")/../.." || exit 1
. t/tap.sh
. t/container/registry.sh
[ -n "${MEGATRON_TEST_ENROOT-}" ] || skip_all "no Enroot: MEGATRON_TEST_ENROOT is not set, and none is installed"
[ -f "${MEGATRON_TEST_PYXIS-}" ] || skip_all "MEGATRON_TEST_PYXIS does not name spank_pyxis.so"
registry_dir=$(mktemp -d)
trap registry_end EXIT
chmod 755 "$registry_dir"
make_roots "$registry_dir/registry"
mksquashfs "$registry_dir/registry/small/1" "$registry_dir/image.sqsh" -quiet -no-progress -all-root >/dev/null
mkdir -m 1777 "$registry_dir/home" "$registry_dir/run"
image=$registry_dir/image.sqsh
# Pyxis finds Enroot where slurmd would, and wants a disk of its own for the containers of each node.
mkdir "$registry_dir/bin"
printf '#!/bin/sh\nexport ENROOT_DATA_PATH="%s/data.$(hostname)"\nexec "%s/enroot" "$@"\n' "$registry_dir/home" "$MEGATRON_TEST_ENROOT" >"$registry_dir/bin/enroot"
chmod 755 "$registry_dir/bin/enroot"
PATH=$registry_dir/bin:$MEGATRON_TEST_ENROOT:$PATH
cluster_up --nodes 2 --gpus 0 --cpus 4 --plugin-args "enroot_path=$MEGATRON_TEST_ENROOT:/usr/sbin:/usr/bin:/sbin:/bin"
trap 'cluster_down; registry_end' EXIT
plugstack=$MEGATRON_CLUSTER/etc/plugstack.conf
ours=$(cat "$plugstack")
pyxis="required $MEGATRON_TEST_PYXIS runtime_path=$registry_dir/run/pyxis"
TRY_LIMIT=300
home=$registry_dir/home
holders() {
    for node in n1 n2; do tools/cluster node $node ps -eo stat=,args= | grep -v '^Z' | grep '[m]egatron-holder'; done
}

for order in before behind; do
    if [ $order = before ]; then printf '%s\n' "$ours" "$pyxis"; else printf '%s\n' "$pyxis" "$ours"; fi >"$plugstack"
    for node in n1 n2; do tools/cluster kill-node $node && tools/cluster start-node $node; done
    wait_until 60 sh -c "[ \"\$('$top/tools/cluster' run sinfo -h -o %D,%t)\" = 2,idle ]"
    # The containers are looked at while they are there.
    job_process srun -N2 --ntasks-per-node=2 -c2 --megatron-bind=auto --container-image="$image" --container-mounts="$registry_dir/run:/mnt" sh -c '
        read -r line </etc/environment
        echo "$line|$SLURM_NODEID|$MEGATRON_RANK|$MEGATRON_CPUS|$MASTER_ADDR:$MASTER_PORT|$MEGATRON_WORLD_SIZE"
        until [ -e /mnt/seen ]; do sleep 0.1; done' >"$registry_dir/out" 2>&1 &
    wait_until 120 sh -c "[ \$(grep -c '^GREETING' '$registry_dir/out') = 4 ] || ! kill -0 $!"
    held=$(holders)
    touch "$registry_dir/run/seen"
    wait $!
    rc=$? out=$(cat "$registry_dir/out")
    rm "$registry_dir/run/seen"
    is "$held" "" "$order Pyxis: no second container"
    lines=$(grep '^GREETING=from the image|' <<<"$out")
    is "$rc:$(wc -l <<<"$lines")" 0:4 "$order Pyxis: four tasks in its containers"
    is "$(cut -d'|' -f3 <<<"$lines" | sort | xargs)" "0 1 2 3" "with their ranks"
    is "$(cut -d'|' -f2,4 <<<"$lines" | sort -u | wc -l)" 4 "each on its own cores"
    is "$(cut -d'|' -f5,6 <<<"$lines" | sort -u | wc -l):$(cut -d'|' -f6 <<<"$lines" | sort -u)" 1:4 "one place to meet, one size of the world"
    job srun -n1 --megatron-image="$image" --container-image="$image" true
    is "$rc" 1 "$order Pyxis: not both"
    like "$out" 'cannot be used together' "and it is reported"
    job srun -n1 --megatron-image="$image" pwd
    is "$rc:$out" 0:/usr/src "$order Pyxis: --megatron-image alone"
    job srun -n1 -w n1 hostname
    is "$rc:$out" 0:n1 "$order Pyxis: no image at all"
done
wait_until 60 sh -c "! '$top/tools/cluster' run sinfo -h -o %t | grep -q comp"
is "$(in_cluster sinfo -h -o %D,%t)" 2,idle "no node was drained"
is "$(holders)" "" "nothing is left"
done_testing
