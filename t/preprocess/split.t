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

# --- Units of work do not become so small that there are too many of them
yes '{"text":"1 2 3 4"}' | head -n 1740 >small.jsonl
rm -rf o_*
try "${pre[@]}" --input small.jsonl --output-prefix o --chunk-bytes 1
is "$rc $(stat -c %s o_text_document.bin)" "0 17400" "an input of 33060 bytes in units of 1 byte"
like "$out" '^megatron: note: units of work are raised from 1 to 2 bytes for this input of 33060 bytes$' \
    "  gets larger ones, and this is reported"
try "${pre[@]}" --input small.jsonl --output-prefix o --overwrite --chunk-bytes 2k
unlike "$out" 'units of work' "units that are large enough are not changed"
yes a b c d e f | head -n 3000 >words
try "$megatron" preprocess --tokenizer-type FairseqWords --input words --output-prefix w --chunk-bytes 1
is "$rc $(grep -c 'note: units of work are raised from 1 to 2 bytes for this input of 36000 bytes' <<<"$out")" "0 1" "reported once, also if a dictionary is made"
done_testing
