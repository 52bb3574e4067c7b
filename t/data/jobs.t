#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The job engine behind preprocess, data and tokenizer train: every tool resumes after random faults, a run with other
# options does not use the results of an earlier one, and progress is shown in the same way.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"
SEED=${SEED:-$RANDOM}
TRY_LIMIT=600 try "$top/t/campaign/jobs-kill" 1 "$SEED"
if grep -q '^1..0' <<<"$out"; then
    skip "random faults" "$(sed -n 's/^1..0 # SKIP //p' <<<"$out")"
else
    is "$rc" 0 "every tool writes the right bytes after random faults" || diag "$out"
fi

make_texts 5 2500 >m.jsonl
{ timeout -s KILL 0.1 "$megatron" data filter --input m.jsonl --output o.out --chunk-bytes 50k --rules none; } >log 2>&1
words=(--rules gopher --without-rules stop-words --set min-words=120)
run filter --input m.jsonl --output o.out --overwrite "${words[@]}"
run filter --input m.jsonl --output whole.out "${words[@]}" --json-progress progress.json
ok "a run with other options starts from the beginning" cmp whole.out o.out

# --- Progress
is "$(tail -n 1 progress.json | sed 's/[0-9.]\+/N/')" '{"time": N, "command": "filter", "phase": "done"}' \
    "--json-progress ends with the phase done"
yes '{"text":"some words here"}' | head -n 2000000 >long.jsonl
run dedup --input long.jsonl --output d.out --json-progress progress.json
is "$(perl -MJSON::PP -ne 'my $d = decode_json($_); print join(" ", sort keys %$d), "\n"' progress.json | head -n 1)" \
    "bytes bytes_per_second command documents fraction phase ranks seconds_left time" "  and has an object per second"
run dedup --input nowhere.jsonl --output d.out --overwrite --json-progress /nowhere/x
is "$rc" 2 "a wrong input is an error"
run dedup --input m.jsonl --output d.out --overwrite --json-progress /nowhere/x
is "$rc $out" "2 megatron data: dedup: --json-progress: cannot write /nowhere/x: No such file or directory; check the path" \
    "  and so is a file that cannot be written"
if command -v script >/dev/null; then
    script -qec "'$megatron' data dedup --input long.jsonl --output t.out" /dev/null >terminal.log 2>&1 </dev/null
    like "$(tr '\r' '\n' <terminal.log)" 'hashes: +[0-9.]+ % \| [0-9]+ documents \| [0-9.]+ MB/s \| 0:00:[0-9]+ left \| 1 rank' \
        "on a terminal, a line is updated"
else
    skip "a line on a terminal" "no script(1)"
fi
done_testing
