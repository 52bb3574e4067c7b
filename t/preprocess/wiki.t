#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# MediaWiki dumps: the text of the pages, every file format, any number of ranks, broken dumps.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/fixture.sh"
data=$top/t/preprocess/wiki

# texts FILE: "id text" of each line of JSON, in order.
texts() {
    perl -ne 'my ($id) = /"id": "(\d+)"/; my ($text) = /"text": "(.*)"\}$/; print "$id $text\n"' "$@"
}
extract() { try "$megatron" data extract --input "$@"; }

# --- WikiExtractor's style: exactly what release 3.1.0 writes, except the differences listed in the man page
extract "$data/dump.xml" --wiki-style wikiextractor --wiki-min-length 0 --output we.jsonl
is "$rc" 0 "the text that WikiExtractor writes"
texts "$data/wikiextractor.jsonl" | sort -n >theirs
texts we.jsonl | sort -n >ours
# By page number: 23 half a surrogate, 24 the current year, 38 a redirect.
different=$(join -j1 -v1 -o 1.1 <(sed 's/ /\x1f/' theirs | sort) <(sed 's/ /\x1f/' ours | sort) -t $'\x1e' | cut -d $'\x1f' -f1 | sort -n | xargs)
is "$different" "23 24 38" "differs only where it does so on purpose"

# --- Clean text
extract "$data/dump.xml" --output clean.jsonl
is "$rc" 0 "clean text"
is "$(grep -c . clean.jsonl)" 25 "articles only"
like "$out" '^    2 +redirects$' "redirects are counted"
text() { perl -ne 'print "$1\n" if /"id": "'"$1"'".*"text": "(.*)"\}$/' clean.jsonl; }
is "$(text 18)" 'River\n\nThe river is 120 kilometres (75 mi) long and 3 m (9.8 ft) deep. It has 12,500 fish, ten boats and un pont.\nBorn January 2, 1900, c. 1905. As of 2020, HQ. /a/ 3.5 kg 1/2 US$5 million [sic] '"'s – –"'\n\nWords that matter. — Author\n\nEnd.' "the templates of running text"
is "$(text 29)" 'Lead\n\nOrrin (/ˈɒrɪn/; German: Orrin; born May 6, 1950) is a town with 5 square kilometres (1.9 sq mi) and (x) of land. At 1,300 miles (2,100 km), it has one of the longest roads. The population was 1,001 (as of 2020).\n\nSee also\n\n- Lake Orrin' "no empty parentheses, no hatnotes, no categories"
is "$(text 13)" 'Lists\n\nThe town has three parts:\n- the old town\n- the harbour\n  - the east pier\n- the hill\n\nText after a list.\n1. first\n2. second\ncontinued\nTerm: definition\nOther\nits definition\ndeeper indent\n\nLast line.' "lists are kept"
is "$(text 21)" "Nowiki\\n\\nWrite '''not bold''' and [[no link]] and {{no template}} here. An empty one: ab. <b> }} end." "nowiki is text, and < and & are not escaped"
like "$(text 20)" '\$x\^2 \+ y\$ be, and \$E = mc\^2\$ too' "formulas as LaTeX"
extract "$data/dump.xml" --wiki-math drop --wiki-tables text --wiki-no-title --wiki-disambiguations keep --wiki-namespaces 0,4 --wiki-min-length 10 --output options.jsonl
is "$rc" 0 "options"
is "$(grep -c 'formula\|mc^2' options.jsonl)" 0 "no formulas"
like "$(cat options.jsonl)" 'Caption\\nHead \| Two\\na \| b\\nc' "tables as text"
like "$(cat options.jsonl)" '"title": "Wikipedia:About".*A project page' "another namespace"
like "$(cat options.jsonl)" '"title": "Orrin \(disambiguation\)"' "disambiguations"
is "$(grep -c Tiny options.jsonl)" 0 "a minimum length"
like "$(cat options.jsonl)" '"url": "https://en.wikipedia.org/wiki\?curid=18", "title": "River", "text": "The river' "no title in the text; id, url and title beside it"

