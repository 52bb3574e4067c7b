#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Broken input and existing output: one clear line, the right exit code, and no data lost.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/fixture.sh"

# --- Broken lines are reported with file and line, counted and skipped
{
    echo '{"text":"1"}'
    echo 'no json'
    echo '{"text":"2"'
    printf '{"text":"\xff"}\n'
    echo '{"text":"\ud800"}'
    echo '{"other":"3"}'
    echo '{"text":4}'
    echo '[1]'
    printf '{"x":%s1%s,"text":"5"}\n' "$(printf '[%.0s' {1..2000})" "$(printf ']%.0s' {1..2000})"
    printf '{"text":"%s"}\n' "$(printf '6 %.0s' {1..5000})"
    printf '{"text":"7\\u0000"}\n'
    printf '{"text":"8\0"}\n'
    echo
    echo '{"text":"9"}'
} >broken.jsonl
sed -i '/u0000/d' broken.jsonl
for threads in 1 3; do
    rm -f b_*
    try "${pre[@]}" --input broken.jsonl --output-prefix b --max-line-bytes 5000 --workers $threads --chunk-bytes 60
    is "$rc" 0 "broken lines are skipped"
    is "$(od -An -tu2 b_text_document.bin | xargs)" "1 60000 9 60000" "the others are kept"
    like "$out" '^megatron: warning: broken\.jsonl:2: not valid JSON; skipped$' "not JSON"
    like "$out" '^megatron: warning: broken\.jsonl:3: not valid JSON; skipped$' "an object that does not end"
    like "$out" '^megatron: warning: broken\.jsonl:4: not valid UTF-8; skipped$' "not UTF-8"
    like "$out" '^megatron: warning: broken\.jsonl:5: unpaired surrogate in a string; skipped$' "half a surrogate pair"
    like "$out" '^megatron: warning: broken\.jsonl:6: a key is missing \(text\); skipped$' "no key"
    like "$out" '^megatron: warning: broken\.jsonl:7: value of a key is neither a string nor a list of strings \(text\); skipped$' "a number"
    like "$out" '^megatron: warning: broken\.jsonl:8: not a JSON object; skipped$' "no object"
    like "$out" '^megatron: warning: broken\.jsonl:9: nested too deeply; skipped$' "2000 lists deep"
    like "$out" '^megatron: warning: broken\.jsonl:10: longer than the limit; skipped$' "too long"
    like "$out" '^megatron: warning: broken\.jsonl:11: not valid JSON; skipped$' "a NUL"
    like "$out" '^  skipped: +10$' "all are counted"
    is "$(grep -c '; skipped$' <<<"$out")" 10 "and each is named once"
    like "$out" '^    4 +not valid JSON|^    3 +not valid JSON' "by reason"
done
for i in $(seq 300); do echo '{"text":"1"}'; [ $((i % 2)) = 0 ] || echo bad; done >many.jsonl
for n in 1 3; do
    rm -f m_*
    ranks $n --input many.jsonl --output-prefix m --chunk-bytes 800
    out=$(cat rank*.log)
    [ "$(grep -c '; skipped$' <<<"$out")" -ge 120 ]
    ok "of many, 20 are named by each of $n ranks that meets them and 100 at the end" || diag "$out"
    is "$(sort <<<"$out" | grep '; skipped$' | uniq -d)" '' "none twice"
    like "$out" '^  skipped: +150$' "and all are counted"
