#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron data goes on after a kill, at any time, with the same bytes at the end and nothing left behind.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/common.sh"
SEED=${SEED:-$RANDOM}
RANDOM=$SEED
{ make_texts 5 2500; make_texts 6 500; make_texts 5 2500 | sed 's/the end/of them/'; } >m.jsonl
make_texts 9 30 >tests.jsonl
make_dump 60 | bzip2 -1 >m.xml.bz2
# killed SECONDS ARGUMENT...: megatron data, killed after so long; what the shell says of that is not shown.
killed() { { timeout -s KILL "$1" "$megatron" data "${@:2}"; } >log 2>&1; } 2>/dev/null
declare -A words=(
    [extract]="--input m.xml.bz2"
    [filter]="--input m.jsonl --rules gopher --without-rules stop-words --set min-words=120"
    [dedup]="--input m.jsonl"
    [decontaminate]="--input m.jsonl --against tests.jsonl"
    [mix]="--input m.jsonl tests.jsonl --epochs 1 20"
)
for verb in extract filter dedup decontaminate mix; do
    # shellcheck disable=SC2086
    run $verb ${words[$verb]} --output $verb.whole
    is "$rc" 0 "$verb in one go" || diag "$out"
    kills=0 chunk=100k
    [ $verb != extract ] || chunk=20k
    while [ ! -e $verb.out ] && [ $kills -lt 12 ]; do
        # shellcheck disable=SC2086
        killed 0.0$((RANDOM % 9 + 1)) $verb ${words[$verb]} --output $verb.out --chunk-bytes $chunk
        kills=$((kills + 1))
    done
    # shellcheck disable=SC2086
    [ -e $verb.out ] || run $verb ${words[$verb]} --output $verb.out --chunk-bytes $chunk
    ok "$verb: the same bytes after $kills kills" cmp $verb.whole $verb.out
    # One that was killed while it cleaned up is told that all is there.
    # shellcheck disable=SC2086
    [ ! -e $verb.out.work ] || run $verb ${words[$verb]} --output $verb.out --chunk-bytes $chunk
    ok "  and nothing is left" [ ! -e $verb.out.work ]
done

# --- A rank dies, and the others do its work.
struck=1 blow=(timeout -s KILL 0.1) launch=100
# shellcheck disable=SC2086
ranks 3 dedup ${words[dedup]} --output left.out --chunk-bytes 50k --lease 1
ok "two ranks finish without the third ($ranked)" cmp dedup.whole left.out || diag "$(cat rank?.log)"
# --- All die; others go on.
rm -f left.out
struck=all blow=(timeout -s KILL 0.15)
# shellcheck disable=SC2086
ranks 2 dedup ${words[dedup]} --output again.out --chunk-bytes 50k --lease 1
struck=
# shellcheck disable=SC2086
[ -e again.out ] || ranks 3 dedup ${words[dedup]} --output again.out --chunk-bytes 50k --lease 1
ok "three ranks go on where two were killed ($ranked)" cmp dedup.whole again.out || diag "$(cat rank?.log)"
# --- Another run, with other options, does not take what the first has left.
killed 0.1 filter --input m.jsonl --output o.out --chunk-bytes 50k --rules none
run filter --input m.jsonl --output o.out --overwrite --rules gopher --without-rules stop-words --set min-words=120
ok "other options begin anew" cmp filter.whole o.out
done_testing
