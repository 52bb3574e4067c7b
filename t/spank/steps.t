#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Steps on several nodes: ranks, the rendezvous, and the effect of a failure on one of them.
. "$(dirname "$0")/common.sh"
# 16 ports for srun --resv-ports; another run of this test usually has others.
ports=$((19000 + $$ % 60 * 16))
cluster_up --nodes 4 --gpus 4 --conf MpiParams=ports=$ports-$((ports + 15))
who='echo "rank $MEGATRON_RANK/$MEGATRON_WORLD_SIZE node $MEGATRON_NODE_RANK/$MEGATRON_NODES local $MEGATRON_LOCAL_RANK/$MEGATRON_LOCAL_SIZE on $SLURMD_NODENAME at $MASTER_ADDR:$MASTER_PORT"'

# ranks OUTPUT: the ranks, in order.
ranks() { sed -n 's/^rank \([0-9]*\)\/.*/\1/p' <<<"$1" | sort -n | xargs; }
# one OUTPUT: all ranks have the same rendezvous.
one() { sed -n 's/^rank .* at //p' <<<"$1" | sort -u | wc -l; }
# first OUTPUT: the node of rank 0; rendezvous OUTPUT: the node that --megatron-show names for it.
first() { sed -n 's/^rank 0\/.* on \(n[0-9]\) at .*/\1/p' <<<"$1"; }
rendezvous() { sed -n 's/^n[0-9]: megatron .* on \(n[0-9]\)$/\1/p' <<<"$1" | sort -u | xargs; }

# step NAME WORLD COMMAND...: a step whose tasks agree that the rendezvous is on the node of rank 0.
step() {
    local name=$1 world=$2
    shift 2
    try "$@"
    is "$(ranks "$out")" "$(seq -s ' ' 0 $((world - 1)))" "$name: ranks 0 to $((world - 1))" || diag "$out"
    is "$(grep -c "^rank [0-9]*/$world " <<<"$out")" "$world" "$name: of $world"
    is "$(one "$out")" 1 "$name: one rendezvous"
    is "$(rendezvous "$out")" "$(first "$out")" "$name: on the node of rank 0"
}

for nodes in 1 2 3 4; do
    step "$nodes nodes" $((2 * nodes)) as_user srun -N$nodes --ntasks-per-node=2 --megatron-show bash -c "$who"
done
step "as root" 4 in_cluster srun -N4 --megatron-show bash -c "$who"
step "-w n3" 2 as_user srun -w n3 -n2 --megatron-show bash -c "$who"
is "$(rendezvous "$out")" n3 "which is n3"
printf 'n3\nn1\nn3\nn2\n' >"$MEGATRON_CLUSTER/home/hosts"
step "-m arbitrary" 4 as_user env SLURM_HOSTFILE="$MEGATRON_CLUSTER/home/hosts" srun -n4 -m arbitrary --megatron-show bash -c "$who"
is "$(rendezvous "$out")" n3 "which is n3, the second of the step's nodes"
step "-m cyclic" 4 as_user srun -N2 -n4 -m cyclic --megatron-show bash -c "$who"
step "--export=NONE" 2 as_user srun -N2 --export=NONE --megatron-show /bin/bash -c "$who"
unlike "$out" "MEGATRON_STEP|SPANK_MEGATRON" "--export=NONE: no trace of what srun tells the nodes"
step "a relative node of a job" 2 as_user salloc -w n[1-3] srun -r1 -N2 -n2 --megatron-show bash -c "$who"
is "$(rendezvous "$out")" n2 "which is n2"

# --- het jobs ---------------------------------------------------------------------------------------
# Rank 0 must run for as long as the others look for it: every task waits for all of its step.
met=$MEGATRON_CLUSTER/home/met
mkdir -m 777 "$met"
who+='; met='$met'/$MASTER_ADDR-$MASTER_PORT; mkdir -p $met; : >$met/$MEGATRON_RANK
    for i in {1..600}; do [ $(ls $met | wc -l) -lt $MEGATRON_WORLD_SIZE ] || break; sleep 0.1; done'
