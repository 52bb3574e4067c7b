# SPDX-License-Identifier: Apache-2.0
# For tests of `megatron preprocess`: small corpora, and their expected output, made by perl.
megatron=$MEGATRON_BUILD/runtime/megatron
[ -x "$megatron" ] || megatron=$MEGATRON_INST/bin/megatron
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
# Ids are the numbers in the texts: what comes out is known without a tokenizer.
null=(--tokenizer-type NullTokenizer --vocab-size 60000)
pre=("$megatron" preprocess "${null[@]}" --append-eod)
unset "${!SLURM_@}" "${!MEGATRON_@}" "${!OMPI_@}" RANK WORLD_SIZE LOCAL_RANK

# After each failure: print the last command, its exit status and its output.
on_failure() {
    [ -z "${tried:-}" ] || { diag "the last command, which ended with $rc: $tried"; diag "$(tail -n 30 <<<"$out")"; }
    [ -z "${ranked:-}" ] || { diag "the last ranks, which ended with $ranked"; diag "$(tail -n 10 "$scratch"/rank*.log)"; }
    [ -z "${SEED:-}" ] || diag "SEED=$SEED, round ${round:-0}"
    diag "$(ls -lR "$scratch" | head -n 60)"
}

# make_corpus SEED DOCUMENTS NAME: NAME.jsonl and the expected NAME.bin and NAME.idx (with the end of
# document 60000 appended). Some texts are empty, some are lists, some lines are long.
make_corpus() {
    perl - "$@" <<'PERL'
use strict;
my ($seed, $documents, $name) = @ARGV;
srand($seed);
open(my $json, '>', "$name.jsonl") or die;
my ($bin, $lengths, $pointers, $at, $count) = ('', '', '', 0, 0);
my $index = pack('q<', 0);
for my $i (1 .. $documents) {
    my $kind = rand();
    my @texts = map { [map { int(rand(60000)) } 1 .. int(rand() ** 6 * 3000)] } 1 .. ($kind < 0.1 ? int(rand(4)) : 1);
    my @full = grep { @$_ } @texts;
    push @{$full[-1]}, 60000 if @full;
    my @words = map { my @ids = @$_; pop @ids if @full && $_ == $full[-1]; '"' . join(' ', @ids) . '"' } @texts;
    my $value = $kind < 0.1 ? '[' . join(', ', @words) . ']' : $words[0];
    my $extra = $kind > 0.9 ? '"meta":{"x":[1,{"y":"z"}],"text":"7"},' : '';
    print $json "{$extra\"text\":$value}" . ($i == $documents ? '' : "\n");
    print $json "\r\n \n" if $kind > 0.97 && $i < $documents;
    for (@full) {
        $lengths .= pack('l<', scalar @$_);
        $pointers .= pack('q<', $at);
        $bin .= pack('S<*', @$_);
        $at += 2 * @$_;
        $count++;
    }
    $index .= pack('q<', $count);
}
open(my $out, '>:raw', "$name.bin") or die; print $out $bin; close $out;
open($out, '>:raw', "$name.idx") or die;
print $out "MMIDIDX\0\0" . pack('Q<CQ<Q<', 1, 8, $count, $documents + 1) . $lengths . $pointers . $index;
PERL
}

# ranks N ARGUMENT...: the same as N processes of one launch. Fails if one of them does; all exit
# statuses are in $ranked. The words of `blow` go before the command of rank $struck (all: of each).
blow=()
ranks() {
    local n=$1 r pids=() words
    shift
    attempt=$((${attempt:-0} + 1))
    rm -f rank*.log
    ranked='' tried=''
    for ((r = 0; r < n; r++)); do
        words=()
        case ${struck:-} in all | $r) words=("${blow[@]}") ;; esac
        RANK=$r WORLD_SIZE=$n LOCAL_RANK=$r MASTER_PORT=$((10000 + attempt)) \
            timeout -k 5 300 "${words[@]}" "${pre[@]}" "$@" >"rank$r.log" 2>&1 &
        pids+=($!)
    done
    # Hide the shell's message about a killed process; its status is in $ranked.
    for r in "${pids[@]}"; do
        wait "$r"
        ranked+="${ranked:+ }$?"
    done 2>/dev/null
    [ -z "${ranked//[0 ]/}" ]
}

# same_pair NAME PREFIX: PREFIX_text_document.bin and .idx are byte for byte what NAME should become.
same_pair() { cmp "$1.bin" "$2_text_document.bin" && cmp "$1.idx" "$2_text_document.idx"; }

# same NAME PREFIX: the same, and the file beside them tells which tokenizer made them.
same() {
    same_pair "$1" "$2" && grep -q '^{"format": 1, "tokenizer": "[A-Za-z0-9]*", "vocab_size": [0-9]*, "texts": "[0-9a-f]\{16\}", "own_texts": "[0-9a-f]\{16\}",'" \
\"eod_id\": [0-9]*, \"append_eod\": true, \"bin_bytes\": $(stat -c %s "$1.bin"), \"idx_bytes\": $(stat -c %s "$1.idx")}\$" "$2_text_document.tokenizer"
}

# whole PREFIX: nothing but the output is left of the run.
whole() { [ ! -e "$1.work" ]; }
