#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages of this build, without compiling it again: their contents and relations, and what their
# scripts do when they are installed, upgraded, removed and purged in a scratch root. t/campaign/package builds
# them for real, and installs them in a fresh Debian.
. "$(dirname "$0")/../tap.sh"
[ -f "$MEGATRON_BUILD/Makefile" ] || skip_all "no build in $MEGATRON_BUILD"
command -v dh >/dev/null || skip_all "debhelper is not installed"
[ "$(id -u)" = 0 ] || skip_all "dpkg --root needs root"
[ -f "$MEGATRON_BUILD/spank/spank_megatron.so" ] || skip_all "built without Slurm"
scratch=$(readlink -f "$(mktemp -d)")
trap 'rm -rf "$scratch"' EXIT
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
version=$(sed -n 's/^AC_INIT(\[megatron\], \[\(.*\)\])/\1/p' "$top/configure.ac")

is "$(dpkg-parsechangelog -l "$top/packaging/debian/changelog" -S Version)" "$version-1" "the changelog has the version of configure.ac"
is "$(cd "$top/packaging" && grep -lE '^(make|[[:space:]]dh_auto_build) .*KERNEL_ROOT=/proc/self/cwd/' debian/rules megatron.spec.in | xargs)" \
    "debian/rules megatron.spec.in" "kernels are compiled without the build directory (kernels.t)"
mkdir "$scratch/source"
cd "$scratch/source" || exit 1
cp -r "$top/packaging/debian" "$top/doc" "$top/etc" "$top/README.md" "$top/CHANGELOG.md" "$MEGATRON_BUILD/config.h" .
try make -s -C "$MEGATRON_BUILD" install DESTDIR="$scratch/staged" prefix=/usr exec_prefix=/usr bindir=/usr/bin sysconfdir=/etc \
    datarootdir=/usr/share libdir="/usr/lib/$triplet" plugindir="/usr/lib/$triplet/slurm"
is "$rc" 0 "make install" || diag "$out"
# The line in plugstack.conf has the path of this build.
sed -i "s|^optional .*/spank_megatron.so|optional /usr/lib/$triplet/slurm/spank_megatron.so|" "$scratch/staged/usr/share/megatron/plugstack.conf.d/megatron.conf"
[ -f "$scratch/staged/usr/lib/$triplet/megatron/device_cuda.so" ] || profiles=pkg.megatron.nocuda
export DEB_BUILD_PROFILES=${profiles-} DEB_BUILD_OPTIONS="nostrip nocheck" MEGATRON_STAGED=$scratch/staged
try debian/rules binary
is "$rc" 0 "every installed file belongs to a package" || diag "$(tail -n 20 <<<"$out")"
plugin=$(echo ../slurm-megatron_*.deb) runtime=$(echo ../megatron-runtime_*.deb)

release=$("$MEGATRON_INST/bin/megatron" version | sed -n 's/^Slurm: *\([0-9]*\.[0-9]*\)\..*/\1/p')
field() { dpkg-deb -f "$1" "$2"; }
like "$(field "$plugin" Version)" "^$version-1\+slurm$release\$" "the plugin's version names Slurm $release"
like "$(field "$plugin" Depends)" "slurm-wlm-basic-plugins \(>= $release\).*slurm-wlm-basic-plugins \(<< ${release%.*}\.[0-9]*~\)" "it depends on this release only"
like "$(field "$plugin" Description)" "Built for Slurm $release\." "its description names the release"
like "$(field "$plugin" Depends)" "megatron-runtime \(= $version-1\)" "it depends on the program of the same build"
unlike "$(field "$runtime" Depends)" "slurm" "the program does not need Slurm"
is "$(dpkg-deb -I "$plugin" conffiles | xargs)" \
    "/etc/bash_completion.d/spank_megatron /etc/enroot/enroot.conf.d/megatron.conf /etc/enroot/hooks.d/97-megatron-efa.sh /etc/slurm/plugstack.conf.d/megatron.conf" \
    "the files in /etc are conffiles"

