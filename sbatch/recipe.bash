# SPDX-License-Identifier: Apache-2.0
# What the job scripts share; they source it. $name is the script's name, $megatron the program.
#
# Environment variables of older recipes become options. Command-line options override them, and they override the
# defaults of the script. Which ones were used is printed. A variable that looks like one of them but is not known
# ends the job, because a misspelled size would otherwise train another model.

# Variable and option. Several variables may mean the same option.
training_variables=(
    MODEL:--megatron-model NUM_LAYERS:--num-layers HIDDEN_SIZE:--hidden-size FFN_HIDDEN_SIZE:--ffn-hidden-size
    NUM_ATTENTION_HEADS:--num-attention-heads NUM_QUERY_GROUPS:--num-query-groups SEQ_LENGTH:--seq-length
    MAX_POSITION_EMBEDDINGS:--max-position-embeddings MICRO_BATCH_SIZE:--micro-batch-size
    GLOBAL_BATCH_SIZE:--global-batch-size TRAIN_ITERS:--train-iters TRAIN_SAMPLES:--train-samples LR:--lr
    MIN_LR:--min-lr DATA_PATH:--data-path TOKENIZER_TYPE:--tokenizer-type TOKENIZER_MODEL:--tokenizer-model
    VOCAB_FILE:--vocab-file MERGE_FILE:--merge-file CHECKPOINT_PATH:--save TENSORBOARD_DIR:--tensorboard-dir
)
# fairseq's names are those of its README for RoBERTa.
masked_variables=(
    MODEL:--megatron-model NUM_LAYERS:--num-layers HIDDEN_SIZE:--hidden-size FFN_HIDDEN_SIZE:--ffn-hidden-size
    NUM_ATTENTION_HEADS:--num-attention-heads SEQ_LENGTH:--tokens-per-sample TOKENS_PER_SAMPLE:--tokens-per-sample
    MAX_POSITION_EMBEDDINGS:--max-position-embeddings MICRO_BATCH_SIZE:--max-sentences MAX_SENTENCES:--max-sentences
    UPDATE_FREQ:--update-freq TRAIN_ITERS:--max-update MAX_UPDATE:--max-update TOTAL_UPDATES:--total-num-update WARMUP_UPDATES:--warmup-updates
    LR:--lr PEAK_LR:--lr CHECKPOINT_PATH:--save TENSORBOARD_DIR:--tensorboard-dir
)
preprocess_variables=(
    INPUT:--input OUTPUT_PREFIX:--output-prefix TOKENIZER_TYPE:--tokenizer-type TOKENIZER_MODEL:--tokenizer-model
    VOCAB_FILE:--vocab-file MERGE_FILE:--merge-file JSON_KEYS:--json-keys
)
# Variables that change how the ranks are launched: options of srun, from the plugin.
launch_variables=(
    TENSOR_PARALLEL:--megatron-tp PIPELINE_PARALLEL:--megatron-pp CONTEXT_PARALLEL:--megatron-cp
    IMAGE:--megatron-image FSX_MOUNT:--megatron-mounts
)
# Other names of these variables, including those of NeMo's scripts, as regular expressions. MODEL_NAME, MODEL_SIZE and SIZE
# become MODEL, see name_model.
other_names=(
    'TENSOR_PARALLEL:TP(_SIZE)?|TENSOR(_MODEL)?_PARALLEL(_SIZE)?'
    'PIPELINE_PARALLEL:PP(_SIZE)?|PIPELINE(_MODEL)?_PARALLEL(_SIZE)?'
    'CONTEXT_PARALLEL:CP(_SIZE)?|CONTEXT_PARALLEL_SIZE'
    'NUM_LAYERS:N?_?LAYERS'
    'HIDDEN_SIZE:HIDDEN'
    'NUM_ATTENTION_HEADS:((NUM_?|N_?)?(ATTENTION_|ATTN_)?)HEADS'
    'MICRO_BATCH_SIZE:MBS|MICRO_BATCH'
    'GLOBAL_BATCH_SIZE:GBS|GLOBAL_BATCH'
    'TRAIN_ITERS:((MAX|NUM|TRAIN|TOTAL)_)?(STEPS?|ITERS|ITERATIONS)'
    'NODES:(NUM_?|N_?)?NODES?'
    'GPUS_PER_NODE:(NUM_?|N_?)?(GPUS?|PROC)_PER_NODE'
)
known_prefixes='NUM_LAYER|NUM_ATTENTION|NUM_QUERY|NUM_HEAD|HIDDEN_?SIZ|HIDDEN_DIM|FFN_|SEQ_?LEN|MAX_POSITION|MICRO_?BATCH'
known_prefixes+='|GLOBAL_?BATCH|TENSOR_(MODEL_)?PAR|PIPELINE_(MODEL_)?PAR|CONTEXT_PAR|TRAIN_ITER|TRAIN_SAMPLE'
known_prefixes+='|DATA_?PATH|DATASET_PATH|FSX_'
# The last resort: one of these words between the usual prefixes and suffixes; the long words may have one letter too many.
known_words='(MODEL|SIZE|TP|PP|CP|NODE|GPU)S?|(LAYER|HIDDEN|HEAD|STEP|BATCH)S?[A-Z]?'
usual_prefixes='(NUM|N|MAX|MIN|TOTAL|TRAIN|TRAINING|MODEL|TRANSFORMER|ATTENTION|ATTN|MICRO|MINI|GLOBAL|LOCAL)_?'
usual_suffixes='_?(SIZE|NAME|NUM|NUMBER|COUNT|DIM|DEGREE|PARALLEL|PER_NODE|PER_GPU|PER_RANK)'

