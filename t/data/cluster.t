#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron data as a step of a cluster: ranks over nodes write what one process writes.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"
cluster_up --nodes 4 --gpus 0 --cpus 2 --plugin no
trap 'cluster_down; rm -rf "$scratch"' EXIT
chmod 777 "$scratch"
{ make_texts 5 800; make_texts 6 200; make_texts 5 800 | sed 's/the end/of them/'; } >m.jsonl
make_dump 40 | bzip2 -1 >m.xml.bz2
for verb in filter dedup mix extract; do
    input=m.jsonl
    [ $verb != extract ] || input=m.xml.bz2
    run $verb --input $input --output one.jsonl --overwrite
    try as_user srun -N4 --ntasks-per-node=1 "$megatron" data $verb --input "$scratch/$input" \
        --output "$scratch/$verb.jsonl" --chunk-bytes 50k
    is "$rc $(grep -c '^Done: ' <<<"$out")" "0 1" "srun -N4 megatron data $verb" || diag "$out"
    ok "  writes the same bytes" cmp one.jsonl "$scratch/$verb.jsonl"
    ok "  and leaves nothing behind" [ ! -e "$scratch/$verb.jsonl.work" ]
done
done_testing
