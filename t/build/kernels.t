#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A kernel compiled in two directories, as packages do it, gives the same code: nvcc would write the directory into it.
. "$(dirname "$0")/../tap.sh"
makefile=$MEGATRON_BUILD/runtime/engine/device/cuda/Makefile
grep -qs '^NVCC = .' "$makefile" || skip_all "no NVCC in $makefile: configured without CUDA"
scratch=$(readlink -f "$(mktemp -d)")
trap 'rm -rf "$scratch"' EXIT

for directory in one another; do
    mkdir "$scratch/$directory"
    (cd "$top" && cp -p --parents lib/*.h runtime/base/core/*.h runtime/engine/device/*.{h,def} runtime/engine/device/cuda/*.{cu,cuh,h} "$scratch/$directory")
    cd "$scratch/$directory/runtime/engine/device/cuda" || exit 1
    try make -s -f "$makefile" srcdir=. top_srcdir=../../../.. NVCC_GENCODE='-gencode arch=compute_90,code=sm_90' \
        KERNEL_ROOT=/proc/self/cwd/ fingerprint.o
    is "$rc" 0 "a kernel compiles in directory $directory" || diag "$out"
    strip --strip-unneeded -o "$scratch/$directory/kernel" fingerprint.o # as in a package
done
ok "both give the same bytes" cmp "$scratch/one/kernel" "$scratch/another/kernel"
is "$(grep -c "$scratch" "$scratch/one/kernel")" 0 "without the directory"
ok "but with line information" grep -q /proc/self/cwd/fingerprint.cu "$scratch/one/kernel"
done_testing
