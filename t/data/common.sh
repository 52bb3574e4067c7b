# SPDX-License-Identifier: Apache-2.0
# For tests of `megatron data`: `ranks` of the preprocessing tests runs its commands.
. "$(dirname "${BASH_SOURCE[0]}")/../preprocess/fixture.sh"
data=$top/t/data
pre=("$megatron" data)

# run ARGUMENT...: megatron data with them; $out and $rc as with try.
run() { try "$megatron" data "$@"; }

# make_texts SEED DOCUMENTS: JSON lines of random words, with a number as "id" and further members.
make_texts() {
    perl -e '
        my ($seed, $documents) = @ARGV;
        srand($seed);
        my @words = map { join "", map { chr(97 + int(rand(26))) } 1 .. 3 + int(rand(6)) } 1 .. 3000;
        for my $i (0 .. $documents - 1) {
            my @text = map { $words[int(rand(@words))] } 1 .. 60 + int(rand(200));
            for (my $k = 9; $k < @text; $k += 10) { $text[$k] .= ".\\n" }
            printf qq({"id":%d,"text":"%s the end of it and more.","meta":{"n":[%d,"x"]}}\n), $i, join(" ", @text), $i * 3;
        }' "$@"
}

# make_dump COPIES: a MediaWiki dump that has the pages of the tests so often.
make_dump() {
    perl -e 'local $/; my $n = pop; my $d = <>; my ($head, $pages, $tail) = $d =~ /^(.*?)(  <page>.*<\/page>\n)(.*)$/s; print $head, $pages x $n, $tail' \
        "$top/t/preprocess/wiki/dump.xml" "$1"
}

# texts FILE: the values of "id", one per line. (The text comes behind it in all of these files.)
ids() { sed -n 's/.*"id":\([0-9]*\),.*/\1/p' "$1"; }
