#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# On a cluster: ranks over nodes, the job script, and a short version of the kill campaign.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/fixture.sh"
cluster_up --nodes 2 --gpus 0 --cpus 4 --plugin no
trap 'cluster_down; rm -rf "$scratch"' EXIT
chmod 777 "$scratch"
make_corpus 1 800 c

try as_user srun -N2 --ntasks-per-node=2 "${pre[@]}" --input "$scratch/c.jsonl" --output-prefix "$scratch/o" --chunk-bytes 20000
is "$rc" 0 "four ranks on two nodes" || diag "$out"
ok "make the right bytes" same c "$scratch/o"
is "$(grep -c '^Done' <<<"$out")" 1 "one of them sums up"
like "$out" 'per core of 4$' "and counts the CPUs of all ranks"

export MEGATRON=$megatron
try as_user sbatch -W -N2 -o "$scratch/job.log" "$top/sbatch/preprocess.sbatch" "${null[@]}" --append-eod \
    --input "$scratch/c.jsonl" --output-prefix "$scratch/b" --chunk-bytes 20000
job=${out##* }
is "$rc" 0 "the job script" || diag "$(cat "$scratch/job.log")"
ok "makes the right bytes" same c "$scratch/b"
try in_cluster scontrol show job "$job"
like "$out" 'NumCPUs=8 ' "with all CPUs of both nodes"
try as_user env INPUT="$scratch/c.jsonl" OUTPUT_PREFIX="$scratch/g" sbatch -W -o "$scratch/job2.log" "$top/sbatch/preprocess.sbatch"
is "$rc" 0 "with variables, on one node" || diag "$(cat "$scratch/job2.log")"
[ -s "$scratch/g_text_document.idx" ]
ok "it has output"
try as_user env OUTPUT_PREFIX="$scratch/h" sbatch -W -o "$scratch/job3.log" "$top/sbatch/preprocess.sbatch"
is "$rc" 0 "without anything" || diag "$(cat "$scratch/job3.log")"
try "$megatron" data verify "$scratch/h_text_document"
is "$rc" 0 "it makes a whole pair of what is on the machine" || diag "$out"
cluster_down
trap 'rm -rf "$scratch"' EXIT

TRY_LIMIT=300 try "$top/t/campaign/preprocess-kill" "${KILLS:-3}" 7
is "$rc" 0 "${KILLS:-3} random kills of ranks, nodes and slurmstepd"
diag "$out"
done_testing
