#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron data mix, merge and stats.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"
make_texts 1 600 | sed 's/"id":/"source":"a","id":/' >a.jsonl
make_texts 2 200 | sed 's/"id":/"source":"b","id":/' >b.jsonl
taken() { grep -c "\"source\":\"$1\"" "$2"; }

run mix --input a.jsonl b.jsonl --epochs 0.5 2.5 --output e.jsonl
is "$rc $(taken a e.jsonl) $(taken b e.jsonl)" "0 300 500" "each source is repeated for its epochs" || diag "$out"
is "$(grep '"b"' e.jsonl | sort | uniq -c | awk '{print $1}' | sort -u | xargs)" "2 3" "copies are spread evenly"
ok "every document of b is there" [ "$(grep '"b"' e.jsonl | sort -u | wc -l)" = 200 ]
ok "the order is random" [ "$(ids e.jsonl | head -n 50 | xargs)" != "$(ids e.jsonl | head -n 50 | sort -n | xargs)" ]
ok "sources are mixed" [ "$(head -n 100 e.jsonl | grep -c '"a"')" -gt 15 -a "$(head -n 100 e.jsonl | grep -c '"b"')" -gt 40 ]
like "$out" ' 600 +300 +0\.500 .*a\.jsonl$' "the summary shows what was taken"
run mix --input a.jsonl b.jsonl --weights 3 1 --weight-by documents --documents 1000 --output w.jsonl
is "$rc $(taken a w.jsonl) $(taken b w.jsonl)" "0 750 250" "shares by documents" || diag "$out"
run mix --input a.jsonl b.jsonl --weights 1 1 --output s.jsonl
like "$out" '50\.[0-9]+ %  a\.jsonl$|49\.[0-9]+ %  a\.jsonl$' "shares by bytes of text"

# Shares of bytes where sizes differ a hundredfold, and in an order that a regular choice would follow.
perl -e 'for my $i (0 .. 1999) { printf qq({"source":"u","text":"%s"}\n), "u" x ($i % 2 ? 2000 : 20 + $i % 7) }' >u.jsonl
perl -e 'srand 3; for (1 .. 700) { printf qq({"source":"v","text":"%s"}\n), "v" x int(exp(3 + 5 * rand)) }' >v.jsonl
run mix --input u.jsonl v.jsonl b.jsonl --weights 50 30 20 --size 300k --output shares.jsonl
is "$rc" 0 "shares of bytes" || diag "$out"
measured() { perl -MJSON::PP -ne 'my $d = decode_json($_); my $n = length $d->{text}; $of{$d->{source}} += $n; $all += $n; END { printf "%.2f %.2f %.2f\n", map { 100 * $of{$_} / $all } qw(u v b) }' "$1"; }
is "$(sed -n 's/^ .* \([0-9.]*\) %  [uvb]\.jsonl$/\1/p' <<<"$out" | xargs)" "$(measured shares.jsonl)" "  are printed as measured"
ok "  are those asked for" perl -e 'exit !(abs($ARGV[0] - 50) < 1 && abs($ARGV[1] - 30) < 1 && abs($ARGV[2] - 20) < 1)' $(measured shares.jsonl)
size=$(perl -MJSON::PP -ne '$n += length decode_json($_)->{text}; END { print $n }' shares.jsonl)
ok "  and make up the size: $size" [ "$size" -gt 304000 -a "$size" -lt 310000 ]
ranks 3 mix --input u.jsonl v.jsonl b.jsonl --weights 50 30 20 --size 300k --output shares3.jsonl --chunk-bytes 20k
ok "  with the same bytes from three ranks" cmp shares.jsonl shares3.jsonl
run mix --input v.jsonl u.jsonl --weights 7 1 --output more.jsonl
like "$out" ' 87\.[45][0-9] %  v\.jsonl$' "a source that is repeated"

run mix --input a.jsonl b.jsonl --output all.jsonl
is "$rc" 0 "without shares"
ok "everything is there once" cmp <(sort a.jsonl b.jsonl) <(sort all.jsonl)

