#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How steps in images end: a task fails, is killed, or the step is cancelled, in an import or later. The
# user sees what it was and nothing else, and nothing is left. With the stand-in for Enroot, or with the
# real one (see registry.sh).
cd "$(dirname "$0")/../.." || exit 1
. t/tap.sh
. t/container/registry.sh
registry_up
image_cluster_up --nodes 4 --gpus 0 --conf SlurmdTimeout=5 --plugin-args "$image_arguments"
image=--megatron-image=${registry}small:1
containers() {
    local node
    for node in n1 n2 n3 n4; do
        tools/cluster node $node ps -eo stat=,args= | grep -v '^Z' | grep -E '[m]egatron-holder|[s]quashfuse'
    done
}
files() { ls "$cache/work"; ls -A "$MEGATRON_CLUSTER/tmp"; }
processes() { # the sleeping programs of this test
    local node
    for node in n1 n2 n3 n4; do tools/cluster node $node pgrep -a sleep; done
}
# clean WHAT: no container, process or file is left, and the nodes are healthy.
clean() {
    wait_until 60 eval '[ -z "$(containers; processes; files)" ]'
    is "$(containers; processes)" "" "$1 leaves no container and no process"
    is "$(files)" "" "and no files"
    wait_until 60 eval '! in_cluster sinfo -h -o %t | grep -q comp'
    is "$(in_cluster sinfo -h -o %D,%t)" 4,idle "no node was drained"
}
# importing: wait until the next import is in progress, where it stays for a while.
importing() {
    wait_until 60 sh -c "cd '$cache/work' && ls sha*.lease && pgrep -f '[e]nroot import -o $cache'" >/dev/null &&
        wait_until 60 eval '[ -n "$(processes)" ]'
}

# The program of one task of eight fails, on one of four nodes: the result is the same as without an image.
# It waits until the others run: a task that srun -K ends earlier, while it starts, may have another exit code. Standard
# error goes to files: srun -K may drop output that is still on its way when it ends the other tasks.
started=$home/started
program="touch $started/\$SLURM_PROCID
[ \$SLURM_PROCID != 5 ] || { until [ \$(ls $started | wc -l) = 8 ]; do sleep 0.1; done; echo 'rank 5 cannot go on' >&2; exit 7; }
exec sleep 600"
mkdir -m 777 "$started"
job srun -K -N4 --ntasks-per-node=2 sh -c "$program"
plain=$rc
rm "$started"/*
job srun -n1 "$image" true
is "$rc" 0 "an image"
job srun -K -e "$home/said.%t" -N4 --ntasks-per-node=2 "$image" --megatron-mounts="$started:$started" sh -c "$program"
out+=$'\n'$(cat "$home"/said.*)
is "$rc" "$plain" "one task of eight fails: the exit code is that without an image"
is "$(grep -c '^rank 5 cannot go on$' <<<"$out"):$(grep -c 'n3: task 5: Exited with exit code 7' <<<"$out")" 1:1 "its message and its code are reported once"
unlike "$out" megatron "nothing else is"
clean "a program that fails"
job srun -N4 --ntasks-per-node=2 "$image" sh -c '[ "$SLURM_PROCID" != 5 ] || exit 7'
is "$rc" 7 "without -K the other tasks finish, and the exit code is that of the failed one"
clean "that"

# One task of eight cannot be started in the image, on a node of its own: only there the directory is missing.
for node in n1 n2 n3; do tools/cluster node $node mkdir /dev/here; done
printf '%s\n' n1 n1 n1 n2 n2 n3 n3 n4 >"$home/hosts"
job env SLURM_HOSTFILE="$home/hosts" srun -m arbitrary -n8 "$image" --megatron-workdir=/dev/here sh -c 'pwd; exec sleep 600'
ok "one task of eight that does not start fails the step" test "$rc" -ne 0 -a "$rc" -ne 124
is "$(grep -c 'error: megatron: n4: cannot change to the directory /dev/here in the container: No such file or directory' <<<"$out")" 1 "the reason is reported once"
is "$(grep megatron <<<"$out" | wc -l)" 1 "and no more"
unlike "$out" '[Mm]unge|[Aa]uth' "nor any trace of how the others are told"
clean "a task that does not start"
for node in n1 n2 n3; do tools/cluster node $node rmdir /dev/here; done

# scancel in the middle of an import: nothing is left that the next one would wait for.
rm -f "$cache"/*.sqsh
delay=100 job_process srun -N2 -n2 "$image" true >/dev/null 2>&1 &
importing
ok "an import is under way"
as_user scancel --user="$(as_user id -un)"
wait $!
clean "scancel in an import"
# SIGKILL lets the task clean up nothing; slurmstepd does.
delay=100 job_process srun -n1 -w n1 "$image" true >/dev/null 2>&1 &
importing && tools/cluster node n1 pkill -KILL megatron-image
ok "a task that imports is killed"
wait $!
# What cleans up is outside the job's cgroups: the user must not be able to run code in it.
wait_until 60 eval 'tools/cluster node n1 pgrep -u "$(as_user id -u)" -x megatron-sweep >/dev/null'
sweep=$(tools/cluster node n1 pgrep -u "$(as_user id -u)" -x megatron-sweep | head -n 1)
traces n1 "$sweep"
how=$?
case $how in
0 | 1) is "$how:$(tools/cluster node n1 test -e "/proc/$sweep" && echo there)" 1:there "the sweep cannot be traced" ;;
*) skip "the sweep cannot be traced" "this kernel does not let users trace their own processes" ;;
esac
is "$(tools/cluster node n1 awk '/^NoNewPrivs/ {print $2}' "/proc/$sweep/status"):$(tools/cluster node n1 awk '/^Max processes/ {print $3}' "/proc/$sweep/limits")" 1:0 \
    "and starts nothing"
clean "its death"
job srun -n1 "$image" true
is "$rc" 0 "the next import works"

# scancel while programs run, and a slurmstepd that is killed with them, which leaves nobody to clean up but
# the next step.
for how in scancel kill-stepd; do
    job_process srun -w n1,n2 -N2 -n4 "$image" sleep 600 >/dev/null 2>&1 &
    wait_until 120 eval '[ "$(processes | wc -l)" = 4 ]'
    is "$(containers | grep -c holder)" 2 "a container on each node"
    if [ $how = kill-stepd ]; then
        for node in n1 n2; do
            tools/cluster kill-stepd $node
            tools/cluster node $node pkill -KILL sleep
        done
    fi
    as_user scancel --user="$(as_user id -un)"
    wait $!
    if [ $how = kill-stepd ]; then
        wait_until 60 eval '[ "$(in_cluster sinfo -h -o %D,%t)" = 4,idle ]'
        job srun -w n1,n2 -N2 -n2 "$image" true
        is "$rc" 0 "the next step works"
    fi
    clean "$how"
done
done_testing
