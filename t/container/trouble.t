#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Problems on nodes: missing programs, devices and space, timeouts. Each is reported in one sentence
# with the remedy, before anything is imported if it can be known by then.
cd "$(dirname "$0")/../.." || exit 1
. t/tap.sh
. t/container/registry.sh
enter=$MEGATRON_BUILD/t/container/enter
[ -x "$enter" ] || skip_all "$enter is not built"
registry_up
programs=$registry_dir/programs
mkdir "$programs"
cp -s "$enroot_path"/* "$programs/"
[ -n "${MEGATRON_TEST_ENROOT-}" ] || { printf '#!/bin/sh\n' >"$programs/squashfuse" && chmod +x "$programs/squashfuse"; }
install -m 666 /dev/null "$registry_dir/fuse"
small=$registry_dir/small
mkdir "$small"
[ "$(id -u)" != 0 ] || mount -t tmpfs -o size=400k,mode=755 tmpfs "$small" 2>/dev/null && mounted=yes
image_cluster_up --nodes 2 --gpus 0 --plugin-args "enroot_path=$programs:/usr/sbin:/usr/bin:/sbin:/bin image_fuse=$registry_dir/fuse image_min_free=100k"
chown "$(as_user id -u)" "$small"
# refused SENTENCE NAME VARIABLE... -- OPTION...
refused() {
    local text=$1 name=$2 variables=()
    shift 2
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    job env "${variables[@]}" srun -N2 -n2 "$@"
    is "$rc" 1 "$name"
    like "$out" "$text" "with the remedy"
    ok "once a node" test "$(grep -o 'error: megatron: n[12]' <<<"$out" | sort | uniq -d | wc -l)" = 0
}
image=--megatron-image=${registry}small:1

mv "$programs/enroot" "$programs/away"
if PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v enroot >/dev/null; then
    skip "no enroot" "this machine has one in a system directory"
else
    refused 'enroot is not installed in .*; install Enroot' "no enroot" -- "$image" true
fi
printf '#!/bin/sh\n[ "$1" != version ] || { echo 3.4.1; exit 0; }\necho "[ERROR] Invalid command: $1" >&2\nexit 1\n' >"$programs/enroot"
chmod +x "$programs/enroot"
refused 'enroot is version 3.4.1; install 4.0 or newer' "one that is too old" -- "$image" true
mv "$programs/away" "$programs/enroot"
chmod 600 "$registry_dir/fuse"
refused 'cannot open .*/fuse.*chmod 0666' "a device that is not for all" -- "$image" true
unlike "$out" importing "before the import"
chmod 666 "$registry_dir/fuse"
mkdir -m 555 "$registry_dir/closed"
refused 'cannot create the directory .*/closed/cache.*set MEGATRON_IMAGE_CACHE' "a cache that cannot be made" MEGATRON_IMAGE_CACHE="$registry_dir/closed/cache" -- "$image" true
if [ -n "${mounted-}" ]; then
    refused 'no space left: [0-9]* kB free in [^ ]*/small' "a disk that is full in the middle" MEGATRON_IMAGE_CACHE="$small" -- "$image" true
    is "$(ls "$small/work")$(ls "$small" | grep sqsh)" "" "nothing is left of it"
    # An import begins only if the configured minimum is free.
    head -c 330000 /dev/zero >"$small/filler"
    refused 'needs at least 100 kB in the image cache, but [^ ]*/small has [0-9]* kB free; run .megatron image prune' "a disk that is too small" MEGATRON_IMAGE_CACHE="$small" -- "$image" true
    unlike "$out" importing "before the import"
    rm "$small/filler"
else
    skip "disks that are too small" "cannot mount a tmpfs"
