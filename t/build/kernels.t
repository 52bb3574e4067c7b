#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A kernel compiled in two directories, as packages do it, gives the same code: nvcc would write the directory into it.
. "$(dirname "$0")/../tap.sh"
makefile=$MEGATRON_BUILD/runtime/device/cuda/Makefile
grep -qs '^NVCC = .' "$makefile" || skip_all "no NVCC in $makefile: configured without CUDA"
scratch=$(readlink -f "$(mktemp -d)")
trap 'rm -rf "$scratch"' EXIT

# compile DIRECTORY [VARIABLE=VALUE...]: a kernel from a copy of the sources there, stripped as in a package.
compile() {
    local sources=$scratch/$1
    mkdir "$sources"
    shift
    (cd "$top" && cp -p --parents lib/*.h runtime/core/*.h runtime/device/*.h runtime/device/cuda/*.{cu,cuh,h} "$sources")
    try make -s -C "$sources/runtime/device/cuda" -f "$makefile" srcdir=. top_srcdir=../../.. NVCC_GENCODE=-arch=sm_90 "$@" fingerprint.o
    is "$rc" 0 "a kernel compiles in ${sources##*/}${1+ with $1}" || diag "$out"
    strip --strip-unneeded -o "$sources/kernel" "$sources/runtime/device/cuda/fingerprint.o"
}
compile one KERNEL_ROOT=/proc/self/cwd/
compile another KERNEL_ROOT=/proc/self/cwd/
ok "both give the same bytes" cmp "$scratch/one/kernel" "$scratch/another/kernel"
is "$(grep -c "$scratch" "$scratch/one/kernel")" 0 "without the directory"
# A build that is not for a package: a profiler finds the sources.
compile here
ok "otherwise line information names it" grep -q "$scratch/here/runtime/device/cuda" "$scratch/here/kernel"
done_testing
