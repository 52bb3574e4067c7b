#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Headers: each has an include guard, and no two have the same: the second would be empty wherever both are included.
. "$(dirname "$0")/../tap.sh"
cd "$top" || exit 1

# Included once, by the file they are a part of.
exceptions='runtime/tokenizer/(nfc_table|split_simd|unicode_table)\.h'

headers=$(find lib spank container runtime t -name '*.h' -o -name '*.cuh' | grep -vxE "$exceptions" | sort)
ok "there are headers" test "$(wc -l <<<"$headers")" -gt 100

# "GUARD FILE" for each: the first line that is not a comment must open the guard, the next define it.
guards=$(for header in $headers; do
    awk -v header="$header" '
        /^#ifndef / && !guard { guard = $2; next }
        guard && !done { if ($0 != "#define " guard) guard = "none"; done = 1 }
        END { print (guard ? guard : "none"), header }' "$header"
done)
is "$(grep '^none ' <<<"$guards")" "" "every header has an include guard"
is "$(cut -d ' ' -f 1 <<<"$guards" | sort | uniq -d | while read -r guard; do grep "^$guard " <<<"$guards"; done)" "" \
    "no two headers have the same one"
done_testing
