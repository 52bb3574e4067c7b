#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Messages of the layers below the commands name no command-line option: these belong to the commands, whose
# table of remedies (runtime/run/command/remedies.c) says which option helps. t/self/strings lists the messages.
# Nor do they print: warnings have one channel.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
cd "$top" || exit 1

# Above: the commands, `megatron train` with its table of options (train/), and the plugin (spank/).
mapfile -t lower < <(printf '%s\n' lib container runtime/*/*/ | grep -vE '^runtime/run/(command|train)/$')

# Reads a list of t/self/strings; prints the lines that name an option. Options of other programs may be named,
# directly after the program.
options() {
    grep -v ': man: ' | sed -E 's/(srun|sbatch|nvidia-smi( nvlink)?|Megatron-LM)( --[a-z-]+(=[^ ]*)?)+//g' |
        grep -E -- '(^|[^-A-Za-z])--[a-z]'
}
is "$(printf '%s\n' 'a.c:1: error: no data; use --data-path' 'a.c:2: part: --save' 'a.c:3: error: use `srun --mpi=pmix`' 'a.c:4: text: a -- b' | options)" \
    $'a.c:1: error: no data; use --data-path\na.c:2: part: --save' "options are recognized"

# The parser of options says where they are listed; `megatron plan` prints command lines.
is "$(t/self/strings "${lower[@]}" | options | grep -vE '^runtime/base/core/option\.c:.* --help lists all$|^runtime/run/plan/show\.c:[0-9]+: print: ')" "" \
    "no message of a lower layer names an option"

# --- Warnings have one channel for the program and one for the plugin. Below the commands nothing else prints errors.
prints() { # FOLDER...
    grep -rlE --include='*.c' --include='*.cpp' --include='*.cu' -e 'fprintf\(stderr|perror\(|puts\(.*stderr' -e '"megatron: (%s: )?warning' "$@" | sort
}
is "$(prints "${lower[@]}" runtime/run/train spank | xargs)" "runtime/base/core/log.c spank/plugin.c spank/task_decide.c" \
    "only the log and the plugin's two functions print warnings"

# --- Every option in the table exists, in one of the commands.
help() {
    "$megatron" "$1" --help
    "$megatron" "$1" --help | sed -n 's/^ *megatron [a-z]* \([a-z|]*|[a-z]*\) .*/\1/p' | tr '|' '\n' |
        while read -r action; do "$megatron" "$1" "$action" --help; done
}
named() {
    grep -ohE -- '--[a-z][a-z0-9_-]+' "$@" | tr _ - | sort -u
}
known=$(for command in $("$megatron" --help | sed -n 's/^  \([a-z-]*\)  *[a-z].*/\1/p'); do help "$command"; done | named)
plugin=$(sed -n 's/^ *\[OPTION_[A-Z_]*\] = {"\([a-z-]*\)".*/--megatron-\1/p' spank/settings.c)
# --mem is Slurm's; --megatron stands for all of the plugin's.
is "$(named runtime/run/command/remedies.c | grep -vxF -f <(printf '%s\n' "$known" "$plugin" --mem --megatron))" "" \
    "every option in the table of remedies exists"

# --- Every remedy has words, and is used.
words() {
    grep -rohE '\bREMEDY_[A-Z_]+' "$@" | sort -u
}
remedies=$(sed -n '/^enum remedy/,/REMEDY_COUNT/p' runtime/base/core/remedy.h | words - | grep -vx REMEDY_COUNT)
ok "there are remedies" test "$(wc -l <<<"$remedies")" -gt 40
is "$(words runtime/run/command/remedies.c | grep -vx REMEDY_COUNT)" "$remedies" "every remedy has words"
is "$(words --include='*.c' "${lower[@]}" | grep -xF -f <(cat <<<"$remedies"))" "$remedies" "every remedy is used"
done_testing
