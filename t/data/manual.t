#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The options that --help of each command shows are those of megatron-data(1).
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"
page=$top/runtime/run/command/megatron-data.1
[ -r "$page" ] || page=$MEGATRON_INST/share/man/man1/megatron-data.1
# Options of the tokenizer are those of another page.
tokenizer='^(tokenizer-.*|vocab-file|merge-file|vocab-size|special-tokens-as-text)$'
known=$(grep -oE 'Fl -[a-z-]+' "$page" | sed 's/Fl -//' | sort -u)
shown=
for verb in extract filter dedup decontaminate mix merge stats; do
    run $verb --help
    like "$rc $out" "^0 Usage: megatron data $verb --input " "$verb --help"
    options=$(grep -oE '^  --[a-z-]+' <<<"$out" | sed 's/^  --//' | grep -vE "$tokenizer" | sort -u)
    is "$(comm -23 <(echo "$options") <(echo "$known") | xargs)" "" "  all its options are in the manual"
    shown+="$options"$'\n'
done
run --help
shown+=$(grep -oE '^  --[a-z-]+' <<<"$out" | sed 's/^  --//')
is "$(comm -13 <(sort -u <<<"$shown") <(grep -vE "$tokenizer" <<<"$known") | xargs)" "" "and nothing else is"
for verb in extract filter dedup decontaminate mix merge stats inspect verify; do
    like "$out" "[ |]$verb[ |]" "megatron data --help names $verb"
done
if command -v mandoc >/dev/null; then
    is "$(mandoc -T lint -W warning "$page" 2>&1 | head -n 5)" "" "mandoc has nothing to say"
else
    skip "mandoc has nothing to say" "mandoc is not installed"
fi
done_testing