# --- Every file format gives the same documents
perl -e 'local $/; my $d = <>; my ($head, $pages, $tail) = $d =~ /^(.*?)(  <page>.*<\/page>\n)(.*)$/s; $pages =~ s/<ns>10</<ns>0</g; print $head, $pages x 60, $tail' "$data/dump.xml" >big.xml
"$megatron" data extract --input big.xml --output big.jsonl --workers 1 >/dev/null 2>&1
bzip2 -1 -k big.xml
split -n l/3 big.xml piece- && for p in piece-*; do bzip2 -1 -c "$p"; done >multi.xml.bz2 && rm piece-*
gzip -1 -k big.xml && xz -0 -k big.xml && zstd -1 -q big.xml
for file in big.xml.bz2 multi.xml.bz2 big.xml.gz big.xml.xz big.xml.zst; do
    "$megatron" data extract --input "$file" --workers 3 2>/dev/null >other.jsonl
    is "$(cmp big.jsonl other.jsonl 2>&1)" "" "$file"
done
"$megatron" data extract --input - <big.xml.bz2 2>/dev/null >other.jsonl
is "$(cmp big.jsonl other.jsonl 2>&1)" "" "standard input"
extract big.xml --output big.jsonl.zst
is "$(zstd -dcq big.jsonl.zst | cmp - big.jsonl 2>&1)" "" "compressed output"
extract big.xml --output big.jsonl
is "$rc" 2 "existing output is not replaced"
own=("${pre[@]}") pre=("$megatron" data extract)
ranks 3 --input multi.xml.bz2 --output ranks.jsonl --chunk-bytes 9000 --workers 1
is "$ranked $(cmp big.jsonl ranks.jsonl 2>&1)" "0 0 0 " "extract by three ranks: each page once, in order"
is "$(cat rank*.log | grep -c '^Done: ')" 1 "and one of them says so"
ranks 2 --input multi.xml.bz2 --output ranks.jsonl.zst --chunk-bytes 9000
extract multi.xml.bz2 --output one.jsonl.zst --chunk-bytes 9000 --workers 3
is "$(cmp ranks.jsonl.zst one.jsonl.zst 2>&1)" "" "compressed: the same bytes with any number of ranks"
ranks 2 --input big.xml
is "$ranked" "2 2" "several ranks do not all write to standard output"
like "$(cat rank0.log)" '2 ranks cannot write to standard output; use --output to name a file' "and the message says what to do"
pre=("${own[@]}")

# --- preprocess: the same bytes for any split and any number of ranks and threads. Here the texts become numbers.
perl -0pe 's/<text[^>]*[^\/]>[^<]*/"<text>" . join(" ", map { int(rand(60000)) } 1 .. 200)/ge; BEGIN { srand(1) }' big.xml >ids.xml
perl -0ne 'while (/<page>(.*?)<\/page>/sg) { my $p = $1; next if $p =~ /<redirect/ || $p !~ /<ns>0</; print "{\"text\":\"$1\"}\n" if $p =~ /<text>([^<]*)</ }' ids.xml >ids.jsonl
"${pre[@]}" --input ids.jsonl --output-prefix want >/dev/null 2>&1
bzip2 -1 -k ids.xml
for way in "ids.xml 1 1 100M" "ids.xml 3 2 7000" "ids.xml.bz2 2 2 30000" "ids.xml.bz2 1 3 9000"; do
    read -r file ranks workers chunk <<<"$way"
    rm -f got_*
    ranks "$ranks" --input "$file" --output-prefix got --wiki-no-title --wiki-disambiguations keep --workers "$workers" --chunk-bytes "$chunk"
    is "$(cmp got_text_document.bin want_text_document.bin 2>&1)$(cmp got_text_document.idx want_text_document.idx 2>&1)" "" "$file by $ranks ranks of $workers threads in chunks of $chunk: recognized, each page once"
done

