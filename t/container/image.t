#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `megatron image`, and the start of containers from what it imported.
cd "$(dirname "$0")/../.." || exit 1
. t/tap.sh
. t/container/registry.sh
megatron=$MEGATRON_BUILD/runtime/megatron
enter=$MEGATRON_BUILD/t/container/enter
[ -x "$enter" ] || skip_all "$enter is not built"
registry_up
image() { ordinary "$megatron" image "$@" 2>&1; }
imports() { grep -c "^megatron: note: importing ${registry}[a-z]*:[0-9]$" <<<"$1"; }

out=$(image import "${registry}small:1"); rc=$?
is "$rc" 0 "an image is imported"
is "$(imports "$out")" 1 "and it is reported"
path=$(tail -n 1 <<<"$out")
like "$path" "^$cache/sha256-[0-9a-f]{64}\\.sqsh$" "into the user's cache"
is "$(imports "$(image import "${registry}small:1")")" 0 "once"
registry_down
out=$(image import "${registry}small:1"); rc=$?
is "$rc" 0 "if the registry is down, the cached image is used"
like "$out" 'warning: .*; using the image that the name referred to last time' "with a warning"
out=$(image import "${registry}other:1"); rc=$?
is "$rc" 1 "if the registry is down, a new image fails"
like "$out" 'check that the registry is running' "with the remedy"
registry_again
like "$(image import "${registry}small:2")" '404 Not Found; check the image.s name and tag' "no such tag"
like "$(image list)" "${registry}small:1" "the list names the origin"
like "$(image verify)" '^1 image is intact' "verify"
printf X | dd of="$path" bs=1 seek=5000 conv=notrunc 2>/dev/null
out=$(image verify); rc=$?
is "$rc" 1 "a damaged image"
like "$out" 'is damaged: its checksum differs from the recorded one' "is named"
truncate -s 5000 "$path"
out=$(image import "${registry}small:1"); rc=$?
is "$rc" 0 "a truncated image is imported again"
like "$out" 'is truncated' "and it is reported"
lone=$cache/sha256-$(printf '%064d' 0).info
echo size 1 >"$lone" && touch "$lone.young" && touch -d '2 days ago' "$lone"
image prune --max-size 1G >/dev/null
is "$(ls "$cache" | grep -c info)" 2 "a record whose image never came goes after a day"
rm "$lone.young"
like "$(image prune --max-size 5000000)" 'removed 0 images' "prune to bytes"
like "$(image prune --max-size 1.5G)" 'removed 0 images' "or to a broken number"
for size in 1.5.5G 5GX -1 G 1e3; do
    like "$(image prune --max-size $size)" 'is not a size such as 500G' "not to $size"
done
like "$(image prune --max-size 99999P)" 'max-size=99999P is out of range' "nor to more than can be counted"
for action in list prune; do
    out=$(image $action --max-size 0 small); rc=$?
    is "$rc $out" "2 megatron image: unexpected word small; $action takes only options" "$action of a word"
done
like "$(image prune --max-size 0)" 'removed 1 image; 0.0 MB left' "prune"
ordinary ln -s "$cache" "$home/link"
like "$(image list --cache "$home/link")" 'is not a directory but a symbolic link; name the directory' "a cache that is a link"
ordinary mkdir -p "$home/thesis/work" "$home/thesis/jobs/01"
ordinary touch -d '3 months ago' "$home/thesis/work/notes" "$home/thesis/jobs/01/results"
for action in release "prune --keep-days 1" list "import ${registry}small:1"; do
    # shellcheck disable=SC2086 # its options
    out=$(image $action --cache "$home/thesis" 2>&1); rc=$?
    is "$rc:$(wc -l <<<"$out"):$(cd "$home/thesis" && find . -type f | sort | xargs)" "2:1:./jobs/01/results ./work/notes" \
        "${action%% *}: a directory with other content is no cache, and stays as it is" || diag "$out"
done
out=$(cd "$home" && image list --cache ./relative); rc=$?
is "$rc" 0 "a cache may be named from here"
ok "and is made here" test -d "$home/relative/work"
if [ -z "${MEGATRON_TEST_ENROOT-}" ]; then
    like "$(ordinary ENROOT_STANDIN_DELAY=30 "$megatron" image import --timeout 2 "${registry}small:1" 2>&1)" \
        'took longer than 2 seconds; raise --timeout' "an import that takes too long"
else
    skip "an import that takes too long" "the real Enroot cannot be delayed"
fi

for i in 1 2 3 4; do
    ordinary ENROOT_STANDIN_DELAY=1 "$megatron" image import "${registry}small:1" >"$registry_dir/out$i" 2>&1 &
    jobs[i]=$!