done
# What is not listed is not announced, either: a unit of work keeps 32, and a run that fails lists none.
try "${pre[@]}" --input many.jsonl --output-prefix m --overwrite --workers 1
is "$rc $(grep -c '; skipped$' <<<"$out")" "0 32" "one unit of work names 32"
like "$out" '^megatron: note: further skipped documents are not reported immediately$' "  of which 20 at once"
like "$out" '^megatron: warning: 118 more documents were skipped and not listed; correct or remove such documents in the input$' "  and counts the others"
head -n 99 many.jsonl >many1.jsonl
try "${pre[@]}" --input many1.jsonl --output-prefix m --overwrite --workers 1
like "$out" '^megatron: warning: 1 more document was skipped and not listed; correct or remove such documents in the input$' "  or the other"
yes '{"body":"1"}' | head -n 1100 >others.jsonl
try "${pre[@]}" --input others.jsonl --output-prefix m --overwrite --workers 1
is "$rc $(grep -c '; skipped$' <<<"$out")" "2 20" "a run that fails early names 20"
unlike "$out" 'listed at the end' "  and promises no list"
# Memory that a text needs and that is not there ends the run with one line.
scarce='#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
void *realloc(void *memory, size_t size)
{
    if (size > 1700000) {
        errno = ENOMEM;
        return NULL;
    }
    return ((__typeof__(&realloc))dlsym(RTLD_NEXT, "realloc"))(memory, size);
}'
{
    for i in {1..300}; do echo "1 2 3"; done
    printf '7 %.0s' {1..399999}
    echo 7
    echo 8
} >long.txt
if ! command -v "${CC:-cc}" >/dev/null; then
    skip "a text for which there is no memory" "no compiler"
elif ok "memory can be made scarce" "${CC:-cc}" -shared -fPIC -o scarce.so -xc - -ldl <<<"$scarce"; then
    try env LD_PRELOAD="$scratch/scarce.so" "$megatron" preprocess --input long.txt --input-format lines --tokenizer-type NullTokenizer \
        --vocab-size 100000 --output-prefix long --chunk-bytes 500 --workers 2
    is "$rc $(grep -c '^megatron' <<<"$out")" "1 1" "a text for which there is no memory ends the run"
    like "$out" '^megatron: out of memory: cannot allocate another 1[.][0-9] MiB; raise the memory limit' "  with what to do"
fi
# While it still reads: the message is printed before the input ends.
{
    echo bad
    yes '{"text":"1"}' | head -n 100000
    wait_until 120 grep -q '^megatron: warning: -:1: not valid JSON; skipped$' early.log && echo yes >early.seen
} | "${pre[@]}" --input - --output-prefix early >early.log 2>&1
is "$(cat early.seen 2>/dev/null)" yes "a broken line is reported when it is met" || diag "$(cat early.log)"
printf '{"text":"7\\u00007"}' >nul.jsonl
try "$megatron" preprocess --input nul.jsonl --output-prefix nul
is "$rc $(od -An -tu2 nul_text_document.bin | xargs)" "0 22 188 22" "an escaped NUL is text"

rm -f b_*
try "${pre[@]}" --input broken.jsonl --output-prefix b --strict --chunk-bytes 30 --workers 1
is "$rc" 2 "--strict stops"
like "$out" '^megatron preprocess: broken\.jsonl:2: not valid JSON; drop --strict to skip what is invalid$' "at the line"
[ ! -e b_text_document.bin ]
ok "without output"
try "${pre[@]}" --input broken.jsonl --output-prefix b --max-line-bytes 5000 --chunk-bytes 30
try "${pre[@]}" --input broken.jsonl --output-prefix b --max-line-bytes 5000 --chunk-bytes 30 --strict --overwrite
is "$rc" 2 "also when it is given later"

# Several threads find others at the same time, in one unit of work or in several.
for i in {1..60000}; do
    echo '{"text":"1 2 3 4 5 6 7 8 9"}'
    [ $i -lt 20000 ] || [ $((i % 97)) != 0 ] || echo bad
done >threads.jsonl
first=$(sed -n '/bad/{=;q}' threads.jsonl)
gzip -k threads.jsonl
for input in "threads.jsonl --chunk-bytes 4M" "threads.jsonl --chunk-bytes 20000" threads.jsonl.gz; do
    named=$(for round in {1..8}; do
        rm -rf b_* b.work
        # shellcheck disable=SC2086
        try "${pre[@]}" --input $input --output-prefix b --strict --workers 8
        echo "$rc $(grep '^megatron [a-z]' <<<"$out")"
    done | sort -u)
    is "$named" "2 megatron preprocess: ${input%% *}:$first: not valid JSON; drop --strict to skip what is invalid" \
        "--strict names the first one with 8 threads: $input"
