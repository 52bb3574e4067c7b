/* SPDX-License-Identifier: Apache-2.0 */
/* One option has one name and one meaning in all commands, so that one table serves them all. */
#include "remedies.h"

const char *const command_remedies[REMEDY_COUNT] = {
    [REMEDY_SAVE_DIRECTORY] = "choose another directory with --save",
    [REMEDY_SAVE_INTERVAL] = "raise --save-interval, or use a faster disk",
    [REMEDY_SAVE_THERE] = "to start a new run that can be resumed, use the same directory for "
                          "--save",
    [REMEDY_LOAD] = "correct --load",
    [REMEDY_ITERATION] = "choose another iteration with --ckpt-step",
    [REMEDY_START_AGAIN] = "to start from scratch, use another directory for --load and --save",
    [REMEDY_LOAD_HF] = "use --load-hf instead of --load",
    [REMEDY_NO_OPTIMIZER] = "use --no-load-optim or --finetune",
    [REMEDY_SCHEDULE] =
        "use the same values (without --lr-decay-iters the decay ends with the run), "
        "--override-opt_param-scheduler to use these values, "
        "or --use-checkpoint-opt_param-scheduler to use the checkpoint's",
    [REMEDY_NEW_SEED] = "add --no-load-rng to use the new seed",
    [REMEDY_IMPORT] = "import it first: megatron checkpoint import SOURCE DIR --format megatron",
    [REMEDY_HEADS] = "add --num-attention-heads N",
    [REMEDY_NO_HEADS] = "drop --num-attention-heads",
    [REMEDY_VOCABULARY] = "correct --vocab-size",
    [REMEDY_EXPORT_TYPE] = "choose the type with --dtype",
    [REMEDY_SHARD_SIZE] = "raise --max-shard-size",
    [REMEDY_TOKEN_TYPES] = "drop --num-token-types",
    [REMEDY_MORE_TOKEN_TYPES] = "raise --num-token-types",
    [REMEDY_TIMEOUT] = "check its file system, or raise --distributed-timeout-minutes",
    [REMEDY_MEMORY] = "raise the memory limit of the job (sbatch --mem)",
    [REMEDY_LONGER] = "raise --distributed-timeout-minutes",

    [REMEDY_STRICT] = "drop --strict to skip what is invalid",
    [REMEDY_LINE_BYTES] = "raise --max-line-bytes",
    [REMEDY_PAGE_BYTES] = "raise --max-page-bytes",
    [REMEDY_SHORTER_LINES] = "lower --max-line-bytes",
    [REMEDY_INPUT_FORMAT] = "choose its format with --input-format",
    [REMEDY_NO_DUMP] = "use a MediaWiki dump, or tokenize other text with `megatron preprocess "
                       "--input-format`",
    [REMEDY_MEDIAWIKI] = "use --input-format mediawiki",
    [REMEDY_PLAIN_TEXT] = "for plain text use --input-format lines, blank-lines, titles or files",
    [REMEDY_STANDARD_INPUT] = "use --input - for a pipe",
    [REMEDY_KEYS] = "name the key of the text with --json-keys",
    [REMEDY_KEY] = "name the key of the text with --key",
    [REMEDY_OUTPUT] = "choose another --output-prefix or --output",
    [REMEDY_OVERWRITE] = "use --overwrite to replace it",
    [REMEDY_NO_END_OF_DOCUMENT] = "use --no-append-eod",
    [REMEDY_BUCKETS] = "use more --buckets",
    [REMEDY_TEST_SETS] = "choose other test sets with --against",
    [REMEDY_TEST_KEYS] = "name the keys of the test sets with --against-keys",
    [REMEDY_LANGUAGES] = "correct --languages",
    [REMEDY_RULES] = "`megatron data filter --list-rules` lists all rules",

    [REMEDY_TOKENIZER] = "choose a tokenizer with --tokenizer-type and the options for its files",
    [REMEDY_TOKENIZER_FILES] = "get its files again from their source if they are damaged, or "
                               "choose another tokenizer (--tokenizer-type)",
    [REMEDY_OTHER_TOKENIZER] =
        "choose another tokenizer (--tokenizer-type), or use a newer release "
        "of megatron",
    [REMEDY_TOKENIZER_MODEL] = "name it with --tokenizer-model",
    [REMEDY_PUNKT] = "correct --lang, or give --punkt-data",
    [REMEDY_LANGUAGE] = "give --lang, such as english",
    [REMEDY_VOCAB_FILE] = "name it with --vocab-file",
    [REMEDY_MERGE_FILE] = "use both --vocab-file and --merge-file, or neither for GPT-2's files",
    [REMEDY_VOCAB_SIZE] = "set it with --vocab-size",
    [REMEDY_MORE_IDS] = "raise --vocab-size",
    [REMEDY_ADD_BOS] = "use --tokenizer-add-bos instead of --tokenizer-hf-include-special-tokens",
    [REMEDY_NO_BOS] = "drop --tokenizer-add-bos",
    [REMEDY_BOS_OR_SPECIALS] = "drop --tokenizer-add-bos or --tokenizer-hf-include-special-tokens",
    [REMEDY_NO_SPECIALS] = "drop --tokenizer-hf-include-special-tokens",
    [REMEDY_NO_MERGES] = "drop --merge-file",
    [REMEDY_MAX_WORDS] = "lower --max-words",
    [REMEDY_FAIRSEQ_WORDS] = "for a dictionary of words use --tokenizer-type FairseqWords",

    [REMEDY_DATA] = "use --data-path PREFIX, or --mock-data",
    [REMEDY_DATA_PATHS] = "use either --data-path and --split, or --train-data-path, "
                          "--valid-data-path and --test-data-path",
    [REMEDY_SPLIT] = "change --split",
    [REMEDY_TRAIN_DATA] = "correct --train-data-path",
    [REMEDY_VALID_DATA] = "correct --valid-data-path",
    [REMEDY_TEST_DATA] = "correct --test-data-path",
    [REMEDY_ALL_DATA] = "correct --data-path",
    [REMEDY_OR_SPLIT] = "or change --split",
    [REMEDY_MOCK_DATA] = "use --data-path PREFIX instead of --mock-data",
    [REMEDY_SEQUENCE_LENGTH] = "change --seq-length",
    [REMEDY_ROBERTA_TOKENS] = "make it with `megatron preprocess --tokenizer-type FairseqBPE`",
    [REMEDY_DATA_TOKENIZER] = "use the tokenizer that made the data (--tokenizer-type and its "
                              "files), or run `megatron preprocess` again with this one",
    [REMEDY_DATA_END] = "use the tokenizer that made the data (--tokenizer-type and its files), or "
                        "set --eod-id",
    [REMEDY_APPEND_EOD] = "run `megatron preprocess` again with --append-eod",
    [REMEDY_SENTENCES] = "make it with `megatron preprocess --split-sentences`",
    [REMEDY_MICRO_BATCH] = "lower --micro-batch-size or --seq-length",
    [REMEDY_TRAIN_PREFIX] = "or use --train-data-path PREFIX",
    [REMEDY_SAMPLE_TOKENS] = "raise --tokens-per-sample, or use --sample-break-mode none",
    [REMEDY_BATCH_TOKENS] = "raise --max-tokens",
    [REMEDY_MASKED_TOKENS] = "raise --max-masked-tokens",
    [REMEDY_MASK_PROBABILITY] = "correct --mask-prob",
    [REMEDY_MASK_SHARES] = "correct --leave-unmasked-prob and --random-token-prob",

    [REMEDY_PROMPT] = "use --prompt TEXT, --prompt-file FILE, or pass prompts on standard input",
    [REMEDY_PROMPT_FILE] = "correct --prompt-file",
    [REMEDY_MASK_TOKEN] = "give the id of the mask token with --mask-id",
    [REMEDY_END_TOKEN] = "change --eod-id",
    [REMEDY_TEXT_LENGTH] = "raise --out-seq-length",
    [REMEDY_PRECISION] = "drop --bf16 or --fp16",
    [REMEDY_LOAD_OR_PRECISION] = "use other weights (--load), or drop --bf16 or --fp16",
    [REMEDY_NO_FP8] = "drop --fp8-format",
    [REMEDY_NO_BLOCKS] = "use --fp8-recipe delayed or tensorwise",
    [REMEDY_FP8] = "use --fp8-format and --fp8-recipe as before",
    [REMEDY_CPU] = "or compute on the CPUs with --device cpu",

    [REMEDY_IMPORT_WAIT] = "pass --wait to `megatron image get` on all nodes but one",
    [REMEDY_SHARED_FILES] = "mount the shared file system on this node, or name its directory with "
                            "--shared",
    [REMEDY_SCRATCH] = "use --scratch with a directory that you can write to",
    [REMEDY_NODE_KIND] = "correct --node; if the node should have GPUs, all are lost: drain it",
    [REMEDY_NODE_KINDS] = "`megatron plan --node list` lists all",
    [REMEDY_PRICE] = "set --price to see the cost",
    [REMEDY_RUN_NAMES] = "use --name once per run",

    [REMEDY_PLUGIN_ON_NODE] = "install the plugin for this Slurm there, leave the node out with "
                              "srun --exclude, or use srun --megatron-off",
    [REMEDY_PLUGIN_OF_SRUN] = "install the plugin for this Slurm there, or submit the job without "
                              "its options",
    [REMEDY_USE_PLUGIN] = "add a --megatron option to srun, such as --megatron-tp=1",
};
