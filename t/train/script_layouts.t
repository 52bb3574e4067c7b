#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The job scripts on 1 to 3 nodes with layouts of the job: every step of theirs runs, and the ranks have the layout. A
# stand-in for the program prints what it is started for.
. "$(dirname "$0")/../tap.sh"
[ -f "$MEGATRON_INST/lib/slurm/spank_megatron.so" ] ||
    skip_all "no plugin in $MEGATRON_INST: it was built without Slurm, or is not installed"
cluster_up --nodes 3 --gpus 0 --cpus 4
work=$(mktemp -d)
trap 'cluster_down; rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir "$work/text"
touch "$work/text/wiki."{train,valid,test}.tokens
cat >"$work/program" <<'EOT'
#!/bin/bash
case $1 in
supervise)
    while [ "$1" != -- ]; do shift; done
    shift
    exec "$@"
    ;;
train)
    own=$(sed -nE 's/.* --tensor-model-parallel-size ([0-9]+) --pipeline-model-parallel-size ([0-9]+) .*/\1 \2/p' <<<"$* ")
    [ "${own:-$MEGATRON_TP $MEGATRON_PP}" = "$MEGATRON_TP $MEGATRON_PP" ] || own="but the options say $own"
    # A model of the job replaces the sizes of the script, but not those of the Pile's recipe.
    [[ -z ${MEGATRON_MODEL:-} || $PWD == */pile.sbatch || $* != *--num-layers* ]] || own="with other sizes than $MEGATRON_MODEL"
    echo "rank of $MEGATRON_TP $MEGATRON_PP ${own#[0-9]* [0-9]*}"
    ;;
preprocess)
    echo "tokenizes $SLURM_NNODES $SLURM_NTASKS ${MEGATRON_TP:-without}"
    while [ "$1" != --output-prefix ]; do shift; done
    touch "$2.idx" "$2_text_document.idx"
    ;;
comm-test) echo "tests $MEGATRON_TP $MEGATRON_PP" ;;
esac
EOT
cat >"$work/job" <<EOT
#!/bin/bash
while read -r script options; do
    mkdir \$script
    cd \$script || exit
    bash $top/sbatch/\$script \$options >log 2>&1 </dev/null
    echo "\$script \$? \$(grep '^rank' log | sort -u | xargs), \$(grep '^tests' log | sort -u | xargs), \$(grep -h '^tokenizes' log | sort -u | xargs)"
    grep -h error log
    cd ..
done <<'END'
train.sbatch --mock-data
train-llama2.sbatch --mock-data
wikipedia.sbatch
pile.sbatch
roberta.sbatch
preprocess.sbatch --input x --output-prefix x
END
EOT
chmod 755 "$work/program" "$work/job"
export DUMP=x TEXT=$work/text SLURM_MPI_TYPE=none MEGATRON=$work/program
jobs=()
for nodes in 1 2 3; do
    while read -r tp pp options; do
        mkdir -m 777 "$work/$nodes-$tp-$pp"
        as_user env INPUT=x sbatch --wait --chdir "$work/$nodes-$tp-$pp" -o job.log -N"$nodes" --ntasks-per-node=4 $options "$work/job" \
            >"$work/$nodes-$tp-$pp/sbatch" 2>&1 &
        jobs+=("$nodes $tp $pp")
    done <<'EOT'
4 1 --megatron-tp=4
1 2 --megatron-pp=2
2 2 --megatron-tp=2 --megatron-pp=2 --megatron-model=gpt2-345m
EOT
done
wait
for job in "${jobs[@]}"; do
    read -r nodes tp pp <<<"$job"
    out=$(cat "$work/$nodes-$tp-$pp/job.log" "$work/$nodes-$tp-$pp/sbatch")
    for script in train.sbatch train-llama2.sbatch wikipedia.sbatch pile.sbatch roberta.sbatch preprocess.sbatch; do
        ranks="rank of $tp $pp, , "
        case $script in
        wikipedia.sbatch | pile.sbatch) ranks="rank of $tp $pp, , tokenizes $nodes $nodes without" ;;
        roberta.sbatch) ranks="rank of $tp $pp, tests $tp $pp, tokenizes $nodes $nodes without" ;;
        preprocess.sbatch) ranks=", , tokenizes $nodes $nodes without" ;;
        esac
        is "$(sed -n "s/^$script \([0-9]*\) /\1 /p" <<<"$out")" "0 $ranks" "$script on $nodes nodes with tp $tp, pp $pp" || diag "$out"
    done
done
done_testing
