#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every option that a message names exists, and warnings have one channel for the program and one for the plugin.
# t/self/strings lists the messages.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
cd "$top" || exit 1

mapfile -t lower < <(printf '%s\n' lib container runtime/*/*/ | grep -vE '^runtime/run/(command|train)/$')

# --- Warnings have one channel for the program and one for the plugin. Below the commands nothing else prints errors.
prints() { # FOLDER...
    grep -rlE --include='*.c' --include='*.cpp' --include='*.cu' -e 'fprintf\(stderr|perror\(|puts\(.*stderr' -e '"megatron: (%s: )?warning' "$@" | sort
}
# The progress of preprocess goes to standard error, as Megatron's does.
is "$(prints "${lower[@]}" runtime/run/train spank | grep -vxE 'runtime/data/(jobs/progress|preprocess/summary)\.c' | xargs)" \
    "runtime/base/core/log.c spank/plugin.c spank/task_decide.c" "only the log and the plugin's two functions print warnings"

# --- Every option that a message names exists. Options of other programs are named directly after the program.
help() {
    "$megatron" "$1" --help
    "$megatron" "$1" --help | sed -n 's/^ *megatron [a-z]* \([a-z|]*|[a-z]*\) .*/\1/p' | tr '|' '\n' |
        while read -r action; do "$megatron" "$1" "$action" --help; done
}
named() {
    sed -E 's/(srun|sbatch|salloc|scancel|scontrol|nvidia-smi( nvlink)?|Megatron-LM|configure)( --[a-z-]+(=[^ ]*)?)+//g' |
        grep -oE -- '(^|[^-A-Za-z])--[a-z][a-z0-9_-]+' | grep -o -- '--.*' | tr _ - | sort -u
}
is "$(named <<<'no data; use --data-path_x, or srun --mpi=pmix -- a')" --data-path-x "options are recognized"
known=$(for command in $("$megatron" --help | sed -n 's/^  \([a-z-]*\)  *[a-z].*/\1/p'); do help "$command"; done | named)
plugin=$(sed -n 's/^ *\[OPTION_[A-Z_]*\] = {"\([a-z-]*\)".*/--megatron-\1/p' spank/settings.c)
unknown=$(t/self/strings "${lower[@]}" | grep -v ': man: ' | named | grep -vxF -f <(printf '%s\n' "$known" "$plugin" --megatron))
is "$unknown" "" "every option that a message names exists"
done_testing
