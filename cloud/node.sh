#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install megatron on the nodes of a cluster whose Slurm is in /opt/slurm: AWS ParallelCluster and SageMaker
# HyperPod. One script for every kind of node; it finds out where it runs and can be repeated at any time.
#
#   node.sh SOURCE [CONFIGURE-OPTION...]
#
# SOURCE is a release tarball (make dist): a path, s3://BUCKET/KEY or https://... It is built where needed,
# for the Slurm in /opt/slurm, and installed in /opt/slurm/megatron.
#
#   ParallelCluster, head node    builds, adds the plugin's line to plugstack.conf last, and reconfigures Slurm.
#                                 /opt/slurm is exported to all nodes, so that this one build serves all of them.
#   ParallelCluster, other nodes  prepares what is local: the packages that the build needs to run, Enroot's
#                                 configuration, its EFA hook, the path. Writes nothing shared, so that many nodes can
#                                 boot at once.
#   HyperPod, every node          builds (each has its own /opt/slurm); the controller also adds the line.
#   node.sh --image               while an image (AMI) is built: only packages and what is local.
#
# Variables for tests and other layouts: MEGATRON_SLURM (/opt/slurm), MEGATRON_PREFIX ($MEGATRON_SLURM/megatron),
# MEGATRON_ROOT (prefix of /etc and /opt/ml), MEGATRON_PACKAGES=no (install no packages).
set -eu
slurm=${MEGATRON_SLURM:-/opt/slurm}
prefix=${MEGATRON_PREFIX:-$slurm/megatron}
root=${MEGATRON_ROOT-}
plugin=$prefix/lib/slurm/spank_megatron.so
export LC_ALL=C PATH=$slurm/bin:$slurm/sbin:$PATH:/usr/sbin:/sbin:/usr/local/bin:/usr/local/cuda/bin:/opt/amazon/openmpi/bin

say() { echo "megatron node.sh: $*"; }
die() { say "$*" >&2; exit 1; }

# head, compute, login, controller, worker: which node of which cluster is this?
kind_of_node() {
    local address
    if [ -f "$root/etc/parallelcluster/cfnconfig" ]; then
        case $(sed -n 's/^cfn_node_type=//p' "$root/etc/parallelcluster/cfnconfig") in
        HeadNode) echo head ;;
        ComputeFleet) echo compute ;;
        LoginNode) echo login ;;
        *) return 1 ;;
        esac
    elif [ -f "$root/opt/ml/config/resource_config.json" ]; then
        # The controller's group is named in provisioning_parameters.json; its address decides who we are.
        address=$(controller_address) || return 1
        if hostname -I 2>/dev/null | tr ' ' '\n' | grep -qxF "$address"; then echo controller; else echo worker; fi
    else
        return 1
    fi
}

controller_address() {
    python3 - "$root/opt/ml/config" <<'EOT'
import json, sys

def read(name):
    path = sys.argv[1] + "/" + name
    try:
        return json.load(open(path))
    except (OSError, ValueError) as error:
        sys.exit("megatron node.sh: cannot read %s: %s" % (path, getattr(error, "strerror", None) or error))

group = read("provisioning_parameters.json").get("controller_group")
for each in read("resource_config.json").get("InstanceGroups", []):
    for instance in each.get("Instances") or [] if group and each.get("Name") == group else []:
        if instance.get("CustomerIpAddress"):
            print(instance["CustomerIpAddress"])
            sys.exit(0)
sys.exit("megatron node.sh: no instance with an address in the controller's group %s; see %s" % (group, sys.argv[1]))
EOT
}

# Another Slurm may be in PATH.
release_of_slurm() { "$slurm/sbin/slurmd" -V 2>/dev/null | sed -n 's/^slurm[^ ]* \([0-9]*\.[0-9]*\).*/\1/p'; }

# --- packages ------------------------------------------------------------------------------------

install_packages() {
    [ "${MEGATRON_PACKAGES-}" != no ] || return 0
    if command -v apt-get >/dev/null; then
        apt-get -q -o DPkg::Lock::Timeout=600 update
        DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 --no-install-recommends install "$@"
    else
        dnf -q -y install "$@"
    fi
}