# A scratch root whose packages dpkg knows. The scripts run outside of it, with DPKG_ROOT.
root=$scratch/root conf=etc/slurm/plugstack.conf.d/megatron.conf
mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers} "$root/etc/slurm/plugstack.conf.d"
: >"$root/var/lib/dpkg/status"
echo 'include /etc/slurm/plugstack.conf.d/*.conf' >"$root/etc/slurm/plugstack.conf"
in_root() { try dpkg --root="$root" --force-script-chrootless --force-depends --log=/dev/null "$@"; }
in_root -i "$runtime" "$plugin"
is "$rc" 0 "installs" || diag "$out"
like "$(cat "$root/$conf")" "^optional /usr/lib/$triplet/slurm/spank_megatron.so" "the line names the installed plugin"
like "$out" "restart slurmd" "says what to do"
unlike "$out" "does not load|loads the plugin too" "and nothing else"

echo "# changed here" >>"$root/$conf"
dpkg-deb -R "$plugin" "$scratch/next"
sed -i 's/^Version: .*/&.1/' "$scratch/next/DEBIAN/control"
sed -i 's/^# Loads the plugin/# Loads the newer plugin/' "$scratch/next/$conf"
dpkg-deb -Znone -b "$scratch/next" "$scratch/next.deb" >/dev/null
in_root --force-confold -i "$scratch/next.deb"
is "$rc" 0 "upgrades" || diag "$out"
like "$(cat "$root/$conf")" "changed here" "an upgrade keeps the changed conffile"

echo 'required spank_megatron.so' >>"$root/etc/slurm/plugstack.conf"
in_root -r slurm-megatron
is "$rc" 1 "is not removed while plugstack.conf says required"
like "$out" 'not removed: /etc/slurm/plugstack.conf has a line `required' "says why"
ok "the plugin is still there" test -f "$root/usr/lib/$triplet/slurm/spank_megatron.so" -a -f "$root/$conf"
sed -i '$d' "$root/etc/slurm/plugstack.conf"
in_root -r slurm-megatron
is "$rc" 0 "is removed" || diag "$out"
like "$out" "moved /$conf to megatron.conf.removed" "moves its own line away"
is "$(find "$root/etc/slurm" -name '*.conf' -exec grep -l spank_megatron {} +)" "" "nothing loads the missing plugin"
in_root --force-confold -i "$plugin"
is "$rc$(grep -c 'changed here' "$root/$conf")" "01" "installed again, the line is back with its changes" || diag "$out"
in_root -r slurm-megatron
in_root -P slurm-megatron megatron-runtime
is "$rc" 0 "is purged" || diag "$out"
is "$(cd "$root" && find . -path ./var -prune -o -type f -printf '%P\n' | sort | xargs)" "etc/slurm/plugstack.conf" "leaves nothing but what was there before"

# A plugin for another Slurm, and a node that loads two.
mkdir -p "$root/opt/slurm/sbin"
printf '#!/bin/sh\necho slurm 99.05.1\n' >"$root/opt/slurm/sbin/slurmd"
chmod +x "$root/opt/slurm/sbin/slurmd"
sed -i "s|^prefix=''|prefix=/opt/slurm|" "$scratch"/next/DEBIAN/p*
dpkg-deb -Znone -b "$scratch/next" "$scratch/other.deb" >/dev/null
in_root -i "$runtime" "$scratch/other.deb"
is "$rc" 1 "a package for another Slurm is refused"
like "$out" "built for Slurm $release, but /opt/slurm has Slurm 99.05; install the package built for Slurm 99.05" "names both"
ok "and leaves no line for plugstack.conf" test ! -e "$root/$conf"
echo 'required /usr/local/lib/slurm/spank_megatron.so' >"$root/etc/slurm/plugstack.conf"
in_root -i "$plugin"
like "$out" "does not load the plugin yet; add the line: include " "a missing include is reported"
like "$out" "warning: /etc/slurm/plugstack.conf loads the plugin too" "a plugin that is loaded twice is reported"

