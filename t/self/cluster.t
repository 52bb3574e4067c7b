#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The private cluster itself: users, GPUs, faults, clusters side by side, nothing left behind.
. "$(dirname "$0")/../tap.sh"
scratch=$(mktemp -d)
printf '#!/bin/sh\n[ ! -e "%s/slow" ] || { sleep 2; echo ended >"%s/epilog"; }\n' "$scratch" "$scratch" >"$scratch/end"
chmod 755 "$scratch/end"
cluster_up --nodes 3 --gpus 2,2,0 --plugin no --conf "Epilog=$scratch/end"
trap 'cluster_down; rm -rf "$scratch"' EXIT
first=$MEGATRON_CLUSTER
cluster=$top/tools/cluster

is "$("$top/t/cluster" env --dir "$first")" "$("$cluster" env --dir "$first")" "t/cluster is another name of it"

# --- Nodes, users, GPUs
try in_cluster srun -N3 --ntasks-per-node=1 hostname
is "$(sort <<<"$out" | xargs)" "n1 n2 n3" "each node has its host name"
try as_user srun -n1 id -un
is "$out" ada "jobs of an ordinary user run as that user"
try as_user bash -c 'cd; echo "#!/bin/bash
touch made" >script; sbatch -W script'
is "$rc" 0 "the user's batch job runs"
is "$(stat -c %U "$first/home/made" 2>/dev/null)" "$(stat -c %U "$first/home")" "in the user's home"
id ada >/dev/null 2>&1
is $? 1 "the machine itself does not know that user"
try in_cluster srun -w n1 --gpus-per-node=2 bash -c 'echo $CUDA_VISIBLE_DEVICES; ls /dev/nvidia*'
is "$(xargs <<<"$out")" "0,1 /dev/nvidia0 /dev/nvidia1" "a node has its GPUs"
try in_cluster srun -w n3 bash -c 'ls /dev/nvidia* 2>/dev/null | wc -l; test -c /dev/null && test -d /dev/pts'
is "$rc $out" "0 0" "a node without GPUs has none, and the rest of /dev"
try in_cluster srun -w n1 --gpus-per-node=3 true
is "$rc" 1 "a request for more GPUs than a node has is rejected"
try in_cluster srun -w n2 bash -c 'echo $$; ls -d /proc/[0-9]* | wc -l'
[ "$(tail -n1 <<<"$out")" -lt 20 ]
ok "a node sees its own processes only"

# --- Logs
try "$cluster" log
is "$rc $(grep -cE '^==> .*/log/(slurmctld|n1|n2|n3) <==$' <<<"$out")" "0 4" "log prints those of all daemons" || diag "$out"
try "$cluster" log n1
is "$rc $(grep -c '^==>' <<<"$out")" "0 0" "log n1 prints that one"
try "$cluster" log n9
like "$out" '^tools/cluster: the cluster has no log n9; use one of munged n1 .* slurmctld' "a wrong name is answered with the right ones"

# --- CPUs: a node passes for a machine with more of them
masks() { sed -n 's/.*mask \(0x[0-9a-f]*\) set.*/\1/p' <<<"$out" | sort | xargs; }
try in_cluster srun -N1 -n8 --cpu-bind=verbose true
is "$(masks)" "0x1 0x10 0x2 0x20 0x4 0x40 0x8 0x80" "eight tasks have a CPU each"
try in_cluster srun -N3 -n24 env
is "$rc $(grep -cE 'PRELOAD|HWLOC|PRETEND' <<<"$out")" "0 0" "a full cluster; nothing of the pretending reaches the job"
"$cluster" up --owner $$ --nodes 1 --plugin no --topology "$top/t/topologies/amd.xml" --dir "$scratch/amd" >/dev/null
try "$cluster" run --dir "$scratch/amd" srun -n2 -c48 --cpu-bind=verbose true
is "$(masks)" "0xffffff000000ffffff 0xffffff000000ffffff000000" "a node with the CPUs of a topology file"
"$cluster" down --dir "$scratch/amd"

# --- Faults
job=$(in_cluster sbatch --parsable -w n2 -o /dev/null --requeue --wrap 'sleep 100')
running() { [ "$(in_cluster squeue -h -j "$job" -o %T)" = RUNNING ]; }
wait_until 60 running
ok "a node dies" "$cluster" kill-node n2
try "$cluster" node n2 true
is "$rc $out" "1 tools/cluster: node n2 is not running; start it with tools/cluster start-node n2" "a command on it is refused with one line"
in_cluster scontrol update nodename=n2 state=down reason=test
in_cluster scancel "$job"
ok "it comes back" "$cluster" start-node n2
try in_cluster srun -w n2 hostname
is "$out" n2 "it runs jobs again"
touch "$scratch/slow"
in_cluster srun -w n2 true
ok "it dies when a job has just ended" "$cluster" kill-node n2
ok "but not before the job's epilog has ended" test -s "$scratch/epilog"
rm "$scratch/slow"
ok "so it comes back at once" "$cluster" start-node n2
in_cluster srun -w n3 sleep 100 &
srun=$!
ok "a slurmstepd dies" wait_until 60 "$cluster" kill-stepd n3
kill -KILL $srun
wait 2>/dev/null

# --- Side by side, started at the same moment
for i in 1 2 3; do
    "$cluster" up --owner $$ --nodes 1 --plugin no --dir "$scratch/side$i" >"$scratch/env$i" &
done
wait
for i in 1 2 3; do
    try "$cluster" run --dir "$scratch/side$i" scontrol show config
    like "$out" "^SLURM_CONF *= $(readlink -f "$scratch/side$i")/" "cluster $i of three has its own controller"
