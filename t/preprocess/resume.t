#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A run that was killed at any moment is resumed by the same command, and the output has the bytes of an undisturbed
# run: a preloaded library kills the process at each call that changes the file system, one after the other.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/fixture.sh"
cc=${CC:-cc}
command -v "$cc" >/dev/null || skip_all "no compiler for the library that kills"
$cc -shared -fPIC -O1 -o killer.so "$top/t/preprocess/killer.c" -ldl || skip_all "cannot build the library that kills"
ldd "$megatron" | grep -q libasan && skip_all "not with sanitizers"
make_corpus 3 60 c
make_corpus 4 30 old
options=(--input c.jsonl --output-prefix o --workers 1 --chunk-bytes 50000)

# strike HOW NUMBER ARGUMENT...: run and kill it at that call. Its exit status is in $rc; 0 means that
# the run made fewer calls.
strike() {
    local how=$1 number=$2
    shift 2
    try env KILL_HOW="$how" KILL_AT="$number" LD_PRELOAD="$scratch/killer.so" "${pre[@]}" "$@"
}

# Incomplete output must never have its final name: if there is an .idx, there is its .bin.
no_half() {
    [ ! -e o_text_document.idx ] || same c o
}

for how in kill after full; do
    bad=0 number=0
    while true; do
        number=$((number + 1))
        rm -rf o_* o.work
        strike $how $number "${options[@]}"
        no_half || { bad=1; diag "$how at call $number: half a file"; }
        [ "$rc" != 0 ] || break
        if [ $how = full ] && ! grep -q 'No space left' <<<"$out"; then
            bad=1
            diag "full at call $number: $out"
        fi
        # Twice in a row, at different calls, then undisturbed.
        strike kill $((number % 17 + 3)) "${options[@]}"
        no_half || { bad=1; diag "$how at call $number and again: half a file"; }
        [ "$rc" = 0 ] || try "${pre[@]}" "${options[@]}"
        # The run may have been complete when it was killed.
        if [ "$rc" != 0 ] && ! grep -q 'exists; use --overwrite' <<<"$out"; then
            bad=1
            diag "$how at call $number, then: $out"
        fi
        same c o && whole o || { bad=1; diag "$how at call $number: not the right end: $(ls -d o*)"; }
        [ $bad = 0 ] || break
    done
    is "$bad" 0 "$how at each of $((number - 1)) calls"
    [ $number -gt 30 ]
    ok "there are more than 30 such calls"
done

# --- A new run that replaces old output: until it is complete, the old pair stays, or there is no .idx
bad=0 number=0
while [ $bad = 0 ]; do
    number=$((number + 3))
    rm -rf o_* o.work
    cp old.bin o_text_document.bin
    cp old.idx o_text_document.idx
    strike kill $number "${options[@]}" --overwrite
    [ "$rc" != 0 ] || break
    if [ -e o_text_document.idx ]; then same_pair old o || same c o; fi >/dev/null || { bad=1; diag "call $number: a mixed pair"; }
    try "${pre[@]}" "${options[@]}" --overwrite
    [ "$rc" = 0 ] && same c o && whole o || { bad=1; diag "call $number: $out"; }
done
is "$bad" 0 "--overwrite never leaves a mixed pair"

# --- One of three ranks dies; the others finish without it
for number in 5 12 19; do
    # The others are slowed down, so that they do not finish before rank 1 has made that many calls; on a
    # busy machine they may finish anyway.
    cat >blow <<EOF
#!/bin/sh
export LD_PRELOAD=$scratch/killer.so KILL_HOW=lazy
[ \$RANK != 1 ] || export KILL_HOW=kill KILL_AT=$number
exec "\$@"
EOF
    chmod +x blow
    struck=all blow=(./blow)
    for round in {1..10}; do
        rm -rf o_* o.work
        ranks 3 --input c.jsonl --output-prefix o --workers 1 --chunk-bytes 3000 --lease 1
        [ "$ranked" = "0 0 0" ] || break
    done
    is "$ranked" "0 137 0" "rank 1 of 3 dies at call $number: the others succeed"
    ok "with the expected bytes" same c o
done

# --- On a slow disk: ranks still write shared files while the last one cleans up
for round in 1 2; do
    rm -rf o_* o.work
    struck=all blow=(env KILL_HOW=slow "LD_PRELOAD=$scratch/killer.so")
    ranks 4 --input c.jsonl --output-prefix o --workers 1 --chunk-bytes 13000
    is "$ranked" "0 0 0 0" "four ranks on a slow disk"
    ok "write the expected bytes" same c o
    ok "and leave no work directory" whole o
done

# --- A layout of so many parts that it takes longer than the lease is made by one rank, together with the
# output files, whose full size is allocated
rm -rf o_* o.work
struck=all blow=(env KILL_HOW=parts "LD_PRELOAD=$scratch/killer.so")
ranks 3 --input c.jsonl --output-prefix o --workers 1 --chunk-bytes 800 --lease 2
is "$ranked" "0 0 0" "three ranks with many parts"
ok "write the expected bytes" same c o
is "$(cat rank*.log | grep -c '^created .*\.idx$')" 1 "and the output files are created once"

