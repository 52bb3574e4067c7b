#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A plugin that Slurm cannot load on a node, as it is missing, built for another Slurm, or not in plugstack.conf: other
# jobs do not notice, and a job that asked for the plugin does not run without it.
. "$(dirname "$0")/common.sh"
cluster_up --nodes 2 --gpus 0
conf=$MEGATRON_CLUSTER/etc/plugstack.conf lib=$MEGATRON_CLUSTER/tmp/lib
mkdir "$lib"
cp "$MEGATRON_INST/lib/slurm/spank_megatron.so" "$lib/"
sed -i "s|^optional [^ ]*|optional $lib/spank_megatron.so|" "$conf"
line=$(cat "$conf")
megatron=$MEGATRON_INST/bin/megatron said=$MEGATRON_CLUSTER/home/said
comm=("$megatron" comm-test --device cpu --max-bytes 64 --iterations 1)
on() { "$top/tools/cluster" node "$@"; }

# over NODE FILE SOURCE: on this node only, FILE has the contents of SOURCE.
over() { on "$1" mount --bind "$3" "$2"; }

# others NAME: a job that does not use the plugin runs, and the user sees nothing.
others() {
    try as_user srun -N2 hostname
    is "$rc $(sort <<<"$out" | xargs)" "0 n1 n2" "$1: other jobs run, without a word"
    try_batch as_user -N2 --wrap 'srun hostname'
    is "$(grep -cx 'n[12]' <<<"$out")" 2 "$1: so do batch jobs" || diag "$out"
}

# step ARGUMENT...: run a step whose tasks write standard error to files of their own: srun -K may drop output that is still
# on its way when it ends the other tasks. It is added to $out.
step() {
    rm -f "$said".*
    try as_user srun -e "$said.%t" -N2 -K "$@"
    out+=$'\n'$(cat "$said".*)
}

# ended COMMAND NAME: one line names n2, whose tasks exit with 2. (srun returns the highest code, which may be that of a
# task of n1 that srun -K has ended.)
ended() {
    local reason="n2: srun asked for the plugin, but slurmd did not load spank_megatron.so on this node (its log may have the reason); install the plugin for this Slurm there, leave the node out with srun --exclude"
    [ "$rc" -ge 2 ]
    ok "$2" || diag "$out"
    is "$(grep -c "^megatron $1: $reason" <<<"$out") $(grep -c 'spank_megatron.so' <<<"$out")" "1 1" "  that names the node" || diag "$out"
    like "$out" 'n2: tasks? [0-9]+.*: Exited with exit code 2' "  and exit code 2"
}

# refused NAME: n2 does not have the plugin.
refused() {
    others "$1"
    step --ntasks-per-node=2 --megatron-tp=1 "${comm[@]}"
    ended comm-test "$1: megatron comm-test ends with one line"
    step --megatron-tp=1 "$megatron" launch --nproc-per-node 1 -- "${comm[@]}"
    ended launch "$1: so does megatron launch"
    step --ntasks-per-node=2 --megatron-tp=1 "$megatron" train --mock-data --num-layers 1 --hidden-size 8 \
        --num-attention-heads 1 --seq-length 8 --vocab-size 16 --micro-batch-size 1 --train-iters 1 --lr 1e-3 --device cpu
    ended train "$1: so does megatron train"
    try as_user srun -w n1 -n2 --megatron-tp=2 "${comm[@]}"
    is "$rc" 0 "$1: a step on the other node works" || diag "$out"
    try as_user srun -N2 --megatron-off "$megatron" version
    is "$rc" 0 "$1: so does a step without the plugin" || diag "$out"
}

try as_user srun -N2 --megatron-tp=1 "${comm[@]}"
is "$rc" 0 "with the plugin on both nodes, a step runs" || diag "$out"
try as_user srun -N2 --megatron-tp=1 env
unlike "$out" "^SLURM_SPANK_MEGATRON" "and nothing of the marks is left"

# --- a file that is missing, or not for this Slurm, and a node without the line -------------------------
on n2 mount -t tmpfs none "$lib"
refused "no file"
release=$("${MEGATRON_TEST_SLURM:+$MEGATRON_TEST_SLURM/sbin/}slurmd" -V | sed 's/[^0-9]*\([0-9.]*\).*/\1/')
if [ "$(printf '%s\n' "$release" 25.11.1 | sort -V | head -n 1)" != 25.11.1 ]; then
    like "$(cat "$MEGATRON_CLUSTER/log/n2")" "$lib/spank_megatron.so: (Dlopen of plugin file failed|.*No such file)" "no file: slurmd's log names it"
else
    skip "no file: slurmd's log names it" "Slurm $release logs nothing about it"
fi