done
is "$(sort -u "$scratch"/env? | grep -c MEGATRON_CLUSTER)" 3 "three clusters, three directories"
# A cluster in another chroot does not see the claims of this one. Its first choice is a block of ports that was free a moment ago.
other=$scratch/chroot
mkdir -p "$other/tools"
cp "$top"/tools/{pretend.c,reveal.sh} "$other/tools/"
sed -e "s|^claims=.*|claims=$other/cluster|" \
    -e "/^claim() {/a [ -e '$other/raced' ] \|\| { touch '$other/raced'; dir=\$claims.${first##*.} port=$((30720 + ${first##*.} * 64)); mkdir \"\$dir\"; lock_claim \"\$dir\"; return; }" \
    "$cluster" >"$other/tools/cluster"
chmod -R a+rx "$scratch"
try bash "$other/tools/cluster" up --owner $$ --nodes 1 --plugin no --dir "$scratch/side4"
is "$rc $(grep -c "^export MEGATRON_CLUSTER=$other/cluster" <<<"$out") $(ls -d "$other/raced")" "0 1 $other/raced" \
    "a cluster whose ports were taken by another one uses others" || diag "$out"
try in_cluster srun -N1 hostname
is "$rc" 0 "and does not disturb that one" || diag "$out"
bash "$other/tools/cluster" down --dir "$scratch/side4"
keeper=$(cat "$scratch/side1/run/keeper")
ports=$(readlink -f "$scratch/side1")
ok "down" "$cluster" down --dir "$scratch/side1"
ok "down again is no error" "$cluster" down --dir "$scratch/side1"
[ ! -e "$ports" ] && [ ! -L "$scratch/side1" ] && [ -z "$(tr -d "\\0" 2>/dev/null <"/proc/$keeper/cmdline")" ]
ok "nothing is left of it"
try in_cluster srun -n1 hostname
is "$rc" 0 "the others stay"

# --- A killed warden takes everything down; so does a killed keeper, and the next `up` or `down`
# removes the rest
kill -KILL "$(cat "$scratch/side3/run/warden")"
dir=$(readlink -f "$scratch/side3")
ok "nothing is left when the warden was killed" wait_until 60 test ! -e "$dir" -a ! -L "$scratch/side3"
dir=$(readlink -f "$scratch/side2")
members() { grep -ls "$dir/etc/slurm.conf" /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null; }
[ -n "$(members)" ]
ok "a cluster has processes"
kill -KILL "$(cat "$dir/run/keeper")"
gone() { [ -z "$(members)" ]; }
wait_until 60 gone
is "$(members)" "" "they die with the keeper"
ok "down removes the rest" "$cluster" down --dir "$scratch/side2"
[ ! -e "$dir" ]
ok "its directory is gone"

# --- Its owner is killed
bash -c '"$1" up --owner $$ --nodes 1 --plugin no --dir "$2/owned" >/dev/null && echo ready && exec sleep 1000' \
    - "$top/tools/cluster" "$scratch" >"$scratch/ready" &
owner=$!
wait_until 60 test -s "$scratch/ready"
dir=$(readlink -f "$scratch/owned")
kill -KILL $owner
wait $owner 2>/dev/null
wait_until 60 test ! -e "$dir"
[ -n "$dir" ] && [ ! -e "$dir" ]
ok "a cluster goes down when its owner was killed"

# --- A program of the machine writes a new /etc/passwd: it is renamed over the old one, which removes mounts on it
mkdir "$scratch/etc"
cp -a /etc/. "$scratch/etc"
try unshare --mount bash -c 'mount --bind "$2/etc" /etc && "$1" up --owner $$ --nodes 1 --plugin no --dir "$2/changed" >/dev/null &&
    for file in passwd group; do cp -p /etc/$file /etc/$file.new && mv /etc/$file.new /etc/$file || exit 1; done &&
    ! grep -q ^ada: "/proc/$(cat "$2/changed/run/warden")/root/etc/passwd" && "$1" run --dir "$2/changed" --user srun -n1 id -un
    "$1" down --dir "$2/changed"' - "$cluster" "$scratch"
is "$rc $out" "0 ada" "the cluster keeps its users when the machine's accounts change"

# --- cgroups
if cgroups_usable; then
    ok "up with cgroups" "$cluster" up --owner $$ --nodes 1 --gpus 2 --plugin no --cgroup --dir "$scratch/cg"
    dir=$(readlink -f "$scratch/cg")
    try "$cluster" run --dir "$scratch/cg" srun -n1 --gpus=1 bash -c \
        'for i in 0 1; do (: </dev/nvidia$i) 2>&1 | grep -c "not permitted"; done'
    is "$(xargs <<<"$out")" "0 1" "a GPU that was not granted is out of reach"
    ok "down with cgroups" "$cluster" down --dir "$scratch/cg"
    is "$(find /sys/fs/cgroup -maxdepth 3 -name "${dir##*/}" 2>/dev/null)" "" "no cgroup is left"
else
    skip "a cluster with cgroups" "cgroups cannot be used here"
fi

# --- Mistakes
try "$cluster" up --nodes many
is "$rc $out" "1 tools/cluster: --nodes many is not a number; use a whole number, or several separated by commas" "a wrong number is named"
try "$cluster" up --plugin "$scratch/none.so"
like "$out" "build first" "a missing plugin is reported"
try "$cluster" run --dir "$scratch" true
like "$out" "no cluster is running" "a directory without a cluster is rejected"
is "$(grep -c megatron-cluster /proc/self/mounts)" 0 "no mount is visible outside"
done_testing
