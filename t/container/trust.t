#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whose images are started: the user's own, and the publisher's in an administrator's cache; never
# those of another user. Also the copies on a node's local disk.
cd "$(dirname "$0")/../.." || exit 1
. t/tap.sh
. t/container/registry.sh
[ "$(id -u)" = 0 ] || skip_all "needs root, for several users"
registry_up
admin=$registry_dir/images
stage=$registry_dir/stage
mkdir -m 755 "$admin"
mkdir -m 1777 "$stage"
# Room for one image, not for two; the real Enroot compresses less.
limit=1500k
[ -z "${MEGATRON_TEST_ENROOT-}" ] || limit=3000k
image_cluster_up --nodes 1 --gpus 0 \
    --plugin-args "$image_arguments image_cache=$admin image_publisher=root image_stage=$stage image_stage_max=$limit"

# The user is in a group; before the first job, since Slurm keeps what it finds.
group=30000
while getent group $group >/dev/null; do group=$((group + 1)); done
echo "lab:x:$group:$(as_user id -un)" >>"$MEGATRON_CLUSTER/etc/group"

try env PATH="$enroot_path:$PATH" HOME="$registry_dir/root" ENROOT_ALLOW_HTTP=yes ENROOT_STANDIN_REGISTRY="$registry_dir/registry" \
    "$MEGATRON_BUILD/runtime/megatron" image import --cache "$admin" "${registry}small:1"
