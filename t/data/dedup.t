#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron data dedup: the first of several equal or similar documents stays; planted pairs are found as often as
# theory says, and nothing else is dropped.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"

# --- Equal texts.
printf '%s\n' '{"id":0,"text":"a"}' '{"id":1,"text":"b"}' '{"id":2,"text":"\u0061"}' '{"id":3,"text":"A"}' '{"text":"b","id":4,"x":1}' \
    '{"id":5,"text":""}' '{"id":6,"text":"a"}' '{"id":7,"text":""}' >e.jsonl
run dedup --exact --input e.jsonl --output e.out --keep-dropped e.dropped
is "$rc $(ids e.out | xargs)" "0 0 1 3 5" "the first of equal texts is kept" || diag "$out"
is "$(cat e.dropped)" '{"dropped":"duplicate","number":2,"of":0,"document":{"id":2,"text":"\u0061"}}
{"dropped":"duplicate","number":4,"of":1,"document":{"text":"b","id":4,"x":1}}
{"dropped":"duplicate","number":6,"of":0,"document":{"id":6,"text":"a"}}
{"dropped":"duplicate","number":7,"of":5,"document":{"id":7,"text":""}}' "the others are dropped, with the number of the first"
like "$out" '^  dropped:         4 duplicates of 3 documents; the largest cluster has 3$' "and counted"

# --- Planted pairs: an original, and a copy with some of its words replaced. The similarity of each pair is computed
# here; the sum of 1-(1-s^r)^b over all pairs is how many are found, give or take four deviations.
cat >plant.pl <<'PERL'
use strict;
my ($seed, $pairs, $bands, $rows) = @ARGV;
srand($seed);
my @words = map { join "", map { chr(97 + int(rand(26))) } 1 .. 3 + int(rand(6)) } 1 .. 5000;
my ($expected, $variance) = (0, 0);
my @documents;
for my $i (0 .. $pairs - 1) {
    my @text = map { $words[int(rand(@words))] } 1 .. 200;
    my @copy = @text;
    $copy[int(rand(@copy))] = "other" . int(rand(1000)) . "x" for 1 .. $i % 16;
    my (%a, %b);
    $a{join " ", @text[$_ .. $_ + 4]} = 1 for 0 .. @text - 5;
    $b{join " ", @copy[$_ .. $_ + 4]} = 1 for 0 .. @copy - 5;
    my $common = grep { $b{$_} } keys %a;
    my $s = $common / (keys(%a) + keys(%b) - $common);
    my $p = 1 - (1 - $s ** $rows) ** $bands;
    $expected += $p;
    $variance += $p * (1 - $p);
    push @documents, [2 * $i, @text], [2 * $i + 1, @copy];
}
# Originals first, in random order; then the copies.
my @order = ((map { 2 * $_ } 0 .. $pairs - 1), map { 2 * $_ + 1 } 0 .. $pairs - 1);
for my $at (@order) {
    my ($id, @text) = @{$documents[$at]};
    print qq({"id":$id,"text":"), ucfirst(join " ", @text), qq(."}\n);
}
printf STDERR "%d %d\n", $expected - 4 * sqrt($variance) - 1, $expected + 4 * sqrt($variance) + 1;
PERL
while read -r preset bands rows pairs options; do
    limits=$(perl plant.pl 7 "$pairs" "$bands" "$rows" 2>&1 >"p.$preset.jsonl")
    # shellcheck disable=SC2086
    run dedup --preset $preset --input "p.$preset.jsonl" --output "p.$preset.out" --keep-dropped "p.$preset.dropped" $options
    found=$(wc -l <"p.$preset.dropped")
    ok "$preset: $found of $pairs pairs found, ${limits% *} to ${limits#* } expected" \
        [ "$found" -ge "${limits% *}" -a "$found" -le "${limits#* }" ] || diag "$out"
    is "$(perl -ne '/"number":(\d+),"of":(\d+),.*"id":(\d+),/ or die; print "$3 is no copy of $2\n" if $3 % 2 == 0 || $2 * 2 + 1 != $3' \
        "p.$preset.dropped")" "" "  only copies are dropped, each as one of its own original"
