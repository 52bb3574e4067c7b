#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The output does not depend on how the work is divided: random corpora, ranks, threads, splits, codecs.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/fixture.sh"
SEED=${SEED:-4711}
RANDOM=$SEED
packs=('cat' 'cat' 'cat' 'gzip -1' 'xz -0 --block-size=5000' 'bzip2 -1')
for round in $(seq "${ROUNDS:-40}"); do
    make_corpus "$round" $((RANDOM % 300)) c
    rm -rf in o_*
    mkdir in
    pack=${packs[RANDOM % ${#packs[@]}]}
    command -v "${pack%% *}" >/dev/null || pack=cat
    pieces=$((RANDOM % 3 + 1))
    split -n l/$pieces -d c.jsonl in/p
    for file in in/p*; do $pack <"$file" >"$file.x"; rm "$file"; done
    n=$((RANDOM % 4 + 1)) threads=$((RANDOM % 4 + 1)) chunk=$((RANDOM % 20000 + 1))
    ranks $n --input in --output-prefix o --workers $threads --chunk-bytes $chunk && same c o && whole o
    ok "$n ranks of $threads threads, $pieces files by ${pack%% *} in chunks of $chunk"
done
done_testing