done

# --- Whether a missing key is an error does not depend on how the corpus is split
yes '{"body":"1"}' | head -n 1100 >wrong.jsonl
{ head -n 300 wrong.jsonl; echo '{"text":"2"}'; cat wrong.jsonl; } >late.jsonl
{ cat wrong.jsonl; echo '{"text":"2"}'; } >later.jsonl
head -n 300 wrong.jsonl >few.jsonl
for bytes in 100 4000 1000000; do
    rm -rf k_* k.work
    try "${pre[@]}" --input late.jsonl --output-prefix k --chunk-bytes $bytes
    is "$rc $(od -An -tu2 k_text_document.bin | xargs)" "0 2 60000" "a key that comes late, in chunks of $bytes"
    rm -rf k_* k.work
    try "${pre[@]}" --input few.jsonl --output-prefix k --chunk-bytes $bytes
    is "$rc $(grep "^megatron [a-z]" <<<"$out")" '2 megatron preprocess: few.jsonl: none of 300 documents has the key "text"; the first one has: body; name the key of the text with --json-keys' "a key that never comes"
    rm -rf k_* k.work
    try "${pre[@]}" --input later.jsonl --output-prefix k --chunk-bytes $bytes
    is "$rc $(grep "^megatron [a-z]" <<<"$out")" '2 megatron preprocess: later.jsonl: none of the first 1000 documents has the key "text"; the first one has: body; name the key of the text with --json-keys' "a key that comes too late"
done

# --- A corpus without a valid document
while IFS='|' read -r options line text; do
    rm -rf n_* n.work
    yes "$line" | head -n 300 >nothing.jsonl
    try "${pre[@]}" --input nothing.jsonl --output-prefix n $options
    is "$rc $(grep "^megatron [a-z]" <<<"$out")" "2 megatron preprocess: nothing.jsonl: none of 300 documents is valid ($text" "only '$line'"
    [ ! -e n_text_document.idx ]
    ok "and no output that looks well"
done <<'EOT'
|plain words|not valid JSON); every line must be one JSON object; for plain text use --input-format lines, blank-lines, titles or files
|["a list"]|not a JSON object); every line must be one JSON object; for plain text use --input-format lines, blank-lines, titles or files
|{"text": 5}|value of a key is neither a string nor a list of strings); name the key of the text with --json-keys
EOT
: >nothing.jsonl
rm -rf n_* n.work
try "${pre[@]}" --input nothing.jsonl --output-prefix n
is "$rc $(ls -d n.work n_* 2>/dev/null) $(grep "^megatron [a-z]" <<<"$out")" \
    "2  megatron preprocess: nothing.jsonl contains no documents: the input is empty; check the input files" "an empty corpus is an error, and leaves nothing"