done <<'ROWS'
fineweb 14 8 800
refinedweb 450 20 60
nemo 20 13 200 --ngram-unit words --ngram 5
ROWS
run dedup --preset nemo --input p.nemo.jsonl --output p.chars.out
is "$rc $(($(wc -l <p.chars.out) >= 200 && $(wc -l <p.chars.out) < 350))" "0 1" "shingles of 24 characters" || diag "$out"

# --- Comparison: nothing below the similarity is dropped.
run dedup --input p.fineweb.jsonl --output j.out --keep-dropped j.dropped --jaccard 0.8
without=$(wc -l <p.fineweb.dropped) with=$(wc -l <j.dropped)
ok "with --jaccard fewer documents are dropped ($with, not $without)" [ "$with" -gt 100 -a "$with" -lt "$without" ]
like "$out" '^  compared: +[0-9]+ pairs, of which [0-9]+ have a similarity of 0.8 or more$' "and pairs are counted"
is "$(comm -13 <(ids p.fineweb.dropped | sort) <(ids j.dropped | sort))" "" "with --jaccard they are a subset"

# --- Clusters: c is like b, and b like a.
perl -e 'my @w = map { "word$_" . chr(97 + $_ % 26) x 3 } 1 .. 300; my @v = @w; my @u;
    sub show { my ($id, @t) = @_; print qq({"id":$id,"text":"@t"}\n) }
    show(0, map { "first$_" } 1 .. 300); show(1, @w); $v[$_ * 60] = "x" for 0 .. 4; show(2, map { "last$_" } 1 .. 300);
    show(3, @v); @u = @v; $u[$_ * 60 + 30] = "y" for 0 .. 4; show(4, @u); show(5, @u)' | sed 's/word\([0-9]*\)/word/' >c.jsonl
run dedup --bands 200 --rows 3 --input c.jsonl --output c.out
is "$(ids c.out | xargs)" "0 1 2" "a cluster keeps its first document, in the order of the input"

# --- The same bytes, however it is run.
{ make_texts 5 1500; make_texts 6 300; make_texts 5 1500 | sed 's/the end/of them/'; } >m.jsonl
run dedup --input m.jsonl --output one.jsonl --keep-dropped one.dropped --workers 1
is "$rc $(($(wc -l <one.jsonl) + $(wc -l <one.dropped))) $(($(wc -l <one.dropped) > 1450))" "0 3300 1" "near-duplicates throughout a file" || diag "$out"
run dedup --input m.jsonl --output two.jsonl --keep-dropped two.dropped --workers 4 --chunk-bytes 40k --buckets 7
ok "other threads, pieces and buckets" cmp one.jsonl two.jsonl
ok "  dropped documents, too" cmp one.dropped two.dropped
ranks 3 dedup --input m.jsonl --output three.jsonl --keep-dropped three.dropped --chunk-bytes 60k
ok "three ranks" || diag "$(cat rank?.log)"
ok "  write the same" cmp one.jsonl three.jsonl
ok "  and the same dropped documents" cmp one.dropped three.dropped
ranks 2 dedup --input m.jsonl --output four.jsonl --jaccard .5 --chunk-bytes 100k
ok "two ranks that compare" cmp one.jsonl four.jsonl

# --- Wrong usage.
while IFS='|' read -r words text; do
    # shellcheck disable=SC2086
    run dedup $words
    is "$rc" 2 "dedup $words"
    like "$out" "^megatron data: dedup: $text" "  $out"
done <<'ROWS'
--input - --output x.jsonl|dedup reads its input more than once; give a file instead of standard input
--input e.jsonl --output x.jsonl --exact --bands 3|--exact and --bands cannot be used together
--input e.jsonl --output x.jsonl --jaccard 1.5|--jaccard=1.5 must be greater than 0 and at most 1
ROWS
done_testing
