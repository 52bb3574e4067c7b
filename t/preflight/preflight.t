#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron preflight on a cluster: healthy nodes pass, and each injected fault is named with its node.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/faults.sh"
megatron=$MEGATRON_INST/bin/megatron
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
make_faults "$dir" || skip_all "no C compiler"
export MEGATRON_CACHE_DIR=$dir/cache

# --- Wrong usage ---------------------------------------------------------------------------------
while IFS='|' read -r args text; do
    # shellcheck disable=SC2086
    try "$megatron" preflight $args
    is "$rc $out" "2 megatron preflight: $text" "preflight $args"
done <<EOT
slow|unexpected argument slow; write quick or full
quick full|more than one argument (quick full); write either quick or full
--node p5.48xlrge|unknown node kind p5.48xlrge; did you mean p5.48xlarge, p5e.48xlarge or p5en.48xlarge?
--sysroot $dir/none|--sysroot $dir/none: No such file or directory; check the path
--scratch $dir/none --history mistakes|cannot create a file in $dir/none: No such file or directory; use --scratch with a directory that you can write to
--scratch /proc --history mistakes|cannot create a file in /proc: No such file or directory; use --scratch with a directory that you can write to
--shared $dir/none|--shared $dir/none: No such file or directory; check the path
EOT
# A mistake of the command line is not a fault of the node, and not remembered as one.
if [ -e /proc/driver/nvidia ]; then
    skip "--device cuda and --node on a node without GPUs" "this machine has a GPU"
else
    if ! ls "$MEGATRON_INST"/lib/megatron/device_cuda.so >/dev/null 2>&1; then
        try "$megatron" preflight --device cuda --history mistakes
        is "$rc" 2 "--device cuda without any GPU"
        like "$out" '^megatron preflight: no node has an NVIDIA GPU: .*\(looked in [^)]+\).*--device cpu$' "  and why, in full"
    fi
    mkdir machine
    sed "s/\"name\": \"H100\"/\"name\": \"X\"/; s/\"p5.48xlarge\"/\"x8\"/" "$MEGATRON_INST/share/megatron/machines/h100.json" >machine/x8.json
    try "$megatron" preflight --device cpu --machines machine --node x8 --history mistakes
    is "$rc" 3 "--node of a kind with GPUs"
    like "$out" '^fail .* gpus: 0 \(expected: 8\)' "  on a node without any"
    like "$out" '^ +correct --node; if the node should have GPUs, all are lost: drain it$' "  and what to do"
    ok "wrong options are not in the history" test ! -e mistakes
fi
mkdir machines
echo '{"nodes":[{"name":"bad","preflight":{"layer_fail":6}}]}' >machines/bad.json
try "$megatron" preflight --machines machines
is "$rc $out" "2 megatron preflight: machines/bad.json: node \"bad\": \"preflight\": \"layer_fail\" must be a number from 0 to 1; check its unit" \
    "a limit in a wrong unit is rejected"
try "$megatron" plan --megatron-model 1.3B --node cpu --nodes 1 --global-batch-size 8
is "$rc $out" "2 megatron plan: nodes of kind cpu have no GPUs; choose a kind with GPUs" "plan does not take nodes without GPUs"

# --- One rank ------------------------------------------------------------------------------------
try "$megatron" preflight --device cpu --all --records records.jsonl
is "$rc" 0 "one rank passes"
like "$out" '^preflight: 1 rank on 1 node passed [0-9]+ checks' "  and says so"
like "$out" "^ok +$(uname -n)  layer speed: rank 0: .* steps/s" "  with all checks on request"
like "$(cat records.jsonl)" '^\{"record":"preflight","version":1,"time":[0-9.]+,"host":"[^"]+","check":"answers","verdict":"ok",' \
    "  and records for the report"

# --- One rank of four, on four nodes --------------------------------------------------------------
try env RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=0 GROUP_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 \
    MASTER_PORT=$((21000 + $$ % 5000)) "$megatron" preflight --device cpu --timeout-seconds 1 --history none --json
is "$rc" 3 "ranks that do not answer are a failure"
is "$(grep -o '"ranks":.*"failed":\[[^]]*\]' <<<"$out")" '"ranks":4,"nodes":4,"failed":["rank 1","rank 2","rank 3"]' \
    "  of nodes of the job, and they are named"
# Hosts may have other names than Slurm's nodes, such as with a domain: rank 1 is on the node of rank 0.
try env SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NNODES=2 SLURM_STEP_NUM_NODES=2 \
    SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE='2(x2)' SLURM_STEP_NODELIST='node[1-2]' MASTER_ADDR=127.0.0.1 \
    MASTER_PORT=$((21000 + $$ % 5000)) "$megatron" preflight --device cpu --timeout-seconds 1 --history none --json
is "$(grep -o '"ranks":.*"failed":\[[^]]*\]' <<<"$out")" '"ranks":4,"nodes":2,"failed":["node1","node2"]' \
    "a node with two names is one"

# --- Records of a run ----------------------------------------------------------------------------
# One rank trains, and the report shows its time, its placement, and the verdicts from before.
mkdir run
try "$megatron" train --device cpu --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 \
    --micro-batch-size 1 --global-batch-size 2 --mock-data --tokenizer-type GPT2BPETokenizer --cpu-threads 1 \
    --train-iters 4 --log-interval 2 --straggler-interval 2 --eval-iters 0 --lr 1e-3 --metrics-file run/metrics.jsonl
