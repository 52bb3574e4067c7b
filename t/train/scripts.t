#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The job scripts: how they pass their arguments to megatron.
. "$(dirname "$0")/../tap.sh"
megatron=$MEGATRON_BUILD/runtime/megatron
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
unset DATA_PATH FSX_PATH MODEL SLURM_MPI_TYPE SLURM_JOB_ID SLURM_JOB_GPUS SLURM_GPUS_ON_NODE SLURM_SUBMIT_DIR MEGATRON_MODEL
printf '#!/bin/bash\necho "$*"\n' >shown
chmod +x shown
# The same, but its plans are real.
printf '#!/bin/bash\n[[ "$1 $*" != train*--dry-run* ]] || exec %q "$@"\necho "$*"\n' "$megatron" >large
chmod +x large
mkdir -p one/gpt2 two/a_text_document/cache
touch one/gpt2/my-gpt2_text_document.idx two/{a,b}_text_document.idx
mock=--mock-data
# words SCRIPT WORD...: the words of `megatron train`.
words() { MEGATRON=$scratch/shown bash "$top/sbatch/$1" "${@:2}" $mock | sed -n 's/.* train / /p' | sed 's/$/ /'; }

for script in train.sbatch train-llama2.sbatch; do
    out=$(words $script)
    like "$out" ' --num-layers 4 .*--train-iters 40 --save-interval 10 .* --save [^ ]*/checkpoints-0 --keep-last 3 --async-save --exit-signal-handler --mock-data ' \
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
    while IFS='|' read -r variables options expected; do
        # shellcheck disable=SC2086
        out=$(env $variables MEGATRON="$scratch/shown" bash "$top/sbatch/$script" --mock-data $options | sed -n 's/.* -- \(srun .*\) [^ ]* train .*/\1/p')
        is "$out" "srun --overlap --mpi=none --kill-on-bad-exit=1 --wait=60$expected" "$script ${variables:-without GPUs} $options: how it is started"
    done <<'EOT'
