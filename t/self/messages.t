#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What all commands have in common: exit codes, one line per error, man pages; and t/self/strings, which lists every
# text that users read.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
pages=$top/runtime/run/command
commands=$("$megatron" --help | sed -n 's/^  \([a-z-]*\)  *[a-z].*/\1/p')
is "$("$megatron" --help | grep -c '^  [a-z]')" "$(wc -w <<<"$commands")" "--help lists the commands"

# --- A usage error, also a path that cannot work, is one line and exit code 2 in every command.
for command in $commands; do
    try "$megatron" "$command" --no-such-option
    is "$rc $(wc -l <<<"$out")" "2 1" "$command: an unknown option is a usage error"
    like "$out" "^megatron $command: ((unknown option|unexpected argument) --no-such-option|no action; use )" "  which is reported"
    [ "$command" = version ] || like "$("$megatron" "$command" --help)" "^Usage: megatron $command" "  --help begins with the usage"
done
while IFS='|' read -r words text; do
    # shellcheck disable=SC2086
    try "$megatron" $words
    is "$rc $(wc -l <<<"$out")" "2 1" "megatron $words: a usage error"
    like "$out" "^megatron( [a-z-]+)?: $text" "  says why"
done <<'EOT'
|no command; `megatron --help` lists all$
checkpoint|no action; use inspect, verify, prune, import or export$
checkpoint --keep-last 1|no action; use inspect,
data --keep X|no action; use inspect,
image --keep-days 1|no action; use import,
tokenizer --type x|no action; use train$
data|no action; use inspect, verify, extract, filter, dedup, decontaminate, mix, merge or stats$
image|no action; use import, list, verify, prune, get or release$
tokenizer|no action; use train$
chekpoint|unknown command chekpoint; did you mean checkpoint\?
train --lr|--lr needs a value
train word|unexpected argument word
evaluate --mock-data|evaluation requires --load or --load-hf
generate --prompt x|--load is required
generate --load / hello|unexpected argument hello
preprocess --input x|--output-prefix is required
preprocess x|unexpected argument x
data inspect|inspect: no PREFIX;
data look x|unknown action look
tokenize --append-eod=1 x|--append-eod takes no value
detokenize --tokenizer-type NullTokenizer --vocab-size 10 123456789012345678901234567890123|"1234567890123456789012345678901..." is not a token id
checkpoint look x|unknown action look
checkpoint prune x|prune needs to know how many checkpoints to keep; use --keep-last N
checkpoint import x|import takes two directories: source and destination
checkpoint export x y --format fairseq|export does not support this format; use --format hf, megatron or torch_dist
supervise|no command to run; write it after --
supervise -- true|the command does not save checkpoints
comm-test 1G|unexpected argument 1G
comm-test --min-bytes 2M --max-bytes 1M|--min-bytes=2097152 is greater than --max-bytes=1048576
topo file.xml|unexpected argument file.xml
topo --cpus x|--cpus=x
version 2|unexpected argument 2
preprocess --input /nowhere --output-prefix /nowhere/o|cannot write to directory /nowhere/: No such file or directory; check the path$
data inspect /nowhere|inspect: /nowhere.idx: cannot open: No such file or directory; check the path$
data filter --input /nowhere --output /nowhere/o.jsonl|filter: cannot read /nowhere: No such file or directory; check the path$
data merge --input /nowhere --output-prefix /nowhere/o|merge: /nowhere.idx: cannot open: No such file or directory; check the path$
tokenize --tokenizer-type HuggingFaceTokenizer --tokenizer-model /nowhere x|cannot open /nowhere: No such file or directory; check the path$
detokenize x|id=x is not a whole number
topo --topology /nowhere|cannot open /nowhere: No such file or directory; check the path$
checkpoint inspect /nowhere|/nowhere is not a checkpoint directory
checkpoint prune /nowhere --keep-last 1|cannot read /nowhere: No such file or directory; check the path$
checkpoint import /nowhere /nowhere/o --format megatron|cannot open /nowhere: No such file or directory; check the path$
generate --load /nowhere --prompt x|directory /nowhere does not exist
image import docker://|URI=docker:// has no image name
report /nowhere -o /nowhere/o.html|cannot read /nowhere: No such file or directory; check the path$
plan --machines /nowhere --node p5|cannot read the machine files in /nowhere: No such file or directory; check the path$
train --yaml-cfg run.yaml|--yaml-cfg is an option of Megatron-LM that does not exist here; write the keys of the file as options, in a script or on the command line$
EOT

