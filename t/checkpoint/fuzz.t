#!/bin/bash
# The short form of the fuzzing campaign, the same inputs each time; the long one looks for new ones.
. "$(dirname "$0")/../tap.sh"
command -v clang >/dev/null || command -v clang-14 >/dev/null || skip_all "no clang"
echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return 0; }' >"${TMPDIR:-/tmp}/fuzz$$.c"
"$(command -v clang || command -v clang-14)" -fsanitize=fuzzer -o /dev/null "${TMPDIR:-/tmp}/fuzz$$.c" 2>/dev/null
rc=$?
rm -f "${TMPDIR:-/tmp}/fuzz$$.c"
[ $rc = 0 ] || skip_all "clang has no libFuzzer"
export FUZZ_SEED=1
TRY_LIMIT=300 try "$top/t/campaign/fuzz-checkpoint" "${FUZZ_SECONDS:-10}"
is "$rc" 0 "hostile checkpoints, tensors, configurations, pickles and archives"
diag "$out"
done_testing