||
|--device cpu|
SLURM_GPUS_ON_NODE=2||
TENSOR_PARALLEL=4 PIPELINE_PARALLEL=2 SLURM_GPUS_ON_NODE=2|| --megatron-tp=4 --megatron-pp=2
IMAGE=a.sqsh FSX_MOUNT=/fsx:/fsx SLURM_GPUS_ON_NODE=2|| --megatron-image=a.sqsh --megatron-mounts=/fsx:/fsx
EOT
    # An image that sbatch has is srun's, too, and its program is used.
    out=$(SLURM_SPANK__SLURM_SPANK_OPTION_spank_megatron_megatron_image=docker://x MEGATRON="$scratch/shown" bash "$top/sbatch/$script" --mock-data)
    like "$out" '-- srun [^/]* megatron train ' "$script with an image of sbatch: how it is started"
    out=$(SLURM_SPANK__SLURM_SPANK_OPTION_spank_megatron_megatron_image=none MEGATRON="$scratch/shown" bash "$top/sbatch/$script" --mock-data)
    like "$out" "-- srun [^/]* $scratch/shown train " "  and with --megatron-image=none"
    # The environment variables of older recipes, which options override; others with such names are rejected.
    try env NUM_LAYERS=36 HIDDEN_SIZE=4096 NUM_ATTENTION_HEADS=32 SEQ_LENGTH=2048 MAX_POSITION_EMBEDDINGS=2048 \
        MICRO_BATCH_SIZE=1 GLOBAL_BATCH_SIZE=288 MEGATRON="$scratch/shown" bash "$top/sbatch/$script" --mock-data --num-layers 40
    like "$out" 'environment variables used: HIDDEN_SIZE=4096 NUM_ATTENTION_HEADS=32 SEQ_LENGTH=2048 MAX_POSITION_EMBEDDINGS=2048 MICRO_BATCH_SIZE=1 GLOBAL_BATCH_SIZE=288$' \
        "$script prints the variables that it uses"
    like "$out" 'environment variables overridden by options: NUM_LAYERS$' "  and those that it does not use"
    like "$out" '--hidden-size 64 .*--hidden-size 4096 .*--global-batch-size 288 .*--num-layers 40$' "  which override its own values"
    while IFS='|' read -r variables code expected; do
        # shellcheck disable=SC2086
        try env $variables MEGATRON="$scratch/shown" bash "$top/sbatch/$script"
        is "$rc" "$code" "$script ${variables:-without data}"
        like "$out" "$expected" "  says why or uses it" || diag "$out"
    done <<EOT
|2|no data: use --data-path PREFIX or set DATA_PATH; --mock-data trains on random data
DATAPATH=x|2|unknown environment variable DATAPATH=x
NUM_LAYER=4 DATA_PATH=x|2|unknown environment variable NUM_LAYER=4 \\(did you mean NUM_LAYERS\\?\\); unset it
HIDDENSIZE=4 DATA_PATH=x|2|unknown environment variable HIDDENSIZE=4 \\(did you mean HIDDEN_SIZE\\?\\)
TENSOR_PARALEL=4 DATA_PATH=x|2|\\(did you mean TENSOR_PARALLEL\\?\\)
IMAGE=$scratch/none.sqsh DATA_PATH=x|2|IMAGE=$scratch/none.sqsh does not exist on this node
DATA_PATH=$scratch/two/a_text_document|0|--data-path $scratch/two/a_text_document
DATA_PATH=x/y|0|--data-path x/y
DATA_PATH=$scratch/one|0|--data-path $scratch/one/gpt2/my-gpt2_text_document
FSX_PATH=$scratch/one|0|--data-path $scratch/one/gpt2/my-gpt2_text_document .*--save $scratch/one/checkpoints-0
FSX_PATH=$scratch/two|2|contains several datasets; set DATA_PATH to one of: .*two/a_text_document .*two/b_text_document
FSX_PATH=$scratch/none|2|contains no tokenized dataset
DATA_PATH=x TOKENIZER_TYPE=NullTokenizer|0|--tokenizer-type NullTokenizer
EOT
    unlike "$(words $script --tokenizer-type Llama2Tokenizer --tokenizer-model t)" ' --(vocab-size 32000|tokenizer-type GPT2BPETokenizer) ' \
        "$script has no vocabulary of its own beside a tokenizer"
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
    # Length, rate and precision are in one line; bf16 on GPUs.
    while IFS='|' read -r variables options expected; do
        # shellcheck disable=SC2086
        like "$(env $variables MEGATRON="$scratch/shown" bash "$top/sbatch/$script" $mock $options)" "^Training $expected" \
            "$script ${variables:-without GPUs} $options: what it trains"
    done <<'EOT'
||40 steps .* 1e-3, decaying to 1e-4, in fp32 .*--train-iters and --lr
NUM_LAYERS=8 SLURM_GPUS_ON_NODE=2||40 steps .* 1e-3, decaying to 1e-4, in bf16 .*--train-iters and --lr
|--lr 5e-4 --train-iters=900|900 steps .* of 5e-4, in fp32\.$
SLURM_GPUS_ON_NODE=2|--device cpu --train-samples 800|800 samples .* 1e-3, .* in fp32 .*--lr
SLURM_GPUS_ON_NODE=2 LR=2e-4 TRAIN_ITERS=7|--fp16 --min-lr 3e-5|7 steps .* 2e-4, decaying to 3e-5, in fp16\.$
EOT
    unlike "$(SLURM_GPUS_ON_NODE=2 words $script --fp16)" ' --bf16 ' "  fp16 is kept"
    # A large model is not trained with what suits the example.
    while IFS='|' read -r variables options code; do
        # shellcheck disable=SC2086
        try env $variables MEGATRON="$scratch/large" bash "$top/sbatch/$script" $mock $options
        is "$rc $(grep -c '^supervise' <<<"$out")" "$code $((code == 0))" "$script $variables $options: $code" || diag "$out"
    done <<'EOT'
NUM_LAYERS=32 HIDDEN_SIZE=4096 NUM_ATTENTION_HEADS=32 SLURM_NTASKS=16 SLURM_PROCID=0||2
NUM_LAYERS=32 HIDDEN_SIZE=4096 NUM_ATTENTION_HEADS=32|--lr 1e-4|2
NUM_LAYERS=32 HIDDEN_SIZE=4096 NUM_ATTENTION_HEADS=32|--lr 1e-4 --train-iters 9|0
SLURM_SPANK__SLURM_SPANK_OPTION_spank_megatron_megatron_model=llama2-7b TP=2|--train-iters 9|2
|--megatron-model gpt2-345m|0
EOT
    # A preset is trained unchanged.
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

# The other scripts know the same variables.
printf '#!/bin/bash\n' >srun
chmod +x srun
mkdir bin
touch bin/{train,valid,test}.idx
while IFS='|' read -r script variables code expected; do
    # shellcheck disable=SC2086
    try env $variables PATH="$scratch:$PATH" MEGATRON="$scratch/shown" bash "$top/sbatch/$script"
    is "$rc" "$code" "$script ${variables:-without data}"
    like "$out" "$expected" "  says why or uses it" || diag "$out"
done <<EOT
roberta.sbatch||2|no data: set TEXT to .*; --mock-data trains on random data
roberta.sbatch|DATA_BIN=bin NUM_LAYERS=3 PEAK_LR=1e-4 MODEL=roberta-base|0|environment variables used: DATA_BIN=bin MODEL=roberta-base NUM_LAYERS=3 PEAK_LR=1e-4
roberta.sbatch|DATA_BIN=bin UPDATE_FREQ=16 IMAGE=a.sqsh|0|srun .*--megatron-image=a.sqsh megatron train .*--update-freq 16
roberta.sbatch|DATA_BIN=bin GLOBAL_BATCH_SIZE=8|2|unknown environment variable GLOBAL_BATCH_SIZE=8
roberta.sbatch|DATA_BIN=bin MODEL_NAME=roberta MODEL_SIZE=large MAX_UPDATE=7 TP=2|0|srun .*--megatron-tp=2 .*--megatron-model roberta-large .*--max-update 7 
roberta.sbatch|DATA_BIN=bin STEPS=7|0|--max-update 7 
roberta.sbatch|DATA_BIN=bin NNODES=3|2|but this job has 1; did you mean sbatch --nodes=3
roberta.sbatch|DATA_BIN=bin WARMUP_UPDATE=8|2|did you mean WARMUP_UPDATES
pile.sbatch|NUM_LAYER=3 DATA_PATH=x|2|did you mean NUM_LAYERS
pile.sbatch|NUM_LAYERS=3 DATA_PATH=$scratch/one|0|used: DATA_PATH=$scratch/one NUM_LAYERS=3
wikipedia.sbatch|DUMP=a.xml HIDDENSIZE=3|2|did you mean HIDDEN_SIZE
wikipedia.sbatch|DUMP=a.xml HIDDEN_SIZE=3|0|used: DUMP=a.xml
wikipedia.sbatch|DUMP=a.xml NUM_GPUS=3|2|did you mean GPUS_PER_NODE
wikipedia.sbatch|DUMP=a.xml PP_SIZE=2 STEPS=3|0|PIPELINE_PARALLEL=2
preprocess.sbatch|INPUT=a.jsonl OUTPUT_PREFIX=b NODES=3|2|did you mean sbatch --nodes=3
preprocess.sbatch|INPUT=a.jsonl OUTPUT_PREFIX=b GPUS_PER_NODE=8 SLURM_NTASKS_PER_NODE=1|0|used: INPUT=a.jsonl
preprocess.sbatch|INPUTS=a.jsonl|2|unknown environment variable INPUTS=a.jsonl .did you mean INPUT
preprocess.sbatch|INPUT=a.jsonl OUTPUT_PREFIX=b NUM_LAYERS=3|0|used: INPUT=a.jsonl OUTPUT_PREFIX=b
EOT

# What only prints something runs once and needs no data. The step of the job is counted.
mkdir print
printf '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\necho STEP\nexec "$@"\n' >print/srun
chmod +x print/srun
for script in train.sbatch train-llama2.sbatch wikipedia.sbatch pile.sbatch roberta.sbatch preprocess.sbatch; do
    while read -r option steps; do
        [ "$script $option" != "preprocess.sbatch --dry-run" ] || continue
        try env MEGATRON_PREFLIGHT=quick PATH="$scratch/print:$PATH" MEGATRON="$megatron" bash "$top/sbatch/$script" $option
        is "$rc $(grep -c '^STEP' <<<"$out")" "0 $steps" "$script $option: nothing but that" || diag "$(tail -n 5 <<<"$out")"
        unlike "$out" "ignored options" "  of options that have a meaning"
    done <<'EOT'
--dry-run 1
--help 0
--version 0
EOT
done

# NeMo's names and the usual ones have their meaning in all scripts that train, or end the job.
for script in train.sbatch train-llama2.sbatch wikipedia.sbatch pile.sbatch; do
    while IFS='|' read -r variables code expected; do
        # shellcheck disable=SC2086
        try env DUMP=a.xml DATA_PATH=x $variables PATH="$scratch:$PATH" MEGATRON="$scratch/shown" bash "$top/sbatch/$script"
        is "$rc" "$code" "$script $variables"
        like "$out" "$expected" "  has its meaning, or the right one is named" || diag "$out"
    done <<'EOT'
TP=2 PP=2 CP=2|0|(--megatron-tp=2 --megatron-pp=2|--megatron-cp=2 .*--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
TP_SIZE=2 PIPELINE_MODEL_PARALLEL_SIZE=2|0|(--megatron-tp=2 --megatron-pp=2|--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
MAX_STEP=5 LAYERS=3 HEADS=2 HIDDEN=64|0|--num-layers 3 --hidden-size 64 --num-attention-heads 2 .*--train-iters 5( |$)
STEPS=5 MBS=3 GBS=6|0|--micro-batch-size 3 --global-batch-size 6 --train-iters 5( |$)
TRAIN_STEPS=5 MAX_STEPS=6|2|TRAIN_ITERS=.* contradict
BATCH_SIZE=5|2|did you mean MICRO_BATCH_SIZE or GLOBAL_BATCH_SIZE
MAX_STEPZ=5|2|did you mean TRAIN_ITERS
HEADSS=5|2|did you mean NUM_ATTENTION_HEADS
GPUS=8|2|did you mean GPUS_PER_NODE
NUM_TP=2|2|did you mean TENSOR_PARALLEL
NODE=2|2|NODES=2, but this job has 1; did you mean sbatch --nodes=2
NUM_NODES=2 SLURM_JOB_NUM_NODES=2|0|train 
NODES=2 MEGATRON_SPARES=1 SLURM_JOB_NUM_NODES=3 TRAIN_LAYERS=2|2|did you mean NUM_LAYERS
GPUS_PER_NODE=8 SLURM_NTASKS_PER_NODE=2 SLURM_GPUS_ON_NODE=8|2|2 tasks and 8 GPUs per node; did you mean sbatch --ntasks-per-node=8 --gpus-per-node=8
NPROC_PER_NODE=8 SLURM_NTASKS_PER_NODE=8 SLURM_GPUS_ON_NODE=8|0|train 
GPUS_PER_NODE=2 SLURM_NTASKS=4 SLURM_JOB_NUM_NODES=2|0|train 
MODEL_NAME=gpt3|2|MODEL_SIZE
NODE_OPTIONS=x GPU_DEVICE_ORDINAL=0 MODEL_DIR=x MODELS_HOME=x NODE_PATH=y WORLD_SIZE=4 SIZES= HEADERS=x STEPPER=y|0|train 
EOT
done
try env MODEL_NAME=gpt2 MODEL_SIZE=345M MAX_STEP=5 MEGATRON="$scratch/shown" bash "$top/sbatch/train.sbatch" $mock
like "$out" ' --megatron-model gpt2-345M .*--train-iters 5 ' "a family and its size are a model"
try env SIZE=7B MEGATRON="$scratch/shown" bash "$top/sbatch/train-llama2.sbatch" $mock
like "$out" ' --megatron-model llama2-7b ' "  and so is a size of Llama 2"

# Both steps of roberta.sbatch compute on the device that is asked for, although the job has GPUs.
for option in "--device cpu" --device=cpu; do
    out=$(SLURM_GPUS_ON_NODE=2 DATA_BIN=bin PATH="$scratch/print:$PATH" MEGATRON="$scratch/shown" bash "$top/sbatch/roberta.sbatch" $option)
    is "$(grep -cE '^(comm-test|supervise) .*--device[ =]cpu' <<<"$out")" 2 "roberta.sbatch $option: in all steps"
done

# End-of-document tokens, however the input is named.
while IFS='|' read -r variables options expected; do
    # shellcheck disable=SC2086
    out=$(env PATH="$scratch/print:$PATH" $variables MEGATRON="$scratch/shown" bash "$top/sbatch/preprocess.sbatch" $options)
    is "$(grep -oE -e '--(no-)?append-eod' <<<"$out" | tail -n 1)" "$expected" "preprocess.sbatch $variables $options: $expected"
done <<'EOT'
INPUT=a OUTPUT_PREFIX=b||--append-eod
X=|--input a --output-prefix b|--append-eod
INPUT=a OUTPUT_PREFIX=b|--no-append-eod|--no-append-eod
X=|--input a --output-prefix b --no-append-eod|--no-append-eod
EOT
try env SLURM_JOB_ID=7 PATH="$scratch/print:$PATH" MEGATRON="$scratch/shown" bash "$top/sbatch/preprocess.sbatch"
unlike "$out" "environment variables used" "without any variable none is used"
like "$out" " --input /.* --output-prefix $scratch/preprocess-7 " "  but the example"

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
    model=$(grep -oE -e ' --megatron-model=[^ ]+' <<<"$both" | tail -n 1)
    like "$model" '=[0-9a-z]' "  with a model that sbatch checks"
    export MEGATRON_MODEL=${model#*=}
    options=$(mock="" SLURM_GPUS_ON_NODE=2 words "${script#*/}" ${line#*"$script"} | sed -E 's/--tokenizer-(type|model) [^ ]+//g')
    # shellcheck disable=SC2086
    try env MEGATRON_TP="$(value --megatron-tp=)" "$megatron" train $options --dry-run --world-size "$ranks"
    is "$rc" 0 "  which is taken" || diag "$line" "$out"
    like "$out" "using world size: $ranks," "  with all of them"
    unset MEGATRON_MODEL
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