run mix --input a.jsonl b.jsonl --epochs 0.5 2.5 --output e1.jsonl --workers 3 --chunk-bytes 20k
ok "other threads and pieces: the same bytes" cmp e.jsonl e1.jsonl
ranks 3 mix --input a.jsonl b.jsonl --epochs 0.5 2.5 --output e2.jsonl --chunk-bytes 50k
ok "three ranks: the same bytes" cmp e.jsonl e2.jsonl
run mix --input a.jsonl b.jsonl --epochs 0.5 2.5 --seed 2 --output e3.jsonl
ok "another seed, another order" [ "$rc" = 0 -a "$(md5sum <e.jsonl)" != "$(md5sum <e3.jsonl)" ]
while IFS='|' read -r words text; do
    # shellcheck disable=SC2086
    run mix $words --output x.jsonl
    is "$rc" 2 "mix $words"
    like "$out" "^megatron data: mix: $text" "  $out"
done <<'ROWS'
--input a.jsonl b.jsonl --weights 1|--weights has 1 numbers, but --input names 2 sources; give one number per source
--input a.jsonl --weights x|--weights: x is not a number of 0 or more
--input a.jsonl --weights -1|--weights: -1 is not a number
--input a.jsonl --weights 0|--weights: all numbers are 0
--input a.jsonl --weights 1 --epochs 1|--weights and --epochs cannot be used together
--input a.jsonl --size 5M|--size requires --weights
--input a.jsonl --weights 1 --documents 5|--documents needs --weight-by documents
ROWS
: >empty.jsonl
run mix --input a.jsonl empty.jsonl --weights 1 1 --output x.jsonl
is "$rc $out" "2 megatron data: mix: empty.jsonl has no documents; drop it" "a source without documents"

# --- Merge: as one run over all of the input writes it, which is Megatron's form byte for byte.
make_corpus 1 300 x; make_corpus 2 1 y; make_corpus 3 200 z; make_corpus 4 0 none
mkdir pairs
for name in x y z; do
    "$megatron" preprocess "${null[@]}" --append-eod --input $name.jsonl --output-prefix pairs/$name >/dev/null 2>&1
done
for suffix in bin idx; do cp none.$suffix pairs/none_text_document.$suffix; done
{ cat x.jsonl; echo; cat y.jsonl; echo; cat z.jsonl; } >xyz.jsonl
"$megatron" preprocess "${null[@]}" --append-eod --input xyz.jsonl --output-prefix xyz >/dev/null 2>&1
run merge --input pairs/x_text_document pairs/none_text_document pairs/y_text_document.idx pairs/z_text_document.bin --output-prefix m1
is "$rc" 0 "merge" || diag "$out"
ok "  is the pair of the whole: .bin" cmp m1.bin xyz_text_document.bin
ok "  is the pair of the whole: .idx" cmp m1.idx xyz_text_document.idx
ok "  by the test's own account of the format" cmp m1.bin <(cat x.bin y.bin z.bin)
rm pairs/none_*
run merge --input pairs --output-prefix m2
ok "a directory, by name" cmp m1.idx m2.idx
ranks 2 merge --input pairs --output-prefix m3
ok "two ranks" cmp m1.idx m3.idx
ok "  both files" cmp m1.bin m3.bin
run verify m3
like "$rc $out" "^0 m3: intact, 501 documents" "  which verify finds intact"
run merge --input pairs --output-prefix pairs/x_text_document --overwrite
is "$rc $out" "2 megatron data: merge: pairs/x_text_document is both input and output; choose another output" "an output that is also an input"
run merge --input pairs --output-prefix m3
is "$rc $out" "2 megatron data: merge: m3.bin exists; use --overwrite to replace it" "existing output"
# More documents than are read at once; the first one of the second piece begins before the last one of the first.
perl -e '$n = 262150; @d = (0 .. $n); $d[262145] -= 5;
    open F, ">", "bent.bin"; print F "\1\0" x $n; close F; open F, ">", "bent.idx";
    print F "MMIDIDX\0\0", pack("QCQQ", 1, 8, $n, $n + 1), pack("l*", (1) x $n), pack("q*", map { 2 * $_ } 0 .. $n - 1), pack("q*", @d)'
