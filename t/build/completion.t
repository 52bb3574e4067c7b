#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bash completion offers what --help lists, and `megatron version` what the build contains.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_INST/bin/megatron
[ -x "$megatron" ] || skip_all "no program in $MEGATRON_INST"
export PATH=$MEGATRON_INST/bin:$PATH

# Completions must be those of the installed files.
. "$MEGATRON_INST/share/bash-completion/completions/megatron"

# complete_line FUNCTION WORD...: the words that completing the last WORD offers, sorted.
complete_line() {
    local function=$1 COMP_WORDS COMP_CWORD COMPREPLY
    shift
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    "$function" "$1" "${!#}" "${*: -2:1}" 2>/dev/null
    printf '%s\n' "${COMPREPLY[@]}" | sort -u | paste -sd ' '
}

is "$(complete_line _megatron megatron '')" \
    "$({ "$megatron" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p'; echo --help; echo --version; } | sort -u | paste -sd ' ')" "all commands"
for command in $("$megatron" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p'); do
    is "$(complete_line _megatron megatron "$command" --)" \
        "$({ "$megatron" "$command" --help | grep -oE '^  --[a-z0-9-]+' | tr -d ' '; echo --help; } | sort -u | paste -sd ' ')" "the options of $command"
done
is "$(complete_line _megatron megatron tr)" "train" "a command is completed"
is "$(complete_line _megatron megatron train --lr-d)" "--lr-decay-iters --lr-decay-samples --lr-decay-style" "an option is completed"
like "$(complete_line _megatron megatron train --lr-decay-style co)" "^constant cosine$" "a value is completed"
like "$(complete_line _megatron megatron train --megatron-model = llama2-1)" "^llama2-13b$" "a preset is completed"
is "$(complete_line _megatron megatron help tr)" "train" "a command after help"
is "$(complete_line _megatron megatron plan --node p4)" "p4d.24xlarge p4de.24xlarge" "a kind of nodes"
for command in train preprocess tokenize generate; do
    is "$(complete_line _megatron megatron $command --tokenizer-type Ll)" "Llama2Tokenizer Llama3Tokenizer" "a tokenizer of $command"
done
is "$(complete_line _megatron megatron tokenize --tokenizer-type '')" "$(complete_line _megatron megatron train --tokenizer-type '')" \
    "tokenizers are the same everywhere"
# Values that --help describes in words
while read -r values; do
    line=${values%% = *}
    # shellcheck disable=SC2086
    is "$(complete_line _megatron megatron $line '')" "${values#* = }" "values of $line"
done <<EOT
preprocess --input-format = blank-lines every-line files json lines mediawiki titles
topo --bind = auto core gpu none numa
launch --nics = all auto none
launch --kind = auto job none slurm
tokenizer train --type = bpe unigram wordpiece
tokenizer train --split = gpt2 llama3 o200k
data dedup --preset = fineweb nemo refinedweb
EOT
like "$(complete_line _megatron megatron checkpoint '')" "^export import inspect prune verify$" "an action is completed"
like "$(complete_line _megatron megatron data dedup --out)" "^--output" "the options of an action are completed"
is "$(cd "$top" && complete_line _megatron megatron topo --topology REA)" "README.md" "a file is completed"
is "$(complete_line _megatron megatron nonsense --)" "--help" "an unknown command has no options"

if [ -f "$MEGATRON_INST/etc/bash_completion.d/spank_megatron" ]; then
    . "$MEGATRON_INST/etc/bash_completion.d/spank_megatron"
    table=$(sed -n 's/^ *\[OPTION_[A-Z_]*\] = *{"\([a-z-]*\)".*/--megatron-\1/p' "$top/spank/settings.c" | sort | xargs)
    is "$(complete_line _spank_megatron srun --meg | tr ' ' '\n' | tr -d = | xargs)" "$table" "srun: the plugin's options"
    is "$(complete_line _spank_megatron srun --megatron-bind = nu)" "numa" "srun: a value"
    is "$(complete_line _spank_megatron sbatch --megatron-show =)" "no yes" "sbatch: a switch"
    switches=$(tr -d '\n' <"$top/spank/settings.c" | grep -oE '\{"[a-z-]+", *"yes\|no"' | sed 's/^{"\([a-z-]*\)".*/--megatron-\1/')
    ok "the plugin has switches" test "$(wc -l <<<"$switches")" -gt 5
    is "$(for name in $switches; do [ "$(_spank_megatron_values "$name")" = "yes no" ] || echo "$name"; done)" "" "every switch takes yes and no"
    # Everything else is Slurm's.
    _fake_slurm() { COMPREPLY=(--nodes --ntasks); }
    _completion_loader() { complete -F _fake_slurm "$1"; }
    unset -f _comp_load 2>/dev/null
    is "$(complete_line _spank_megatron srun --n)" "--nodes --ntasks" "srun: Slurm's own options come from Slurm's completion"
else
    skip "srun: the plugin's options" "built without Slurm"
fi

try "$megatron" version
like "$out" "^megatron [0-9]" "version: the version"
header=$MEGATRON_BUILD/config.h
for part in "Slurm:SLURM_VERSION" "CUDA:CUDA_RELEASE" "configure:BUILD_OPTIONS"; do
    value=$(sed -n "s/^#define MEGATRON_${part#*:} \"\(.*\)\"/\1/p" "$header")
    if [ -n "$value" ]; then like "$out" "^${part%:*}: +$value$" "version: ${part%:*} $value"
    else like "$out" "^${part%:*}: +(none|defaults)" "version: no ${part%:*}"; fi
done
unlike "$out" "$(id -un)@|$top" "version: nothing about the machine it was built on"
try "$megatron" version extra
is "$rc" 2 "version takes no arguments"
done_testing
