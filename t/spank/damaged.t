#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# topology= in plugstack.conf names a damaged file. hwloc crashes while it reads some of these, and slurmd is root: it
# must survive, with one line in its log, and so must every job that does not use the plugin.
. "$(dirname "$0")/common.sh"
scratch=$(mktemp -d)
trap 'cluster_down; rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
whole=$top/t/topologies/cpu-only.xml
[ -f "$MEGATRON_INST/bin/megatron" ] || skip_all "no megatron in $MEGATRON_INST"

# The file with the word number N of its kind misspelt.
misspell() { perl -0pe 'BEGIN { $n = shift; $w = shift } s/\b$w\b/$n-- == 0 ? "X" . substr($w, 1) : $w/ge' "$1" "$2" "$whole"; }

# One that crashes hwloc: which ones do depends on its release.
crashes=
for word in complete_cpuset cpuset nodeset type; do
    for ((i = 0; i < 12; i++)); do
        misspell $i $word >"$scratch/try.xml"
        "$MEGATRON_INST/bin/megatron" topo --topology "$scratch/try.xml" --tasks 1 2>&1 | grep -q 'hwloc crashed' || continue
        mv "$scratch/try.xml" "$scratch/crash.xml"
        crashes=yes
        break 2
    done
done
head -c 3000 "$whole" >"$scratch/cut.xml"
misspell 1 topology >"$scratch/other.xml"
head -c 20000 /dev/urandom >"$scratch/noise.xml"
: >"$scratch/empty.xml"
cp "$whole" "$scratch/node.xml"
chmod 644 "$scratch"/*.xml

cluster_up --nodes 1 --gpus 0 --plugin-args "topology=$scratch/node.xml"
log=$MEGATRON_CLUSTER/log/n1
daemon() { pgrep -f "slurmd -D -N n1 -f $SLURM_CONF" | sort | xargs; }

# restart FILE: slurmd starts with this topology.
restart() {
    "$top/tools/cluster" kill-node n1
    : >"$log"
    cp "$scratch/$1" "$scratch/node.xml"
    rm -f "$MEGATRON_CLUSTER"/run/megatron/*
    "$top/tools/cluster" start-node n1
    wait_until 60 grep -q 'slurmd started on' "$log"
}

for file in crash cut other noise empty; do
    if [ ! -f "$scratch/$file.xml" ]; then
        skip "$file.xml" "this hwloc crashes on none of the files that were tried"
        continue
    fi
    restart $file.xml
    nodes_well "$file.xml: slurmd starts"
    is "$(grep -c 'error: megatron: ' "$log")" 1 "  with one line in its log" || diag "$(cat "$log")"
    like "$(cat "$log")" "error: megatron: cannot export the topology of this node, so each step discovers it: .*$scratch/node.xml" "  that names the file" ||
        diag "$(cat "$log")"
    before=$(daemon)
    try as_user srun -n2 hostname
    is "$rc $(xargs <<<"$out")" "0 n1 n1" "  other jobs run, without a word" || diag "$out"
    try as_user srun -n2 --megatron-bind=core echo ran
    is "$rc $(grep -c 'error: megatron: ' <<<"$out") $(grep -c '^ran$' <<<"$out")" "1 1 0" "  a step with the plugin fails with one line" || diag "$out"
    like "$out" "error: megatron: n1: .*$scratch/node.xml" "  that names the file, too" || diag "$out"
    is "$(daemon)" "$before" "  and slurmd is the same process as before"
done
[ -z "$crashes" ] || like "$(restart crash.xml; cat "$log")" 'is damaged: hwloc crashed while reading it \(signal [0-9]+\)' "hwloc did crash, in another process"
restart ../"$(realpath --relative-to="$scratch/.." "$whole")"
try as_user srun -n2 --megatron-bind=core echo ran
is "$rc $(grep -c '^ran$' <<<"$out")" "0 2" "with the whole file, steps run again" || diag "$out"
is "$(grep -c 'error: megatron' "$log")" 0 "and the log has no error"
nodes_well "no node is drained"
done_testing