# --- Broken dumps: one line with file, title and byte; counted; --strict stops there
bad() { # NAME PATTERN: a dump, what is said of it
    try "${pre[@]}" --input "$1" --input-format mediawiki --output-prefix bad --overwrite --wiki-no-title
    is "$rc" 0 "$1 is read"
    like "$out" "$2" "and the reason is printed"
    like "$out" '^  skipped: +1$' "and counted"
    try "${pre[@]}" --input "$1" --input-format mediawiki --output-prefix bad --overwrite --wiki-no-title --strict
    is "$((rc != 0))" 1 "--strict stops"
    like "$out" 'strict' "and reports it"
    rm -rf bad*
    extract "$1" --wiki-no-title --output bad.jsonl
    like "$rc $(xargs -d '\n' <<<"$out")" "^0 megatron: warning: $1: page \"[^\"]*\" at .*byte [0-9]+.*: .*; skipped .* skipped: +1 " "data extract, too"
    extract "$1" --wiki-no-title --output bad.jsonl --overwrite --strict
    like "$rc $out" "^2 .*$1: .*strict" "and its --strict stops"
    rm -rf bad*
}
page() { printf '<page><title>%s</title><ns>0</ns><id>%d</id><revision><id>5</id><text>%s</text></revision></page>\n' "$@"; }
head='<mediawiki xml:lang="en"><siteinfo><sitename>W</sitename><base>https://w.org/wiki/M</base><namespaces><namespace key="14">Category</namespace></namespaces></siteinfo>'
{ echo "$head"; page A 1 '1 2'; page B 2 '3 <b>4'; page C 3 '5'; } >unclosed.xml
bad unclosed.xml '^megatron: warning: unclosed\.xml: page "B" at byte [0-9]+: the XML of the page is invalid; skipped$'
{ echo "$head"; page A 1 '1 2'; page Template:B 2 '3 {{B}} 4' | sed 's,<ns>0,<ns>10,'; page C 3 '5 {{B}} 6'; } >loop.xml
bad loop.xml '^megatron: warning: loop\.xml: page "Template:B" at byte [0-9]+: the template includes itself; skipped$'
{ echo "$head"; page A 1 '1 2'; page B 2 '3 4'; } | head -c -20 >early.xml
bad early.xml '^megatron: warning: early\.xml: page "B" at byte [0-9]+: the page is not closed; skipped$'
{ echo "$head"; page A 1 '1 2'; page B 2 "$(printf '3 \xff')"; } >utf8.xml
bad utf8.xml '^megatron: warning: utf8\.xml: page "B" at byte [0-9]+: not valid UTF-8; skipped$'
head -c "$(($(stat -c %s ids.xml.bz2) / 2))" ids.xml.bz2 >cut.xml.bz2
bad cut.xml.bz2 '^megatron: warning: cut\.xml\.bz2: page "[^"]*" at byte [0-9]+: the page is not closed; skipped$'

# A dump that is truncated after a page, exactly where a block of input ends: what is read last has no page. Repeats
# keep what is complete, which must not hide the fault.
{ echo "$head"; page A 1 '1 2'; page B 2; } >tail.xml
fill=$((262144 - $(stat -c %s tail.xml) + 1))
{ echo "$head"; page A 1 '1 2'; page B 2 "$(yes 3 | head -c $fill | tr '\n' ' ')"; } | head -c 262144 >tail.xml
is "$(tail -c 7 tail.xml)" "</page>" "a dump that ends after a page"
gzip -k tail.xml
for input in tail.xml tail.xml.gz; do
    for repeat in 1 2 3; do
        try "${pre[@]}" --input $input --input-format mediawiki --wiki-no-title --output-prefix tail --strict
        is "$rc $(ls tail_* 2>/dev/null)" "2 " "--strict refuses $input: run $repeat"
        like "$out" '^megatron preprocess: tail\.xml.* is truncated: .* without </mediawiki>; .*; drop --strict to skip what is invalid$' "  and says why"
    done
    rm -rf tail.work
done

# --- Unclosed markup: the page is kept and named with the byte of the markup, counted by kind; --strict stops there
{ echo "$head"; page A 1 '1 2'; page B 2 '3 {{a 4'; page C 3 '5&lt;ref&gt;6'; page D 4 '7 [[8]] &lt;ref&gt;9&lt;/ref&gt;'; page E 5 '&lt;!-- 9'
    page F 6 '[[10'; page G 7 "$(printf '12\n{|\n| 13')"; page H 8 '14 &lt;ref&gt;15'; echo '</mediawiki>'; } >markup.xml
