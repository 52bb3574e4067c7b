#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Enroot hook for EFA, tested with directories that stand in for hosts and images.
cd "$(dirname "$0")/../.." || exit 1
. t/tap.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# host NAME DRIVER COUNT: a host with COUNT verbs devices of DRIVER.
host() {
    local i
    mkdir -p "$work/$1/dev/infiniband" "$work/$1/sys/drivers/$2" "$work/$1/sys/class/infiniband_verbs"
    for ((i = 0; i < $3; i++)); do
        mkdir -p "$work/$1/sys/devices/d$i" "$work/$1/sys/class/infiniband_verbs/uverbs$i"
        ln -s "$work/$1/sys/drivers/$2" "$work/$1/sys/devices/d$i/driver"
        ln -s "$work/$1/sys/devices/d$i" "$work/$1/sys/class/infiniband_verbs/uverbs$i/device"
        touch "$work/$1/dev/infiniband/uverbs$i"
    done
}
# hook HOST IMAGE [VARIABLE...]: run it; $mounts and $environment are what it made.
hook() {
    local host=$1 image=$2
    shift 2
    : >"$work/mounts"
    printf '%s\n' PATH=/usr/bin "$@" >"$work/environment"
    mkdir -p "$work/$image"
    try env MEGATRON_HOOK_ROOT="$work/$host" ENROOT_ROOTFS="$work/$image" ENROOT_MOUNTS="$work/mounts" \
        ENROOT_ENVIRON="$work/environment" container/hooks/97-megatron-efa.sh
    mounts=$(sed "s#$work/$host##g" "$work/mounts")
    environment=$(cat "$work/environment")
}

host none efa 0
hook none empty
is "$rc:$mounts" 0: "a host without EFA: nothing"
host mellanox mlx5_core 2
hook mellanox empty
is "$rc:$mounts" 0: "a host with other NICs: nothing"
host p5 efa 4
touch "$work/p5/dev/infiniband/rdma_cm"
hook p5 empty
is "$rc" 0 "a host with EFA"
is "$(grep -c '^/dev/infiniband/uverbs[0-3] /dev/infiniband/uverbs[0-3] none x-create=file,bind,nosuid,noexec$' <<<"$mounts")" 4 "its devices are mounted"
like "$mounts" '^/dev/infiniband/rdma_cm ' "and the connection manager"
unlike "$environment" LD_LIBRARY_PATH "no libraries, no search path"
mkdir -p "$work/p5/opt/amazon/efa/lib" "$work/p5/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu" "$work/p5/etc/libibverbs.d" "$work/p5/usr/lib/x86_64-linux-gnu/libibverbs"
touch "$work/p5/etc/libibverbs.d/efa.driver" "$work/p5/usr/lib/x86_64-linux-gnu/libefa.so.1.1" "$work/p5/usr/lib/x86_64-linux-gnu/libibverbs/libefa-rdmav34.so"
ln -s libefa.so.1.1 "$work/p5/usr/lib/x86_64-linux-gnu/libefa.so.1"
hook p5 empty LD_LIBRARY_PATH=/usr/local/lib
like "$mounts" '^/opt/amazon/efa /opt/amazon/efa none x-create=dir,rbind,ro,nosuid,nodev$' "the host's libfabric"
like "$mounts" '^/opt/amazon/ofi-nccl ' "and its plugin for NCCL"
like "$mounts" '^/usr/lib/x86_64-linux-gnu/libefa.so.1.1 /usr/lib/x86_64-linux-gnu/libefa.so.1 none' "the provider of verbs, by the name programs ask for"
like "$environment" '^LD_LIBRARY_PATH=/usr/local/lib:/opt/amazon/efa/lib:/opt/amazon/ofi-nccl/lib:' "are searched after the image's own"
mkdir -p "$work/own/opt/amazon/efa" "$work/own/etc/libibverbs.d"
touch "$work/own/etc/libibverbs.d/efa.driver"
hook p5 own
unlike "$mounts" 'opt/amazon/efa|efa.driver' "an image with its own libfabric keeps it"
like "$mounts" '^/dev/infiniband/uverbs0' "and gets the devices"
hook p5 empty MEGATRON_EFA=device
unlike "$mounts" /opt/amazon "MEGATRON_EFA=device: devices alone"
hook p5 empty MEGATRON_EFA=none
is "$mounts" "" "MEGATRON_EFA=none: nothing"
hook p5 empty MEGATRON_EFA=some
is "$rc" 1 "any other value is rejected"
done_testing
