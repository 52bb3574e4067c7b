#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Steps in images on a cluster of four nodes: --megatron-image and what goes with it. With the stand-in
# for Enroot, or with the real one (see registry.sh).
cd "$(dirname "$0")/../.." || exit 1
. t/tap.sh
. t/container/registry.sh
registry_up
image_cluster_up --nodes 4 --gpus 0 --plugin-args "$image_arguments"
idle() {
    wait_until 60 sh -c "! '$top/tools/cluster' run sinfo -h -o %t | grep -q comp"
    is "$(in_cluster sinfo -h -o %D,%t)" 4,idle "no node was drained${1:+ $1}"
}

job srun -N4 --ntasks-per-node=4 --megatron-image="${registry}small:1" sh -c 'echo "$SLURM_PROCID:$MEGATRON_RANK:$(pwd):$GREETING"'
is "$rc" 0 "sixteen tasks on four nodes run in an image"
is "$(grep -c '^[0-9]*:[0-9]*:/usr/src:from the image$' <<<"$out")" 16 "each in the image's working directory, with its environment"
is "$(imports)" 1 "after one import"
job srun -N4 --ntasks-per-node=2 --megatron-image="${registry}small:1" true
is "$rc:$(imports)" 0:0 "the next job starts the cached image"
job srun -N2 -n4 --megatron-image="${registry}small:1" sh -c 'exit $((SLURM_PROCID + 3))'
is "$rc" 6 "exit codes are passed through"
image=$(ls "$cache"/*.sqsh)
job srun -n1 --megatron-image="$image" --megatron-workdir=/etc pwd
is "$out" /etc "a squashfs file, a working directory"
job srun -n1 --megatron-image="$image" --megatron-remap-root id -u
is "$out" 0 "root inside"
job srun -n1 --megatron-image="$image" --megatron-readonly sh -c 'echo x > /usr/src/x'
like "$out" 'Read-only' "read-only if asked for"
job srun -n1 --megatron-image="$image" sh -c 'echo x > /usr/src/x && cat /usr/src/x'
is "$out" x "else written to, for as long as the step lasts"
job srun -n1 --megatron-image="$image" --megatron-mounts="$home:/mnt/here and there:ro" ls "/mnt/here and there/.cache"
like "$out" megatron "a mount"
job env GREETING=mine srun -n1 --megatron-image="$image" --megatron-container-env=GREETING sh -c 'echo $GREETING'
is "$out" mine "a variable of the job's that the image must not change"
job srun -n1 --megatron-image="$image" --megatron-container-name=kept sh -c 'echo one > /usr/src/kept'
job srun -n1 -w n1 --megatron-image="$image" --megatron-container-name=kept cat /usr/src/kept
is "$out" one "a container that is kept"
job srun -n1 -w n1 --megatron-image="${registry}none:1" --megatron-container-name=kept cat /usr/src/kept
is "$rc:$(tail -n 1 <<<"$out")" 0:one "whatever the image"
like "$out" "warning: using the existing container kept, created from $image" "with a warning"
job srun -n2 -c2 --megatron-image="$image" --megatron-bind=auto sh -c 'echo $MEGATRON_CPUS'
is "$(sort -u <<<"$out" | wc -l)" 2 "placement in an image"
# The hook for EFA, on a node that has such a device.
host=$registry_dir/host
mkdir -p "$host"/{dev/infiniband,sys/class/infiniband_verbs/uverbs0,sys/drivers/efa,sys/device,opt/amazon/efa/lib}
ln -s "$host/sys/drivers/efa" "$host/sys/device/driver"
ln -s "$host/sys/device" "$host/sys/class/infiniband_verbs/uverbs0/device"
echo "the device" >"$host/dev/infiniband/uverbs0"
echo "the library" >"$host/opt/amazon/efa/lib/libfabric.so"
tools/cluster node n1 sh -c 'mkdir /dev/infiniband && touch /dev/infiniband/uverbs0 && chmod 666 /dev/infiniband/uverbs0'
job env ENROOT_RUNTIME_PATH=/tmp "$enroot_path/enroot" info
sysconf=$(sed -n 's/.*ENROOT_SYSCONF_PATH=//p' <<<"$out")
mkdir "$registry_dir/sysconf"
[ -z "$sysconf" ] || cp -a "$sysconf/." "$registry_dir/sysconf/"
mkdir -p "$registry_dir/sysconf/hooks.d"
ln -s "$top/container/hooks/97-megatron-efa.sh" "$registry_dir/sysconf/hooks.d/"
efa() {
    job env ENROOT_SYSCONF_PATH="$registry_dir/sysconf" MEGATRON_HOOK_ROOT="$host" ${1:+MEGATRON_EFA=$1} srun -n1 -w n1 --megatron-image="$image" \
        sh -c 'cat /dev/infiniband/uverbs0 /opt/amazon/efa/lib/libfabric.so; echo "path:$LD_LIBRARY_PATH"'
}
efa
is "$rc:$out" "0:the device
the library
path:/opt/amazon/efa/lib" "EFA's device and libraries are seen inside"
efa device
is "$(head -n 1 <<<"$out"):$(grep -c 'the library' <<<"$out")" "the device:0" "MEGATRON_EFA reaches the hook"
efa wrong
like "$out" 'MEGATRON_EFA=wrong is neither auto, device nor none' "and the hook's output reaches the user"
is "$rc" 1 "whose step fails"
tools/cluster node n1 rm -r /dev/infiniband

# Slurm runs these programs after its plugins; since 24.11 with a slurmstepd, which the image does not have.
printf '#!/bin/sh\necho export GREETING=prolog\n' >"$home/prolog"
chmod 755 "$home/prolog"
job srun --version
if [ "$(printf '%s\n' "$out" 'slurm-wlm 24.11' | sed 's/.* //' | sort -V | head -n 1)" != 24.11 ]; then
    job srun -n1 --task-prolog="$home/prolog" --megatron-image="$image" true
    is "$rc:$(grep -c 'task_prolog can not be executed' <<<"$out")" 1:1 "a task prolog that is not in the image fails the task, as the manual says"
    job srun -n1 --task-prolog="$home/prolog" --megatron-mounts="$home/prolog:$home/prolog" --megatron-image="$image" sh -c 'echo $GREETING'
    is "$rc:$out" 0:prolog "mounted, it runs"
fi

job srun -n1 --megatron-image="$image" --megatron-off id -u
is "$rc" 0 "--megatron-off: no image"
job srun -n1 -w n1 --megatron-image=none hostname
is "$out" n1 "--megatron-image=none neither"

# A job resolves a name once: the registry is asked once, and a tag that moves meanwhile is not
# noticed.
if [ -z "${MEGATRON_TEST_ENROOT-}" ]; then
    install -m 666 /dev/null "$registry_dir/log"
    chown "$(as_user id -u)" "$registry_dir/registry/small/1/etc"
    step="srun -N2 -n2 --megatron-image='${registry}small:1' sh -c 'ls /etc/moved 2>/dev/null; echo ran'"
    job env ENROOT_STANDIN_LOG="$registry_dir/log" salloc -N4 sh -c "$step & $step; wait; touch '$registry_dir/registry/small/1/etc/moved'; $step"
    is "$rc:$(grep -c '^ran$' <<<"$out")" 0:6 "three steps of a job"
    is "$(grep -c '^digest' "$registry_dir/log")" 1 "the registry is asked once for all"
    like "$(ls "$registry_dir/registry/small/1/etc")" moved "the tag moves meanwhile"
    unlike "$out" /etc/moved "which the job does not see"
    job srun -n1 --megatron-image="${registry}small:1" ls /etc/moved
    is "$rc:$(tail -n 1 <<<"$out")" 0:/etc/moved "but the next one does"
    # The components of a het job are one job.
    : >"$registry_dir/log"
    step="srun --het-group=0,1 --megatron-image='${registry}small:1' echo ran"
    job env ENROOT_STANDIN_LOG="$registry_dir/log" salloc -N1 -n1 : -N2 -n2 sh -c "$step; $step"
    is "$rc:$(grep -c '^ran$' <<<"$out"):$(grep -c '^digest' "$registry_dir/log")" 0:6:1 "once for a het job, too"
    # A kept container is not changed; a warning is printed if its tag has moved.
    rm "$registry_dir/registry/small/1/etc/moved"
    job srun -n1 -w n1 --megatron-image="${registry}small:1" --megatron-container-name=old true
    unlike "$out" 'existing container' "a container of this very image"
    as_user touch "$registry_dir/registry/small/1/etc/moved"
    job srun -n1 --megatron-image="${registry}small:1" true
    job srun -n1 -w n1 --megatron-image="${registry}small:1" --megatron-container-name=old ls /etc/moved
    is "$rc" 1 "a kept container does not follow a tag that moves"
    like "$out" "warning: using the existing container old, created from an older ${registry}small:1; .*enroot remove megatron_old" "with a warning"
    rm "$registry_dir/registry/small/1/etc/moved"
else
    skip "a tag that moves during a job" "needs the stand-in's registry"
fi

# A batch script with the image in it; two jobs at once that want one new image.
cat >"$home/script" <<S
#!/bin/bash
#SBATCH --megatron-image="${registry}bare:1"
srun /bin/pwd
S
rm -f "$cache"/*.sqsh
delay=1
job sh -c "cd '$home'; sbatch -W -N2 -n2 -o one script >/dev/null & sbatch -W -N2 -n2 -o two script >/dev/null; wait"
delay=0
out=$(cat "$home/one" "$home/two")
is "$(grep -c '^/$' <<<"$out")" 4 "batch jobs in an image without a shell"
is "$(imports)" 1 "two jobs at once: one import"

# Bad input.
refused() {
    local text=$1 name=$2
    shift 2
    job srun -N2 -n2 "$@"
    is "$rc" 1 "$name"
    like "$out" "$text" "with the reason"
}
refused 'srun: error: megatron: --megatron-mounts needs --megatron-image' "mounts without an image" --megatron-mounts=/tmp:/x true
refused 'srun: error: megatron: --megatron-image=ubuntu is neither a path nor' "a bare name" --megatron-image=ubuntu true
refused 'srun: error: megatron: .*the character \$ in the name of an image' "a path that Enroot would evaluate" --megatron-image='/tmp/$(id).sqsh' true
refused 'srun: error: megatron: .*the target /x is given twice' "a target twice" --megatron-image="$image" --megatron-mounts=/tmp:/x,/usr:/x true
job env PYXIS_CONTAINER_IMAGE=x srun -n1 --megatron-image="$image" true
like "$out" 'cannot be used together' "not when Pyxis is asked for one too"
refused 'megatron: n[1-4]: --megatron-mounts: cannot mount /nowhere: No such file' "a source that is missing" --megatron-image="${registry}small:1" --megatron-mounts=/nowhere:/x true
unlike "$out" 'importing' "before anything is imported"
refused 'megatron: n[1-4]: --megatron-image: cannot open /nowhere.sqsh' "a file that is missing" --megatron-image=/nowhere.sqsh true
echo text >"$home/text"
refused 'is not a squashfs image' "a file that is not an image" --megatron-image="$home/text" true
refused '404 Not Found; check the image.s name and tag' "no such image" --megatron-image="${registry}none:1" true
is "$(grep -c '404 Not Found' <<<"$out")" 1 "reported by one node"
refused 'cannot change to the directory .* in the container' "no such working directory" --megatron-image="${registry}small:1" --megatron-workdir=/nowhere true
unlike "$out" '[Mm]unge|auth' "and nothing else"
is "$(ls "$cache/work")" "" "nothing is left of any of it"
registry_down
refused 'check that the registry is running' "a registry that is down" --megatron-image="${registry}other:1" true
job srun -n1 --megatron-image="${registry}small:1" true
is "$rc" 0 "a cached image starts anyway"
registry_again
idle
done_testing
