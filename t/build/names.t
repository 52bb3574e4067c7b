#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The test of a source file is found by its name, and include guards are unique.
. "$(dirname "$0")/../tap.sh"
cd "$top" || exit 1

# t/unit/FOLDER/FILE.c tests FOLDER/FILE.*, and FILE_ASPECT.c does, too. Device tests are one program for
# device/cpu and device/cuda. Files that no test program is named after are helpers of the others.
lost=
while read -r program; do
    folder=${program%/*} name=${program##*/}
    folders=("$folder")
    [ "$folder" != runtime/engine/device ] || folders+=(runtime/engine/device/cpu)
    [ "$folder" != lib/placement ] || folders+=(lib)
    until [ -n "$(for place in "${folders[@]}"; do compgen -G "$place/$name.[ch]*"; done)" ]; do
        [[ $name == *_* ]] || { lost+="t/unit/$program.c "; break; }
        name=${name%_*}
    done
done < <(sed -n 's/^unit_[a-z0-9_]*_t_SOURCES = unit\/\([a-z0-9_\/]*\)\.c.*/\1/p' $(find t/unit -name tests.am))
is "$lost" "" "every unit test is named after the file that it tests"
is "$(find t/unit -name '*.c' -printf '%P\n' | while read -r file; do
    grep -qF "unit/$file" "t/unit/${file%/*}/tests.am" || echo "$file"
done)" "" "every unit test is in the tests.am of its folder"
is "$(find t/unit -name tests.am -printf 'include unit/%P\n' | sort)" "$(grep '^include unit/' t/Makefile.am | sort)" \
    "every tests.am is in t/Makefile.am"

# Two headers with the same guard: a file that includes both silently misses the second one.
guards=$(find lib spank container runtime t -name '*.h' -o -name '*.cuh' | xargs sed -n 's/^#ifndef \([A-Z0-9_]*_\(H\|CUH\)\)$/\1/p' | sort)
is "$(uniq -d <<<"$guards")" "" "no two headers have the same include guard"
done_testing
