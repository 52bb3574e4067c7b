#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron data decontaminate: Megatron's rule and the one that drops documents.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"
filler() { perl -e 'srand($ARGV[0]); for (1 .. $ARGV[1]) { print join(" ", map { join "", map { chr(97 + int(rand(26))) } 1 .. 4 } 1 .. 9), ". " }' "$@"; }
question='The capital of the small country in the far north is a town of stone houses'
short='who wrote the first book about these islands'
printf '%s\n' "{\"q\":\"$question\",\"a\":[\"a\",\"b\"]}" "{\"q\":\"$short\"}" '{"q":"too few words"}' >tests.jsonl
before=$(filler 1 12) after=$(filler 2 12)
printf '%s\n' "{\"id\":0,\"text\":\"$(filler 3 5)\"}" \
    "{\"id\":1,\"text\":\"$before ${question^^}? $after\"}" \
    "{\"id\":2,\"text\":\"$(filler 4 2) $question. $(filler 5 2)\"}" \
    "{\"id\":3,\"text\":\"$(filler 6 12) Tell me: $short? $(filler 7 1)\"}" >in.jsonl
run decontaminate --input in.jsonl --against tests.jsonl --against-keys q a --output out.jsonl --keep-dropped dropped.jsonl
is "$rc $(ids out.jsonl | xargs)" "0 0 1 1 3" "what is left of contaminated documents" || diag "$out"
is "$(ids dropped.jsonl | xargs)" "2" "a short contaminated document is dropped"
unlike "$(cat out.jsonl)" "[Cc][Aa][Pp][Ii][Tt][Aa][Ll] |first book" "no test text remains"
# As Megatron's script: 200 characters before, back to the end of a sentence; the same after it.
expected=$(perl -e 'my ($b, $q, $a) = @ARGV; my $t = "$b $q? $a"; my $s = index($t, $q); my $p = $s - 200; $p-- while substr($t, $p, 1) !~ /[.!?]/;
    my @w = split / /, $q; my $e = $s + length(join " ", @w[0 .. 12]) + 200; $e++ while substr($t, $e, 1) !~ /[.!?]/;
    print substr($t, 0, $p + 1), "|", substr($t, $e + 1)' "$before" "${question^^}" "$after")
is "$(sed -n 's/.*"id":1,"text":"\(.*\)"}/\1/p' out.jsonl | paste -sd'|')" "$expected" "documents are cut at the ends of sentences"
like "$out" '^  test sets:       5 texts, 5 n-grams of up to 13 words, 0 ignored as frequent$' "the tests are counted" || diag "$out"
like "$out" '^  cut:             1 trimmed, 1 split into several$' "and the cuts"

# --- N-grams that are everywhere are no sign of a test. (Of those that overlap the first is counted, as in Megatron.)
often=$(cut -d' ' -f1-13 <<<"$question")
for i in {1..12}; do printf '{"id":%d,"text":"%s %s."}\n' $i "$(filler 1$i 3)" "$often"; done >often.jsonl
run decontaminate --input often.jsonl --against tests.jsonl --against-keys q --output often.out
is "$rc $(wc -l <often.out)" "0 12" "frequent n-grams are ignored" || diag "$out"
run decontaminate --input often.jsonl --against tests.jsonl --against-keys q --output often2.out --spare 13
ok "unless more are wanted" [ "$(grep -c 'small country' often2.out)" = 0 ]

# --- Drop.
printf '%s\n' "${question:0:60}" "a line of a test that has twelve words in it and some more" >tests.txt
printf '%s\n' '{"id":0,"text":"nothing"}' '{"id":1,"text":"x A LINE, of a: test that has twelve words in it and y"}' \
    '{"id":2,"text":"a line of a test that has eleven words in it and some"}' >drop.jsonl
run decontaminate --input drop.jsonl --against tests.txt --against-text --rule drop --output drop.out --keep-dropped drop.dropped
is "$rc $(ids drop.out | xargs) $(ids drop.dropped)" "0 0 2 1" "documents with a 12-gram are dropped" || diag "$out"

# --- The same bytes with any number of ranks.
{ make_texts 1 800; cat in.jsonl often.jsonl; make_texts 2 800; } >m.jsonl
run decontaminate --input m.jsonl --against tests.jsonl --against-keys q --output one.jsonl --spare 20 --workers 1
ranks 3 decontaminate --input m.jsonl --against tests.jsonl --against-keys q --output two.jsonl --spare 20 --chunk-bytes 50k
ok "three ranks" || diag "$(cat rank?.log)"
ok "write the same" cmp one.jsonl two.jsonl
ok "  which is not all of it" [ "$(grep -c 'small country' two.jsonl)" = 0 ]

echo '{"text":"too few words"}' >few.jsonl
while IFS='|' read -r words text; do
    # shellcheck disable=SC2086
    run decontaminate $words
    is "$rc" 2 "decontaminate $words"
    like "$out" "^megatron data: decontaminate: $text" "  $out"
done <<'ROWS'
--input in.jsonl --output x.jsonl|--against is required
--input in.jsonl --output x.jsonl --against tests.jsonl|tests.jsonl, line 1: no text under "text"; name the keys of the test sets with --against-keys
--input in.jsonl --output x.jsonl --against few.jsonl|the test sets contain no text of 8 words or more; choose other test sets with --against
--input in.jsonl --output x.jsonl --against tests.txt --against-text --ngram 5 --min-ngram 6|--min-ngram=6 is more than --ngram=5
ROWS
done_testing