# --- every program, with the TaskProlog ------------------------------------------------------------------
try as_user srun -N2 --megatron-tp=1 true
is "$rc" 0 "without the TaskProlog, another program runs"
echo "TaskProlog=$MEGATRON_INST/share/megatron/taskprolog" >>"$MEGATRON_CLUSTER/etc/slurm.conf"
in_cluster scontrol reconfigure
prolog() { as_user srun -w n2 -n1 --megatron-tp=1 true 2>&1 | grep -q '^megatron: n2'; }
wait_until 60 prolog
try as_user srun -N2 --ntasks-per-node=2 --megatron-tp=1 sh -c 'echo "ran on $SLURMD_NODENAME"'
is "$rc $(grep -c 'ran on n1' <<<"$out") $(grep -c 'ran on n2' <<<"$out")" "1 2 0" "with it, no program runs on the node without the plugin" || diag "$out"
is "$(grep '^megatron' <<<"$out" | cut -c-93)" "megatron: n2: the job asked for the plugin, but slurmd did not load spank_megatron.so on this" \
    "and one line names the node" || diag "$out"
others "TaskProlog"
try_batch as_user -w n2 --megatron-tp=1 --wrap 'echo the script runs'
like "$out" "^the script runs$" "a batch script runs, which is not placed anyway"
sed -i '/^TaskProlog=/d' "$MEGATRON_CLUSTER/etc/slurm.conf"
in_cluster scontrol reconfigure

# --- the health check ------------------------------------------------------------------------------------
printf '#!/bin/sh\n[ "$1" = show ] && exec scontrol "$@"; echo "scontrol $*"\n' >"$MEGATRON_CLUSTER/tmp/scontrol"
chmod +x "$MEGATRON_CLUSTER/tmp/scontrol"
check() { try "$top/tools/cluster" node "$1" env SLURM_CONF="$SLURM_CONF" SCONTROL="$MEGATRON_CLUSTER/tmp/scontrol" MEGATRON=/bin/true SLURMD_NODENAME="$1" "$MEGATRON_INST/share/megatron/healthcheck"; }
check n2
is "$rc $out" "1 scontrol update nodename=n2 state=drain reason=plugin: Slurm cannot load spank_megatron.so" "the health check drains the node"
check n1
is "$rc $out" "0 " "and not the other one"