# --- Errors of one line
make_corpus 1 50 c
echo '{"id":1,"body":"x"}' >body.jsonl
gzip -k c.jsonl
head -c 100 c.jsonl.gz >short.gz
{ head -c 100 c.jsonl.gz; printf 'garbage garbage garbage'; tail -c +124 c.jsonl.gz; } >damaged.gz
mkdir locked
touch locked/x_text_document.bin c_text_document.bin
echo '{"text":"1 x"}' >letters.jsonl
for format in gnu ustar; do tar --format=$format -cf $format.tar c.jsonl; done
gzip -k gnu.tar
xz -0 -k ustar.tar
printf 'PAR1\25\4\25\20' >table.parquet
printf 'ARROW1\0\0\0\0' >table.arrow
printf '\377\377\377\377\200\2\0\0' >stream.arrow
printf 'WARC/1.0\r\nWARC-Type: response\r\n' | gzip >pages.warc.gz
printf 'PK\3\4\24\0' >c.zip
iconv -f UTF-8 -t UTF-16 c.jsonl >marked.jsonl
iconv -f UTF-8 -t UTF-16LE c.jsonl >plain16.jsonl
iconv -f UTF-8 -t UTF-16BE c.jsonl | xz -0 >plain16be.jsonl.xz
rows=(
    'c.jsonl table.parquet|no|table.parquet is a Parquet file; convert it .*'
    'table.arrow --input-format lines|no|table.arrow is an Arrow file; convert it .*'
    'stream.arrow|no|stream.arrow is an Arrow stream; convert it .*'
    'pages.warc.gz --input-format lines|no|pages.warc.gz is a WARC archive of web pages; .*'
    'c.zip|no|c.zip is a zip archive; unpack it .*'
    'marked.jsonl|no|marked.jsonl is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8'
    'plain16.jsonl --input-format lines|no|plain16.jsonl is UTF-16LE; convert it first: iconv -f UTF-16LE -t UTF-8'
    'plain16be.jsonl.xz --input-format titles|no|plain16be.jsonl.xz is UTF-16BE; .*'
    'gnu.tar|no|gnu.tar is a tar archive; unpack it first and name the files that were in it'
    'ustar.tar --input-format lines|no|ustar.tar is a tar archive; .*'
    'c.jsonl gnu.tar.gz|no|gnu.tar.gz is a tar archive; .*'
    'ustar.tar.xz --input-format files|no|ustar.tar.xz is a tar archive; .*'
    'body.jsonl|no|body.jsonl: none of 1 documents has the key "text"; the first one has: id, body; name the key of the text with --json-keys'
    'short.gz|no|short.gz is truncated: it ends at byte 100 in the middle of its data; copy it again'
    'damaged.gz|no|damaged.gz is corrupt near byte [0-9]+: .*'
    'none.jsonl|no|cannot read none.jsonl: No such file or directory; check the path'
    'none*.jsonl|no|no file matches none\*.jsonl; check the pattern and its directories'
    'c.jsonl|c|c_text_document.bin exists; use --overwrite to replace it'
    'c.jsonl|nowhere/x|cannot write to directory nowhere/: No such file or directory; check the path'
    'c.jsonl|locked/|--output-prefix=locked/ ends in a slash; add the beginning of a file name'
    'letters.jsonl|no|letters.jsonl: none of .*'
    'c.jsonl --max-line-bytes 1073741825|no|--max-line-bytes=1073741825 .*'
    'c.jsonl --json-keys a a|no|--json-keys: a is given twice; drop one'
    'c.jsonl --json-keys a/b|no|--json-keys: "a/b" cannot be used in a file name; rename the key'
    'c.jsonl --split-sentences --punkt-data none|no|--punkt-data: .*'
    'c.jsonl --punkt-data none|no|--punkt-data requires --split-sentences; add it, or drop --punkt-data'
    'c.jsonl --input-format files --json-keys a|no|--json-keys cannot be used with plain-text input; .*'
    'c.jsonl --vocab-file none --tokenizer-type GPT2BPETokenizer|no|the vocabulary file must be used together with the merge file; .*'
    'c.jsonl --workres 2|no|unknown option --workres; did you mean --workers.*'
)
for row in "${rows[@]}"; do
    IFS='|' read -r input prefix message <<<"$row"
    set -f
    try "${pre[@]}" --input $input --output-prefix "$prefix"
    set +f
    # A wrong option or path is a usage error; a damaged file may be replaced.
    case $message in
    *"is truncated"* | *"is corrupt"*) code=1 ;;
    *) code=2 ;;
    esac
    is "$rc" $code "$input is refused"
    like "$out" "^megatron preprocess: $message\$" "with the reason"
    is "$(grep -c '^megatron [a-z]' <<<"$out")" 1 "in one line"
    ls no_* >/dev/null 2>&1
    is $? 2 "and without output"
done
try "$megatron" preprocess --tokenizer-type GPT2BPETokenizer --input c.jsonl c.zip plain16.jsonl --input-format files --output-prefix "$scratch/any"
is "$rc" 0 "where each file is a document, any is one" || diag "$out"
try bash -c '"$@" <gnu.tar.gz' - "${pre[@]}" --input - --output-prefix no
is "$rc $(grep "^megatron [a-z]" <<<"$out")" "2 megatron preprocess: standard input is a tar archive; unpack it first and name the files that were in it" \
    "an archive on standard input"