# ParallelCluster's images contain CUDA and libfabric, but neither NCCL nor cuDNN; NVIDIA's repository has them.
build_packages() {
    local cuda
    cuda=$(/usr/local/cuda/bin/nvcc --version 2>/dev/null | sed -n 's/.* release \([0-9]*\)\..*/\1/p')
    if command -v apt-get >/dev/null; then
        install_packages make gcc g++ pkg-config xz-utils libhwloc-dev libopenblas-dev libsimdjson-dev libxxhash-dev \
            zlib1g-dev liblzma-dev libzstd-dev libssl-dev squashfs-tools squashfuse
        [ -z "$cuda" ] || install_packages libnccl2 libnccl-dev "libcudnn9-cuda-$cuda" "libcudnn9-dev-cuda-$cuda" ||
            say "NCCL and cuDNN were not found in the package repositories; to train on GPUs, install them, or use an image that contains them (srun --megatron-image)"
    else
        install_packages make gcc gcc-c++ pkgconf-pkg-config xz hwloc-devel openblas-devel xxhash-devel zlib-devel \
            xz-devel libzstd-devel openssl-devel squashfs-tools
        install_packages simdjson-devel || say "simdjson was not found, so JSON input does not work; install simdjson-devel"
        [ -z "$cuda" ] || install_packages libnccl libnccl-devel "libcudnn9-cuda-$cuda" "libcudnn9-devel-cuda-$cuda" ||
            say "NCCL and cuDNN were not found in the package repositories; to train on GPUs, install them, or use an image that contains them (srun --megatron-image)"
    fi
}

# The packages that contain the files whose names are on standard input, one per line.
owners() {
    if command -v dpkg-query >/dev/null; then
        # With a merged /usr, dpkg may list a file under its old path.
        sed 'p; s/^\/usr//' | sort -u | xargs -r -d '\n' dpkg-query -S 2>/dev/null | sed -n 's/^\([^ :]*\):.*/\1/p'
    else
        xargs -r -d '\n' rpm -qf --qf '%{NAME}\n' 2>/dev/null | grep -v ' '
    fi || true
}

# Those of the packages named by the arguments that are installed, one per line.
installed() {
    if command -v dpkg-query >/dev/null; then
        dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p'
    else
        rpm -q --qf '%{NAME}\n' "$@" 2>/dev/null | grep -v ' '
    fi || true
}