step "het job by srun" 5 as_user srun -N1 -n1 --megatron-show bash -c "$who" : -N2 --ntasks-per-node=2 bash -c "$who"
rm -rf "$met"/*
like "$out" "^rank 4/5 node 2/3 local 1/2 " "one contract over all components"
step "het step of a plain job" 3 as_user salloc -N2 --ntasks-per-node=2 srun -n1 -N1 --megatron-show bash -c "$who" : -n2 -N1 bash -c "$who"
rm -rf "$met"/*
script=$(batch het <<EOT
#!/bin/bash
#SBATCH -n2 -N1 -w n3 --megatron-show
#SBATCH hetjob
#SBATCH --ntasks-per-node=2 -N2 -n4 -w n1,n2
srun --het-group=0,1 bash -c '$who'
EOT
)
try_batch as_user "$script"
is "$(ranks "$out")" "0 1 2 3 4 5" "het job by sbatch: ranks 0 to 5"
is "$(one "$out")" 1 "het job by sbatch: one rendezvous"
is "$(rendezvous "$out")" n3 "het job by sbatch: on n3, the node of rank 0"

# --- ports ----------------------------------------------------------------------------------------
try as_user srun -n1 --resv-ports=2 --megatron-tp=1 bash -c 'echo $MASTER_PORT $SLURM_STEP_RESV_PORTS'
like "$out" "^(19|20)[0-9]{3} (19|20)[0-9]{3}" "reserved ports are taken"
is "$(cut -d' ' -f1 <<<"$out")" "$(sed 's/.* \([0-9]*\).*/\1/' <<<"$out")" "the first of them"
try as_user env MASTER_ADDR=here MASTER_PORT=77 srun -n1 --megatron-tp=1 bash -c 'echo $MEGATRON_MASTER_ADDR:$MEGATRON_MASTER_PORT'
is "$out" "here:77" "the user's address and port are taken over"
try as_user env MASTER_ADDR= MASTER_PORT= MEGATRON_MASTER_PORT= srun -n1 --megatron-tp=1 \
    bash -c 'echo $MASTER_ADDR:$MASTER_PORT $MEGATRON_MASTER_ADDR:$MEGATRON_MASTER_PORT'
like "$out" '^127\.0\.0\.1:([0-9]{4,5}) 127\.0\.0\.1:\1$' "empty ones are as good as none"
for port in abc 99999 0; do
    try as_user env MASTER_PORT=$port srun -N2 -n2 --megatron-tp=1 sleep 30
    [ "$rc" -ne 0 ] && [ "$(grep -c 'megatron:' <<<"$out")" = 1 ]
    ok "MASTER_PORT=$port: the step fails with one line" || diag "rc $rc: $out"
    like "$out" "megatron: MASTER_PORT=$port is not a port; set it to a number from 1 to 65535, or unset it" "  that says why"
done
listen='use Socket; for (@ARGV) { socket(my $s, PF_INET, SOCK_STREAM, 0); setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1);
    bind($s, sockaddr_in($_, INADDR_ANY)) or die "$_: $!"; listen($s, 5); push @s, $s; } print "x\n"; close STDOUT; sleep 60'
coproc LISTEN { exec perl -e "$listen" $(seq $ports $((ports + 15))); }
listener=$LISTEN_PID
read -r -u "${LISTEN[0]}" line
try as_user srun -N2 -n2 --resv-ports=2 --megatron-tp=1 sleep 30
kill "$listener"
like "$out" "megatron: the rendezvous port (19|20)[0-9]{3} is in use on n1; start the step again" \
    "a busy port that was not srun's choice is said"
[ "$rc" -ne 0 ]; ok "and ends the step"
cluster_down
cluster_up --nodes 4 --gpus 4 --conf PrologFlags=Contain --conf LaunchParameters=use_interactive_step
# --- steps that are not srun's ----------------------------------------------------------------------
out=$(echo 'echo "interactive $(env | grep -cE "^MEGATRON_(RANK|TP|CPUS)|^MASTER_")"; srun bash -c "echo inside \$MEGATRON_TP"; exit' |
    timeout 120 "$top/tools/cluster" run --user salloc -n2 --megatron-tp=2 2>&1)
