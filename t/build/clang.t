#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A second compiler finds other problems: the plugin must also build with clang without a warning. dist.t builds the rest with
# clang.
. "$(dirname "$0")/../tap.sh"
clang=$(command -v clang || command -v clang-14) || skip_all "no clang"
command -v "${clang/clang/clang++}" >/dev/null || skip_all "no clang++"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export TRY_LIMIT=500
try "$top/configure" -q CC="$clang" CXX="${clang/clang/clang++}" CFLAGS=-O0 CXXFLAGS=-O0 --enable-werror --without-cuda
is "$rc" 0 "configure" || diag "$out"
try make -j2 SUBDIRS="lib container spank"
is "$rc" 0 "make" || diag "$(grep -E 'error:|warning:' <<<"$out" | head -n 20)"
unlike "$out" '\.(c|h|cpp):[0-9]+:[0-9]+: warning:' "without warnings"
ok "the plugin" test -s spank/spank_megatron.so
done_testing
