#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A second compiler finds other problems: everything must also build with clang without a warning.
. "$(dirname "$0")/../tap.sh"
clang=$(command -v clang || command -v clang-14) || skip_all "no clang"
command -v "${clang/clang/clang++}" >/dev/null || skip_all "no clang++"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export TRY_LIMIT=500
# Its warnings do not depend on optimization.
try "$top/configure" -q CC="$clang" CXX="${clang/clang/clang++}" CFLAGS=-O0 CXXFLAGS=-O0 --enable-werror --without-cuda
is "$rc" 0 "configure" || diag "$out"
try make -j2
is "$rc" 0 "make" || diag "$(grep -E 'error:|warning:' <<<"$out" | head -n 20)"
unlike "$out" '\.(c|h|cpp):[0-9]+:[0-9]+: warning:' "without warnings"
is "$(./runtime/megatron version | head -n 1)" "$("$MEGATRON_BUILD/runtime/megatron" version | head -n 1)" "the same program"
done_testing
