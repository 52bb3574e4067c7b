#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the tasks of a step find in their image: the home, the entry point's environment, GPUs, a connection
# to PMIx; and with how many processors it was imported. With the stand-in for Enroot, or with the real one.
cd "$(dirname "$0")/../.." || exit 1
. t/tap.sh
. t/container/registry.sh
registry_up
# An Enroot that tells what imports are allowed to use.
programs=$registry_dir/programs
mkdir "$programs"
cp -s "$enroot_path"/* "$programs/"
install -m 666 /dev/null "$registry_dir/processors"
rm "$programs/enroot"
printf '#!/bin/sh\n[ "$1" != import ] || echo "$ENROOT_MAX_PROCESSORS" >>"%s/processors"\nexec "%s/enroot" "$@"\n' "$registry_dir" "$enroot_path" >"$programs/enroot"
chmod 755 "$programs/enroot"
image_cluster_up --nodes 2 --gpus 2 --plugin-args "${image_arguments/"$enroot_path"/"$programs:$enroot_path"}"
image=--megatron-image=${registry}small:1

for cpus in 1 2; do
    rm -f "$cache"/*.sqsh
    : >"$registry_dir/processors"
    job srun -N2 --ntasks-per-node=2 -c$cpus "$image" true
    is "$rc:$(cat "$registry_dir/processors")" "0:$((2 * cpus))" "one import, with the cores of both tasks of its node ($((2 * cpus)))"
done

echo seen >"$home/file"
job srun -n1 "$image" --megatron-mount-home cat "$home/file"
is "$rc:$out" 0:seen "the home directory, if requested"
job srun -n1 "$image" cat "$home/file"
like "$out" "can't open .*/home/file" "and not else"

job srun -n1 --export=ENROOT_ALLOW_HTTP,ENROOT_STANDIN_REGISTRY,ENROOT_STANDIN_DELAY "$image" echo ran
is "$rc:$out" 0:ran "a task without HOME finds the user's images"

# /tmp, or the host's path if the image has its parent directory, as with mounts below it.
job srun -n2 "$image" sh -c '[ -d "$TMPDIR" ] && echo "a directory" || echo "$TMPDIR"'
is "$rc:$out" "0:a directory
a directory" "TMPDIR is a directory of the image"

# An image with an entry point of its own, as Enroot writes it down.
root=$registry_dir/registry/small/1
printf 'export ENTRY=ran\ncd "/etc" && unset OLDPWD || exit 1\nexec "$@"\n' >"$root/etc/rc"
mksquashfs "$root" "$registry_dir/entry.sqsh" -quiet -no-progress -all-root >/dev/null
job srun -n2 --megatron-image="$registry_dir/entry.sqsh" sh -c 'echo "<$ENTRY>"'
is "$out" "<>
<>" "the entry point does not run"
job srun -n2 --megatron-image="$registry_dir/entry.sqsh" --megatron-entrypoint sh -c 'echo "<$ENTRY>"'
is "$out" "<ran>
<ran>" "unless it is asked for; tasks have its environment"

# One that prints a lot to stdout and stderr, like entry points with a banner.
printf 'echo banner\ni=0\nwhile [ $i -lt 3000 ]; do i=$((i + 1)); echo "line $i of what the image has to say"; done\necho more >&2\nexport ENTRY=ran\nexec "$@"\n' >"$root/etc/rc"
mksquashfs "$root" "$registry_dir/banner.sqsh" -quiet -no-progress -all-root >/dev/null
job srun -n2 --megatron-image="$registry_dir/banner.sqsh" --megatron-entrypoint sh -c 'echo "<$ENTRY>"'
is "$rc:$out" "0:<ran>
<ran>" "an entry point may print"

printf 'echo "what do you want?" >&2\nexit 3\n' >"$root/etc/rc"
mksquashfs "$root" "$registry_dir/stubborn.sqsh" -quiet -no-progress -all-root >/dev/null
job srun -n1 --megatron-image="$registry_dir/stubborn.sqsh" --megatron-entrypoint true
is "$rc" 1 "an entry point that does not execute its arguments"
like "$out" 'failed.*: what do you want[?]; the image.s entry point must execute its arguments' "with its output and the remedy"

