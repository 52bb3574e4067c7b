#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --megatron-preflight, the training scripts' spares, the health check, and plans before queueing.
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/faults.sh"
dir=$(mktemp -d)
chmod 777 "$dir"
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
make_faults "$dir" || skip_all "no C compiler"
chmod 777 "$dir"
# On a busy machine the test of the nodes may take longer than the 5 s that tools/cluster gives a step to start.
cluster_up --nodes 3 --gpus 0 --cpus 2 --cred-expire 120 --plugin-args "preflight_failure=fail node_kind=p4d.24xlarge"
trap 'cluster_down; rm -rf "$dir"' EXIT

# --- wrong values --------------------------------------------------------------------------------
try as_user srun -n1 --megatron-preflight=slow true
is "$rc" 1 "an unknown form is rejected"
like "$out" 'error: megatron: --megatron-preflight=slow: use quick, full or no$' "  with the known ones"

# --- before a step -------------------------------------------------------------------------------
try as_user srun --chdir "$dir" -N3 -n3 --megatron-preflight uname -n
is "$rc" 0 "healthy nodes: the step runs"
is "$(grep -x 'n[1-3]' <<<"$out" | sort | paste -sd' ')" "n1 n2 n3" "  on all nodes"
like "$out" '^megatron: preflight: 3 ranks on 3 nodes passed [0-9]+ checks(, with warnings)?$' "  after the test"

# On n2 the shared directory is another one.
"$top/tools/cluster" node n2 mount -t tmpfs hidden "$dir"
try as_user srun --chdir "$dir" -N3 -n3 --megatron-preflight uname -n
is "$rc" 1 "a faulty node: the step fails, as plugstack.conf says"
is "$(grep -cx 'n[1-3]' <<<"$out")" 0 "  before any task has started"
like "$out" '^megatron: fail  n2  shared files: not seen' "  and the node is named"
like "$out" 'error: megatron: a node failed its test, see above; leave it out with --exclude' "  with what to do"
try as_user srun --chdir "$dir" -N3 -n3 --megatron-preflight=no uname -n
is "$rc" 0 "the test can be left out"

# --- spares --------------------------------------------------------------------------------------
# A stand-in for training that prints where it runs.
tools=$(mktemp -d)
trap 'cluster_down; rm -rf "$dir" "$tools"' EXIT
chmod 755 "$tools"
cat >"$tools/run" <<EOT
#!/bin/bash
case \$1 in
preflight) exec $MEGATRON_INST/bin/megatron "\$@" --shared "$dir" --history none ;;
supervise) while [ "\$1" != -- ]; do shift; done; shift; exec "\$@" ;;
train) echo "trains on \$(uname -n)" ;;
esac
EOT
chmod 755 "$tools/run"
mkdir -m 777 "$tools/job"
try in_cluster env MEGATRON="$tools/run" MEGATRON_SPARES=1 sbatch --wait --chdir "$tools/job" -N3 --ntasks-per-node=1 \
    --megatron-tp=1 --megatron-pp=2 "$top/sbatch/train.sbatch" --mock-data
is "$rc" 0 "with a spare node the training script runs, on a layout that does not divide all nodes" || diag "$out"
is "$(grep -h '^trains on' "$tools"/job/train-*.log | sort | paste -sd,)" "trains on n1,trains on n3" "  without the faulty node"
like "$(cat "$tools"/job/preflight-*.jsonl)" '"host":"n2","check":"shared files","verdict":"fail"' "  and keeps the verdicts for the report"
try in_cluster env MEGATRON="$tools/run" MEGATRON_PREFLIGHT=quick sbatch --wait --chdir "$tools/job" -N3 --ntasks-per-node=1 \
    --megatron-tp=1 --output=none.log "$top/sbatch/train.sbatch" --mock-data
is "$rc" 3 "without spares it does not start"
is "$(grep -c '^trains on' "$tools/job/none.log")" 0 "  at all"

# --- health check --------------------------------------------------------------------------------
printf '#!/bin/bash\necho "scontrol $*"\n' >scontrol
chmod 755 scontrol
check() { SLURMD_NODENAME=n9 SCONTROL=$dir/scontrol TMPDIR=$dir try env "$@" "$MEGATRON_INST/share/megatron/healthcheck"; }
check LD_LIBRARY_PATH="$dir"
is "$rc $out" "0 " "a healthy node passes the health check"
check LD_LIBRARY_PATH="$dir" FAKE_ECC=5
is "$rc $out" "1 scontrol update nodename=n9 state=drain reason=preflight: ecc: 0000:64:00.0: 5 uncorrected errors (expected: 0 uncorrected errors)" \
    "a faulty one is drained with the reason"