done
wait "${jobs[@]}"
out=$(cat "$registry_dir"/out?)
is "$(imports "$out")" 1 "four at once: one import"
is "$(grep -c 'sqsh$' <<<"$out")" 4 "and four images"

# A name, and the digest of a manifest list, mean another image on another architecture.
other=$([ "$(uname -m)" = aarch64 ] && echo amd64 || echo arm64)
foreign=$(image import --arch "$other" "${registry}multi:1" | tail -n 1)
like "$foreign" '^/.*sqsh$' "an image for other machines"
like "$(image import --arch sparc "${registry}multi:1")" '--arch=sparc is unknown; use x86_64, aarch64' "not for any"
registry_down
out=$(image import "${registry}multi:1"); rc=$?
is "$rc" 1 "it is not taken for this machine's"
registry_again
native=$(image import "${registry}multi:1@$multi_digest" | tail -n 1)
like "$native" '^/.*sqsh$' "this machine's, by the digest of the list"
ok "is another" test "$native" != "$foreign"
out=$(image import "${registry}multi:1")
is "$(tail -n 1 <<<"$out"):$(imports "$out")" "$native:0" "and the same as that of the tag"
registry_down
is "$(image import "${registry}multi:1@$multi_digest")" "$native" "a digest is asked for once"
registry_again
image prune --max-size 0 >/dev/null

# A first image needs at least the size of its layers; the next of the same name is assumed to be as
# large as the last.
if [ "$(id -u)" = 0 ] && mkdir "$registry_dir/little" && mount -t tmpfs -o size=3M,mode=700,uid=65534 tmpfs "$registry_dir/little" 2>/dev/null; then
    little() { ordinary MEGATRON_IMAGE_CACHE="$registry_dir/little" "$megatron" image import --min-free "${1-1M}" "${registry}small:1" 2>&1; }
    ordinary MEGATRON_IMAGE_CACHE="$registry_dir/little" "$megatron" image list >/dev/null
    head -c 2500000 /dev/zero >"$registry_dir/little/ballast"
    out=$(little)
    like "$out" "needs at least [0-9.]+ [kM]B in the image cache, but $registry_dir/little has [0-9.]+ [kM]B free; run" "too little space for a first image is reported"
    is "$(imports "$out")" 0 "before its import"
    rm "$registry_dir/little/ballast"
    out=$(little)
    last=$(tail -n 1 <<<"$out")
    # Another digest: the first digit is another one.
    digit=$([[ $last == *sha256-f* ]] && echo 0 || echo f)
    mv "$last" "${last/sha256-?/sha256-$digit}"
    mv "${last%.sqsh}.info" "$(sed "s/sha256-./sha256-$digit/" <<<"${last%.sqsh}").info"
    room=$(df --output=avail -k "$registry_dir/little" | tail -n 1)
    head -c $(((room - 200) * 1024)) /dev/zero >"$registry_dir/little/ballast"
    out=$(little 1k)
    like "$out" "needs at least [0-9.]+ [kM]B in the image cache, but $registry_dir/little has [0-9.]+ [kM]B free; run" "too little space is reported before the import"
    is "$(imports "$out")" 0 "which does not begin"
    umount "$registry_dir/little"
else
    skip "an image cache with too little space" "needs root, to mount a tmpfs"
fi

# Under nohup an import survives the end of the login session, whether or not children are waited
# for.
image prune --max-size 0 >/dev/null
ordinary ENROOT_STANDIN_DELAY=2 perl -e '$SIG{HUP} = $SIG{CHLD} = "IGNORE"; exec @ARGV' "$megatron" image import "${registry}small:1" >"$registry_dir/out1" 2>&1 &
ignoring=$!
wait_until 60 sh -c "pgrep -f '[e]nroot import -o $cache'" >/dev/null
pkill -HUP -f "$megatron image import ${registry}small:1"
wait $ignoring
is "$?:$(grep -c 'sqsh$' "$registry_dir/out1")" 0:1 "an import under nohup outlives the session" || diag "$(cat "$registry_dir/out1")"

for signal in KILL TERM; do
    image prune --max-size 0 >/dev/null
    ordinary ENROOT_STANDIN_DELAY=30 "$megatron" image import "${registry}small:1" >/dev/null 2>&1 &
    killed=$!
    wait_until 60 sh -c "ls '$cache'/work/*.lease && pgrep -f '[e]nroot import -o $cache'" >/dev/null
    pkill -$signal -f "$megatron image import ${registry}small:1"
    wait $killed 2>/dev/null
    [ $signal = KILL ] || is "$(ls "$cache/work")$(ls -A "$registry_dir/tmp")" "" "SIG$signal: it removes its files"
    out=$(image import "${registry}small:1"); rc=$?
    is "$rc" 0 "after SIG$signal to an import the next one works"
    is "$(imports "$out")" 1 "by itself"
    is "$(ls "$cache/work")" "" "nothing is left of the first in the cache"
    is "$(ls -A "$registry_dir/tmp")" "" "or in the temporary directory"