# What hooks of the host are told about GPUs. (NVIDIA's own hook needs a driver.)
job env ENROOT_RUNTIME_PATH=/tmp "$enroot_path/enroot" info
sysconf=$(sed -n 's/.*ENROOT_SYSCONF_PATH=//p' <<<"$out")
mkdir "$registry_dir/sysconf"
[ -z "$sysconf" ] || cp -a "$sysconf/." "$registry_dir/sysconf/"
mkdir -p "$registry_dir/sysconf/hooks.d"
rm -f "$registry_dir/sysconf/hooks.d/98-nvidia.sh"
printf '#!/bin/bash\ngrep ^NVIDIA_ "$ENROOT_ENVIRON" >"%s/told" || :\n' "$registry_dir/tmp" >"$registry_dir/sysconf/hooks.d/98-test.sh"
chmod 755 "$registry_dir/sysconf/hooks.d/98-test.sh"
job env ENROOT_SYSCONF_PATH="$registry_dir/sysconf" srun -n2 --gpus-per-node=2 "$image" true
is "$rc:$(sort "$registry_dir/tmp/told" | xargs)" "0:NVIDIA_DRIVER_CAPABILITIES=compute,utility NVIDIA_VISIBLE_DEVICES=0,1" "GPUs of all tasks of the node, to compute with"
echo NVIDIA_VISIBLE_DEVICES=all >>"$root/etc/environment"
mksquashfs "$root" "$registry_dir/cuda.sqsh" -quiet -no-progress -all-root >/dev/null
rm -f "$registry_dir/tmp/told"
job env ENROOT_SYSCONF_PATH="$registry_dir/sysconf" srun -n2 --megatron-image="$registry_dir/cuda.sqsh" true
is "$rc:$(tail -n 1 "$registry_dir/tmp/told")" "0:NVIDIA_VISIBLE_DEVICES=$([ -e /proc/driver/nvidia/version ] && echo all || echo void)" \
    "none without, though the image asks for all, where there is no driver"

# PMIx 5 has a file that is not in the image; other releases have none.
for modules in shmem2,hash:hash ds21,hash:; do
    job env PMIX_GDS_MODULE="${modules%:*}" srun -n1 "$image" sh -c 'echo "gds $PMIX_MCA_gds"'
    like "$out" "^gds ${modules#*:}$" "PMIX_GDS_MODULE=${modules%:*}: what clients use"
done
# The directory of the PMIx server's sockets, which Slurm names in these variables.
for variable in PMIX_SERVER_TMPDIR SLURM_PMIXP_TMPDIR; do
    sockets=$MEGATRON_CLUSTER/home/$variable
    mkdir -p "$sockets"
    echo "$variable" >"$sockets/socket"
    chmod -R a+rX "$sockets"
    job env $variable="$sockets" srun -n1 "$image" --megatron-mount-home=no sh -c "cat \$$variable/socket"
    like "$out" "^$variable$" "$variable: the directory is in the image"
done

# Nodes with EFA: the host's libraries do not matter for a step with an image.
mkdir -p "$registry_dir/root/sys/class/infiniband/rdmap79s0/device"
ln -s ../../../bus/pci/drivers/efa "$registry_dir/root/sys/class/infiniband/rdmap79s0/device/driver"
chmod -R a+rX "$registry_dir/root"
cluster_down
image_cluster_up --nodes 2 --gpus 0 --plugin-args "$image_arguments topology=$top/t/topologies/p5.48xlarge.xml sysroot=$registry_dir/root"
job srun -N2 -n2 --megatron-tp=1 true
like "$out" '^megatron: n1: warning: this node has 1 EFA device.* no libfabric' "the host has no libfabric"
job srun -N2 -n2 "$image" true
is "$rc:$(grep -c libfabric <<<"$out")" 0:0 "and no warning is printed for an image"
done_testing
