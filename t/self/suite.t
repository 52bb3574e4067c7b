#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# t/suite in a tree that only root may enter: tests can start its programs as another user.
. "$(dirname "$0")/../tap.sh"
[ "$(id -u)" = 0 ] || skip_all "needs root"
unshare -m true 2>/dev/null || skip_all "cannot create mount namespaces"
scratch=$(mktemp -d) # entered by root alone, like /root
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/tree/t/some" "$scratch/tree/tools" "$scratch/build/t" "$scratch/secret"
cp "$top/t/suite" "$scratch/tree/t/"
cp "$top/tools/reveal.sh" "$scratch/tree/tools/"
cat >"$scratch/tree/t/some/user.t" <<EOT
#!/bin/sh
setpriv --reuid=65534 --regid=65534 --clear-groups "$scratch/tree/t/some/program" 2>&1
ls "$scratch"
env | grep REVEALED
true
EOT
printf '#!/bin/sh\necho ok 1\necho 1..1\n' >"$scratch/tree/t/some/program"
printf 'list:\n\t@echo %s\n' "$scratch/tree/t/some/program" >"$scratch/build/t/Makefile"
chmod 755 "$scratch/tree/t/some/"*
try env -u MEGATRON_SANITIZED -u MEGATRON_REVEALED MEGATRON_BUILD="$scratch/build" "$scratch/tree/t/suite" -v
is "$rc" 0 "a test starts a program of the tree as another user" || diag "$out"
unlike "$out" "^secret" "the other user sees nothing beside the tree and the build" || diag "$out"
unlike "$out" REVEALED "a suite that a test starts does the same for itself" || diag "$out"
try env -u MEGATRON_SANITIZED -u MEGATRON_REVEALED MEGATRON_TEST_LIMIT=x MEGATRON_BUILD="$scratch/build" "$scratch/tree/t/suite"
like "$out" "timeout: invalid time interval .x" "MEGATRON_TEST_LIMIT limits each test"
is "$(stat -c %a "$scratch")" 700 "outside of the tests nothing is open"
is "$(ls "$scratch")" "$(printf 'build\nsecret\ntree')" "  or hidden"
done_testing
