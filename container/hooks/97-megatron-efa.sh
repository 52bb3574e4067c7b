#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An Enroot hook for EFA in containers. Enroot itself supports GPUs and Mellanox NICs; this hook mounts the
# EFA devices and, if the image does not have them, the host's libfabric and aws-ofi-nccl.
# `make install` puts it in share/megatron/enroot/hooks.d, where Enroot does not look: copy or link it to
# /etc/enroot/hooks.d on every node.
#
#   MEGATRON_EFA=auto|none|device   in the container's environment: everything (the default), nothing,
#                                   or the devices only
#   MEGATRON_HOOK_ROOT=DIR          prefix of the host's /sys, /dev and /opt; for tests
set -euo pipefail

root=${MEGATRON_HOOK_ROOT-}
choice=auto
while IFS='=' read -r name value; do
    [ "$name" != MEGATRON_EFA ] || choice=$value
done <"$ENROOT_ENVIRON"
case $choice in
none) exit 0 ;;
auto | device) ;;
*) echo "[ERROR] MEGATRON_EFA=$choice is neither auto, device nor none" >&2; exit 1 ;;
esac

# Find the verbs devices by their driver, efa, not by GUID, which is all zeros on some instances.
devices=()
for device in "$root"/sys/class/infiniband_verbs/uverbs*; do
    driver=$(readlink -f "$device/device/driver" 2>/dev/null || true)
    [ "${driver##*/}" = efa ] && devices+=("${device##*/}")
done
[ ${#devices[@]} -gt 0 ] || exit 0

mount_line() { printf '%s %s none %s\n' "${1// /\\040}" "${2// /\\040}" "$3" >>"$ENROOT_MOUNTS"; }

for device in "${devices[@]}"; do
    [ ! -e "$root/dev/infiniband/$device" ] ||
        mount_line "$root/dev/infiniband/$device" "/dev/infiniband/$device" x-create=file,bind,nosuid,noexec
done
[ ! -e "$root/dev/infiniband/rdma_cm" ] ||
    mount_line "$root/dev/infiniband/rdma_cm" /dev/infiniband/rdma_cm x-create=file,bind,nosuid,noexec
[ "$choice" = auto ] || exit 0

# Mount libfabric with its efa provider, and the plugin that lets NCCL use it. An image that has one of them
# keeps its own, because versions inside it belong together.
libraries=()
for directory in /opt/amazon/efa /opt/amazon/ofi-nccl /opt/amazon/aws-ofi-nccl /opt/aws-ofi-nccl; do
    [ -d "$root$directory" ] && [ ! -d "$ENROOT_ROOTFS$directory" ] || continue
    mount_line "$root$directory" "$directory" x-create=dir,rbind,ro,nosuid,nodev
    for library in lib lib64 lib/x86_64-linux-gnu lib/aarch64-linux-gnu; do
        [ ! -d "$root$directory/$library" ] || libraries+=("$directory/$library")
    done
done

# Mount rdma-core's EFA provider if the image does not have it.
if [ -e "$root/etc/libibverbs.d/efa.driver" ] && [ ! -e "$ENROOT_ROOTFS/etc/libibverbs.d/efa.driver" ]; then
    mount_line "$root/etc/libibverbs.d/efa.driver" /etc/libibverbs.d/efa.driver x-create=file,bind,ro,nosuid,nodev
    for library in "$root"/usr/lib*/libefa.so.1 "$root"/usr/lib/*/libefa.so.1 "$root"/usr/lib*/libibverbs.so.1 \
        "$root"/usr/lib/*/libibverbs.so.1 "$root"/usr/lib*/libibverbs/libefa-rdmav*.so "$root"/usr/lib/*/libibverbs/libefa-rdmav*.so; do
        [ ! -e "$library" ] || mount_line "$(readlink -f "$library")" "${library#"$root"}" x-create=file,bind,ro,nosuid,nodev
    done
fi
[ ${#libraries[@]} -gt 0 ] || exit 0

# Append to the directories that the image searches first.
path=
while IFS='=' read -r name value; do
    [ "$name" != LD_LIBRARY_PATH ] || path=$value
done <"$ENROOT_ENVIRON"
joined=$(IFS=:; echo "${libraries[*]}")
echo "LD_LIBRARY_PATH=${path:+$path:}$joined" >>"$ENROOT_ENVIRON"