# packaging/build makes the tarball, with stand-ins for configure and dpkg-buildpackage, where a tarball of another
# version is left; ./quickstart package calls it.
tree=$scratch/tree
mkdir -p "$tree/packaging/debian" "$tree/_packages" "$tree/megatron-2.0/packaging/debian" "$scratch/bin"
cp "$top/quickstart" "$tree/"
cp "$top/packaging/build" "$tree/packaging/"
cp "$top/packaging/debian/changelog" "$tree/megatron-2.0/packaging/debian/"
printf '#!/bin/sh\nprintf "dist:\n\ttar -cJf megatron-2.0.tar.xz -C %s megatron-2.0\n" >Makefile\n' "$tree" >"$tree/configure"
printf '#!/bin/sh\necho "built in $PWD"; : >../megatron.deb\n' >"$scratch/bin/dpkg-buildpackage"
printf '#!/bin/sh\nfor name; do :; done; echo "$name" >>%s/asked; echo installed\n' "$scratch" >"$scratch/bin/dpkg-query"
printf '#!/bin/sh\nexit 0\n' >"$scratch/bin/dh"
chmod +x "$tree/configure" "$scratch"/bin/*
: >"$tree/_packages/megatron-1.0.tar.xz"
try env PATH="$scratch/bin:$PATH" "$tree/quickstart" package --format deb --without-cuda
is "$rc $(grep -o '^built in .*/deb/megatron-2.0' "$tree/_build/quickstart.log" | grep -c .) $(ls "$tree/_packages" | xargs)" \
    "0 1 megatron-1.0.tar.xz megatron-2.0.tar.xz megatron.deb" "quickstart packages the tarball of its tree" || diag "$out"
rm "$scratch/asked"
try env PATH="$scratch/bin:$PATH" "$tree/quickstart" package --host arm64 --without-cuda
is "$rc $(grep -c '^debhelper$' "$scratch/asked") $(grep -E '^lib|^slurm' "$scratch/asked")" "0 1 " \
    "for another architecture quickstart does not install this one's libraries in place of that one's" || diag "$out"

# packaging/build --directory
package() { try env PATH="$scratch/bin:$PATH" "$top/packaging/build" --tarball "$tree/_packages/megatron-2.0.tar.xz" --without-cuda --output "$scratch/out" "$@"; }
package --directory "$scratch/here"
is "$rc $(grep '^built' <<<"$out") $(ls -d "$scratch/here" 2>/dev/null)" "0 built in $scratch/here/deb/megatron-2.0 " \
    "packaging/build --directory builds there and removes it" || diag "$out"
package --directory "$scratch/out"
is "$rc $(tail -n 1 <<<"$out")" "1 packaging/build: --directory $scratch/out: name a directory that does not exist, in one that does" \
    "a directory that exists is refused"
ok "and not removed" test -f "$scratch/out/megatron.deb"

# Options that do not exist, and help.
for options in "--formt deb:unknown option --formt; packaging/build --help lists the options" "--format zip:--format zip: use deb or rpm"; do
    try env PATH="$scratch/bin:$PATH" "$tree/quickstart" package ${options%%:*}
    is "$rc $out" "2 packaging/build: ${options#*:}" "quickstart package ${options%%:*}: refused before anything is made"
done
try "$tree/quickstart" package --help
is "$rc $(grep -cE '^ +--(format|slurm|output) ' <<<"$out")" "0 3" "quickstart package --help lists the options" || diag "$out"
try "$tree/quickstart" build --help
is "$rc $(grep -c '^ *\./quickstart ' <<<"$out")" "0 4" "quickstart build --help lists the commands" || diag "$out"
done_testing
