# SPDX-License-Identifier: Apache-2.0
# Let ordinary users reach this tree if it is below a directory that only its owner may enter, such as /root or
# a home directory. For scripts that set `top` and start programs of the tree as another user.

# closed_to USER: print the first directory on the way to the tree that USER cannot enter; fail if there is none.
closed_to() {
    local path=$top parts=() directory
    while [ "$path" != / ]; do
        parts=("$path" "${parts[@]}")
        path=$(dirname "$path")
    done
    for directory in "${parts[@]}"; do
        setpriv --reuid="$1" --regid="$(id -g "$1")" --clear-groups test -x "$directory" || { echo "$directory"; return 0; }
    done
    return 1
}

# reveal_tree USER [DIRECTORY...]: replace that directory by an empty one that contains nothing but the tree and those of
# the others that are in it. Needs root and a mount namespace of its own.
reveal_tree() {
    local closed behind directory
    closed=$(closed_to "$1") && [ "$closed" != "$top" ] || return 0
    behind=$(TMPDIR='' mktemp -d) || return 1
    mount --rbind "$closed" "$behind" && mount -t tmpfs -o mode=755 tmpfs "$closed" || return 1
    for directory in "$top" "${@:2}"; do
        [[ $directory/ == "$closed"/* && ! -e $directory && -d $behind${directory#"$closed"} ]] || continue
        mkdir -p "$directory" && mount --rbind "$behind${directory#"$closed"}" "$directory" || return 1
    done
    umount -l "$behind" && rmdir "$behind"
}
