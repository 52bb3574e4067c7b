# SPDX-License-Identifier: Apache-2.0
# The short form of a fuzzing campaign, the same inputs each time; the long one looks for new ones. Sourced after
# tap.sh.
#
# fuzz_shortly CAMPAIGN NAME
fuzz_shortly() {
    local clang probe
    clang=$(command -v clang || command -v clang-14) || skip_all "no clang"
    probe=$(mktemp --suffix=.c)
    echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return 0; }' >"$probe"
    "$clang" -fsanitize=fuzzer -o /dev/null "$probe" 2>/dev/null
    rc=$?
    rm -f "$probe"
    [ $rc = 0 ] || skip_all "clang has no libFuzzer"
    export FUZZ_SEED=1 ASAN_OPTIONS=detect_leaks=1
    TRY_LIMIT=560 try "$top/t/campaign/$1" "${FUZZ_SECONDS:-10}"
    is "$rc" 0 "$2"
    diag "$out"
    done_testing
}