run merge --input bent --output-prefix straight
is "$rc" 1 "a document that begins before another"
"$megatron" preprocess --tokenizer-type NullTokenizer --vocab-size 70000 --input y.jsonl --output-prefix wide >/dev/null 2>&1
run merge --input pairs/x_text_document wide_text_document --output-prefix m4
is "$rc $out" "2 megatron data: merge: wide_text_document has int32 ids and pairs/x_text_document has uint16; tokenize them with one tokenizer" "different ids"
printf 'xx' >>pairs/x_text_document.bin
run merge --input pairs --output-prefix m5
is "$rc" 1 "a .bin file with bytes of no sequence"
like "$out" 'pairs/x_text_document.bin has [0-9]+ bytes, but its sequences take [0-9]+' "  $out"
ok "  leaves no output" [ ! -e m5.bin ]
# The file that tells the tokenizer: as that of one run, none if it is not known, and never two.
"$megatron" preprocess "${null[@]}" --append-eod --input x.jsonl --output-prefix p >/dev/null 2>&1
"$megatron" preprocess "${null[@]}" --append-eod --input y.jsonl --output-prefix q >/dev/null 2>&1
"$megatron" preprocess "${null[@]}" --input y.jsonl --output-prefix endless >/dev/null 2>&1
{ cat x.jsonl; echo; cat y.jsonl; } >xy.jsonl
"$megatron" preprocess "${null[@]}" --append-eod --input xy.jsonl --output-prefix xy >/dev/null 2>&1
ranks 2 merge --input p_text_document q_text_document --output-prefix m7
ok "the tokenizer of a merged pair is that of its parts" cmp m7.tokenizer xy_text_document.tokenizer
run merge --input p_text_document endless_text_document --output-prefix m7 --overwrite
like "$(cat m7.tokenizer)" '"append_eod": false' "  because some documents lack the end-of-document token"
rm endless_text_document.tokenizer
run merge --input p_text_document endless_text_document --output-prefix m7 --overwrite
is "$rc $(ls m7.*)" "0 m7.bin
m7.idx" "  which is not known if that of one pair is not" || diag "$out"
"$megatron" preprocess --append-eod --input a.jsonl --output-prefix gpt2 >/dev/null 2>&1
"$megatron" tokenizer train --input a.jsonl --output bpe --vocab-size 300 >/dev/null 2>&1
"$megatron" preprocess --append-eod --input a.jsonl --output-prefix bpe --vocab-file bpe/vocab.json --merge-file bpe/merges.txt >/dev/null 2>&1
run merge --input gpt2_text_document bpe_text_document --output-prefix m8
is "$rc $(ls m8.* 2>/dev/null)" "2 " "pairs of two tokenizers are refused" || diag "$out"
mkdir p_text_document
run merge --input p_text_document --output-prefix m8
is "$rc" 0 "beside a pair, a directory of its name is its cache" || diag "$out"

run merge --input nowhere --output-prefix m6
like "$rc $out" '^2 megatron data: merge: nowhere.idx: cannot open' "a missing pair"

# --- Stats.
{ cat a.jsonl b.jsonl; head -n 30 b.jsonl; printf '{"text":"der die das"}\nbroken\n'; } >st.jsonl
run stats --input st.jsonl --output-prefix st --language-model "$data/hs.ftz" --tokenizer-type GPT2BPETokenizer
is "$rc" 0 "stats" || diag "$out"
like "$out" '^  documents read:  831 \([1-9][0-9.]* (kB|MB) of text\)$' "documents"
like "$out" '^  duplicates:      30 of 30 texts; the most frequent text occurs 2 times$' "duplicates"
like "$out" '^  tokens +[0-9]+; per document 4 to ' "tokens"
like "$out" '^    [a-z]{2} +[0-9]+ documents' "languages"
words=$(perl -ne 'next unless /"text":"(.*?)"[,}]/; my $t = $1; $t =~ s/\\n/ /g; $n += () = $t =~ /\w+/g; END { print $n }' st.jsonl)
like "$(cat st.json)" "\"words\": \{\"sum\": $words, " "words are counted"
ok "JSON is JSON" perl -MJSON::PP -e 'local $/; open F, "st.json"; my $j = decode_json(<F>); exit($j->{documents} == 831 && $j->{broken_lines} == 1 ? 0 : 1)'
like "$(cat st.html)" '<svg .*viewBox' "an HTML page with plots"
is "$(grep -cE 'https?://|<script|<link' st.html)" 0 "  that is self-contained"
ranks 3 stats --input st.jsonl --output-prefix st3 --language-model "$data/hs.ftz" --tokenizer-type GPT2BPETokenizer --chunk-bytes 30k
ok "three ranks count the same" cmp st.json st3.json
done_testing