check MEGATRON="$dir/none"
is "$rc $out" "0 " "a node that cannot be tested is not drained"

# --- plans ---------------------------------------------------------------------------------------
# The plugin waits 10 s for a plan and no longer: on a busy machine, ask again.
try_plan() {
    for _ in 1 2 3 4 5 6; do
        try "$@"
        ! grep -q '^  plan         not made: it took longer' <<<"$out" || continue
        [[ $* == *--megatron-check* ]] || grep -q '^megatron: warning' <<<"$out" || continue
        break
    done
}
try_plan as_user sbatch -H -N2 --ntasks-per-node=8 --overcommit --megatron-model=39.1B --megatron-tp=8 --wrap true
like "$out" '^megatron: warning: 39.1B with tp 8, pp 1, cp 1: no layout fits: the smallest needs [0-9.]+ GiB of the GPU.s 39.4 GiB' \
    "a model that cannot fit is warned about before the job is queued"
like "$out" '^Submitted batch job' "  which is still possible"
try_plan as_user sbatch -N4 --ntasks-per-node=8 --megatron-model=39.1B --megatron-tp=8 --megatron-check --wrap true
like "$out" '^  plan         no layout fits: ' "--megatron-check prints that"
like "$(tail -n 1 <<<"$out")" '^  verdict +accepted, but the model does not fit' "  as its verdict, too"
like "$out" '^  plan         --megatron-tp=[0-9]+ --megatron-pp=[0-9]+ --megatron-cp=[0-9]+ fits$' "  and a layout that fits"
try_plan as_user sbatch -N4 --ntasks-per-node=8 --megatron-model=7.5B --megatron-tp=8 --megatron-check --wrap true
like "$out" '^  plan         memory of the fullest rank \(GiB\): weights' "  or the plan"
try_plan as_user sbatch -N4 --ntasks-per-node=2 --megatron-model=39.1B --megatron-tp=2 --megatron-check --wrap true
unlike "$out" '^  plan' "  but none for a job that leaves GPUs unused"
try_plan as_user sbatch -N4 --ntasks-per-node=2 --gpus-per-node=2 --megatron-model=7.5B --megatron-tp=2 --megatron-check --wrap true
like "$out" '^  plan         7.5B on 4 p4d.24xlarge nodes \(8 A100-40\)' "  unless it requests as many as it has tasks"
try_plan as_user sbatch -N3 --ntasks-per-node=8 --megatron-model=7.5B --megatron-tp=8 --megatron-cp=3 --megatron-check --wrap true
like "$out" '^  plan         not made: no layout is possible: .*--context-parallel-size=3' "a layout that the model does not permit"
try as_user env MEGATRON_MACHINES=/none sbatch -H -N2 --ntasks-per-node=8 --overcommit --megatron-model=7.5B --megatron-tp=8 --wrap true
is "$rc $(grep -c warning: <<<"$out")" "0 0" "machine files that cannot be read are not blamed on the kind of the nodes" || diag "$out"
try_plan as_user sbatch -H -N2 --ntasks-per-node=9 --gpus-per-node=9 --overcommit --megatron-model=7.5B --megatron-tp=1 --wrap true
like "$out" '^megatron: warning: plugstack.conf: node_kind=p4d.24xlarge: the job is not planned: --gpus-per-node=9: nodes of kind p4d.24xlarge have 8 GPUs' \
    "more GPUs than nodes of this kind have"
export MEGATRON_NODE_KIND=p9
try_plan as_user sbatch -N4 --ntasks-per-node=8 --megatron-model=7.5B --megatron-tp=8 --megatron-check --wrap true
like "$out" '^  plan         not made: unknown node kind p9; ' "a wrong kind of nodes is named"
like "$out" '^  check        the layout divides the tasks: ok' "  and the checks are printed nevertheless"
try_plan as_user sbatch -H -N2 --ntasks-per-node=8 --overcommit --megatron-model=7.5B --megatron-tp=8 --wrap true
like "$out" '^megatron: warning: MEGATRON_NODE_KIND=p9: the job is not planned: unknown node kind p9; ' \
    "a job with a wrong kind of nodes is warned about"
like "$out" '^Submitted batch job' "  and submitted"
unset MEGATRON_NODE_KIND
done_testing
