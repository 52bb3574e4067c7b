#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every source file names its license within its first lines.
. "$(dirname "$0")/../tap.sh"
cd "$top" || exit 1
# Data, licenses, texts for people and generated files have none; the tarball has no git, but the same files.
sources() {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files --cached --others --exclude-standard
    else
        find . -type f -not -path './_*' -printf '%P\n'
    fi | grep -E '^(lib|spank|container|runtime|sbatch|etc|t|\.ci)/|^(quickstart|configure\.ac|Makefile\.am)$' |
        grep -vE '\.(xml|txt|md|jsonl|svg|json|model|in|bin|ftz|csv|idx|pt|tab|safetensors|distcp|metadata)$|^t/train/(masked|roberta)/[^.]*$|/LICENSE$|/(vocab\.json|merges\.txt)|^runtime/data/tokenizer/gpt2/|^etc/tuning/'
}
count=$(sources | wc -l)
[ "$count" -gt 500 ]
ok "$count source files are looked at"
missing=$(sources | while read -r file; do
    [ ! -f "$file" ] || head -n 3 "$file" | grep -qaF 'SPDX-License-Identifier: Apache-2.0' || echo "$file"
done)
is "$(wc -w <<<"$missing") files" "0 files" "each has an SPDX-License-Identifier" || diag "$(head -n 20 <<<"$missing")"
done_testing