# --- a missing file with `required`: Slurm's own messages, which the manual must have -------------------------
# manual TEXT: the manual has this text, on one line of its source.
manual() { ok "  the manual has it: $1" grep -qF -- "$1" "$top/spank/spank_megatron.8"; }
echo "${line/optional/required}" >"$conf"
: >"$MEGATRON_CLUSTER/log/n2"
try as_user srun -N2 hostname
message=$(sed -n 's/^srun: error: .*\(launch failed: .*\)/\1/p' <<<"$out")
like "$message" "^launch failed: (Plugin initialization failed|Unspecified error)$" "required: the tasks of the node fail" || diag "$out"
manual "$message"
like "$out" "^n1$" "required: those of the other node run"
like "$(cat "$MEGATRON_CLUSTER/log/n2")" "Failed to load plugin $lib/spank_megatron.so. Aborting.$" "required: slurmd's log names the file"
manual "Failed to load plugin .../spank_megatron.so. Aborting."
try as_user srun -w n1 hostname
is "$rc $out" "0 n1" "required: a job on the other node runs"
check n2
is "$rc $out" "1 scontrol update nodename=n2 state=drain reason=plugin: Slurm cannot load spank_megatron.so" "required: the health check drains the node" || diag "$out"
check n1
is "$rc $out" "0 " "required: and not the other one"
for client in "srun true:Plug-in initialization failed" "sbatch --wrap=true:Failed to initialize plugin stack"; do
    command=${client%%:*} message=${client#*:}
    try "$top/tools/cluster" node n2 env SLURM_CONF="$SLURM_CONF" ${MEGATRON_TEST_SLURM:+PATH="$MEGATRON_TEST_SLURM/bin:$PATH"} $command
    is "$rc $(grep -c "error: $message" <<<"$out")" "1 1" "required: ${command%% *} on that node submits nothing" || diag "$out"
    manual "$message"
done
echo "$line" >"$conf"
try as_user srun -N2 hostname
is "$rc $(sort <<<"$out" | xargs)" "0 n1 n2" "required: with optional in its place, jobs run again" || diag "$out"
on n2 umount -l "$lib"

cp "$lib/spank_megatron.so" "$MEGATRON_CLUSTER/tmp/other.so"
other_release "$MEGATRON_CLUSTER/tmp/other.so"
over n2 "$lib/spank_megatron.so" "$MEGATRON_CLUSTER/tmp/other.so"
refused "another Slurm"
like "$(cat "$MEGATRON_CLUSTER/log/n2")" "[Ii]ncompatible" "another Slurm: slurmd's log has the reason"
on n2 umount -l "$lib/spank_megatron.so"

: >"$MEGATRON_CLUSTER/tmp/empty"
over n2 "$conf" "$MEGATRON_CLUSTER/tmp/empty"
refused "no line"
on n2 umount -l "$conf"

# --- slurmd starts without it ----------------------------------------------------------------------------
"$top/tools/cluster" kill-node n2
mv "$lib" "$lib.away"
"$top/tools/cluster" start-node n2
mv "$lib.away" "$lib"
nodes_well "slurmd starts without the plugin"
try as_user srun -w n2 -n1 --megatron-tp=1 "${comm[@]}"
is "$rc" 0 "and steps use it as soon as it is there" || diag "$out"

# --- the node of the batch script ------------------------------------------------------------------------
over n1 "$conf" "$MEGATRON_CLUSTER/tmp/empty"
rm -f "$said".*
try_batch as_user -N2 --ntasks-per-node=2 --megatron-tp=1 --wrap "srun -K -e $said.%t ${comm[*]}; echo rc=\$?; cat $said.*"
is "$(grep -c '^megatron comm-test: the job asked for the plugin, but srun did not load spank_megatron.so on 127.0.0.1, where it was started; install the plugin for this Slurm there, or submit the job without its options' <<<"$out") $(grep -c 'spank_megatron.so' <<<"$out")" "1 1" \
    "a batch script on a node without the plugin: one line" || diag "$out"
# -K terminates tasks that are slower than the first to fail, and srun then ends with 143.
like "$out" "Exited with exit code 2$" "and exit code 2" || diag "$out"
like "$out" "^rc=(2|143)$" "srun fails" || diag "$out"
try_batch as_user -N2 --megatron-tp=1 --wrap "$megatron version >/dev/null && ${comm[*]} >/dev/null; echo rc=\$?"
like "$out" "^rc=0$" "megatron in the script itself, which is never placed, runs" || diag "$out"
try_batch as_user -N2 --wrap "srun $megatron version >/dev/null; echo rc=\$?"
like "$out" "^rc=0$" "and so does a job without options" || diag "$out"
on n1 umount -l "$conf"

# --- the submit host -------------------------------------------------------------------------------------
sed "s|^PlugStackConfig=.*|PlugStackConfig=$MEGATRON_CLUSTER/tmp/plugstack.conf|" "$SLURM_CONF" >"$MEGATRON_CLUSTER/etc/login.conf"
echo "optional $lib/missing.so" >"$MEGATRON_CLUSTER/tmp/plugstack.conf"
for client in "srun true" "sbatch --wrap=true" "salloc true"; do
    try as_user env SLURM_CONF="$MEGATRON_CLUSTER/etc/login.conf" ${client% *} --megatron-tp=1 "${client##* }"
    [ "$rc" -ne 0 ]
    ok "a submit host without the plugin: ${client%% *} fails" || diag "$out"
    like "$out" "unrecognized option '--megatron-tp=1'" "  and names the option"
done
try as_user env SLURM_CONF="$MEGATRON_CLUSTER/etc/login.conf" srun hostname
is "$rc" 0 "and other jobs run"

# --- two versions in one place ---------------------------------------------------------------------------
version=$("$megatron" version | sed -n '1s/.* //p')
sed "s/${version//./\\.}\x00/${version%.*}.9\x00/g" "$lib/spank_megatron.so" >"$MEGATRON_CLUSTER/tmp/newer.so"
over n2 "$lib/spank_megatron.so" "$MEGATRON_CLUSTER/tmp/newer.so"
try as_user srun -N2 --ntasks-per-node=2 --megatron-tp=1 echo ran
is "$rc $(grep -c '^ran$' <<<"$out")" "0 4" "another version of the plugin on n2: the step runs" || diag "$out"
is "$(grep 'warning: plugin version' <<<"$out" | sed 's/ (for Slurm [0-9.]*)//g')" \
    "megatron: n2: warning: plugin version $version on the submit host, ${version%.*}.9 here; install one version everywhere" "and one line names both" || diag "$out"
on n2 umount -l "$lib/spank_megatron.so"

# --- requests that are refused, whatever the word ---------------------------------------------------------
for word in optional required; do
    echo "${line/optional/$word}" >"$conf"
    try as_user srun -n3 --megatron-tp=2 echo ran
    is "$rc $(grep -c 'does not divide 3 tasks' <<<"$out") $(grep -c '^ran$' <<<"$out")" "1 1 0" "$word: a layout that cannot work is refused, with one line" || diag "$out"
    try as_user sbatch -n3 --megatron-tp=2 --wrap true
    is "$rc $(grep -c 'Submitted' <<<"$out")" "1 0" "$word: by sbatch, too" || diag "$out"
    echo "${line/optional/$word} fail=remote:task_init" >"$conf"
    try as_user srun -N2 --ntasks-per-node=2 --megatron-tp=2 echo ran
    is "$rc $(grep -c 'error: megatron: ' <<<"$out") $(grep -c '^ran$' <<<"$out")" "1 1 0" "$word: a task that cannot start does not start, with one line" || diag "$out"
done
nodes_well "no node is drained"
done_testing
