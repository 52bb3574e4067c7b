#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# megatron comm-test on CPU ranks: one rank, several, and wrong command lines.
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${MEGATRON_BUILD:-$top/_build}
megatron=$build/runtime/megatron
[ -x "$megatron" ] || { echo "1..0 # SKIP no build in $build"; exit 0; }
export MEGATRON_LIBRARY_DIR=$build/runtime/engine/comm
n=0
ok() { # status, name
    n=$((n + 1))
    if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
}
out=$(mktemp)
trap 'rm -f "$out"' EXIT

"$megatron" comm-test --device cpu --min-bytes 8 --max-bytes 64 --iterations 2 >"$out" 2>&1
ok $? "one rank"
grep -q '^# 0 wrong elements on all ranks' "$out"
ok $? "nothing is wrong with one rank"

"$megatron" comm-test --device cpu --min-bytes 1k --max-bytes 0.5M --iterations 1 --warmup 0 >"$out" 2>&1
[ "$(awk '/^ *[0-9]/ { print $1 }' "$out" | sort -nu | sed -n '1p;$p' | xargs)" = "1024 524288" ]
ok $? "sizes as nccl-tests takes them, by 1024"
"$megatron" comm-test --max-bytes 1Q >"$out" 2>&1
[ $? -ne 0 ] && grep -q 'max-bytes=1Q is not a size such as' "$out"
ok $? "a size of an unknown unit is rejected"

"$megatron" comm-test --min-bytes 16 --max-bytes 8 >"$out" 2>&1
[ $? -eq 2 ] && grep -q "min-bytes=16 is greater than --max-bytes=8" "$out"
ok $? "sizes in the wrong order are rejected"

"$megatron" comm-test --device cpu --max-bytes 4000000000000000000 >"$out" 2>&1
[ $? -ne 0 ] && grep -q 'cannot allocate another .*; use a smaller --max-bytes' "$out"
ok $? "more than the available memory is rejected"

if [ -f "$build/runtime/engine/comm/comm_tcp.so" ]; then
    launch=(timeout 120 "$megatron" launch --bind none --no-label --nproc-per-node)
    for ranks in 2 3; do
        "${launch[@]}" $ranks -- "$megatron" comm-test --device cpu \
            --min-bytes 4 --max-bytes 65536 --iterations 2 --warmup 1 >"$out" 2>&1
        ok $? "$ranks ranks"
        grep -q "^# $ranks ranks over tcp" "$out" && grep -q '^# 0 wrong elements on all ranks' "$out"
        ok $? "nothing is wrong with $ranks ranks"
        # 15 sizes; gathers and scatters need an element for each rank.
        rows=$((15 + 15 + 2 * (ranks == 2 ? 14 : 13)))
        [ "$(grep -c '^ *[0-9]' "$out")" = "$rows" ]
        ok $? "$rows rows"
        [ "$(awk '/^ *[0-9]/ && $1 != 4 * $2' "$out")" = "" ]
        ok $? "sizes are those of the elements"
        [ $ranks = 2 ] || [ "$(awk '/^# [a-z]/ { kind = $2 } kind == "all-gather" && $2 % 3' "$out")" = "" ]
        ok $? "parts are as large as each other"
    done
    # As mpirun and srun --mpi=pmix start ranks.
    port=$((21000 + RANDOM % 9000))
    rank() { # NUMBER
        timeout 120 env OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=$1 OMPI_COMM_WORLD_LOCAL_SIZE=2 \
            PMIX_RANK=$1 MEGATRON_SECRET=0123456789abcdef MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            "$megatron" comm-test --device cpu --max-bytes 64 --iterations 2
    }
    rank 1 &
    rank 0 >"$out" 2>&1 && wait $!
    ok $? "2 ranks as mpirun starts them"
    grep -q "^# 2 ranks over tcp" "$out" && grep -q '^# 0 wrong elements on all ranks' "$out"
    ok $? "nothing is wrong with them"

    # Both ends of large results are checked.
    "${launch[@]}" 3 -- "$megatron" comm-test --device cpu \
        --min-bytes 1M --max-bytes 8M --iterations 1 --warmup 0 >"$out" 2>&1
    ok $? "large sizes"
    grep -q '^# 0 wrong elements on all ranks' "$out" && [ "$(grep -c '^ *[0-9]' "$out")" = 16 ]
    ok $? "nothing is wrong with them"

    # wrong OPTION...: on two ranks that send and gather wrong data.
    make -s -C "$build/t" unit/runtime/engine/comm/fake_send.so >/dev/null
    wrong() {
        "${launch[@]}" 2 -- env LD_PRELOAD="$build/t/unit/runtime/engine/comm/fake_send.so" "$megatron" comm-test \
            --device cpu --iterations 1 --warmup 0 "$@" >"$out" 2>&1
    }
    # Wrong results are detected: for sizes with at least two elements in a message.
    wrong --min-bytes 4 --max-bytes 4096
    [ $? = 1 ]
    ok $? "wrong results are a failure"
    [ "$(awk '/^# [a-z]/ { kind = $2 }
        /^ *[0-9]/ && $6 != ($2 > (kind == "send" || kind == "all-reduce" ? 1 : 2) ? 2 : 0)' "$out")" = "" ]
    ok $? "the elements that changed places are counted"
    grep -q '^# 152 wrong elements on all ranks' "$out"
    ok $? "and those of all ranks together"
    FAKE_END=1 wrong --min-bytes 8M --max-bytes 8M
    [ $? = 1 ]
    ok $? "wrong elements at the end of a large result are a failure"
    [ "$(awk '/^# [a-z]/ { kind = $2 } /^ *[0-9]/ { print kind, $6 }' "$out" | xargs)" = "all-reduce 2 all-gather 2 reduce-scatter 2 send 2" ]
    ok $? "and counted"
else
    ok 0 "several ranks # SKIP built without OpenSSL"
fi
echo "1..$n"
