#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Another importer than `megatron image`: importer=PROGRAM in plugstack.conf, megatron-importer(7).
cd "$(dirname "$0")/../.." || exit 1
. t/tap.sh
. t/container/registry.sh
registry_up
program=$registry_dir/importer
images=$registry_dir/images
mkdir -m 1777 "$images" "$registry_dir/log"
mksquashfs "$registry_dir/registry/small/1" "$images/small.sqsh" -quiet -no-progress -all-root >/dev/null
cat >"$program" <<S
#!/bin/bash
[ \$1 != release ] || [ ! -e "$registry_dir/log/hold" ] || { echo "\$\$ \$PATH" >"$registry_dir/log/held"; sleep 30; }
echo "\$(id -u) \$(hostname) \$SLURM_JOB_ID.\$SLURM_STEP_ID \$*" >>"$registry_dir/log/\$1"
case \$2 in
*slow*)
    trap 'echo x >"$registry_dir/log/undone"; exit 1' TERM
    sleep 600 & wait ;;
*wrong*) echo "error: \$2 is not approved" >&2; exit 3 ;;
*relative*) echo images/small.sqsh ;;
*evaluated*) echo "$images/\\\$(id).sqsh" ;;
docker*) echo "taking \$2" >&2; echo "$images/small.sqsh" ;;
esac
S
chmod 755 "$program"
image_cluster_up --nodes 2 --gpus 0 --plugin-args "$image_arguments importer=$program"
uid=$(as_user id -u)

job srun -N2 -n4 --megatron-image=docker://small pwd
is "$rc:$(grep -c '^/usr/src$' <<<"$out")" 0:4 "a step in an image that another importer provides"
is "$(grep -c 'megatron: n[12]: taking docker://small$' <<<"$out")" 2 "its progress is printed with the name of the node"
is "$(cut -d' ' -f1,4- "$registry_dir/log/get" | uniq -c | xargs)" "2 $uid get docker://small" "each node runs get as the user, once"
wait_until 60 sh -c "[ \$(wc -l <'$registry_dir/log/release') = 2 ]"
is "$(sort "$registry_dir/log/release")" "$(sort "$registry_dir/log/get" | sed 's/ get docker.*/ release/')" "release follows on each node, as the user, for the same step"
ok "the cache of megatron image is not used" test ! -e "$cache"

job srun -n1 --megatron-image=docker://wrong true
is "$rc" 1 "a failing importer fails the step"
like "$out" 'error: megatron: n[12]: .*importer get docker://wrong. failed .exit code 3.: docker://wrong is not approved' "with its reason"
is "$(grep -c 'not approved' <<<"$out")" 1 "once"
job srun -n1 --megatron-image=docker://relative true
like "$out" 'printed "images/small.sqsh" instead of the path of a squashfs file' "a path must be absolute"
job srun -n1 --megatron-image=docker://evaluated true
like "$out" 'cannot open .*/images/\$\(id\).sqsh: No such file' "its output is never evaluated"
job srun -n1 --megatron-image=docker://slow --megatron-import-timeout=1 true
like "$out" 'took longer than 1 seconds; raise --megatron-import-timeout' "an importer that takes too long"
ok "can undo its work" test -e "$registry_dir/log/undone"
rm -f "$registry_dir/log/undone"

# `release` runs outside the job's cgroups, with the administrator's PATH: the user must not be able to run code in it.
touch "$registry_dir/log/hold"
job env PATH="$home/bin:$PATH" srun -n1 -w n1 --megatron-image=docker://small true
wait_until 60 test -s "$registry_dir/log/held"
read -r pid path <"$registry_dir/log/held"
rm -f "$registry_dir/log/hold"
unlike "$path" "$home" "the user's PATH is not that of release"
is "$(tools/cluster node n1 awk '/^Uid/ {print $2}' "/proc/$pid/status")" "$uid" "which works as the user"
traces n1 "$pid"
how=$?
case $how in
0 | 1) is "$how" 1 "and cannot be traced by the user" ;;
*) skip "and cannot be traced by the user" "this kernel does not let users trace their own processes" ;;
esac
tools/cluster node n1 kill "$pid"

job_process srun -N2 -n2 --megatron-image=docker://slow true >/dev/null 2>&1 &
step=$!
wait_until 60 sh -c "[ \$(pgrep -fc '[i]mporter get docker://slow') -ge 2 ]"
in_cluster scancel --user="$uid"
wait $step
wait_until 60 sh -c "! pgrep -f '[i]mporter get docker://slow'"
ok "scancel ends the importer on all nodes"
ok "which can undo its work" test -e "$registry_dir/log/undone"

job srun -n1 -w n1 --megatron-image=docker://small --megatron-container-name=kept sh -c 'echo mark >/usr/src/mark'
is "$rc" 0 "a kept container from another importer"
rm "$registry_dir/log/get"
job srun -n1 -w n1 --megatron-image=docker://small --megatron-container-name=kept cat /usr/src/mark
is "$rc:$(tail -n 1 <<<"$out")" 0:mark "is found again"
ok "without the importer" test ! -e "$registry_dir/log/get"
mv "$program" "$program.away"
job srun -n1 --megatron-image=docker://small true
like "$out" 'cannot run the image importer .*/importer; install' "no importer"
wait_until 60 sh -c "! '$top/tools/cluster' run sinfo -h -o %t | grep -q -v idle"
is "$(in_cluster sinfo -h -o %D,%t)" 2,idle "no node was drained"
done_testing
