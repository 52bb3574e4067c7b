#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The .bin and .idx files are identical to those of Megatron-LM's preprocess_data.py for the same documents.
data=${MEGATRON_TEST_DATA:-}
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/fixture.sh"

# Texts that are hard to split, with the ids of Hugging Face's tokenizer: the expected files are made
# from the ids.
perl -MJSON::PP - "$top/t/tokenizer/gpt2-reference.jsonl" hard <<'PERL' || skip_all "no perl with JSON::PP"
use strict;
my ($input, $name) = @ARGV;
my ($bin, $lengths, $pointers, $index, $at, $count, $documents) = ('', '', '', pack('q<', 0), 0, 0, 0);
open(my $lines, '<', $input) or die;
while (<$lines>) {
    my @ids = @{JSON::PP->new->utf8->decode($_)->{ids}};
    if (@ids) {
        push @ids, 50256;
        $lengths .= pack('l<', scalar @ids);
        $pointers .= pack('q<', $at);
        $bin .= pack('S<*', @ids);
        $at += 2 * @ids;
        $count++;
    }
    $index .= pack('q<', $count);
    $documents++;
}
open(my $out, '>:raw', "$name.bin") or die; print $out $bin; close $out;
open($out, '>:raw', "$name.idx") or die;
print $out "MMIDIDX\0\0" . pack('Q<CQ<Q<', 1, 8, $count, $documents + 1) . $lengths . $pointers . $index;
PERL
for workers in 1 3; do
    try "$megatron" preprocess --input "$top/t/tokenizer/gpt2-reference.jsonl" --output-prefix hard --append-eod \
        --workers $workers --chunk-bytes 20000 --overwrite
    is "$rc" 0 "texts that are hard to split, $workers threads"
    ok "  .bin and .idx are those of the reference" same hard hard
done

if [ ! -d "$data/tokenized" ]; then
    skip "corpora that Megatron-LM tokenized" "MEGATRON_TEST_DATA is not set"
    done_testing
fi
for name in sample tricky; do
    for family in gpt2 llama2; do
        options=()
        [ $family = gpt2 ] || options=(--tokenizer-type Llama2Tokenizer --tokenizer-model "$data/llama2/tokenizer.model")
        expected=$(ls "$data"/tokenized/$name.$family*eod.bin)
        try "$megatron" preprocess --input "$data/tokenized/$name.jsonl" --output-prefix $name.$family \
            --append-eod --workers 2 --chunk-bytes 200000 "${options[@]}"
        is "$rc" 0 "$name with $family"
        cmp "$expected" ${name}.${family}_text_document.bin
        ok "  .bin is Megatron-LM's" || diag "$out"
        cmp "${expected%bin}idx" ${name}.${family}_text_document.idx
        ok "  .idx is, too"
    done
done
done_testing
