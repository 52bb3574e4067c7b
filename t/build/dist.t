#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tarball: it contains every file, builds out of tree without libtool from a read-only source, with clang where there
# is one, without a warning; it installs to the given prefix, and uninstalls completely.
. "$(dirname "$0")/../tap.sh"
[ -f "$MEGATRON_BUILD/Makefile" ] || skip_all "no build in $MEGATRON_BUILD"
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
export TRY_LIMIT=500

XZ_OPT=-1 try make -C "$MEGATRON_BUILD" dist
is "$rc" 0 "make dist" || diag "$out"
is "$(TZ=UTC tar -tvf "$(echo "$MEGATRON_BUILD"/megatron-*.tar.xz)" | awk '{ print $2, $4, $5 }' | sort -u)" \
    "root/root $(date -u -d "$(sed -n '/^ -- /{s/.*>  //p;q;}' "$top/packaging/debian/changelog")" '+%F %R')" \
    "its files have the date of the packages and belong to root"
mkdir "$scratch/megatron"
tar -xf "$MEGATRON_BUILD"/megatron-*.tar.xz -C "$scratch/megatron" --strip-components=1
rm -f "$MEGATRON_BUILD"/megatron-*.tar.xz
if git -C "$top" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    is "$(cd "$top" && git ls-files | while read -r file; do
        case $file in .gitignore | */.gitignore) ;; *) [ -e "$scratch/megatron/$file" ] || echo "$file" ;; esac
    done)" "" "every file of the repository is in it"
else
    skip "every file of the repository is in it" "not a git checkout"
fi
is "$(readlink "$scratch/megatron/t/cluster")" ../tools/cluster "t/cluster is a link to tools/cluster"
is "$(find "$scratch/megatron" -name '*.o' -o -name .deps -o -name '*.so' -o -name enter)" "" "nothing that was built is in it"

# A libtool that must not be called.
mkdir "$scratch/bin" "$scratch/build"
printf '#!/bin/sh\necho "libtool was called" >&2\nexit 1\n' >"$scratch/bin/libtool"
chmod +x "$scratch/bin/libtool"
export PATH=$scratch/bin:$PATH
chmod -R a-w "$scratch/megatron"
cd "$scratch/build" || exit 1
# A second compiler finds other problems. Its warnings do not depend on optimization.
compiler=()
clang=$(command -v clang || command -v clang-14) && command -v "${clang/clang/clang++}" >/dev/null &&
    compiler=(CC="$clang" CXX="${clang/clang/clang++}")
try ../megatron/configure -q "${compiler[@]}" --without-cuda --enable-werror --prefix="$scratch/inst" --program-prefix=my- CFLAGS=-O0 CXXFLAGS=-O0
is "$rc" 0 "configure" || diag "$out"
try make -j2
is "$rc" 0 "make" || diag "$(grep -E 'error:|warning:' <<<"$out" | head -n 20)"
unlike "$out" '\.(c|h|cpp):[0-9]+:[0-9]+: warning:' "without warnings"
try make install
is "$rc" 0 "make install" || diag "$out"
try "$scratch/inst/bin/my-megatron" --version
like "$out" '^megatron [0-9]' "the program runs under the name that --program-prefix gives it"
is "$(ls "$scratch/inst/lib/megatron" | grep -v '^\(comm\|device\)_[a-z]*\.so$')" "" "the modules keep their names"
if grep -q '^#define MEGATRON_SLURM_VERSION "[0-9]' config.h; then
    is "$(find "$scratch/inst" -name 'spank*.so')" "$scratch/inst/lib/slurm/spank_megatron.so" "so does the plugin"
else
    skip "the plugin" "built without Slurm"
fi
try make uninstall
is "$rc" 0 "make uninstall" || diag "$out"
is "$(find "$scratch/inst" ! -type d)" "" "leaves nothing"
try make -j2 -C t tools
is "$rc" 0 "the programs that no test runs" || diag "$(tail -n 20 <<<"$out")"
try make distclean
is "$rc" 0 "make distclean" || diag "$out"
is "$(find . ! -type d)" "" "leaves nothing"
done_testing