chmod 0 c.jsonl.gz
if [ "$(id -u)" != 0 ]; then
    try "${pre[@]}" --input c.jsonl.gz --output-prefix no
    like "$out" 'cannot open c.jsonl.gz: Permission denied' "a file that may not be read"
else
    skip "a file that may not be read" "root may read every file"
fi
try "${pre[@]}" --input c.jsonl --output-prefix c --overwrite
is "$rc" 0 "--overwrite replaces"
ok "the output" same c c

# --- After an error the same command resumes; another command starts again
try "${pre[@]}" --input c.jsonl short.gz --output-prefix r --chunk-bytes 500
is "$rc" 1 "a truncated file among others"
[ -d r.work ]
ok "what was done is kept"
try "${pre[@]}" --input c.jsonl --output-prefix r --chunk-bytes 500
unlike "$out" Resuming "other input is another run"
ok "which leaves nothing of the first behind" whole r
ok "and is right" same c r
# The same file, of the same size, with other content.
tr 12 21 <c.jsonl >d.jsonl
try bash -c "ulimit -f 20; ${pre[*]} --input d.jsonl --output-prefix q --chunk-bytes 500"
is "$rc $(ls q.work/*/encode/part-* | head -n1 | wc -l)" "1 1" "parts of the old content are kept" || diag "$out"
for wrong in "--input nowhere.jsonl" "--input d.jsonl --tokenizer-type HuggingFaceTokenizer --tokenizer-model nowhere"; do
    # shellcheck disable=SC2086
    try "${pre[@]}" $wrong --output-prefix q --chunk-bytes 500
    is "$rc $(ls q.work/*/encode/part-* | head -n1 | wc -l)" "2 1" "  also after a wrong path: $wrong" || diag "$out"
done
cp c.jsonl d.jsonl
try "${pre[@]}" --input d.jsonl --output-prefix q --chunk-bytes 500
unlike "$out" Resuming "changed content under the same name is another run"
ok "a changed file is never mixed with old parts" same c q

# --- The end tokens of a tokenizer may change in a file that is not named: that is another run, too
mkdir ends
tokens=$(for i in {0..9}; do printf '"%d":%d,' $i $i; done)
cat >ends/tokenizer.json <<END
{"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":false},"model":{"type":"BPE","vocab":{$tokens"▁":10},"merges":[]},
 "added_tokens":[{"id":11,"content":"<a>","special":true},{"id":12,"content":"<b>","special":true}]}
END
ends=("$megatron" preprocess --tokenizer-type HuggingFaceTokenizer --tokenizer-model ends --append-eod
    --input c.jsonl --output-prefix ends/o --chunk-bytes 2000 --workers 1)
echo '{"eos_token":"<a>"}' >ends/tokenizer_config.json
try bash -c "ulimit -f 20; ${ends[*]}"
is "$rc $(ls ends/o.work/*/encode/part-* | head -n1 | wc -l)" "1 1" "a run is cut short" || diag "$out"
echo '{"eos_token":"<b>"}' >ends/tokenizer_config.json
try "${ends[@]}"
is "$rc $(od -An -v -tu2 -w2 ends/o_text_document.bin | sort -n | uniq | tail -n2 | xargs)" "0 10 12" "another end of document is never mixed with the old one"

# --- The output may be in the directory of the input, and is not read
mkdir within texts
cp c.jsonl within/a.jsonl
: >within/b.jsonl
try bash -c "ulimit -f 20; ${pre[*]} --input within --output-prefix within/o --chunk-bytes 2000"
is "$rc $(ls within)" "1 a.jsonl
b.jsonl
o.work" "a run whose work lies in the input is cut short" || diag "$out"
try "${pre[@]}" --input within --output-prefix within/o --chunk-bytes 2000
is "$rc" 0 "and continues"
like "$out" Resuming "from where it stopped"
ok "to the right end" same c within/o
printf '1 2' >texts/a
printf 3 >texts/z
ln -s out_text_document.bin texts/link
for input in texts 'texts/*'; do
    for round in 1 2; do
        try "${pre[@]}" --input "$input" --input-format files --output-prefix texts/out --overwrite
        is "$rc $(od -An -tu2 texts/out_text_document.bin | xargs)" "0 1 2 60000 3 60000" "--input $input: output is not read as input, round $round"
    done
