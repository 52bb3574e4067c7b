# SPDX-License-Identifier: Apache-2.0
# Sourced: find the program in an installed tree or in a build tree.
# find_tree TREE: sets $megatron and what it needs to find its libraries and machine files in a build tree
find_tree() {
    local tree
    tree=$(readlink -f "$1") || return 1
    if [ -x "$tree/bin/megatron" ]; then
        megatron=$tree/bin/megatron
    elif [ -x "$tree/runtime/megatron" ]; then
        megatron=$tree/runtime/megatron
        export MEGATRON_LIBRARY_DIR=${MEGATRON_LIBRARY_DIR:-$tree/runtime/device/cuda}
        export MEGATRON_MACHINES=${MEGATRON_MACHINES:-$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../../etc/machines")}
    else
        echo "$0: $1 is neither an installed tree nor a build tree" >&2
        return 1
    fi
}