named() { # SUFFIX: the lines that name pages, where the pages are in a plain file
    local what
    while read -r byte what; do
        printf 'megatron: warning: markup.xml: page "%s" at byte %s: %s; the page is kept\n' "${what%% *}" "$byte" "${what#* }"
    done <<<"$(grep -abo '{{a\|&lt;ref&gt;6\|&lt;!-- 9\|\[\[10\|^{|\|&lt;ref&gt;15' markup.xml | sed -e 's/:{{a/ B {{ without }}/' -e 's/:.*ref&gt;6/ C <ref> without <\/ref>/' \
        -e 's/:.*!-- 9/ E <!-- without -->/' -e 's/:\[\[10/ F [[ without ]]/' -e 's/:{|/ G {| without |}/' -e 's/:.*ref&gt;15/ H <ref> without <\/ref>/')"
}
by_kind='1 <!-- without -->
2 a tag without its end tag
1 {| without |}
1 {{ without }}
1 [[ without ]]'
kinds() { sed -n '/unclosed markup:/,$p' <<<"$out" | sed -n 's/^    \([0-9]\)  */\1 /p'; }
extract markup.xml --wiki-min-length 0 --wiki-no-title --output markup.jsonl
is "$rc $(grep 'is kept' <<<"$out")" "0 $(named)" "data extract: pages with unclosed markup are named"
like "$out" '^  documents: +8 ' "and kept"
like "$out" '^  skipped: +0$' "not skipped"
is "$(grep -o 'unclosed markup: .*' <<<"$out") $(kinds)" "unclosed markup: 6 $by_kind" "and counted by kind"
extract markup.xml --wiki-min-length 0 --wiki-no-title
is "$(grep 'is kept' <<<"$out")" "$(named)" "standard output gets the same bytes"
like "$out" 'skipped 0, left out 0, with unclosed markup 6' "with their number"
extract markup.xml --wiki-min-length 0 --wiki-no-title --strict --output strict.jsonl
is "$rc $(grep -c 'page "B" at byte [0-9]*: {{ without }}; drop --strict' <<<"$out")" "2 1" "--strict stops at the first one"
gpt2=(--tokenizer-type GPT2BPETokenizer --append-eod)
read_markup() { try "$megatron" preprocess --input "$@" "${gpt2[@]}" --wiki-min-length 0 --output-prefix markup --overwrite; }
read_markup markup.xml
is "$rc $(grep 'is kept' <<<"$out")" "0 $(named)" "preprocess: they are named"
like "$out" '^  documents: +8$' "and kept"
like "$out" '^  skipped: +0$' "not skipped"
is "$(grep -o 'unclosed markup: .*' <<<"$out") $(kinds)" "unclosed markup: 6 $by_kind" "and counted by kind"
read_markup markup.xml --max-documents 3
is "$rc $(grep 'is kept' <<<"$out")" "0 $(named | head -2)" "of the documents that are wanted, which the last one belongs to"
read_markup markup.xml --strict
is "$rc $(grep -c 'page "B" at byte [0-9]*: {{ without }}; drop --strict' <<<"$out")" "2 1" "--strict stops at the first one"
read_markup markup.xml --strict --max-documents 3
is "$rc $(grep -c '2 documents are invalid or have unclosed markup; the first: markup.xml: page "B" at byte [0-9]*: {{ without }}; drop --strict' <<<"$out")" "2 1" "with a limit, too"
read_markup markup.xml --strict --max-documents 1
is "$rc" 0 "and not if the wanted documents have none"
bzip2 -k markup.xml
read_markup markup.xml.bz2
is "$rc $(grep 'is kept' <<<"$out")" "0 $(named | sed 's/markup\.xml/&.bz2/')" "compressed: the byte after decompression"
{ echo "$head"; for ((i = 0; i < 40; i++)); do page "U$i" $i '[[1'; done; page B 99 "$(printf '3 \xff')"; echo '</mediawiki>'; } >many-markup.xml
for command in "data extract --output many-markup.jsonl" "preprocess ${gpt2[*]} --output-prefix many-markup"; do
    try "$megatron" $command --input many-markup.xml --wiki-min-length 0 --overwrite
    is "$rc $(grep -c 'is kept$' <<<"$out") $(grep -c 'page "B".*; skipped$' <<<"$out") $(grep -o 'unclosed markup: .*' <<<"$out")" "0 20 1 unclosed markup: 40" "${command%% -*}: 20 are named, and do not hide broken pages"