for words in --help -h help "help data" "checkpoint --help" "data -h" "image --help" "tokenizer --help"; do
    # shellcheck disable=SC2086
    try "$megatron" $words
    is "$rc ${out%%:*}" "0 Usage" "megatron $words prints help"
done

# --- Man pages: one per command, named in megatron(1), which lists the exit codes.
for command in $commands; do
    [ "$command" = version ] || ok "megatron-$command.1" test -e "$pages/megatron-$command.1"
    ok "  and megatron(1) names $command" grep -qE "^\.It Cm (.* , )?$command( ,|$)" "$pages/megatron.1"
done
# The values of options: those in --help (a|b|c), or in the error about an unknown one. Those of
# tokenizers are in megatron-tokenize(1), of which other pages name a few. The unknown option keeps commands from running.
for command in preprocess tokenize plan preflight train generate fill-mask comm-test checkpoint \
    "data extract" "data stats" "tokenizer train"; do
    # shellcheck disable=SC2086
    list=$("$megatron" $command --help | sed -nE 's/^  (--[a-z0-9-]+) ([A-Za-z0-9_.|-]+)( .*)?$/\1 \2/p' \
        | while read -r option values; do
            [[ $values = *"|"* ]] || values=$("$megatron" $command $option=no-such-value --no-such-option 2>&1 \
                | sed -n 's/.*=no-such-value is unknown; use //p')
            [ -z "$values" ] || echo "$option ${values//|/ }"
        done)
    missing=$(while read -r option values; do
        page=$pages/megatron-${command%% *}.1
        [[ $option != --tokenizer-* ]] || page=$pages/megatron-tokenize.1
        for value in $values; do
            grep -qE -- "^\.(.* )?(Cm|Ql|Li) (.* )?${value//./\\.}( |$)" "$page" || echo "$option $value"
        done
    done <<<"$list")
    ok "megatron $command has options with listed values" test -n "$list"
    is "$missing" "" "  and its man page has all values"
done
is "$(sed -n '/^\.Sh EXIT STATUS/,/^\.Sh DIAG/s/^\.It \([0-9]*\)$/\1/p' "$pages/megatron.1" | xargs)" "0 1 2 3 75" "megatron(1) lists the exit codes"

# --- t/self/strings finds texts of every kind, with file and line.
list=$("$top/t/self/strings")
for kind in error warning note print part text man script; do
    like "$list" "^[^:]+:[0-9]+: $kind: " "the list has texts of kind $kind"
done
like "$list" '^runtime/run/command/checkpoint\.c:[0-9]+: error: prune needs to know how many checkpoints to keep; use --keep-last N$' "an error with its place"
like "$list" '^runtime/run/train/arguments\.c:[0-9]+: part: valid$' "what is inserted into an error is a part"
like "$list" '^runtime/data/dataset/indexed\.c:[0-9]+: part: ; give the prefix without' "what follows an error is a part"
unlike "$list" ': error: (valid|; give the prefix)' "  and no error"
like "$list" '^runtime/run/train/options\.c:[0-9]+: text: peak learning rate$' "the help text of an option"
like "$list" '^runtime/run/command/megatron\.1:[0-9]+: man: .*one process per GPU' "a sentence of a man page"
done_testing