# Nodes that do not build need the libraries of the build, but no compiler and no headers. The names of their packages
# depend on the release of the system, so the head node records those that it uses. hwloc is opened with dlopen.
record_packages() {
    {
        echo squashfs-tools
        ! command -v apt-get >/dev/null || echo squashfuse
        {
            ldd "$prefix/bin/megatron" "$prefix"/lib/megatron/*.so 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p'
            ldconfig -p | sed -n 's/^[[:space:]]*libhwloc\.so\.15 .* => //p'
        } | sort -u | xargs -r -d '\n' readlink -f | owners
    } | sort -u >"$work/packages"
    put "$work/packages" "$prefix/share/megatron/packages" 644
}

# A node that cannot get them joins the cluster nevertheless: jobs that do not use megatron run there.
install_recorded() {
    local list=$prefix/share/megatron/packages wanted missing
    [ "${MEGATRON_PACKAGES-}" != no ] && [ -s "$list" ] || return 0
    mapfile -t wanted <"$list"
    mapfile -t missing < <(installed "${wanted[@]}" | grep -vxF -f - "$list")
    [ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}" ||
        say "cannot install ${missing[*]}, which megatron needs on this node; let the node reach the package repositories, or use an AMI that contains them (image.yaml)"
}

# --- what each node needs of its own ----------------------------------------------------------------

# A file that differs is replaced as a whole: another process may be reading it.
put() { # put SOURCE TARGET MODE
    [ -f "$1" ] || return 0
    ! cmp -s "$1" "$2" || return 0
    mkdir -p "$(dirname "$2")"
    install -m "$3" "$1" "$2.new.$$"
    mv "$2.new.$$" "$2"
}

prepare_node() {
    put "$prefix/share/megatron/enroot/enroot.conf.d/megatron.conf" "$root/etc/enroot/enroot.conf.d/megatron.conf" 644
    put "$prefix/share/megatron/enroot/hooks.d/97-megatron-efa.sh" "$root/etc/enroot/hooks.d/97-megatron-efa.sh" 755
    printf 'export PATH=$PATH:%s/bin MANPATH=${MANPATH-}:%s/share/man\n' "$prefix" "$prefix" >"$work/profile"
    put "$work/profile" "$root/etc/profile.d/megatron.sh" 644
    command -v enroot >/dev/null || say "Enroot is not installed, so --megatron-image will not work on this node; install Enroot 4.0 or newer to use images"
}

# --- build -----------------------------------------------------------------------------------------

fetch() {
    case $1 in
    s3://*) aws s3 cp --only-show-errors "$1" "$work/source.tar.xz" ;;
    https://*) curl -fsSL --retry 5 -o "$work/source.tar.xz" "$1" ;;
    *) cp "$1" "$work/source.tar.xz" ;;
    esac || die "cannot get $1; check its URL or path, and that this node may read it (IAM role of the node for s3://)"
}

# The build is complete if its stamp names this tarball, these options and this Slurm. The stamp is written last.
build() {
    local stamp release
    release=$(release_of_slurm)
    [ -n "$release" ] || die "no Slurm in $slurm; set MEGATRON_SLURM to its prefix, the directory that has bin/srun"
    fetch "$source"
    stamp="$(sha256sum <"$work/source.tar.xz" | cut -d' ' -f1) Slurm $release $*"
    if [ "$(cat "$prefix/.built" 2>/dev/null)" = "$stamp" ]; then
        say "$prefix is up to date"
        record_packages
        return
    fi
    build_packages
    mkdir "$work/source" "$work/build"
    tar -xf "$work/source.tar.xz" -C "$work/source" --strip-components=1 || die "$source is not a tarball of megatron; make one with make dist or ./quickstart package"
    # A running program keeps its old file: make install replaces files, it does not write into them.
    cd "$work/build" &&
        "$work/source/configure" -q --prefix="$prefix" --with-slurm="$slurm" "$@" &&
        make -s -j"$(nproc)" &&
        rm -f "$prefix/.built" &&
        make -s install || die "the build of $source failed; see the output of make above"
    cd /
    record_packages
    echo "$stamp" >"$work/built"
    put "$work/built" "$prefix/.built" 644
    say "built for Slurm $release in $prefix"
}

# --- plugstack.conf --------------------------------------------------------------------------------

# Add the plugin's line, last of all, and only if Slurm accepts the plugin. The temporary file is not in
# plugstack.conf.d: some clusters include every file of that folder. The line is in plugstack.conf itself, which
# a configless Slurm sends to its nodes; it does not send included files. It says `optional`: with `required`, a node
# that is not ready would fail all jobs.
load_plugin() {
    local file=$slurm/etc/plugstack.conf others message
    [ -f "$plugin" ] || die "$plugin does not exist; plugstack.conf is unchanged"
    others=$(grep -lsE '^[[:space:]]*(required|optional)[[:space:]]+[^[:space:]]*spank_megatron\.so' "$file" "$slurm"/etc/plugstack.conf.d/* |
        xargs -r grep -hE '^[[:space:]]*(required|optional)[[:space:]]+[^[:space:]]*spank_megatron\.so' | awk '{ print $2 }' | grep -vxF "$plugin" || true)
    [ -z "$others" ] || die "plugstack.conf already loads another copy of the plugin, $others; delete that line first"
    if grep -qsE "^[[:space:]]*required[[:space:]]+$plugin([[:space:]]|\$)" "$file"; then
        say "$file already loads the plugin, with \`required': Slurm fails every job on a node without it; write \`optional'"
    elif grep -qsE "^[[:space:]]*optional[[:space:]]+$plugin([[:space:]]|\$)" "$file"; then
        say "$file already loads the plugin"
    else
        { cat "$file" 2>/dev/null || true; echo "optional $plugin"; } >"$work/plugstack.conf"
        # Try it before anyone else does.
        sed '/^[[:space:]]*PlugStackConfig=/Id' "$slurm/etc/slurm.conf" >"$work/slurm.conf"
        echo "PlugStackConfig=$work/plugstack.conf" >>"$work/slurm.conf"
        message=$(SLURM_CONF=$work/slurm.conf srun --megatron-model=list 2>&1) ||
            die "Slurm does not accept the plugin; plugstack.conf is unchanged: $(head -n 1 <<<"$message")"
        install -m 644 "$work/plugstack.conf" "$file.new.$$"
        mv "$file.new.$$" "$file"
        say "added to $file: optional $plugin"
    fi
    scontrol reconfigure 2>/dev/null || say "slurmctld does not answer yet; it reads plugstack.conf when it starts"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case ${1-} in
'' | -h | --help) sed -n '3,/^set /s/^# \{0,1\}//p' "$0" | sed '$d'; [ -n "${1-}" ] && exit 0 || exit 2 ;;
--image)
    build_packages
    exit 0 ;;
-*) die "unknown option $1; see node.sh --help" ;;
esac
source=$1
shift
kind=$(kind_of_node) || die "this is a node of neither ParallelCluster nor HyperPod, or its configuration is incomplete; see /etc/parallelcluster/cfnconfig or /opt/ml/config"
say "this is a $kind node"
case $kind in
head)
    build "$@"
    prepare_node
    load_plugin ;;
compute | login)
    # The head is ready before other nodes boot. If it is not, the node works, without the plugin.
    [ -f "$plugin" ] || say "$plugin does not exist: the head node has not built it; see the output of node.sh there"
    install_recorded
    prepare_node ;;
worker | controller)
    build "$@"
    prepare_node
    [ $kind = worker ] || load_plugin ;;
esac