done
# With several ranks, too. The second half is read while the first one, of large pages, still is.
long="$(printf 'word %.0s' {1..50000})"
{ echo "$head"; for ((i = 0; i < 40; i++)); do page "U$i" $i "[[1 $( ((i >= 20)) || echo "$long")"; done; echo '</mediawiki>'; } >halves.xml
for n in 1 3; do
    rm -f halves_*
    ranks $n --input halves.xml "${gpt2[@]}" --wiki-min-length 0 --output-prefix halves --chunk-bytes 1000000
    is "$rc $(cat rank*.log | sed -n 's/.*page "U\([0-9]*\)".*is kept$/\1/p' | xargs)" "0 $(seq -s ' ' 0 19)" "$n ranks: the first 20 pages of the input are named, in order"
done

# However many pages are broken, each broken file is named, and once
{ echo "$head"; for ((i = 0; i < 25; i++)); do page "P$i" $i '3 <b>4'; done; page Z 9 '7'; } >many.xml
{ echo "$head"; page A 1 '1 2'; echo '</mediawiki>'; } >whole.xml
bzip2 -1 -k many.xml && truncate -s -12 many.xml.bz2
many="$(stat -c %s many.xml)" packed="$(stat -c %s many.xml.bz2)"
flaws="megatron: warning: many.xml is truncated: it ends at byte $many without </mediawiki>; copy it again
megatron: warning: many.xml.bz2 is truncated: it ends at byte $packed in the middle of its data; copy it again
megatron: warning: many.xml.bz2: no complete <siteinfo>; English namespace names are used"
told() { grep -E 'truncated|siteinfo' <<<"$out" | sort; }
for size in 100M 600; do
    extract many.xml many.xml.bz2 whole.xml --output many.jsonl --overwrite --chunk-bytes $size --workers 2
    is "$rc $(grep -c '; skipped$' <<<"$out") $(told)" "0 20 $flaws" "data extract in chunks of $size: 20 broken pages and each broken file are named"
    try "${pre[@]}" --input many.xml many.xml.bz2 whole.xml --output-prefix many --overwrite --wiki-no-title --chunk-bytes $size
    is "$rc $(told)" "0 $flaws" "preprocess in chunks of $size: each broken file is named"
done
extract many.xml whole.xml many.xml.bz2 --workers 2
is "$rc $(grep -c '; skipped$' <<<"$out") $(told)" "0 20 $flaws" "data extract to standard output: 20 broken pages and each broken file are named"
extract cut.xml.bz2 --output cut.jsonl --chunk-bytes 9000 --workers 2
is "$rc $(grep -c 'cut.xml.bz2 is truncated' <<<"$out")" "0 1" "a truncated block that a page crosses into is named once"
# If nothing can be read, the run has not succeeded.
remedy='; check that its files are MediaWiki dumps, and copy truncated ones again'
head -c 2000 cut.xml.bz2 >none.xml.bz2
{ echo "$head"; echo '<page><title>Broken</title>'; } >none.xml
{ echo "$head"; echo '</mediawiki>'; } >empty.xml
while IFS='|' read -r input sentence; do
    for output in none.jsonl -; do
        # shellcheck disable=SC2086
        extract $input --output $output
        is "$rc $(grep '^megatron data' <<<"$out")" "2 megatron data: extract: $sentence$remedy" "$input to $output: an error"
    done
    is "$(ls -d none.jsonl* 2>/dev/null)" "" "  and no output"