like "$out" "^interactive 0" "an interactive step is not affected"
is "$(grep -c '^inside 2' <<<"$out")" 2 "the steps inside are not"
unlike "$(cat "$MEGATRON_CLUSTER/log/n1")" "extern.*megatron" "nor does the extern step see anything"

try as_user salloc -n4 -N1 bash -c 'for i in 1 2 3 4; do srun -n1 --overlap --megatron-tp=1 bash -c "echo \$MASTER_PORT; sleep 0.3" & done; wait'
is "$(grep -cE '^[0-9]+$' <<<"$out")" 4 "four steps at once"
is "$(grep -E '^[0-9]+$' <<<"$out" | sort -u | wc -l)" 4 "have four ports"
# A program listens on the port the next step would get: srun, on the node of task 0, chooses
# another one.
port=$(grep -E '^[0-9]+$' <<<"$out" | head -n1)
script='first=$(srun -n1 --megatron-tp=1 bash -c "echo \$MASTER_PORT")
coproc LISTEN { exec perl -e "$1" $((first + 1)); }
read -u ${LISTEN[0]} line
echo "first $first busy $((first + 1)) got $(srun -n1 --megatron-tp=1 bash -c "echo \$MASTER_PORT")"
kill $LISTEN_PID'
try as_user salloc -n1 -N1 bash -c "$script" x "$listen"
read -r first busy got < <(sed -n 's/^first \([0-9]*\) busy \([0-9]*\) got \([0-9]*\)$/\1 \2 \3/p' <<<"$out")
[ -n "${got:-}" ] && [ "$got" != "$busy" ] && [ "$got" != "$first" ]
ok "a busy port is survived where srun can see it" || diag "$out"

# --- a failure on one node ------------------------------------------------------------------------
printf 'n2\nn2\nn2\nn1\nn3\nn3\nn4\nn4\n' >"$MEGATRON_CLUSTER/home/hosts"
for who in as_user in_cluster; do
    SECONDS=0
    try $who env SLURM_HOSTFILE="$MEGATRON_CLUSTER/home/hosts" srun -n8 -m arbitrary --megatron-tp=2 sleep 100
    [ "$rc" -ne 0 ] && [ $SECONDS -lt 45 ]
    ok "$who: a failure on n2 ends the step on all nodes within seconds" || diag "rc $rc, $SECONDS s"
    is "$(grep -c 'megatron: ' <<<"$out")" 1 "$who: one line says why" || diag "$out"
done
# A program that ignores SIGTERM.
SECONDS=0
try as_user env SLURM_HOSTFILE="$MEGATRON_CLUSTER/home/hosts" srun -n8 -m arbitrary --megatron-tp=2 bash -c 'trap "" TERM; sleep 100'
[ "$rc" -ne 0 ] && [ $SECONDS -lt 80 ]
ok "a program that ignores SIGTERM is killed" || diag "rc $rc, $SECONDS s: $out"
script=$(batch failing <<EOT
#!/bin/bash
#SBATCH -N4 -n8
SLURM_HOSTFILE=$MEGATRON_CLUSTER/home/hosts srun -m arbitrary --megatron-tp=2 sleep 100
echo "failed with \$?"
srun -N4 -n4 --megatron-tp=1 true
echo "and went on with \$?"
EOT
)
try_batch as_user -N4 --ntasks-per-node=4 -n8 "$script"
like "$out" "^failed with [1-9]" "within a job the step fails"
like "$out" "^and went on with 0" "and the next one runs"
SECONDS=0
try as_user srun -n3 --megatron-tp=2 sleep 100 : -N2 -n3 sleep 100
like "$out" "megatron: n1: --megatron-tp=2 does not divide 3 tasks per node" "a component of a het job that fails"
[ "$rc" -ne 0 ] && [ $SECONDS -lt 45 ]
ok "ends the others too" || diag "rc $rc, $SECONDS s: $out"
nodes_well "no node is drained"
done_testing
