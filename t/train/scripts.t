#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The job scripts: how they pass their arguments to megatron.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
unset SLURM_MPI_TYPE SLURM_JOB_ID SLURM_JOB_GPUS SLURM_GPUS_ON_NODE SLURM_SUBMIT_DIR MEGATRON_MODEL
printf '#!/bin/bash\necho "$*"\n' >shown
chmod +x shown
# words SCRIPT WORD...: the words of `megatron train`.
words() { MEGATRON=$scratch/shown bash "$top/sbatch/$1" "${@:2}" | sed -n 's/.* train / /p' | sed 's/$/ /'; }

for script in train.sbatch train-llama2.sbatch; do
    out=$(words $script)
    like "$out" ' --num-layers 4 .*--train-iters 40 --save-interval 10 .*--mock-data.* --save [^ ]*/checkpoints-0 --keep-last 3 --async-save ' \
        "$script as it is"
    like "$out" ' --eval-interval 20 --eval-iters 2 --log-interval 5 ' "$script: which shows something"
    # As sbatch --chdir=DIR runs it: what it writes goes there, with the log.
    out=$(SLURM_SUBMIT_DIR=/nowhere words $script)
    unlike "$out" /nowhere "$script writes nothing to the submit directory"
    like "$out" " --tensorboard-dir $scratch/tensorboard-0 .* --save $scratch/checkpoints-0 " "$script writes to its directory"
    out=$(words $script --save-interval 50 --save-hf hf)
    like "$out" ' --save [^ ]*/checkpoints-0 .*--keep-last 3 .* --save-interval 50 ' "$script: --save-interval and --save-hf are no --save"
    for save in "--save dir" --save=dir; do
        out=$(words $script $save)
        unlike "$out" checkpoints-0 "$script $save: saves there only"
        like "$out" ' --save-interval 10 .*--keep-last 3 --async-save .*--save.dir' "  at the usual interval"
    done
    # Only CPU ranks need MPI.
    while IFS='|' read -r variables options expected; do
        # shellcheck disable=SC2086
        out=$(env $variables MEGATRON="$scratch/shown" bash "$top/sbatch/$script" $options | sed -n 's/.* -- \(srun .*\) [^ ]* train .*/\1/p')
        is "$out" "srun --overlap --kill-on-bad-exit=1$expected" "$script ${variables:-without GPUs} $options: how it is started"
    done <<'EOT'
|| --mpi=pmix
|--device cpu| --mpi=pmix
SLURM_GPUS_ON_NODE=2||
SLURM_GPUS_ON_NODE=2|--device=cpu| --mpi=pmix
SLURM_MPI_TYPE=pmix_v4||
EOT
    # The length of the example and its warm-up are replaced by given values.
    while read -r options unwanted; do
        # shellcheck disable=SC2086
        try "$megatron" train $(words $script ${options//,/ }) --dry-run --world-size 8
        is "$rc" 0 "$script ${options//,/ }" || diag "$out"
        unlike "$(words $script ${options//,/ })" " --($unwanted) " "  alone"
    done <<'EOT'
--lr,5e-5 save-interval 500|lr 1e-3|min-lr 1e-4
--lr=5e-5 save-interval 500|lr 1e-3|min-lr 1e-4
--train-iters,5000 train-iters 40|save-interval 10|eval-interval 20|log-interval 5
--train-samples=4000 train-iters 40|save-interval 10|eval-interval 20|log-interval 5
--lr-warmup-iters,10 lr-warmup-fraction .1
--train-samples,4000,--lr-warmup-samples=100 train-iters 40|save-interval 10|lr-warmup-fraction .1
EOT
    # A named model is trained unchanged.
    for how in option equals environment; do
        case $how in
        option) out=$(words $script --megatron-model llama2-7b) ;;
        equals) out=$(words $script --megatron-model=llama2-7b) ;;
        environment) out=$(MEGATRON_MODEL=llama2-7b words $script) ;;
        esac
        unlike "$out" ' --(num-layers|hidden-size|seq-length|ffn-hidden-size|vocab-size|swiglu|tokenizer-type) ' \
            "$script with a model by $how: no sizes of its own"
        [ $how != environment ] || out="$out--megatron-model llama2-7b"
        out=${out/--log-throughput/--dry-run}
        # shellcheck disable=SC2086
        try "$megatron" train $out
        like "$out" 'rank \(0, 0\): 6738415616$' "  all parameters of that model"
    done
done

# The documented commands, on the number of ranks that they request, without the files that they
# name. told FILE: its sbatch training commands, one per line.
told() { sed -nE 's/^(#| ) *(sbatch .*)/\2/; /\\$/ { :more; N; s/ *\\\n#? */ /; /\\$/ b more }; /^sbatch .*sbatch\/train/p' "$1"; }
for file in README.md sbatch/train.sbatch sbatch/train-llama2.sbatch; do
    line=$(told "$top/$file")
    is "$(wc -l <<<"$line") ${line%% *}" "1 sbatch" "$file contains a command" || continue
    script=$(grep -oE 'sbatch/train[^ ]*' <<<"$line")
    # Options in the script's #SBATCH lines apply unless the command sets them.
    both="$(sed -n 's/^#SBATCH / /p' "$top/$script" | tr '\n' ' ') ${line%%"$script"*}"
    value() { grep -oE -e "$1[0-9]+" <<<"$both" | tail -n 1 | grep -oE '[0-9]+$'; }
    ranks=$(($(value ' (-N|--nodes=)') * $(value --ntasks-per-node=)))
    [ "$ranks" -ge 8 ]
    ok "  for $ranks ranks"
    # shellcheck disable=SC2086
    options=$(SLURM_GPUS_ON_NODE=2 words "${script#*/}" ${line#*"$script"} | sed -E 's/--tokenizer-(type|model) [^ ]+//g')
    # shellcheck disable=SC2086
    try env MEGATRON_TP="$(value --megatron-tp=)" "$megatron" train $options --dry-run --world-size "$ranks"
    is "$rc" 0 "  which is taken" || diag "$line" "$out"
    like "$out" "using world size: $ranks," "  with all of them"
done

# A command that ./quickstart prints can be pasted as it is.
shown=$(
    eval "$(sed -n '/^\(say\|step\|quoted\|job\)() /,/}$/p' "$top/quickstart")"
    as_root() { :; }
    log=/dev/null MEGATRON_CLUSTER=$scratch
    job generate srun -n2 --megatron-tp=2 megatron --prompt 'This module' "it's" '' '$HOME' 'a*'
)
eval "words=(${shown#*\$ })"
is "$(printf '<%s>' "${words[@]}")" \
    "<srun><-n2><--megatron-tp=2><megatron><--prompt><This module><it's><><\$HOME><a*>" "what ./quickstart shows can be pasted"
like "$shown" ' srun -n2 --megatron-tp=2 megatron --prompt ' "  and is quoted only if necessary"
done_testing
