# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts for a GPU: find the program in an installed tree or in a build tree, and what this machine lacks.
# find_tree TREE: sets $megatron and what it needs to find its libraries and machine files in a build tree
find_tree() {
    local tree
    tree=$(readlink -f "$1") || return 1
    if [ -x "$tree/bin/megatron" ]; then
        megatron=$tree/bin/megatron
    elif [ -x "$tree/runtime/megatron" ]; then
        megatron=$tree/runtime/megatron
        export MEGATRON_LIBRARY_DIR=${MEGATRON_LIBRARY_DIR:-$tree/runtime/engine/device/cuda}
        export MEGATRON_MACHINES=${MEGATRON_MACHINES:-$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../../etc/machines")}
    else
        echo "$0: $1 is neither an installed tree nor a build tree" >&2
        return 1
    fi
}

# has FEATURE: was $megatron built with it? The names are those of configure, as in --with-simdjson.
has() { [[ " $("$megatron" version | sed -n 's/^built with://p') " = *" $1 "* ]]; }

# can_save NAME: can $megatron save and load checkpoints? If not, prints a line in place of those of the test NAME.
can_save() {
    has simdjson || { echo "ok - $1 # SKIP checkpoints need simdjson, which this build lacks"; return 1; }
}

# has_python MODULE...: does python3 (or $PYTHON) find them all?
has_python() {
    local IFS=,
    "${PYTHON:-python3}" -c "import $*" 2>/dev/null
}