fail() {
    echo "$name: $*" >&2
    exit 2
}

# given OPTION WORD...: is the option among the words?
given() {
    local option=$1 word
    for word in "${@:2}"; do
        case $word in "$option" | "$option="*) return 0 ;; esac
    done
    return 1
}

# option_value OPTION WORD...: its value among the words, the last of several; nothing if it is not given.
option_value() {
    local option=$1 value=''
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        "$option") value=${2-} ;;
        "$option"=*) value=${1#*=} ;;
        esac
        shift
    done
    printf '%s\n' "$value"
}

# common_prefix WORD WORD: the number of their first characters that are equal.
common_prefix() {
    local count=0
    while [ $count -lt ${#1} ] && [ "${1:count:1}" = "${2:count:1}" ]; do
        count=$((count + 1))
    done
    echo $count
}

# nearest VARIABLE: the known one that was probably meant; 'known' is the caller's table.
nearest() {
    local row common most=4 near=''
    [[ $1 =~ ^($known_prefixes) ]] || most=99
    for row in "${launch_variables[@]}" "${known[@]}" FSX_PATH: DATA_PATH:; do
        row=${row%%:*}
        common=$(common_prefix "${row//_/}" "${1//_/}")
        [ "$common" -le $most ] || { near=$row most=$common; }
    done
    [ -n "$near" ] || case $1 in
    *BATCH*) near='MICRO_BATCH_SIZE or GLOBAL_BATCH_SIZE' ;;
    *LAYER*) near=NUM_LAYERS ;;
    *HEAD*) near=NUM_ATTENTION_HEADS ;;
    *HIDDEN*) near=HIDDEN_SIZE ;;
    *STEP*) near=TRAIN_ITERS ;;
    *GPU*) near=GPUS_PER_NODE ;;
    *NODE*) near=NODES ;;
    *TP*) near=TENSOR_PARALLEL ;;
    *PP*) near=PIPELINE_PARALLEL ;;
    *CP*) near=CONTEXT_PARALLEL ;;
    *) near='MODEL_NAME and MODEL_SIZE' ;;
    esac
    echo "$near"
}

# agree VARIABLE VARIABLE: they do not have different values.
agree() {
    [ -z "${!1:-}" ] || [ -z "${!2:-}" ] || [ "${!1}" = "${!2}" ] ||
        fail "$1=${!1} and $2=${!2} contradict each other; unset one of them"
}

