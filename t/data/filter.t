#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron data filter: rules, languages, personal data; what is reported, kept and dropped.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"

# --- What is kept and dropped, and why.
words='one two three four five six seven eight nine ten'
printf '%s\n' '{"id":1,"text":"short"}' '{"text":"","id":2}' \
    "{\"id\":3,\"text\":\"$words of words\",\"more\":{\"a\":[1,2.50,\"\\u00e9\"]}}" \
    '{"id":4,"text":"a # b # c # d #"}' >in.jsonl
run filter --input in.jsonl --output out.jsonl --keep-dropped dropped.jsonl --rules gopher-quality --set min-words=3 \
    --without-rules stop-words
is "$rc" 0 "filter"
is "$(cat out.jsonl)" "$(sed -n 3p in.jsonl)" "a kept document is unchanged"
is "$(cat dropped.jsonl)" '{"dropped":"min-words","document":{"id":1,"text":"short"}}
{"dropped":"empty","document":{"text":"","id":2}}
{"dropped":"min-word-length","document":{"id":4,"text":"a # b # c # d #"}}' "dropped documents, each with its reason"
like "$out" '^  documents read:  4 ' "counts what was read"
like "$out" '^  dropped:         3$' "counts what was dropped"
like "$out" '^    1 +min-words +fewer than 3 words$' "  by rule, with its number"
like "$out" '^  documents kept:  1 ' "counts what is kept"
ok "nothing is left of the work" [ ! -e out.jsonl.work ]

run filter --input in.jsonl --output out.jsonl
is "$rc $out" "2 megatron data: filter: out.jsonl exists; use --overwrite to replace it" "existing output is refused"
mkdir out.jsonl.work && echo precious >out.jsonl.work/notes.txt
run filter --input in.jsonl --output out.jsonl --overwrite
is "$rc $out" "2 megatron data: filter: out.jsonl.work is needed for intermediate results, but contains notes.txt, which no run has written; move it away, or choose another --output-prefix or --output" \
    "a directory of the user's"
is "$(cat out.jsonl.work/notes.txt)" precious "  and left unchanged"
rm -r out.jsonl.work
run filter --input in.jsonl --output out.jsonl --overwrite --rules none
is "$rc $(ids out.jsonl | xargs)" "0 1 3 4" "without rules only empty texts are dropped" || diag "$out"

# --- An input without a document
echo plain text >plain.txt
sed 's/"text"/"body"/' in.jsonl >body.jsonl
for verb in filter "dedup" "decontaminate --against in.jsonl" mix stats; do
    output=--output
    [ "$verb" != stats ] || output=--output-prefix
    # shellcheck disable=SC2086
    run $verb --input plain.txt $output none.jsonl
    like "$rc $out" '^2 megatron data: [a-z]+: the only line is not a document: plain\.txt: line 1: not valid JSON; every line must be a JSON object such as ' \
        "${verb%% *}: plain text is refused"
    # shellcheck disable=SC2086
    run $verb --input body.jsonl $output none.jsonl
    like "$rc $out" '^2 .*all [0-9]+ lines are invalid; the first: body.jsonl: line 1: a key is missing \("text"\); name the key of the text with --key$' \
        "  and another key"
    is "$(ls -d none* 2>/dev/null)" "" "  and there is no output"
done

# --- Editing a text leaves the rest of its line alone.
printf '%s\n' '{"a":{"text":"mail me@x.org\n\"8.8.8.8\"\t\u0001"},"b": 1.0 }' '{"a":{"text":"nothing \u00e9"}}' >pii.jsonl
run filter --input pii.jsonl --output pii.out --key a.text --rules none --mask-pii
is "$(cat pii.out)" '{"a":{"text":"mail email@example.com\n\"22.214.171.124\"\t\u0001"},"b": 1.0 }
{"a":{"text":"nothing \u00e9"}}' "addresses are masked, other members kept byte for byte"
like "$out" '^  masked:          1 e-mail addresses, 1 IP addresses$' "and counted"
run filter --input pii.jsonl --output pii2.out --key a.text --rules none --mask-ip '<ip>'
like "$(cat pii2.out)" 'me@x.org.*<ip>' "only one kind is masked, with a given text"

# --- Languages.
printf '%s\n' '{"id":1,"text":"The man was in the house with his people"}' '{"id":2,"text":"Der Mann ist nicht so wie wir und sie werden noch mehr haben"}' \
    '{"id":3,"text":"Она была в доме и не хотела"}' >lid.jsonl
run filter --input lid.jsonl --output lid.out --rules none --language-model "$data/hs.ftz" --languages de ru --add-language
is "$(ids lid.out | xargs)" "2 3" "documents in the wanted languages"
like "$(head -n 1 lid.out)" '^\{"id":2,"text":"Der Mann .*","language":"de","language_score":0\.[0-9]{4}\}$' "with the language"
like "$out" '^    1 +language ' "documents in other languages are counted"
run filter --input lid.jsonl --output lid2.out --rules none --language-model "$data/hs.ftz" --languages xx
is "$rc $out" "2 megatron data: filter: $data/hs.ftz has no language \"xx\" among its 4; correct --languages" "a language that the model lacks"
run filter --input lid.jsonl --output lid2.out --rules none --language-model "$data/languages.txt"
is "$rc $out" "2 megatron data: filter: $data/languages.txt: not a fastText model; use a model that classifies texts, such as lid.176.bin" "a file that is not a model"
head -c 3000 "$data/hs.ftz" >cut.ftz
run filter --input lid.jsonl --output lid2.out --rules none --language-model cut.ftz
is "$rc" 2 "a truncated model"
like "$out" '^megatron data: filter: cut.ftz: its .* is damaged; download it again$' "  $out"