done
path=$(tail -n 1 <<<"$out")

# A registry that requires authentication.
registry_lock
image prune --max-size 0 >/dev/null
rm -f "$cache"/names/*
out=$(image import "${registry}small:1"); rc=$?
is "$rc" 1 "the registry rejects anonymous access"
like "$out" 'denied access; add credentials for the registry to .credentials in ENROOT_CONFIG_PATH' "with the remedy"
ordinary mkdir -p "$home/.config/enroot"
echo "machine 127.0.0.1 login ada password secret" | ordinary tee "$home/.config/enroot/.credentials" >/dev/null
out=$(image import "${registry}small:1"); rc=$?
is "$rc" 0 "Enroot's credentials are used"
path=$(tail -n 1 <<<"$out")

inside() { ordinary "$enter" "$@" 2>&1; }
is "$(inside "$path" pwd)" /usr/src "a container starts in the image's working directory"
is "$(inside "$path" sh -c 'echo $GREETING')" "from the image" "with its environment"
is "$(inside --workdir /etc "$path" pwd)" /etc "or in the user's"
is "$(inside --entrypoint "$path" pwd)" /usr/src "the entry point runs if asked for"
is "$(inside "$path" sh -c 'id -u')" "$(ordinary id -u)" "as the user"
is "$(inside --root "$path" sh -c 'id -u')" 0 "or as root in its own user namespace"
like "$(inside "$path" sh -c 'echo x > /usr/src/y')" 'Read-only' "the image is not written to"
is "$(inside --rw "$path" sh -c 'echo x > /usr/src/y; cat /usr/src/y')" x "unless asked for"
mkdir -p "$home/with space, and: more" && echo seen >"$home/with space, and: more/file"
is "$(inside --mounts "$home/with space\\, and\\: more:/mnt/\$(id) b:ro" "$path" cat '/mnt/$(id) b/file')" seen \
    "spaces, commas, colons and \$() in mounts are data"
like "$(inside --mounts "$home:/mnt:ro" "$path" sh -c 'echo x > /mnt/y')" 'Read-only' "a mount that is read-only"
echo "no image" >"$home/wrong"
like "$(inside "$home/wrong" true)" 'start of .*/wrong failed' "a file that is not an image does not start"
bare=$(image import "${registry}bare:1" | tail -n 1)
is "$(inside "$bare" /bin/pwd)" / "an image without a shell works"
# Processes of containers of this test: others may have theirs.
left() {
    local pid
    for pid in $(pgrep -u "$(ordinary id -u)" -f 'megatron-holder|squashfuse'); do
        grep -qsa "${registry_dir##*/}" "/proc/$pid/cmdline" "/proc/$pid/mountinfo" && echo "$pid"
    done
}
ordinary "$enter" "$path" cat < <(until [ -e "$registry_dir/seen" ]; do sleep 0.1; done) &
for i in {1..600}; do [ -n "$(left)" ] && break; sleep 0.1; done
ok "a container is held by a process" test -n "$(left)"
touch "$registry_dir/seen"
wait $!
for i in {1..600}; do [ -z "$(left)" ] && break; sleep 0.1; done
is "$(left)" "" "nothing outlives its container"
# Enroot's settings for a cluster: mksquashfs knows the options, and RHEL 9's has the compressor.
read -r _ options <<<"$(grep ^ENROOT_SQUASH_OPTIONS "$top/etc/enroot.conf.d/megatron.conf")"
# shellcheck disable=SC2086 # its words
ok "mksquashfs takes the options of megatron.conf" mksquashfs "$registry_dir/registry/small/1" "$registry_dir/set.sqsh" $options -quiet -no-progress
compressor=$(unsquashfs -s "$registry_dir/set.sqsh" | sed -n 's/^Compression //p')
like "$compressor" '^(gzip|xz|zstd)$' "with a compressor of every squashfs-tools" || diag "$compressor"
# The man page has the options that --help has.
page=$top/runtime/run/command/megatron-image.1
is "$("$megatron" image --help | grep -oE '^ +--[a-z-]+' | tr -d ' ' | grep -v -e --help | sort | xargs)" \
    "$(sed -n '/^\.It Fl/s/.*/&/p' "$page" | grep -oE 'Fl -[a-z-]+' | sed 's/Fl -/--/' | sort -u | xargs)" "the man page is complete"
done_testing