is "$rc" 0 "a run with comparisons of its ranks" || diag "$out"
echo "$out" >run/train.log
cp records.jsonl run/preflight.jsonl
is "$(grep -o '"record":"[a-z]*"' run/metrics.jsonl | sort | uniq -c | xargs)" '1 record:placement 2 record:ranks' \
    "  writes where its ranks are and how long they take"
like "$(cat run/metrics.jsonl)" '^\{"record":"ranks","version":1,"time":[0-9.]+,"iteration":4,"hosts":\["[^"]+"\],"ms":\[[0-9.]+\]\}$' \
    "  as megatron report reads it"
try "$megatron" plan --megatron-model 1.7B --node p5 --nodes 1 --global-batch-size 8 --layout tp=2 --record run/plan.jsonl
is "$rc" 0 "a plan can be recorded, too"
try "$megatron" report run -o run/report.html
is "$rc $out" "0 " "megatron report reads the run"
for section in "<h3>Placement" "<h3>Preflight" 'class="heat"' "tp 2, pp 1, cp 1"; do
    like "$(cat run/report.html)" "$section" "  and shows: $section"
done
try "$megatron" train --straggler-interval -1
like "$out" 'straggler-interval=-1' "a negative interval is rejected"

# --- A cluster -----------------------------------------------------------------------------------
cluster_up --nodes 4 --gpus 0 --cpus 2
trap 'cluster_down; rm -rf "$dir"' EXIT
preflight() { # FAULT=NODE... -- ARG...: on four nodes, one rank each
    out=$(timeout 180 "$top/tools/cluster" run srun --chdir "$dir" -W 0 -K0 -N4 -n4 "$dir/node" nvml "$@" 2>err)
    rc=$?
}
on_failure() { [ ! -s err ] || diag "$(cat err)"; }

preflight -- --json
is "$rc" 0 "healthy nodes pass"
is "$(verdicts "$out")" "" "  without a failed check"
is "$(warnings "$out")" "" "  and without a warning"
is "$(grep -o '"form":.*"failed":\[\]' <<<"$out")" '"form":"quick","ranks":4,"nodes":4,"failed":[]' "  on four nodes"
for check in answers "core speed" "memory speed" "layer speed" results "held back" network "network loss" disk clock \
    "shared files" "open files" program driver gpus nics ecc clocks pcie nvlink xid "nic state"; do
    is "$(grep -o "\"host\":\"n3\",\"check\":\"$check\",\"verdict\":\"ok\"" <<<"$out" | wc -l)" 1 "  $check is checked"
done

preflight -- --scratch "$dir/none"
is "$rc $out" "2 " "a wrong option on four nodes"
is "$(grep -c 'cannot create a file' err)" 1 "  is reported once"

# Several faults at once: each is named, and nothing else.
preflight wrong=n1 nic=n2 driver=n3 hot=n4 ecc=n2 link=n3 narrow=n4 -- --json --spares 3 --exclude-file bad
is "$rc" 3 "more faulty nodes than spares are a failure"
is "$(verdicts "$out")" "n1 results,n2 ecc,n2 nics,n3 driver,n3 nvlink,n4 clocks,n4 pcie" "every fault is named, and no healthy node"
is "$(cat bad)" "n1,n2,n3,n4" "  and the nodes to leave out are written"
like "$out" '"check":"driver","verdict":"fail","value":"550.54.14","expected":"570.86.15, as on most nodes"' "  with value and expected value"
like "$out" '"check":"clocks","verdict":"fail","value":"0000:53:00.0: lowered by heat \(hardware limit\); 1755 of 1980 MHz"' "  and the cause"

preflight slow=n2 dies=n4 -- --json --timeout-seconds 30 --spares 2
is "$rc" 0 "enough spares: the job can go on"
is "$(failed_nodes "$out")" "n2 n4" "a node at half speed and a dead one are named, and no other" || diag "$(verdicts "$out")"
like "$(verdicts "$out")" 'n2 held back,.*n4 answers$' "  with the right check"

# --- History -------------------------------------------------------------------------------------
now=$(date +%s)
printf '%s\n' "{\"time\":$((now - 3 * 86400)),\"host\":\"$(uname -n)\",\"job\":\"7\",\"checks\":[\"ecc\"]}" \
    "{\"time\":$((now - 90 * 86400)),\"host\":\"old\",\"job\":\"1\",\"checks\":[\"ecc\"]}" "not json" >history
FAKE_ECC=1 LD_LIBRARY_PATH=$dir try "$megatron" preflight --device cpu --history history --machines "$dir/limits"
is "$rc" 3 "a node with memory errors fails"
like "$out" "^fail  $(uname -n)  history: failed 2 times within 7 days" "a node that fails twice in a week is named"
is "$(wc -l <history) $(grep -c '"checks":\["ecc"\]' history) $(grep -c '^not json$' history)" "3 2 1" \
    "the history gets the new failure, loses the oldest and keeps what it does not understand"

# --- A lossy link --------------------------------------------------------------------------------
if netns_usable; then
    prefix=mp$$
    trap 'netns_down $prefix 3; cluster_down; rm -rf "$dir"' EXIT
    netns_up $prefix 3
    ip netns exec ${prefix}2 iptables -A INPUT -i eth0 -m statistic --mode random --probability 0.05 -j DROP
    export -f netns_preflight
    try bash -c "netns_preflight $prefix 3"
    is "$(verdicts "$out")" "l2 network loss" "the node of a lossy link is named"
    netns_down $prefix 3
else
    skip "the node of a lossy link is named" "no network namespaces with iptables' statistic match"
fi
done_testing