fi
out=$(ordinary unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" /x true' "$enter" 2>&1)
like "$out" 'cannot create user namespaces: .*max_user_namespaces is 0' "a kernel without user namespaces"

job srun -n1 "$image" true
is "$rc" 0 "with all of it an image starts"
file=$(ls "$cache"/*.sqsh)
install -m 644 "$file" "$home/whole.sqsh"
head -c 9000 "$file" >"$home/short.sqsh"
refused 'is truncated: 9000 of [0-9]* bytes' "a truncated file" -- --megatron-image="$home/short.sqsh" true
if [ -z "${MEGATRON_TEST_ENROOT-}" ]; then
    rm "$file"
    refused 'took longer than 2 seconds; raise --megatron-import-timeout' "an import that takes too long" ENROOT_STANDIN_DELAY=30 -- --megatron-import-timeout=2 "$image" true
    is "$(ls "$cache/work")" "" "nothing is left of it"
    # docker on the submit host alone.
    printf '#!/bin/sh\necho sha256:%064d\n' 7 >"$registry_dir/docker" && chmod 755 "$registry_dir/docker"
    job env PATH="$registry_dir:$programs:$PATH" srun -n1 --megatron-image=dockerd://small:1 pwd
    is "$rc:$(tail -n 1 <<<"$out")" 0:/usr/src "an image of a daemon of the submit host"
    job env PATH="$programs:$PATH" srun -n1 --megatron-image=dockerd://small:1 pwd
    is "$rc:$(tail -n 1 <<<"$out")" 0:/usr/src "and again on a node without a daemon"
    # Enroot calls docker for podman's container, too, where there may be none.
    rm "$registry_dir/docker"
    install -m 666 /dev/null "$registry_dir/called"
    printf '#!/bin/sh\n[ "$1" != rm ] || echo "$*" >>"%s"\necho sha256:%064d\n' "$registry_dir/called" 9 >"$registry_dir/podman" && chmod 755 "$registry_dir/podman"
    job env PATH="$registry_dir:$programs:$PATH" srun -n1 --megatron-image=podman://small:1 pwd
    is "$rc:$(tail -n 1 <<<"$out"):$(cat "$registry_dir/called")" "0:/usr/src:rm -f -v $(printf '%064d' 5)" "a podman image on a host without docker"
else
    skip "slow imports, docker and podman" "needs the stand-in for Enroot"
fi

# An error on both nodes is reported by the first one for both. It fails after the second one, which
# is stopped until it was asked to exit.
mv "$programs/enroot" "$programs/away"
cat >"$programs/enroot" <<S
#!/bin/sh
[ "\$(hostname)" != n1 ] || until [ -e "$registry_dir/stopped" ]; do sleep 0.1; done
echo "[ERROR] out of order" >&2
exit 1
S
chmod 755 "$programs/enroot"
job_process srun -w n1,n2 -N2 -n2 --megatron-image="$home/whole.sqsh" true >"$registry_dir/said" 2>&1 &
step=$!
on_second() { timeout 300 tools/cluster node n2 sh -c "$1"; }
on_second 'until pkill -STOP -x megatron-wait; do sleep 0.05; done'
touch "$registry_dir/stopped"
on_second 'until grep -qs "^ShdPnd:.*[4-7c-f]...$" /proc/$(pgrep -x megatron-wait)/status; do sleep 0.1; done'
ok "a node that waits for the first one to report is asked to exit"
on_second 'pkill -CONT -x megatron-wait'
wait $step
is "$?:$(grep -o 'error: megatron: n[12]: .*out of order' "$registry_dir/said" | cut -d: -f3)" "1: n1" "what is wrong on both nodes one says for both" || diag "$(cat "$registry_dir/said")"
mv "$programs/away" "$programs/enroot"
# An error on the second node alone is reported by that node, even if srun ends the step with the
# first task that fails.
tools/cluster node n1 mkdir /dev/here
job srun -K -w n1,n2 -N2 --ntasks-per-node=2 "$image" --megatron-mounts=/dev/here:/mnt sleep 600
ok "two tasks that fail on the second node alone" test "$rc" -ne 0 -a "$rc" -ne 124
is "$(grep -c 'error: megatron: n2: --megatron-mounts: cannot mount /dev/here' <<<"$out"):$(grep -c 'error: megatron' <<<"$out")" 1:1 "the reason is reported once"
tools/cluster node n1 rmdir /dev/here

# What Slurm provides to tasks.
job srun -n1 "$image" true
job srun -n2 --mpi=pmi2 "$image" sh -c 'echo "cmd=init pmi_version=2 pmi_subversion=0" >&$PMI_FD && read line <&$PMI_FD && echo "$line"'
is "$(grep -c 'cmd=response_to_init.*rc=0' <<<"$out")" 2 "PMI-2 answers inside"
job sh -c "srun -n1 $image --megatron-mounts='$home:/mnt' sh -c 'trap \"echo got it; exit 9\" USR1; echo >/mnt/ready; while :; do sleep 0.1; done' &
    until [ -e '$home/ready' ] || ! kill -0 \$!; do sleep 0.1; done; scancel -s USR1 --user=\$(id -un); wait \$!"
is "$rc:$(grep -c '^got it$' <<<"$out")" 9:1 "signals reach tasks, exit codes are passed through"

# A kept container in a directory that nodes share: no node starts a container that another has half
# created.
job env ENROOT_STANDIN_DELAY=1 srun -N2 -n2 "$image" --megatron-container-name=both cat /etc/environment
is "$rc:$(grep -c 'GREETING=from the image' <<<"$out")" 0:2 "two nodes make one container"
job srun -N2 -n2 "$image" --megatron-container-name=both cat /etc/environment
is "$rc:$(grep -c 'GREETING=from the image' <<<"$out")" 0:2 "and start it again"
registry_down
job srun -N2 -n2 --megatron-image="${registry}gone:1" --megatron-container-name=both cat /etc/environment
is "$rc:$(grep -c 'GREETING=from the image' <<<"$out")" 0:2 "whatever the image, with the registry down"
is "$(grep -c "warning: using the existing container both, created from ${registry}small:1" <<<"$out")" 1 "one node prints a warning"
registry_again
data=$(dirname "$(find "$home" -type d -name megatron_both | head -n 1)")
is "$(ls "$data")" megatron_both "nothing else is left"
# Nodes with their own disks, one of which has the container: the other imports the image.
rm -f "$cache"/*.sqsh
printf '#!/bin/sh\nexport ENROOT_DATA_PATH="%s/data.$(hostname)"\nexec "%s" "$@"\n' "$home" "$programs/enroot.real" >"$programs/enroot.own"
chmod 755 "$programs/enroot.own"
mv "$programs/enroot" "$programs/enroot.real" && mv "$programs/enroot.own" "$programs/enroot"
job srun -n1 -w n1 "$image" --megatron-container-name=local sh -c 'echo first >/usr/src/mark'
is "$rc:$(ls -d "$home"/data.n*/megatron_local | wc -l)" 0:1 "a node makes one on its own disk"
rm -f "$cache"/*.sqsh
job srun -N2 -n2 -w n1,n2 "$image" --megatron-container-name=local sh -c 'cat /usr/src/mark; echo ran'
is "$rc:$(grep -c '^ran$' <<<"$out"):$(grep -c '^first$' <<<"$out")" 0:2:1 "the other makes its own"
is "$(grep -c 'megatron: n2: importing docker[^ ]*$' <<<"$out"):$(grep -c 'n1: importing' <<<"$out")" 1:0 "and imports for itself"
rm -f "$cache"/*.sqsh
job srun -N2 -n2 -w n1,n2 "$image" --megatron-container-name=local echo ran
is "$rc:$(grep -c '^ran$' <<<"$out"):$(grep -c importing <<<"$out")" 0:2:0 "if both have one, nobody imports"
# Enroot gives up if it must wait for other nodes; the start is retried.
cat >"$programs/enroot" <<S
#!/bin/sh
[ "\$1" != start ] || mkdir "$home/waited.\$(hostname)" 2>/dev/null || exec "$programs/enroot.real" "\$@"
[ "\$1" = start ] || exec "$programs/enroot.real" "\$@"
echo "[ERROR] Could not acquire rootfs lock" >&2
exit 1
S
job srun -N2 -n2 "$image" --megatron-container-name=both cat /etc/environment
is "$rc:$(grep -c 'GREETING=from the image' <<<"$out"):$(ls -d "$home"/waited.* | wc -l)" 0:2:2 "two nodes that had to wait for each other"
mv "$programs/enroot.real" "$programs/enroot"
# A container whose creation was interrupted is created again.
mkdir "$data/megatron_half.draft.0000000000000000"
chown "$(as_user id -u)" "$data/megatron_half.draft.0000000000000000"
job srun -n1 -w n1 "$image" --megatron-container-name=half cat /etc/environment
is "$rc:$(grep -c 'GREETING=from the image' <<<"$out")" 0:1 "a half-created one is created again"
is "$(ls "$data" | xargs)" "megatron_both megatron_half" "and removed"

# A job that is requeued halfway works the second time.
cat >"$home/script" <<S
#!/bin/bash
echo begun \$SLURM_RESTART_COUNT
srun -N2 -n2 $image sh -c 'echo ran'
[ -n "\$SLURM_RESTART_COUNT" ] || sleep 60
S
job sh -c "cd '$home' && sbatch --parsable -N2 -n2 --requeue --open-mode=append -o requeued script"
id=$(tail -n 1 <<<"$out")
wait_until 120 sh -c "[ \$(grep -c ran '$home/requeued') = 2 ]"
in_cluster scontrol requeue "$id"
# Slurm holds it back until the credentials of its first run are over.
wait_until 180 sh -c "[ \$(grep -c ran '$home/requeued') = 4 ]"
is "$(grep -c ran "$home/requeued")" 4 "a requeued job runs again" || diag "$(cat "$home/requeued")"
as_user scancel "$id" 2>/dev/null
wait_until 60 sh -c "! '$top/tools/cluster' run sinfo -h -o %t | grep -q -v idle"
is "$(in_cluster sinfo -h -o %D,%t)" 2,idle "no node was drained"
is "$(ls -A "$MEGATRON_CLUSTER/tmp")" "" "nothing is left in the temporary directory"
done_testing
