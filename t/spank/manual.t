#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The man pages, srun --help and the plugin's tables agree.
. "$(dirname "$0")/common.sh"
page=$top/spank/spank_megatron.8
contract=$top/spank/megatron-contract.7
cluster_up --nodes 1

# The options as the plugin registers them.
try as_user srun --help
help=$(sed -n 's/^ *--megatron-\([a-z-]*\)=.*/\1/p' <<<"$out" | sort)
table=$(sed -n 's/^ *\[OPTION_[A-Z_]*\] = *{"\([a-z-]*\)".*/\1/p' "$top/spank/settings.c" | sort)
described=$(sed -n 's/^\.It Fl -megatron-\([a-z-]*\).*/\1/p' "$page" | sort)
[ -n "$table" ]; ok "the table of options has $(wc -l <<<"$table") rows"
is "$help" "$table" "srun --help has the options of the table"
is "$described" "$table" "the page describes each of them once"

# Defaults named on the page are those of the table; the same for plugstack.conf's arguments.
for name in tp pp cp bind import-timeout; do
    value=$(grep -A1 "^ *\[OPTION_[A-Z_]*\] = *{\"$name\"" "$top/spank/settings.c" | sed -n 's/.*(\([a-z0-9]*\))".*/\1/p' | head -n 1)
    text=$(sed -n "/^\.It Fl -megatron-$name /,/^\.It Fl/p" "$page")
    case $text in *"default is $value."* | *"It Cm $value"*"The default."*) true ;; *) false ;; esac
    ok "--megatron-$name: the page has the default $value"
done
arguments=$(sed -n '/argument_table\[\]/,/};/s/^ *{"\([a-z_-]*\)", read_.*/\1/p' "$top/spank/plugstack.c" | sort)
ok "the table of arguments has $(wc -l <<<"$arguments") rows" test "$(wc -l <<<"$arguments")" -gt 10
section=$(sed -n '/^\.Sh ARGUMENTS/,/^\.Sh FILES/p' "$page")
missing=
for name in $arguments; do
    grep -qwE -- "$name" <<<"$section" || missing+=" $name"
done
is "$missing" "" "the page names all $(wc -l <<<"$arguments") arguments of plugstack.conf"

# The contract, as in the header.
names=$(sed -n '/define CONTRACT_VARIABLES/,/^$/s/.*X(\([A-Z_]*\), .*/MEGATRON_\1/p' "$top/lib/contract.h" | sort)
is "$(sed -n 's/^\.It Ev \(MEGATRON_[A-Z_]*\) .*/\1/p' "$contract" | sort)" "$names" "megatron-contract(7) has the variables of the header"
read=$(grep -rhoE '(getenv|value)\((node->environment, )?"MEGATRON_[A-Z_]+"' "$top"/{lib,container,spank,runtime} | grep -oE 'MEGATRON_[A-Z_]+' | sort -u)
is "$(grep -vxF -f <(grep '^\.It Ev' "$contract" | grep -oE 'MEGATRON_[A-Z_]+') <<<"$read")" "" "  and all others that the code reads"
if command -v mandoc >/dev/null; then
    for file in "$page" "$contract" "$top/container/megatron-importer.7"; do
        is "$(mandoc -T lint -W warning "$file" 2>&1)" "" "$(basename "$file") is well formed"
    done
else
    skip "the pages are well formed" "no mandoc"
fi
ok "the pages are installed" test -f "$MEGATRON_INST/share/man/man8/spank_megatron.8" -a -f "$MEGATRON_INST/share/man/man7/megatron-importer.7" -a -f "$MEGATRON_INST/share/man/man7/megatron-contract.7"
like "$(cat "$MEGATRON_INST/share/megatron/plugstack.conf.d/megatron.conf")" "^optional /.*/spank_megatron.so$" "the line for plugstack.conf is installed"

# The symbols that the plugin exports to the process that loads it.
plugin=$MEGATRON_INST/lib/slurm/spank_megatron.so
is "$(nm -D --defined-only "$plugin" | awk '{print $3}' | grep -v ^slurm_spank_ | sort | xargs)" \
    "plugin_name plugin_type plugin_version spank_plugin_version" "it exports SPANK's symbols only"
is "$(readelf -d "$plugin" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -v '^ld-' | xargs)" "libc.so.6" "it needs libc only"
done_testing