# --- Broken lines.
printf '%s\n' '{"text":"fine one"}' '{"text":"cut' '' '{"other":1}' '{"text":["a","b"]}' '[1]' '{"text":"fine two"}' >bad.jsonl
printf '{"text":"\xff"}\n' >>bad.jsonl
run filter --input bad.jsonl --output bad.out --rules none
is "$rc $(wc -l <bad.out)" "0 2" "broken lines are skipped"
like "$out" '^megatron: warning: bad.jsonl: line 2: not valid JSON; skipped$' "each is named"
like "$out" '^megatron: warning: bad.jsonl: line 4: .* \("text"\); skipped$' "  with its line"
like "$out" '^  broken lines:    5$' "and counted"
run filter --input bad.jsonl --output bad2.out --rules none --strict
is "$rc" 2 "--strict stops"
like "$out" '^megatron data: filter: bad.jsonl: line [0-9]+: .*; drop --strict to skip what is invalid$' "  with one line: $out"
ok "  and writes nothing" [ ! -e bad2.out ]
make_texts 1 200 | gzip | head -c 9000 >cut.jsonl.gz
run filter --input cut.jsonl.gz --output cut.out
is "$rc" 1 "a truncated .gz file"
like "$out" '^megatron data: filter: cut.jsonl.gz is truncated: it ends at byte 9000' "  $out"

# --- Wrong usage.
while IFS='|' read -r words text; do
    # shellcheck disable=SC2086
    run filter $words
    is "$rc" 2 "filter $words"
    like "$out" "^megatron data: filter: $text" "  $out"
done <<'ROWS'
--output x.jsonl|--input is required
--input in.jsonl|--output is required
--input in.jsonl --output x.jsonl.gz|x.jsonl.gz: output is written as .jsonl or .jsonl.zst
--input in.jsonl --output x/|--output=x/: name a file
--input in.jsonl --output no/x.jsonl|cannot write to directory no/
--input in.jsonl --output in.jsonl|in.jsonl is both input and output; choose another output
--input in.jsonl --output x.jsonl --keep-dropped x.jsonl|--keep-dropped and --output are the same
--input in.jsonl --output x.jsonl --rules nonsense|there is no rule nonsense
--input in.jsonl --output x.jsonl --set min-words=a|--set: min-words=a is not a number
--input in.jsonl --output x.jsonl --languages en|--languages needs a fastText model; name one, such as lid.176.bin, with --language-model
--input in.jsonl --output x.jsonl --language-threshold 2|--language-threshold=2 must be from 0 to 1
ROWS
run filter --input nowhere.jsonl --output x.jsonl
is "$rc $out" "2 megatron data: filter: cannot read nowhere.jsonl: No such file or directory; check the path" "a missing file" || diag "$out"
run filter --list-rules
is "$rc $(grep -c ' drop: ' <<<"$out")" "0 36" "--list-rules"

# --- The same bytes, however it is run and packed.
make_texts 2 3000 >m.jsonl
printf '{"text":"broken\n' >>m.jsonl
make_texts 3 200 >>m.jsonl
common=(--rules gopher --without-rules stop-words --set repeated-lines=0 --set min-words=120 --mask-pii)
run filter --input m.jsonl --output one.jsonl --keep-dropped one.dropped "${common[@]}" --workers 1
is "$rc $((100 < $(wc -l <one.jsonl) && 100 < $(wc -l <one.dropped)))" "0 1" "a larger file" || diag "$out"
run filter --input m.jsonl --output two.jsonl --keep-dropped two.dropped "${common[@]}" --workers 5 --chunk-bytes 50k
ok "other threads and pieces" cmp one.jsonl two.jsonl
ok "  dropped documents, too" cmp one.dropped two.dropped
like "$out" '^megatron: warning: m.jsonl: line 3001: not valid JSON; skipped$' "  and the same line of the broken one"
ranks 3 filter --input m.jsonl --output three.jsonl --keep-dropped three.dropped "${common[@]}" --workers 2 --chunk-bytes 70k
ok "three ranks"
ok "  write the same" cmp one.jsonl three.jsonl
ok "  and the same dropped documents" cmp one.dropped three.dropped
is "$(cat rank?.log | grep -c '^Done: ')" 1 "  and one of them prints the summary"
ok "  nothing is left of the work" [ ! -e three.jsonl.work ]
for pack in gzip 'xz -0 --block-size=100000' 'zstd -q' 'bzip2 -1'; do
    command -v ${pack%% *} >/dev/null || continue
    $pack <m.jsonl >packed
    run filter --input packed --output unpacked.jsonl --overwrite "${common[@]}" --chunk-bytes 30k
    ok "input by ${pack%% *}" cmp one.jsonl unpacked.jsonl
done
run filter --input m.jsonl --output packed.jsonl.zst "${common[@]}"
if [ "$rc" = 0 ]; then
    zstd -dqc packed.jsonl.zst >unpacked
    ok "output as .zst" cmp one.jsonl unpacked
fi
ranks 2 filter --input bad.jsonl --output strict.jsonl --strict
is "$ranked" "2 1" "a rank that fails ends the others" || diag "$(cat rank?.log)"
"$megatron" data filter --input - --output stdin.jsonl "${common[@]}" <m.jsonl >/dev/null 2>&1
ok "standard input" cmp one.jsonl stdin.jsonl
done_testing