done
try "${pre[@]}" --input texts/out_text_document.bin --input-format files --output-prefix texts/out --overwrite
is "$rc $out" "2 megatron preprocess: texts/out_text_document.bin is an output file of this run, but also its input; choose another --output-prefix or --output" "nor if it is named as input"

# --- A tokenizer that accepts only ids
printf '{"text":"1 2"}\n{"text":"1 x"}\n{"text":"60001"}\n{"text":"3"}\n' >ids.jsonl
try "${pre[@]}" --input ids.jsonl --output-prefix ids
is "$rc $(od -An -tu2 ids_text_document.bin | xargs)" "0 1 2 60000 3 60000" "texts that are not ids are skipped"
is "$(grep -c '^megatron: warning: ids\.jsonl:[23]: not token ids .*(text); skipped$' <<<"$out")" 2 "and named"
try "${pre[@]}" --input ids.jsonl --output-prefix ids2 --strict --workers 1
is "$rc" 2 "--strict stops at one"
like "$out" 'ids\.jsonl:2: not token ids .*; drop --strict to skip what is invalid' "and names it"

# --- What is broken after the last wanted document is ignored
for i in {1..5}; do printf '{"text":"%d"}\nbad\n' $i; done >limit.jsonl
for i in {1..200}; do printf 'worse\n{"text":"9"}\n'; done >>limit.jsonl
for size in 4000000 200; do
    for threads in 1 3; do
        try "${pre[@]}" --input limit.jsonl --output-prefix few --overwrite --max-documents 4 --workers $threads --chunk-bytes $size
        is "$rc $(grep -c '; skipped$' <<<"$out") $(sed -n 's/^  skipped: *//p' <<<"$out")" "0 3 3" "--max-documents 4, $threads threads, chunks of $size"
    done
done
try "${pre[@]}" --input limit.jsonl --output-prefix few --overwrite --max-documents 1 --strict
is "$rc" 0 "--strict passes with a good first document"
try "${pre[@]}" --input limit.jsonl --output-prefix few --overwrite --max-documents 2 --strict
is "$rc" 2 "and stops at a broken one before the last"
like "$out" '^megatron preprocess: 1 document is invalid; the first: limit\.jsonl:2: not valid JSON' "  which is counted and named"
for threads in 1 3; do
    try bash -c "${pre[*]} --input - --output-prefix few --overwrite --max-documents 1 --strict --workers $threads <limit.jsonl"
    is "$rc" 0 "the same from standard input, $threads threads"
    try bash -c "${pre[*]} --input - --output-prefix few --overwrite --max-documents 2 --strict --workers $threads <limit.jsonl"
    is "$rc" 2 "which stops at the same one"
    try bash -c "${pre[*]} --input - --output-prefix few --overwrite --max-documents 4 --workers $threads <limit.jsonl"
    is "$rc $(grep -c '; skipped$' <<<"$out") $(sed -n 's/^  skipped: *//p' <<<"$out")" "0 3 3" "and counts the same"
done

# --- An archive that is damaged after the last document: enough was read, however far other threads were
for i in {1..90000}; do echo "{\"text\":\"$i 2 3 4 5 6 7\"}"; done >long.jsonl
gzip -c long.jsonl >long.jsonl.gz
truncate -s -1000 long.jsonl.gz
head -n 60000 long.jsonl >first.jsonl
for threads in 1 4; do
    for input in long.jsonl.gz "first.jsonl long.jsonl.gz" -; do
        try bash -c "${pre[*]} --input $input --output-prefix few --overwrite --max-documents 50000 --workers $threads --chunk-bytes 500000 <long.jsonl.gz"
        is "$rc" 0 "documents before the damage in $input, $threads threads"
    done
    try "${pre[@]}" --input first.jsonl long.jsonl.gz --output-prefix few --overwrite --max-documents 200000 --workers $threads --chunk-bytes 500000
    is "$rc" 1 "not if they are after it"
    like "$out" 'long\.jsonl\.gz is truncated' "which is reported"