done <<'EOF'
none.xml.bz2|the input has no complete page
empty.xml|the input has no complete page
none.xml|the input's only page is broken
none.xml none.xml.bz2 none.xml|none of the input's 2 pages is intact
EOF
echo 'no dump' >none.txt
extract none.txt --output none.jsonl
is "$rc $out" "2 megatron data: extract: none.txt is not a MediaWiki XML dump in UTF-8; use a MediaWiki dump, or tokenize other text with \`megatron preprocess --input-format\`" \
    "a file that is no dump"
like "$(extract none.xml.bz2 --output none.jsonl; echo "$out")" 'warning: none\.xml\.bz2 is truncated: it ends at byte 2000 in the middle of its data; copy it again' "the file is named"
extract none.xml.bz2 cut.xml.bz2 --output some.jsonl
is "$rc" 0 "with another file that has pages it is a warning"
like "$out" 'warning: none\.xml\.bz2 is truncated' "  that names the file"
{ echo '<mediawiki><siteinfo>'; page A 1 '1 2'; } >site.xml
try "${pre[@]}" --input site.xml --output-prefix site --wiki-no-title
is "$rc" 0 "an invalid siteinfo is skipped"
like "$out" '^megatron: warning: site\.xml: no complete <siteinfo>; English namespace names are used$' "with a warning"
extract site.xml --output site.jsonl --chunk-bytes 60 --workers 3
is "$rc $(grep -c 'no complete <siteinfo>' <<<"$out")" "0 1" "one, whichever thread reads the head first"
{ echo "${head/key=\"14\"/key=\"x\"}"; page A 1 '1 2'; echo '</mediawiki>'; } >key.xml
extract key.xml --output key.jsonl
is "$rc $(grep -o 'key.xml: .*' <<<"$out")" "0 key.xml: <siteinfo> has a namespace without a number; its name is ignored" "a namespace without a number"
extract key.xml --output key.jsonl --overwrite --strict
is "$rc" 2 "with --strict an error"
{ echo "$head"; page A 1 '1 2'; printf '<page><title>Long</title><ns>0</ns><id>9</id><revision><id>5</id><text>'; head -c 3000 /dev/zero | tr '\0' 7; echo '</text></revision></page>'; page B 2 '3'; } >long.xml
try "${pre[@]}" --input long.xml --output-prefix long --wiki-no-title --max-line-bytes 2000
like "$out" '^megatron: warning: long\.xml: page "Long" at byte [0-9]+: longer than the limit; skipped$' "a page that is too long"
is "$(od -An -tu2 long_text_document.bin | xargs)" "1 2 60000 3 60000" "and the others are kept"

