#!/bin/bash
# The job scripts: what they hand to megatron for the words behind their names.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
unset SLURM_JOB_ID SLURM_JOB_GPUS SLURM_GPUS_ON_NODE SLURM_SUBMIT_DIR MEGATRON_MODEL
printf '#!/bin/bash\necho "$*"\n' >shown
chmod +x shown
# words SCRIPT WORD...: the words of `megatron train`.
words() { MEGATRON=$scratch/shown bash "$top/sbatch/$1" "${@:2}" | sed -n 's/.* train / /p' | sed 's/$/ /'; }

for script in train.sbatch train-llama2.sbatch; do
    out=$(words $script)
    like "$out" ' --num-layers 4 .*--mock-data.* --save [^ ]*/checkpoints-0 --save-interval 10 --keep-last 3 --async-save ' \
        "$script as it is"
    out=$(words $script --save-interval 50 --save-hf hf)
    like "$out" ' --save [^ ]*/checkpoints-0 .*--keep-last 3 .* --save-interval 50 ' "$script: --save-interval and --save-hf are no --save"
    for save in "--save dir" --save=dir; do
        out=$(words $script $save)
        unlike "$out" checkpoints-0 "$script $save: saves there only"
        like "$out" ' --save-interval 10 --keep-last 3 --async-save .*--save.dir' "  at the usual interval"
    done
    # A model that is named is trained as it is.
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
done_testing
