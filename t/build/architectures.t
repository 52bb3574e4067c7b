#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The GPU module contains code for each GPU generation: a missing one would only show on such a GPU.
. "$(dirname "$0")/../tap.sh"
kernels=$MEGATRON_BUILD/runtime/engine/device/cuda
[ -f "$kernels/device_cuda.so" ] || skip_all "no device_cuda.so in $kernels: configured without CUDA"
chosen=$("$MEGATRON_BUILD/config.status" --config | grep -o "NVCC_ARCHITECTURES=[0-9a-z ]*") &&
    skip_all "configured for other GPUs: $chosen"
setting() { make -s -C "$kernels" --eval "show:; @echo \$($1)" show; }

# The output of cuobjdump; without it, what the compiler records in the code. One line per kernel
# file and generation.
tools=$(dirname "$(readlink -f "$(setting NVCC)")")
if cuobjdump=$(PATH=$tools:$PATH command -v cuobjdump); then
    code=$("$cuobjdump" --list-elf "$kernels/device_cuda.so" | sed -n 's/.*\.\(sm_[0-9a-z]*\)\.cubin$/\1/p')
else
    code=$(grep -aoE -e '-arch sm_[0-9]+[a-z]?' "$kernels/device_cuda.so" | cut -d ' ' -f 2)
    [ -n "$code" ] || skip_all "no cuobjdump in the CUDA toolkit, and the compiler left no notes"
fi
files=$(setting KERNELS | wc -w)
hopper=$(setting HOPPER_KERNELS | wc -w)
for expected in "sm_80 $files" "sm_90 $((files - hopper))" "sm_90a $hopper" "sm_100 $files"; do
    is "${expected% *} $(grep -cx "${expected% *}" <<<"$code")" "$expected" \
        "code for ${expected% *} in ${expected#* } files of kernels"
done
done_testing
