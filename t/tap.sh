# Test Anything Protocol for tests in bash, and a cluster for those that need one. Use:
#
#   #!/bin/bash
#   . "$(dirname "$0")/../tap.sh"
#   cluster_up --nodes 2
#   try in_cluster srun -n2 hostname
#   is "$rc" 0 "srun runs"
#   like "$out" '^n[12]$' "on a node"
#   done_testing
#
# The cluster goes down with the test, however that ends.
set -u
top=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/..")
export MEGATRON_BUILD=${MEGATRON_BUILD:-$top/_build}
export MEGATRON_INST=${MEGATRON_INST:-$top/_inst}
shared=$(readlink -f "$top/../shared" || true)
tap_count=0
tap_failed=0

# ok NAME [COMMAND...]: the command succeeds (without one: the last command did). Where it does not,
# a function on_failure of the test may say more.
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
    [ $# -eq 0 ] || diag "$* ended with $rc: $text"
    ! declare -F on_failure >/dev/null || on_failure
    return 1
}

# is GOT EXPECTED NAME
is() {
    [ "$1" = "$2" ]
    ok "$3" || { diag "got:      $1"; diag "expected: $2"; return 1; }
}

# like GOT REGEX NAME: a line of GOT matches the extended regular expression; unlike: none does.
like() {
    grep -qE -e "$2" <<<"$1"
    ok "$3" || { diag "got:       $1"; diag "wanted: /$2/"; return 1; }
}

unlike() {
    ! grep -qE -e "$2" <<<"$1"
    ok "$3" || { diag "got:       $1"; diag "unwanted: /$2/"; return 1; }
}

# try COMMAND...: run it for at most a minute; its output is in $out, its exit status in $rc.
# A function of this file may be the command.
try() {
    local limit=${TRY_LIMIT:-180}
    tried=$*
    case $1 in
    in_cluster | as_user)
        local how=()
        [ "$1" = in_cluster ] || how=(--user)
        shift
        out=$(timeout -k 5 "$limit" "$top/t/cluster" run "${how[@]}" "$@" 2>&1 </dev/null) ;;
    *) out=$(timeout -k 5 "$limit" "$@" 2>&1 </dev/null) ;;
    esac
    rc=$?
    forget_waiting
}

# Where the last job of a node is not quite over, srun says that it waits: that is no part of $out.
forget_waiting() {
    [[ $out != *"srun: job "* ]] ||
        out=$(grep -vE '^srun: job [0-9]+ (queued and waiting for|has been allocated) resources$' <<<"$out")
    return 0
}

# wait_until SECONDS COMMAND...: until it succeeds; fails when it never does.
wait_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@" 2>/dev/null; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

diag() { sed 's/^/# /' <<<"$*"; }

# skip_all REASON: before anything else was tested.
skip_all() {
    echo "1..0 # SKIP $*"
    exit 0
}

done_testing() {
    echo "1..$tap_count"
    [ $tap_failed -eq 0 ]
    exit
}

# cluster_up [OPTION...]: options of `t/cluster up`. Skips the test where no cluster can run.
cluster_up() {
    local missing
    [ "$(id -u)" = 0 ] || skip_all "a private cluster needs root"
    for missing in munged slurmctld slurmd srun; do
        PATH=$PATH:/usr/sbin command -v $missing >/dev/null || skip_all "$missing is not installed"
    done
    if ! tap_env=$("$top/t/cluster" up --owner $$ "$@"); then
        ok "the private cluster comes up" false
        done_testing
    fi
    eval "$tap_env"
    trap cluster_down EXIT
    trap 'exit 1' INT TERM HUP
}

cluster_down() { "$top/t/cluster" down --dir "$MEGATRON_CLUSTER"; }

in_cluster() { "$top/t/cluster" run "$@"; }

as_user() { "$top/t/cluster" run --user "$@"; }

# cluster_processes PATTERN: as pgrep -f, the processes of this cluster's steps only.
cluster_processes() {
    local pid
    for pid in $(pgrep -f "$1"); do
        ! tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qxF "SLURM_CONF=$MEGATRON_CLUSTER/etc/slurm.conf" ||
            echo "$pid"
    done
}

# Can `t/cluster up --cgroup` work here?
cgroups_usable() {
    if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
        grep -qw cpuset /sys/fs/cgroup/cgroup.subtree_control ||
            echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
    else
        [ -w /sys/fs/cgroup/cpuset/cpuset.cpus ] && [ -w /sys/fs/cgroup/devices/tasks ]
    fi
} 2>/dev/null
