#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The output files, byte for byte: from every kind of input, with any number of ranks and threads.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/fixture.sh"
make_corpus 1 1500 c

try "${pre[@]}" --input c.jsonl --output-prefix o --workers 2
is "$rc" 0 "a corpus is preprocessed"
ok "into the right bytes" same c o
ok "nothing else is left" whole o
like "$out" '^Opening c\.jsonl$' "Opening"
like "$out" '^Time to startup: [0-9.e-]+$' "Time to startup"
like "$out" '^Processed 1500 documents \([0-9.e+]+ docs/s, [0-9.e+]+ MB/s\)\.$' "Processed"
like "$out" '^  documents: +1500$' "the summary counts documents"
like "$out" '^  skipped: +0$' "and those skipped"

# A rank that is started again after the others have finished, as by Kubernetes: rank 0 is not there.
try env RANK=1 WORLD_SIZE=3 "${pre[@]}" --input c.jsonl --output-prefix o --skip-existing
is "$rc $out" "0 Already complete: o" "output that exists is skipped"
rm o_text_document.idx
try "${pre[@]}" --input c.jsonl --output-prefix o --skip-existing
is "$rc" 2 "but not a part of it"
like "$out" 'o_text_document.bin exists; use --overwrite' "which is named"
try "${pre[@]}" --input c.jsonl --output-prefix o --skip-existing --overwrite
is "$rc" 2 "nor with --overwrite"
rm o_text_document.bin
try "${pre[@]}" --input c.jsonl --output-prefix o --skip-existing
ok "and if there is none, it is written" same c o || diag "$out"

# --- The same documents in other formats
for pack in 'gzip -1' 'xz -0' 'xz -0 --block-size=20000' 'zstd -q -1' 'bzip2 -1'; do
    command -v ${pack%% *} >/dev/null || continue
    $pack <c.jsonl >packed
    rm -f o_*
    try "${pre[@]}" --input packed --output-prefix o --workers 2 --chunk-bytes 20000
    ok "from $pack" same c o || diag "$out"
done
rm -f o_*
try bash -c "cat c.jsonl | ${pre[*]} --input - --output-prefix o"
ok "from standard input" same c o || diag "$out"
rm -f o_*
try bash -c "gzip <c.jsonl | ${pre[*]} --input - --output-prefix o"
ok "from compressed standard input" same c o || diag "$out"

mkdir dir
split -n l/7 -d c.jsonl dir/part
gzip dir/part03
xz dir/part05
for input in dir 'dir/part*' "$(echo dir/*)"; do
    rm -f o_*
    try "${pre[@]}" --input $input --output-prefix o --workers 2
    ok "from many files: --input ${input:0:20}" same c o || diag "$out"
done

# --- A large file that cannot be split is started before the small ones, wherever it is in the list
rm -rf o_* many
mkdir many
split -n l/9 -d c.jsonl many/part
cat many/part0[6-8] | gzip -1 >many/part06.gz
rm many/part06 many/part07 many/part08
try "${pre[@]}" --input many --output-prefix o --workers 1 --chunk-bytes 20000
is "$(grep -m1 '^Opening' <<<"$out")" 'Opening many/part06.gz' "a large compressed file comes first"
ok "and the output is in order" same c o

# --- More keys, more outputs
perl -pe 's/^\{/{"a":{"b":"1 2"},/ if /^\{/' c.jsonl >keys.jsonl
try "${pre[@]}" --input keys.jsonl --output-prefix k --json-keys text a.b
ok "the first of two keys" same c k || diag "$out"
is "$(od -An -tu2 k_a.b_document.bin | head -n1 | xargs)" "1 2 60000 1 2 60000 1 2" "the second, a nested one"

# --- The file that tells the tokenizer
content='{"format": 1, "tokenizer": "NullTokenizer", "vocab_size": 60001, "texts": "0000000000000000", "own_texts": "0000000000000000", "eod_id": 60000, '
is "$(cat k_a.b_document.tokenizer)" \
    "$content\"append_eod\": true, \"bin_bytes\": $(stat -c %s k_a.b_document.bin), \"idx_bytes\": $(stat -c %s k_a.b_document.idx)}" \
    "the tokenizer is written beside each pair"
echo mine >mine_text_document.tokenizer
try "${pre[@]}" --input c.jsonl --output-prefix mine
is "$rc $(cat mine_text_document.tokenizer)" "2 mine" "a file of the user's own of that name is kept"
cp k_a.b_document.tokenizer mine_text_document.tokenizer
try "${pre[@]}" --input c.jsonl --output-prefix mine
ok "that of an earlier run is replaced" same c mine || diag "$out"