# Rename variables that have another of these names.
rename_variables() {
    local variable row name
    for variable in $(compgen -e); do
        for row in "${other_names[@]}"; do
            name=${row%%:*}
            [[ $variable =~ ^(${row#*:})$ ]] && [ "$variable" != "$name" ] || continue
            agree "$variable" "$name"
            [ -z "${!variable}" ] || { export "$name=${!variable}"; echo "environment variable $variable: taken as $name=${!variable}"; }
            unset "$variable"
        done
    done
}

# NeMo's scripts name a family, as MODEL_NAME or MODEL, and a size: make MODEL of both.
name_model() {
    local family=${MODEL_NAME:-} size
    agree MODEL_SIZE SIZE
    size=${MODEL_SIZE:-${SIZE:-}}
    [ -n "$family$size" ] || return 0
    [ -z "$size" ] || agree MODEL_NAME MODEL
    [ -n "$family" ] || family=${MODEL:-}
    case ${family,,} in
    gpt | gpt3) [ -n "$size" ] || fail "MODEL_NAME=$family does not name a size; did you mean MODEL_SIZE?" ;;
    '') ;;
    *) size=$family${size:+-$size} ;;
    esac
    unset MODEL_NAME MODEL_SIZE SIZE
    export MODEL=$size
}

# The job has its nodes already: variables for them can only agree with it.
check_nodes() {
    local nodes=${SLURM_JOB_NUM_NODES:-1} gpus=${SLURM_GPUS_ON_NODE:-} ranks
    [ -z "${NODES:-}" ] || [ "$NODES" = "$nodes" ] || [ "$NODES" = $((nodes - ${MEGATRON_SPARES:-0})) ] ||
        fail "NODES=$NODES, but this job has $nodes; did you mean sbatch --nodes=$NODES?"
    # The ranks that tokenize are one per node.
    [ "$name" != preprocess.sbatch ] || return 0
    ranks=${SLURM_NTASKS_PER_NODE:-$((${SLURM_NTASKS:-0} / nodes))}
    [ -z "${GPUS_PER_NODE:-}" ] || [ "$ranks" = 0 ] || { [ "$GPUS_PER_NODE" = "$ranks" ] && [ "$GPUS_PER_NODE" = "${gpus:-$ranks}" ]; } ||
        fail "GPUS_PER_NODE=$GPUS_PER_NODE, but this job has $ranks tasks${gpus:+ and $gpus GPUs} per node; did you mean" \
            "sbatch --ntasks-per-node=$GPUS_PER_NODE${gpus:+ --gpus-per-node=$GPUS_PER_NODE}?"
}

# read_environment [TABLE]: read the variables under all their names, and end the job if an unknown variable looks like
# one of the table.
read_environment() {
    local -n known=${1:-training_variables}
    local variable row
    rename_variables
    name_model
    check_nodes
    for variable in $(compgen -e); do
        [ -n "${!variable}" ] || continue
        [[ $variable =~ ^($known_prefixes) || $variable =~ ^($usual_prefixes)*($known_words)($usual_suffixes)*$ ]] || continue
        for row in "${launch_variables[@]}" "${known[@]}" FSX_PATH: DATA_PATH: NODES: GPUS_PER_NODE:; do
            [ "${row%%:*}" != "$variable" ] || continue 2
        done
        fail "unknown environment variable $variable=${!variable} (did you mean $(nearest "$variable")?); unset it, or use options after the script's name"
    done
}

# environment_options TABLE WORD...: append to 'options' those that the table's variables set, unless the words contain them.
environment_options() {
    local -n table=$1
    local row variable option value
    shift
    for row in "${table[@]}"; do
        variable=${row%%:*}
        option=${row#*:}
        value=${!variable:-}
        [ -n "$value" ] || continue
        if given "$option" "$@"; then
            overridden+=("$variable")
            continue
        fi
        read -ra words <<<"$value" # a blend has several words
        options+=("$option" "${words[@]}")
        used+=("$variable=$value")
    done
}

# Old recipes name the directory of the data: use the dataset in it if there is only one.
find_data() {
    local found
    found=$(compgen -G "$1/*_document.idx"; compgen -G "$1/*/*_document.idx")
    [ -n "$found" ] || fail "$2=$1 contains no tokenized dataset (*_document.idx); preprocess the data first, or set DATA_PATH to its path without .idx"
    [ "$(wc -l <<<"$found")" = 1 ] || fail "$2=$1 contains several datasets; set DATA_PATH to one of:" $(sed 's/\.idx$//' <<<"$found")
    DATA_PATH=${found%.idx}
}

# Set DATA_PATH to the prefix of a dataset if it or FSX_PATH names a directory.
resolve_data() {
    if [ -n "${FSX_PATH:-}" ] && [ -n "${DATA_PATH:-}" ] && [ -e "$FSX_PATH/$DATA_PATH.idx" ]; then
        DATA_PATH=$FSX_PATH/$DATA_PATH
    elif [ -n "${DATA_PATH:-}" ] && [ -d "$DATA_PATH" ] && [ ! -e "$DATA_PATH.idx" ]; then
        # Beside PREFIX.idx, a directory PREFIX is its cache of sample indices.
        find_data "$DATA_PATH" DATA_PATH
    elif [ -n "${FSX_PATH:-}" ] && [ -z "${DATA_PATH:-}" ]; then
        find_data "$FSX_PATH" FSX_PATH
    fi
}

# note_used VARIABLE...: record those that are set as used.
note_used() {
    local variable
    for variable in "$@"; do
        [ -z "${!variable:-}" ] || used+=("$variable=${!variable}")
    done
}

say_environment() {
    [ ${#used[@]} -eq 0 ] || echo "environment variables used: ${used[*]}"
    [ ${#overridden[@]} -eq 0 ] || echo "environment variables overridden by options: ${overridden[*]}"
}

# Add the options of the launch variables to 'launch', and set 'program' to what the ranks run.
launch_options() {
    local row variable
    for row in "${launch_variables[@]}"; do
        variable=${row%%:*}
        [ -z "${!variable:-}" ] || { launch+=("${row#*:}=${!variable}"); echo "environment variable used: $variable=${!variable}"; }
    done
    case ${IMAGE:-} in
    /*) [ -e "$IMAGE" ] || fail "IMAGE=$IMAGE does not exist on this node; correct the path" ;;
    esac
    program=$megatron
    case ${IMAGE:-$(job_option image)} in
    '' | none) ;;
    *) program=megatron ;; # that of the image
    esac
}

# tokenize WORD...: `megatron preprocess` on all nodes of the job, with one task per node that has all its CPUs. The
# layout of the job's ranks is not that of this step. If a task fails, the step ends; if a node fails, the others do
# its work.
tokenize() {
    local off=() nodes=${SLURM_JOB_NUM_NODES:-1}
    # Only srun with the plugin knows the option.
    ! srun --help 2>/dev/null | grep -q -e --megatron-off || off=(--megatron-off)
    srun --overlap "${off[@]}" --mpi=none --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 \
        --cpus-per-task="${cpus:-${SLURM_CPUS_ON_NODE:-$(nproc)}}" --no-kill --wait=0 "$megatron" preprocess "$@"
}

# job_option NAME: the value of sbatch's --megatron-NAME or of the #SBATCH line, as srun inherits it; nothing if the
# job has none.
job_option() {
    local name=SLURM_SPANK__SLURM_SPANK_OPTION_spank_megatron_megatron_$1
    printf '%s\n' "${!name:-}"
}

# test_nodes DEVICE: if MEGATRON_PREFLIGHT or MEGATRON_SPARES asks for it, test the nodes of the job. With spares,
# 'launch' leaves out the nodes that failed.
test_nodes() {
    local spares=${MEGATRON_SPARES:-0} bad=$PWD/preflight-${SLURM_JOB_ID:-0}.exclude nodes host=()
    [ -n "${MEGATRON_PREFLIGHT:-}" ] || [ "$spares" -gt 0 ] || return 0
    rm -f "$bad"
    # The nodes are tested, not the image of the job.
    [ -z "$(job_option image)" ] || host=(--megatron-image=none)
    srun --overlap --kill-on-bad-exit=0 --wait=0 --megatron-tp=1 --megatron-pp=1 --megatron-cp=1 "${host[@]}" \
        "$megatron" preflight "${MEGATRON_PREFLIGHT:-quick}" ${1:+--device "$1"} --spares "$spares" \
        --exclude-file "$bad" --records "$PWD/preflight-${SLURM_JOB_ID:-0}.jsonl"
    # srun's exit code is that of a dead task, if there is one: count the nodes that failed.
    [ -f "$bad" ] || { echo "$name: the nodes could not be tested; see the output of megatron preflight above, or unset MEGATRON_PREFLIGHT and MEGATRON_SPARES" >&2; exit 1; }
    [ "$(tr , '\n' <"$bad" | grep -c .)" -le "$spares" ] || exit 3
    [ "$spares" -gt 0 ] || return 0
    nodes=$((SLURM_JOB_NUM_NODES - spares))
    launch+=(--nodes=$nodes --ntasks=$((SLURM_NTASKS / SLURM_JOB_NUM_NODES * nodes)))
    [ ! -s "$bad" ] || launch+=(--exclude="$(cat "$bad")")
}

# The model of sbatch --megatron-model. srun's tasks get it from the plugin.
MEGATRON_MODEL=${MEGATRON_MODEL:-$(job_option model)}

# What only prints something is printed here, before the first step of the job.
for word in "$@"; do
    case $word in
    --help | -h)
        command=train
        [ "$name" != preprocess.sbatch ] || command=preprocess
        exec "$megatron" $command --help
        ;;
    --version) exec "$megatron" version ;;
    esac
done

# parameters WORD...: how many parameters this run trains; 0 if that is unknown here. The sum over one rank's stages.
parameters() {
    (
        # The script itself is not a rank of the job.
        unset "${!SLURM_@}" "${!PMI@}"
        "$megatron" train ${MEGATRON_MODEL:+--megatron-model "$MEGATRON_MODEL"} "$@" --dry-run --world-size 1 --tensor-model-parallel-size 1 \
            --pipeline-model-parallel-size 1 --context-parallel-size 1 2>/dev/null | sed -n 's/.* model parallel rank (0, 0): \([0-9]*\)$/\1/p' | grep . || echo 0
    )
}

# say_run DEFAULTS WORD...: how long, with which rate and in which precision the words train. With DEFAULTS, some of that
# suits only the example: a model of a billion parameters would waste its nodes.
say_run() {
    local defaults=${1// / and } length rate minimum kind=fp32 size
    shift
    for size in bf16 fp16; do ! given --$size "$@" || kind=$size; done
    ! given --fp8-format "$@" || kind+=' with fp8'
    length="$(option_value --train-iters "$@") steps"
    [ "$length" != " steps" ] || length="$(option_value --train-samples "$@") samples"
    rate=$(option_value --lr "$@") minimum=$(option_value --min-lr "$@")
    echo "Training $length at a peak learning rate of $rate${minimum:+, decaying to $minimum}, in $kind${defaults:+ (by default: $defaults; large models need a learning rate of 1e-4 to 3e-4)}."
    [ -n "$defaults" ] && ! given --dry-run "$@" || return 0
    size=$(parameters "$@")
    [ "${#size}" -lt 10 ] || fail "this model has $((size / 1000000000)) billion parameters, but $defaults would be those of a small example; set $defaults"
}

# prepare_training WORD...: add to 'options' (the script's own) what follows from the environment, the job and the
# words of the command line, and set 'launch', the command that starts the ranks, and 'program', what they run.
prepare_training() {
    local device='' row defaults=() data=(--data-path --train-data-path --mock-data --data-args-path --per-split-data-args-path)
    used=() overridden=()
    for row in "${data[@]}"; do
        ! given "$row" "$@" || data=()
    done
    [ ${#data[@]} -eq 0 ] || resolve_data
    environment_options training_variables "$@"
    for row in "${data[@]}"; do
        ! given "$row" "${options[@]}" || data=()
    done
    say_environment
    [ ${#data[@]} -eq 0 ] || given --dry-run "$@" || fail "no data: use --data-path PREFIX or set DATA_PATH; --mock-data trains on random data"

    # A few iterations, if no length is given.
    if given --train-iters "$@" "${options[@]}" || given --train-samples "$@" "${options[@]}"; then
        options+=(--save-interval 500 --eval-interval 1000 --eval-iters 10 --log-interval 10)
    else
        defaults+=(--train-iters)
        options+=(--train-iters 40 --save-interval 10 --eval-interval 20 --eval-iters 2 --log-interval 5)
    fi
    if ! given --lr "$@" "${options[@]}"; then
        defaults+=(--lr)
        options+=(--lr 1e-3 --min-lr 1e-4)
    fi
    case " $* " in
    *" --lr-warmup-"*) ;;
    *) options+=(--lr-warmup-fraction .1) ;;
    esac

    # Train on CPUs if the job has no GPUs.
    case " $* " in
    *" --device cpu "* | *" --device=cpu "*) device=cpu ;;
    *" --device"*) ;;
    *)
        if [ -z "${SLURM_JOB_GPUS:-${SLURM_GPUS_ON_NODE:-}}" ]; then
            echo "This job has no GPUs: training on CPUs; request GPUs with --gpus-per-node."
            options+=(--device cpu)
            device=cpu
        fi
        ;;
    esac
    # Checkpoints: the run resumes from the newest one whenever it is started again, immediately after a crash, and by
    # requeueing the job when its time limit is near; see megatron-supervise(1).
    given --save "$@" "${options[@]}" || options+=(--save "${FSX_PATH:-$PWD}/checkpoints-${SLURM_JOB_ID:-0}")
    options+=(--keep-last 3 --async-save --exit-signal-handler)
    [ -n "$device" ] || given --bf16 "$@" "${options[@]}" || given --fp16 "$@" "${options[@]}" || options+=(--bf16)
    say_run "${defaults[*]}" "${options[@]}" "$@"
    # --overlap is needed because a step whose slurmstepd was lost keeps its resources until the job ends.
    # Newer Slurm waits forever for the tasks of a slurmstepd that was killed, unless --wait ends the step.
    launch=(srun --overlap --mpi=none --kill-on-bad-exit=1 --wait="${SLURM_WAIT:-60}")
    launch_options
    given --dry-run "$@" || test_nodes "$device"
}