# --- No markup takes more than linear time, or the stack
hostile() { # UNIT COUNT NAME [PATTERN]
    { echo "$head"; printf '<page><title>H</title><ns>0</ns><id>1</id><revision><id>5</id><text>'; perl -e 'print $ARGV[0] x $ARGV[1]' "$1" "$2"; echo '</text></revision></page>'; page A 2 '1 2'; } >hostile.xml
    for style in clean wikiextractor; do
        TRY_LIMIT=60 extract hostile.xml --wiki-style $style --output hostile.jsonl --overwrite
        is "$rc" 0 "$3: $style"
        [ -z "${4:-}" ] || like "$out" "$4" "  and the page is named"
    done
}
deep='^megatron: warning: hostile.xml: page "H" at byte [0-9]+: nested too deeply; skipped$'
hostile '{{a|' 100000 "templates nested 100,000 deep" "$deep"
hostile '[[a|' 100000 "links nested 100,000 deep" "$deep"
hostile '{{T|{{T}}' 50000 "calls of a template within a call of it" "$deep"
hostile '&lt;ref&gt;' 100000 "tags that never close"
hostile "{|
| ''x [http://x y" 50000 "tables and links that never close"

# --- Detected before anything is written
printf '<?xml version="1.0"?>\n<feed><x/></feed>\n' >feed.xml
try "${pre[@]}" --input feed.xml --output-prefix feed
is "$rc" 2 "XML that is not a dump"
like "$out" 'feed\.xml is XML or HTML, not JSON lines' "is recognized at its first bytes"
for ((i = 0; i < 100; i++)); do printf '<doc id="%d">\ntext\n</doc>\n' $i; done >tags.jsonl
try "${pre[@]}" --input tags.jsonl --output-prefix feed
is "$rc" 2 "lines of tags"
like "$out" 'tags\.jsonl is XML or HTML, not JSON lines' "are recognized, too"
try "${pre[@]}" --input ids.jsonl --input-format mediawiki --output-prefix feed
is "$rc" 2 "JSON lines given as a dump"
like "$out" 'ids\.jsonl is not a MediaWiki XML dump' "are recognized, too"
gpt2=(--tokenizer-type GPT2BPETokenizer --append-eod)
mkdir -p folder && gzip -c "$data/dump.xml" >folder/dump.xml.gz
"$megatron" preprocess --input "$data/dump.xml" "${gpt2[@]}" --output-prefix feed >/dev/null 2>&1
for how in '"$@" --input - <"$0"' 'cat "$0" | "$@" --input -' 'gzip -c "$0" | "$@" --input -' '"$@" --input folder'; do
    try bash -c "$how" "$data/dump.xml" "$megatron" preprocess "${gpt2[@]}" --output-prefix fed --overwrite
    is "$rc $(cmp feed_text_document.bin fed_text_document.bin 2>&1)" "0 " "a dump is recognized: $how"
done
perl -e 'print join(" ", map { int(rand(1e9)) } 1 .. 200_000)' | { echo "$head"; page R 1 "$(cat)"; } | bzip2 >random.xml.bz2
try bash -c 'cat random.xml.bz2 | "$@" --input -' sh "${pre[@]}" --output-prefix fed --overwrite
is "$rc" 2 "a dump on a pipe whose first block is longer than that"
like "$out" 'standard input is a MediaWiki dump, not JSON lines; use --input-format mediawiki' "needs the option"
try "${pre[@]}" --input ids.jsonl --output-prefix feed --wiki-math drop
is "$rc" 2 "options of dumps without a dump"
like "$out" -- '--wiki-math requires --input-format mediawiki' "are refused"

# --- wikitext-103
printf ' = A = \n 1 @,@ 500 ( 2 ) \n = = B = = \n 3 \n = C = \n 4 \n' >wiki.train.tokens
printf '0\n' >ids
try "${pre[@]}" --input wiki.train.tokens --input-format titles --detokenize --output-prefix tokens
is "$((rc != 0))" 1 "words are no ids"
like "$out" 'none of 2 texts consists of token ids' "documents begin at titles"

# --- From the dump to TensorBoard, from a checkpoint, by one job script. An srun of one rank replaces Slurm's.
mkdir bin && printf '#!/bin/bash\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n' >bin/srun && chmod +x bin/srun
job() {
    try env PATH="$scratch/bin:$PATH" MEGATRON="$megatron" DUMP="$data/dump.xml" OUTPUT_PREFIX="$scratch/w" "$@" bash "$top/sbatch/wikipedia.sbatch" \
        --global-batch-size 4 --train-iters 3 --save-interval 3 --eval-iters 0 --log-interval 1
}
job SLURM_JOB_ID=1
is "$rc" 0 "wikipedia.sbatch"
like "$out" 'documents: +25' "makes tokens of the dump"
like "$out" 'iteration +3/ +3 .* lm loss: [0-9.]+E' "and trains on them"
first=$(sed -n 's/.*iteration  *1\/.*lm loss: \([^ ]*\).*/\1/p' <<<"$out")
job SLURM_JOB_ID=2 LOAD="$scratch/checkpoints-1"
is "$rc" 0 "wikipedia.sbatch from a checkpoint"
unlike "$out" 'documents: ' "the tokens are there already"
second=$(sed -n 's/.*iteration  *1\/.*lm loss: \([^ ]*\).*/\1/p' <<<"$out")
is "$(perl -e 'print $ARGV[1] < $ARGV[0] ? "lower" : "not lower: @ARGV"' "$first" "$second")" lower "which the first loss shows"
is "$(ls tensorboard-2/events.out.tfevents.* 2>/dev/null | wc -l)" 1 "with curves for TensorBoard"
job DUMP=
is "$rc" 2 "without a dump it reports what is missing"
done_testing