# --- Copies that take longer than the lease to reach the disk are made by one rank
rm -rf o_* o.work
try "${pre[@]}" --input c.jsonl --output-prefix s --output-shards 8
struck=all blow=(env KILL_HOW=sync "LD_PRELOAD=$scratch/killer.so")
ranks 3 --input c.jsonl --output-prefix o --workers 1 --chunk-bytes 13000 --lease 2 --output-shards 8
is "$ranked" "0 0 0" "three ranks on a disk that is slow to sync"
is "$(cat rank*.log | grep -c '^taken over ')" 0 "copy nothing twice"
is "$(cat o_*_document.* | cksum)" "$(cat s_*_document.* | cksum)" "and write the expected bytes"
rm -f s_*

# --- A rank that notices late that the others have finished, or that they did so while it was writing
# to disk or working on a chunk, succeeds, too
for how in blind wait chunk stale open; do
    rm -rf o_* o.work waits
    struck=all blow=(env KILL_HOW=$how "LD_PRELOAD=$scratch/killer.so")
    ranks 3 --input c.jsonl --output-prefix o --workers 1 --chunk-bytes 13000 --lease 1
    is "$ranked" "0 0 0" "three ranks, some of which are late: $how"
    ok "write the expected bytes" same c o
    ok "and leave no work directory" whole o
    [ $how = blind ] || ok "at least one was late: $how" test -d waits
done

# --- If a rank never arrives, only the end message stays, and another run removes it
rm -rf o_* o.work
cat >blow <<EOF
#!/bin/sh
[ \$RANK != 1 ] || export LD_PRELOAD=$scratch/killer.so KILL_HOW=kill KILL_AT=1
exec "\$@"
EOF
struck=all blow=(./blow)
ranks 3 --input c.jsonl --output-prefix o --workers 1 --chunk-bytes 3000 --lease 1
is "$ranked" "0 137 0" "a rank that is killed"
is "$(ls o.work | sed 's/-.*//' | sort | tr '\n' ' ')" "ack end " "leaves the message for the rank that never came"
# A launch of the same name (launches without a scheduler have the same name) ignores it.
attempt=$((attempt - 1)) struck= blow=()
cp -r o.work kept.work
ranks 3 --input nowhere.jsonl --output-prefix o --overwrite
is "$ranked" "2 1 1" "a failing launch of the same name"
like "$(cat rank0.log)" 'nowhere.jsonl' "prints its own error"
rm -rf o.work && mv kept.work o.work
attempt=$((attempt - 1))
ranks 3 "${options[@]}" --overwrite
is "$ranked" "0 0 0" "a launch of the same name that succeeds"
ok "writes the expected bytes" same c o
ok "and leaves no work directory" whole o
struck=all blow=(./blow)
ranks 3 --input c.jsonl --output-prefix o --workers 1 --chunk-bytes 3000 --lease 1 --overwrite
ok "the message is left once more" test -d o.work
try "${pre[@]}" "${options[@]}"
like "$out" 'exists; use --overwrite' "the output exists"
ok "and a run that is refused removes the message" whole o

# --- A part that a crashed node left torn is encoded again
rm -rf o_* o.work
strike kill 24 "${options[@]}"
for part in o.work/*/encode/part-*; do
    truncate -s -100 "$part"
    break
done
part=$(ls o.work/*/encode/part-* | tail -n1)
printf 'xxxx' | dd of="$part" bs=1 seek=200 conv=notrunc status=none
try "${pre[@]}" "${options[@]}"
is "$rc" 0 "torn parts are encoded again"
ok "and the bytes are right" same c o

# --- File systems without links, and those where nodes cannot read what they write together: from the
# start, and after chunks that an earlier run has made
for how in link both; do
    for earlier in 0 1; do
        rm -rf o_* o.work
        for call in {1..200}; do
            [ $earlier = 1 ] || break
            strike kill $call "${options[@]}"
            [ "$(ls o.work/*/encode/part-* 2>/dev/null | wc -l)" != 2 ] || break
        done
        [ $earlier = 0 ] || is "$(ls o.work/*/encode/part-* | wc -l)" 2 "an earlier run has encoded two chunks"
        strike $how 0 "${options[@]}"
        is "$rc" 0 "a file system without a feature: $how, after $earlier earlier run"
        ok "writes the expected bytes" same c o
        ok "and leaves no work directory" whole o
    done
done

# --- With --max-documents, a chunk after the last document may be unreadable; and it does not keep a
# torn part before it from being made again
gzip -c c.jsonl | head -c 40 >cut.jsonl.gz
limited=(--input c.jsonl cut.jsonl.gz --output-prefix o --chunk-bytes 50000 --max-documents 34)
for call in {1..200}; do
    rm -rf o_* o.work
    strike kill $call "${limited[@]}" --workers 1
    [ "$(ls o.work/*/encode/part-* 2>/dev/null | wc -l)" != 1 ] || break
done
try "${pre[@]}" --input c.jsonl --output-prefix few --max-documents 34
mv few_text_document.bin few.bin
mv few_text_document.idx few.idx
truncate -s -10 o.work/*/encode/part-*
try timeout -k 5 300 "${pre[@]}" "${limited[@]}" --workers 4
is "$rc" 0 "a torn part before an unreadable chunk"
ok "is encoded again" same few o

# --- Compressed files, each of which is one chunk
rm -rf o_* o.work
split -n l/4 c.jsonl piece.
gzip piece.a?
try "${pre[@]}" --input piece.aa.gz piece.ab.gz piece.ac.gz piece.ad.gz --output-prefix o --workers 3 --chunk-bytes 1000
is "$rc" 0 "compressed files, one chunk each, with three threads"
ok "write the expected bytes" same c o
done_testing