done

# --- A directory of the user's at the place of the work directory is refused and stays as it is
make_corpus 5 20 mine
id=0123456789abcdef
while IFS='|' read -r make named; do
    rm -rf u_* u.work elsewhere
    mkdir elsewhere && echo precious >elsewhere/notes.txt
    eval "$make"
    before=$(find u.work elsewhere -printf '%p %s %l\n' | sort)
    for words in "" --overwrite; do
        [ -z "$words" ] || touch u_text_document.bin
        # shellcheck disable=SC2086
        try "${pre[@]}" --input mine.jsonl --output-prefix u $words
        is "$rc $out" "2 megatron preprocess: u.work is needed for intermediate results, but $named; move it away, or choose another --output-prefix or --output" \
            "a work directory of the user's: $make $words"
    done
    ranks 2 --input mine.jsonl --output-prefix u --overwrite
    is "${ranked%% *} $(cat rank?.log | grep -c 'u.work is needed')" "2 2" "  also by two ranks"
    is "$(find u.work elsewhere -printf '%p %s %l\n' | sort)" "$before" "  nothing in it has changed"
done <<EOF
mkdir u.work; echo precious >u.work/notes.txt|contains notes.txt, which no run has written
mkdir -p u.work/figures; echo precious >u.work/figures/1.txt|contains figures, which no run has written
mkdir u.work; echo "Buy bread" >u.work/plan|contains plan, which no run has written
mkdir u.work; echo me >u.work/owner|contains owner, which no run has written
mkdir u.work; echo precious >u.work/end-of-story.txt|contains end-of-story.txt, which no run has written
mkdir u.work; ln -s ../elsewhere u.work/$id|contains $id, which no run has written
mkdir -p u.work/$id; echo precious >u.work/$id/novel.txt|contains $id/novel.txt, which no run has written
mkdir -p u.work/$id; echo precious >u.work/$id/draft-chapter|contains $id/draft-chapter, which no run has written
mkdir -p u.work/$id/write; echo precious >u.work/$id/write/novel.txt|contains $id/write/novel.txt, which no run has written
ln -s elsewhere u.work|is a symbolic link
ln -s nowhere u.work|is a symbolic link
echo precious >u.work|is not a directory
EOF
# One that cannot be read, such as a colleague's, is not called foreign.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    mkdir -p -m 777 shared/u.work && chmod 777 shared && chmod 755 "$scratch"
    echo theirs >shared/u.work/plan && chmod 600 shared/u.work/plan
    try setpriv --reuid=65534 --clear-groups "${pre[@]}" --input mine.jsonl --output-prefix shared/u
    like "$rc $out" '^2 megatron preprocess: cannot read shared/u\.work/plan: Permission denied; ' "a plan of another user"
else
    skip "a plan of another user" "needs root and setpriv"
fi
# One of an earlier build, which has other names.
rm -rf u_* u.work
mkdir -p u.work/$id && printf MEGPLAN1 >u.work/plan && touch u.work/$id/copied-3
try "${pre[@]}" --input mine.jsonl --output-prefix u --overwrite
is "$rc $out" "2 megatron preprocess: u.work was left by an earlier build of megatron; remove it, or complete the run with that build" \
    "a work directory of an earlier build is refused"
# What killed runs may leave is no reason to refuse, even if it cannot be continued.
while read -r make; do
    rm -rf u_* u.work
    eval "$make"
    try "${pre[@]}" --input mine.jsonl --output-prefix u
    is "$rc" 0 "left by a run: $make"
    ok "  with the right output" same mine u
    ok "  which is removed at the end" whole u