is "$rc" 0 "the administrator imports an image"
chmod 755 "$admin"
entry=$(ls "$admin"/*.sqsh)
chmod 644 "$entry"
job srun -n1 --megatron-image="${registry}small:1" pwd
is "$rc:$(tail -n 1 <<<"$out")" 0:/usr/src "a job starts it"
is "$(imports)" 0 "without its own import"
is "$(ls "$stage/$(as_user id -u)" | grep -c 'sqsh$')" 1 "from a copy on the node's disk"
is "$(stat -c %u:%a "$stage/$(as_user id -u)")" "$(as_user id -u):700" "that is the user's alone"

rm -rf "$stage"/*
chown 65534 "$entry"
job srun -n1 --megatron-image="${registry}small:1" pwd
is "$rc:$(imports)" 0:1 "an image that somebody else owns is not started, but imported"
like "$out" 'belongs to user 65534, whom this cache does not trust' "and it is reported"
chown root "$entry"
rm -rf "$home/.cache" "$stage"/*
mv "$entry" "$entry.real" && ln -s "$entry.real" "$entry"
job srun -n1 --megatron-image="${registry}small:1" pwd
is "$rc:$(imports)" 0:1 "nor the target of a link"
mv "$entry.real" "$entry"
rm -rf "$home/.cache" "$stage"/*
chmod 777 "$admin"
job srun -n1 --megatron-image="${registry}small:1" pwd
is "$rc:$(imports)" 0:1 "nor anything of a cache that all may write to"
chmod 755 "$admin"

mkdir -m 777 "$registry_dir/others"
job env MEGATRON_IMAGE_CACHE="$registry_dir/others" srun -n1 --megatron-image="${registry}bare:1" /bin/pwd
is "$rc" 1 "another user's cache is rejected"
like "$out" 'belongs to user 0|other users can write' "by name"
job srun -n1 --megatron-image="${registry}small:1" true
mode=$(stat -c %a "$home/.cache/megatron/images" "$home"/.cache/megatron/images/*.sqsh | sort -u | tr '\n' ' ')
is "$mode" "600 700 " "nobody else can read a user's images"

# A private cache in a directory of the group: tasks can access it, and so can the process that
# cleans up after a killed one. Other group members can neither read nor replace its contents.
lab=$registry_dir/lab
install -d -m 2770 -g $group "$lab"
job env MEGATRON_IMAGE_CACHE="$lab/ada/images" srun -n1 --megatron-image="${registry}bare:1" /bin/pwd
is "$rc:$(tail -n 1 <<<"$out"):$(imports)" 0:/:1 "a cache in a directory that only a group may enter"
is "$(stat -c %a "$lab/ada" "$lab/ada/images" | sort -u):$(stat -c %a "$lab"/ada/images/*.sqsh)" 2700:600 "is the user's alone"
try setpriv --reuid=65534 --regid=$group --clear-groups ls "$lab/ada"
is "$rc" 2 "and no other group member can read it"
job env MEGATRON_IMAGE_CACHE="$lab/ada/images" srun -n1 --megatron-image="${registry}bare:1" /bin/pwd
is "$rc:$(imports)" 0:0 "it is used the next time"
rm -f "$lab"/ada/images/*.sqsh
delay=100 job_process env MEGATRON_IMAGE_CACHE="$lab/ada/images" srun -n1 --megatron-image="${registry}bare:1" true >/dev/null 2>&1 &
wait_until 60 sh -c "cd '$lab/ada/images/work' && ls sha*.lease && pgrep -f '[e]nroot import -o $lab'" >/dev/null
ok "a task that imports into it is killed" tools/cluster node n1 pkill -KILL megatron-image
wait $!
unfinished() { ls "$lab/ada/images/work"; ls -A "$MEGATRON_CLUSTER/tmp"; }
wait_until 60 eval '[ -z "$(unfinished)" ]'
is "$(unfinished)" "" "nothing is left of its work"
install -d -m 2770 -o "$(as_user id -u)" -g $group "$lab/open"
job env MEGATRON_IMAGE_CACHE="$lab/open" srun -n1 --megatron-image="${registry}bare:1" true
is "$rc" 1 "a cache that the group may write to is rejected"
like "$out" "other users can write to the image cache $lab/open; run .chmod go-w" "with the remedy"
rm -rf "$stage"/*

# Resolved names, as the publisher last received them, while the registry is down: from root or the
# named publisher, not from anyone else.
chmod -R go+rX "$admin"
fresh() { rm -rf "$home/.cache" "$stage"/*; }
publisher() { sed -i "s#image_cache=[^ ]* image_publisher=[^ ]*#image_cache=$1 image_publisher=$2#" "$MEGATRON_CLUSTER/etc/plugstack.conf"; }
registry_down
fresh
job srun -n1 --megatron-image="${registry}small:1" pwd
is "$rc:$(tail -n 1 <<<"$out"):$(imports)" 0:/usr/src:0 "with the registry down an administrator's image starts by name"
like "$out" 'using the image that the name referred to last time' "with a warning"
chown 65534 "$admin"/names/*
fresh
job srun -n1 --megatron-image="${registry}small:1" pwd
is "$rc" 1 "not by a name that somebody else wrote down"
like "$out" 'check that the registry is running' "but the registry is asked"
chown root "$admin"/names/*
registry_again
install -d -m 755 -o 65534 "$registry_dir/published" "$registry_dir/publisher"
out=$(ordinary HOME="$registry_dir/publisher" "$MEGATRON_BUILD/runtime/megatron" image import --cache "$registry_dir/published" "${registry}small:1" 2>&1); rc=$?
is "$rc" 0 "a publisher imports an image"
ordinary chmod -R go+rX "$registry_dir/published"
publisher "$registry_dir/published" nobody
registry_down
fresh
job srun -n1 --megatron-image="${registry}small:1" pwd
is "$rc:$(tail -n 1 <<<"$out"):$(imports)" 0:/usr/src:0 "an image and a name of a publisher's that is not root"
like "$out" 'using the image that the name referred to last time' "with a warning"
chown "$(as_user id -u)" "$registry_dir"/published/names/*
fresh
job srun -n1 --megatron-image="${registry}small:1" pwd
is "$rc" 1 "but no name that another user, though the same as the job's, wrote down there"
chown 65534 "$registry_dir"/published/names/*
registry_again
publisher "$registry_dir/published" root
fresh
job srun -n1 --megatron-image="${registry}small:1" pwd
is "$rc:$(imports)" 0:1 "without being the publisher he is nobody"
like "$out" "the image cache $registry_dir/published belongs to user 65534; only root may own it" "and it is reported"
publisher "$admin" root
fresh
job srun -n1 --megatron-image="${registry}small:1" true

# Copies on the node's disk: there is space for one, and the least recently used one is removed.
copies() { ls "$stage/$(as_user id -u)" | grep 'sqsh$'; }
first=$(copies)
is "$(wc -l <<<"$first")" 1 "one copy"
job srun -n1 --megatron-image="${registry}bare:1" /bin/pwd
is "$rc" 0 "a second image"
second=$(copies)
is "$(wc -l <<<"$second")" 1 "copies stay below the limit"
ok "the new one is there, the old one gone" test "$first" != "$second"
job srun -n1 --megatron-image="${registry}bare:1" /bin/pwd
is "$rc:$(copies)" "0:$second" "it is started again"

# Another user first creates the user's directory on the node's disk, as a link or a directory, or
# keeps replacing it: the image is started from the cache, and nothing is created where the link
# points.
mine=$stage/$(as_user id -u)
somebody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
for kind in "ln -s '$home'" "mkdir -m 777"; do
    rm -rf "$mine"
    somebody sh -c "$kind '$mine'"
    job srun -n1 --megatron-image="${registry}bare:1" /bin/pwd
    is "$rc:$(tail -n 1 <<<"$out")" 0:/ "a place that somebody else made (${kind%% *}) is not used"
    like "$out" "$mine (is not a directory but a symbolic link|belongs to user 65534, not to you); ask the administrator to remove it; the image is started from the cache" "and it is reported"
done
is "$(ls "$home")" "" "nothing is made through the link"
rm -rf "$mine"
setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "while :; do ln -s '$home' '$mine'; mv -T '$mine' '$mine.x'; rm -rf '$mine.x'; mkdir '$mine'; rmdir '$mine'; done" 2>/dev/null &
racer=$!
for i in 1 2 3 4 5 6; do
    job srun -n1 --megatron-image="${registry}bare:1" /bin/pwd
    [ "$rc:$(tail -n 1 <<<"$out")" = 0:/ ] || break
done
kill $racer
wait $racer 2>/dev/null
is "$rc:$(tail -n 1 <<<"$out")" 0:/ "six steps while somebody keeps exchanging it"
is "$(ls "$home")" "" "nothing is made through the link"
chmod 777 "$stage"
rm -rf "$mine"
job srun -n1 --megatron-image="${registry}bare:1" /bin/pwd
like "$out" 'chmod \+t' "a place for copies that is not sticky is not used"
is "$rc" 0 "but the image is"
done_testing
