# SPDX-License-Identifier: Apache-2.0
# The Test Anything Protocol for tests in bash, and a cluster for tests that need one. Example:
#
#   #!/bin/bash
#   . "$(dirname "$0")/../tap.sh"
#   cluster_up --nodes 2
#   try in_cluster srun -n2 hostname
#   is "$rc" 0 "srun runs"
#   like "$out" '^n[12]$' "on a node"
#   done_testing
#
# The cluster is stopped when the test ends, however it ends. t/README.md lists the environment variables.
set -u
top=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/..")
export MEGATRON_BUILD=${MEGATRON_BUILD:-$top/_build}
export MEGATRON_INST=${MEGATRON_INST:-$top/_inst}
# The directory of a real Enroot, if one is installed with what serves images to it; an empty value
# chooses the stand-in in t/container.
# `command -v` of several names succeeds if one of them is found: ask for each.
if [ -z "${MEGATRON_TEST_ENROOT+set}" ] && command -v enroot >/dev/null && command -v docker-registry >/dev/null &&
    command -v umoci >/dev/null && command -v skopeo >/dev/null && command -v curl >/dev/null; then
    MEGATRON_TEST_ENROOT=$(dirname "$(command -v enroot)")
fi
export MEGATRON_TEST_ENROOT=${MEGATRON_TEST_ENROOT-}
# Starts ranks on this machine: "${launch[@]}" RANKS -- COMMAND...
launch=("$MEGATRON_BUILD/runtime/megatron" launch --bind none --no-label --max-restarts 0 --nproc-per-node)
tap_count=0
tap_failed=0
# Whoever lets a test take longer than usual lets its commands take longer, too.
patience=$(((${MEGATRON_TEST_LIMIT:-600} + 599) / 600))

# ok NAME [COMMAND...]: passes if the command succeeds (without a command: if the last one did). If it
# fails and the test defines a function on_failure, that is called to print more.
ok() {
    local rc=$? name=$1 text=''
    shift
    [ $# -eq 0 ] || { text=$("$@" 2>&1); rc=$?; }
    tap_count=$((tap_count + 1))
    if [ "$rc" -eq 0 ]; then
        echo "ok $tap_count - $name"
        return 0
    fi
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_count - $name"
    [ $# -eq 0 ] || diag "$* exited with $rc: $text"
    ! declare -F on_failure >/dev/null || on_failure
    return 1
}

# is GOT EXPECTED NAME
is() {
    [ "$1" = "$2" ]
    ok "$3" || { diag "got:      $1"; diag "expected: $2"; return 1; }
}

# like GOT REGEX NAME: passes if a line of GOT matches the extended regular expression; unlike: if none does.
like() {
    grep -qE -e "$2" <<<"$1"
    ok "$3" || { diag "got:       $1"; diag "expected: /$2/"; return 1; }
}

unlike() {
    ! grep -qE -e "$2" <<<"$1"
    ok "$3" || { diag "got:       $1"; diag "must not match: /$2/"; return 1; }
}

# try COMMAND...: run it, for at most TRY_LIMIT seconds (180). Its output is in $out, its exit status in
# $rc. The command may also be in_cluster or as_user.
try() {
    local limit=$((${TRY_LIMIT:-180} * patience))
    tried=$*
    case $1 in
    in_cluster | as_user)
        local how=()
        [ "$1" = in_cluster ] || how=(--user)
        shift
        out=$(timeout -k 5 "$limit" "$top/tools/cluster" run "${how[@]}" "$@" 2>&1 </dev/null) ;;
    *) out=$(timeout -k 5 "$limit" "$@" 2>&1 </dev/null) ;;
    esac
    rc=$?
    forget_waiting
}

# If a node is still cleaning up after its last job, srun reports that it waits. Drop that from $out.
forget_waiting() {
    [[ $out != *"srun: job "* ]] ||
        out=$(grep -vE '^srun: job [0-9]+ (queued and waiting for|has been allocated) resources$' <<<"$out")
    return 0
}

# wait_until SECONDS COMMAND...: repeat the command until it succeeds; fail after SECONDS.
wait_until() {
    local end=$((SECONDS + $1 * patience))
    shift
    until "$@" 2>/dev/null; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

diag() { sed 's/^/# /' <<<"$*"; }

# skip NAME REASON: a test that cannot run here. Every test that is skipped conditionally calls
# this, so that the output of prove names what was not tested and why.
skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# skip_all REASON: the whole file cannot run here. Call it before the first test.
skip_all() {
    echo "1..0 # SKIP $*"
    exit 0
}

done_testing() {
    echo "1..$tap_count"
    [ $tap_failed -eq 0 ]
    exit
}

# cluster_up [OPTION...]: start a cluster with these options of `tools/cluster up`. Skips the whole file if no
# cluster can run here.
cluster_up() {
    local missing
    [ "$(id -u)" = 0 ] || skip_all "a private cluster needs root"
    for missing in munged slurmctld slurmd srun; do
        PATH=${MEGATRON_TEST_SLURM:+$MEGATRON_TEST_SLURM/bin:$MEGATRON_TEST_SLURM/sbin:}$PATH:/usr/sbin command -v $missing >/dev/null || skip_all "$missing is not installed"
    done
    if ! tap_env=$("$top/tools/cluster" up --owner $$ "$@"); then
        ok "the private cluster starts" false
        done_testing
    fi
    eval "$tap_env"
    trap cluster_down EXIT
    trap 'exit 1' INT TERM HUP
}

cluster_down() { "$top/tools/cluster" down --dir "$MEGATRON_CLUSTER"; }

in_cluster() { "$top/tools/cluster" run "$@"; }

as_user() { "$top/tools/cluster" run --user "$@"; }

# cluster_processes PATTERN: like pgrep -f, but only the processes of this cluster's steps.
cluster_processes() {
    local pid
    for pid in $(pgrep -f "$1"); do
        ! tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qxF "SLURM_CONF=$MEGATRON_CLUSTER/etc/slurm.conf" ||
            echo "$pid"
    done
}

# Succeeds if `tools/cluster up --cgroup` can work here.
cgroups_usable() {
    if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
        grep -qw cpuset /sys/fs/cgroup/cgroup.subtree_control ||
            echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
    else
        [ -w /sys/fs/cgroup/cpuset/cpuset.cpus ] && [ -w /sys/fs/cgroup/devices/tasks ]
    fi
} 2>/dev/null