done <<EOF
mkdir u.work
mkdir u.work; touch u.work/plan
mkdir u.work; touch u.work/plan.node-1.example.org.4711.tmp
mkdir u.work; printf $id >u.work/owner; printf $id >u.work/go-$id
mkdir u.work; printf 12345678 >u.work/finished
mkdir u.work; echo >u.work/end-$id; touch u.work/ack-$id-12
mkdir -p u.work/$id
mkdir -p u.work/.removed-$id-$id; mkdir u.work/.removed-$id-$id/encode; touch u.work/.removed-$id-$id/encode/{part-0,done-0-1-2}
mkdir -p u.work/$id/write; touch u.work/$id/out-kept u.work/$id/write/kept-3 u.work/$id/write/done-3-4-5.node.7.tmp
EOF
# Files that appear while the run works are not deleted, either.
mkfifo hold
"${pre[@]}" --input - --output-prefix u --overwrite <hold >u.log 2>&1 &
first=$!
exec 9>hold
cat mine.jsonl >&9
wait_until 120 test -e u.work/owner
echo precious >u.work/notes.txt
echo precious >"$(ls -d u.work/????????????????)/novel.txt"
exec 9>&-
wait $first
is "$? $(find u.work -type f | sed 's|.*/||' | sort | xargs)" "0 notes.txt novel.txt" "files that appear during the run are kept" || diag "$(cat u.log)"
ok "  and the output is right" same mine u

# --- Two runs with one prefix: the second takes over, and the first reports it
"${pre[@]}" --input - --output-prefix two <hold >first.log 2>&1 &
first=$!
exec 9>hold
printf '{"text":"1"}\n' >&9
wait_until 120 test -e two.work/plan
try "${pre[@]}" --input ids.jsonl --output-prefix two
is "$rc" 0 "a second run with the same prefix works"
exec 9>&-
wait $first
is $? 1 "and the first one ends"
like "$(cat first.log)" 'another run has taken over \(or removed\) two\.work' "with the reason"
is "$(od -An -tu2 two_text_document.bin | xargs)" "1 2 60000 3 60000" "what the second wrote is whole"

# --- All ranks report the error of one
ranks 3 --input c.jsonl damaged.gz --output-prefix no --chunk-bytes 500
is $? 1 "three ranks fail together"
is "$(cat rank*.log | grep -c 'corrupt near')" 3 "and each reports why" || cat rank*.log | sed 's/^/# /'
ranks 2 --input c.jsonl --output-prefix c
is "$ranked" "2 1" "output that exists stops all ranks"
whole c
ok "and leaves no work directory"
# The second one starts long after the first has failed.
struck=1 blow=(sh -c 'sleep 8; exec "$@"' late)
ranks 2 --input c.jsonl --output-prefix c
is "$ranked $(grep -c 'c_text_document.bin exists; use --overwrite' rank1.log)" "2 1 1" "also one that starts late"
whole c
ok "which leaves no files, either"
# Each finds the same error: the others acknowledge the first one that reports it.
struck='' blow=()
ranks 3 --input c.jsonl --output-prefix same --vocab-file none --tokenizer-type GPT2BPETokenizer
# srun returns the highest exit code.
is "$(tr ' ' '\n' <<<"$ranked" | sort -n | tail -n 1) $(grep -l -- 'must be used together with the merge file' rank?.log | wc -l)" "2 3" "an error that all ranks find at once"
whole same
ok "leaves no files"

# --- A full disk
make_corpus 2 2000 big
if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=200k tmpfs small 2>/dev/null; then
    try "${pre[@]}" --input big.jsonl --output-prefix small/o --chunk-bytes 20000
    is "$rc" 1 "a full disk is an error"
    like "$out" '^megatron preprocess: .*No space left on device' "that is named"
    ls small/o_* >/dev/null 2>&1
    is $? 2 "there is no incomplete output"
    mount -o remount,size=50m small
    try "${pre[@]}" --input big.jsonl --output-prefix small/o --chunk-bytes 20000
    is "$rc" 0 "with more space the same command resumes"
    like "$out" Resuming "from where it stopped"
    ok "to the right end" same big small/o
    umount small
else
    skip "a full disk" "cannot mount a tmpfs"
fi
try bash -c "ulimit -f 20; ${pre[*]} --input big.jsonl --output-prefix limit"
is "$rc" 1 "a limit on file sizes is an error, not a signal"
like "$out" 'File too large' "that is named"
done_testing