# --- Shards: together they are the whole
try "${pre[@]}" --input c.jsonl --output-prefix s --output-shards 4 --workers 2 --chunk-bytes 30000
is "$(ls s_*.bin | xargs)" "s_00000-of-00004_text_document.bin s_00001-of-00004_text_document.bin s_00002-of-00004_text_document.bin s_00003-of-00004_text_document.bin" "four shards"
cat s_*.bin | cmp - c.bin
ok "with the tokens of the whole"
sizes=$(stat -c %s s_*.bin | sort -n | xargs)
is "$(awk '{print ($4 - $1) / $4 < 0.2}' <<<"$sizes")" 1 "of about equal size: $sizes"
is "$(for f in s_*.idx; do od -An -tu8 -j26 -N8 "$f"; done | awk '{n += $1 - 1} END {print n}')" 1500 "and all documents"
try bash -c "ulimit -n 256; ${pre[*]} --input c.jsonl --output-prefix one --output-shards 3000 --chunk-bytes 30000 --workers 4"
is "$rc" 0 "more shards than documents, and than files that may be open"
cat one_*.bin | cmp - c.bin
ok "lose nothing"

# --- Many threads: memory does not grow with them
cat >peak.pl <<'PERL'
use strict;
use Config;
my %number = (x86_64 => 98, aarch64 => 165); # getrusage
my ($machine) = $Config{archname} =~ /^(x86_64|aarch64)/ or do { print 0; exit };
open(my $null, '>', '/dev/null'); open(STDERR, '>&', $null);
my $pid = fork; if (!$pid) { open(STDOUT, '>&', $null); exec @ARGV; exit 127 }
waitpid($pid, 0); exit 1 if $?;
my $usage = "\0" x 256;
syscall($number{$machine}, -1, $usage);
print int((unpack('q5', $usage))[4] / 1024);
PERL
if ! ldd "$megatron" | grep -q libasan; then
    perl -e 'srand(1); for (1 .. 2000) { print qq({"text":"), join(" ", map { join "", map { chr(97 + rand 26) } 1 .. 3 + rand 6 } 1 .. 140), qq("}\n) }' >words.jsonl
    try perl peak.pl "$megatron" preprocess --input words.jsonl words.jsonl words.jsonl words.jsonl words.jsonl words.jsonl --output-prefix peak --workers 64 --chunk-bytes 20000
    is "$rc" 0 "64 threads"
    [ "$out" -lt 600 ]
    ok "take $out MiB" || diag "$out"
else
    skip "memory of 64 threads" "built with sanitizers"
fi

# --- The first documents only
for n in 1 37 1499 1500 9999; do
    rm -f m_*
    try "${pre[@]}" --input c.jsonl --output-prefix m --max-documents $n --workers 2 --chunk-bytes 10000
    [ $n -le 1500 ] || n=1500
    is "$(od -An -tu8 -j26 -N8 m_text_document.idx | xargs)" $((n + 1)) "--max-documents $n"
    cmp -n "$(stat -c %s m_text_document.bin)" m_text_document.bin c.bin
    ok "are the first ones"
    [[ $out == *"bytes read"* && $out != *"tokens per byte"* ]]
    ok "and no ratio is made of them and all that was read" || diag "$out"
done

# --- Types of ids
echo '{"text":"65000 1"}' >wide.jsonl
try "$megatron" preprocess --tokenizer-type NullTokenizer --vocab-size 65499 --input wide.jsonl --output-prefix w
is "$(od -An -tu1 -j17 -N1 w_text_document.idx | xargs) $(stat -c %s w_text_document.bin)" "4 8" "65500 ids are int32"
rm w_*
try "$megatron" preprocess --tokenizer-type NullTokenizer --vocab-size 65498 --input wide.jsonl --output-prefix w
is "$(od -An -tu1 -j17 -N1 w_text_document.idx | xargs) $(stat -c %s w_text_document.bin)" "8 4" "65499 ids are uint16"

# --- Text: the same as JSON lines with these texts
printf '1 2\n3\n\n\n4 5\n' >t.txt
printf ' \n = One = \n \n first text \n = = Part = = \n more \n = Two = \n \n second\n' >w.txt
rows=(
    't lines|{"text":"1 2"}\n{"text":"3"}\n{"text":"4 5"}\n'
    't blank-lines|{"text":"1 2\\n3"}\n{"text":"4 5"}\n'
    't files|{"text":"1 2\\n3\\n\\n\\n4 5\\n"}\n'
    'w titles|{"text":" = One = \\n \\n first text \\n = = Part = = \\n more "}\n{"text":" = Two = \\n \\n second"}\n'
)
for row in "${rows[@]}"; do
    IFS='|' read -r what json <<<"$row"
    rm -f t_* j_*
    printf "${json//%/%%}" >j.jsonl
    try "$megatron" preprocess --input ${what% *}.txt --input-format ${what#* } --output-prefix t --append-eod
    is "$rc" 0 "text: $what"
    try "$megatron" preprocess --input j.jsonl --output-prefix j --append-eod
    cmp t_text_document.bin j_text_document.bin && cmp t_text_document.idx j_text_document.idx
    ok "is what JSON lines give"
done

# --- No input
: >empty.jsonl
try "${pre[@]}" --input empty.jsonl --output-prefix e
is "$rc $(compgen -G 'e[._]*' | xargs)" "2 " "an empty corpus is an error, and leaves nothing"

done_testing
