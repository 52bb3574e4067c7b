#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# configure: every part can be disabled, a wrong directory is an error that names it, the summary is correct.
. "$(dirname "$0")/../tap.sh"
[ -x "$top/configure" ] || skip_all "no configure; run autoreconf -i"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# What is searched for in the directory of each part.
parts="slurm:include/slurm/spank.h hwloc:include/hwloc.h cuda:bin/nvcc
    cublaslt:include/cublasLt.h cudnn:include/cudnn.h nccl:include/nccl.h openblas:include/cblas.h
    zlib:include/zlib.h lzma:include/lzma.h zstd:include/zstd.h simdjson:include/simdjson.h openssl:include/openssl/hmac.h"
configure() { TRY_LIMIT=300 try "$top/configure" --cache-file=cache --no-create "$@"; }

configure
is "$rc" 0 "configure with whatever there is"
mkdir empty
for part in $parts; do
    configure --with-"${part%:*}"="$scratch/empty"
    is "$rc $(tail -n 1 <<<"$out")" \
        "1 configure: error: --with-${part%:*}=$scratch/empty: $scratch/empty/${part#*:} does not exist" \
        "--with-${part%:*}=DIR reports the missing file"
done

without=()
for part in $parts; do without+=(--without-"${part%:*}"); done
configure "${without[@]}"
is "$rc" 0 "configure without any part"
is "$(sed -n '/^configure:$/,$p' <<<"$out" | grep -c yes)" 0 "the summary reports it"
unlike "$out" "built without" "parts that were disabled are not reported as missing"
try ./config.status config.h spank/Makefile
try make -C spank -n all
is "$rc $(grep -c 'spank_megatron' <<<"$out")" "0 0" "without Slurm there is no plugin to build" || diag "$out"

# GPU libraries in separate directories, if there is a toolkit.
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    mkdir -p own/include own/lib
    touch own/include/{cublasLt,cudnn,nccl}.h
    configure --with-cublaslt="$scratch/own" --with-cudnn="$scratch/own" --with-nccl="$scratch/own"
    is "$rc" 0 "configure with libraries of GPUs elsewhere"
    for name in CUDA NCCL; do
        like "$(grep "^S\[\"${name}_LIBS\"\]" config.status)" "-L$scratch/own/lib -Wl,-rpath,$scratch/own/lib" \
            "  which ${name}_LIBS finds when it links and when it runs"
    done
    configure --with-cublaslt="$scratch/own"
    like "$(grep '^S\["CUDA_LIBS"\]' config.status)" "-L$scratch/own/lib -Wl,-rpath,$scratch/own/lib" "  cuBLASLt by itself"
else
    skip "GPU libraries in directories of their own" "no CUDA toolkit"
fi

configure --without-hwloc
is "$rc" 0 "configure without hwloc"
like "$out" "plugin .spank_megatron.so.: *no" "there is no plugin without hwloc"

# Pretend, through the cache, that things are not installed.
configure ac_cv_header_zlib_h=no
like "$out" "zlib: no .gz input; install zlib1g-dev" "a missing part is listed with its package"
like "$out" "gz no," "and not counted"
configure ac_cv_header_zlib_h=no --with-zlib
is "$rc $(tail -n 1 <<<"$out")" \
    "1 configure: error: --with-zlib: cannot find zlib; install zlib1g-dev, or give its directory with --with-zlib=DIR" \
    "a part that was asked for must be there"
configure --without-cuda --with-nccl
like "$out" "need the CUDA toolkit" "NCCL without CUDA is rejected"
done_testing
