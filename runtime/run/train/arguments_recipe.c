/* SPDX-License-Identifier: Apache-2.0 */
/* fairseq's recipe for masked language models, and the options of their data. */
#include "config.h"
#include "arguments_private.h"
#include "lib/file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- --recipe fairseq ------------------------------------------------------------------------ */

/* fairseq's defaults and those of its RoBERTa. The window of the loss scale is for one rank; it is
 * divided when their number is known. */
static int set_fairseq(struct arguments *a, const struct options_result *given, struct error *err)
{
    if (!options_given(given, "loss-scale-window"))
        a->rules.scale_window = 0;
    return options_preset(given, a,
                          "adam-beta1=0.9|adam-beta2=0.98|adam-eps=1e-6|adam-raw-eps|clip-grad=0|"
                          "lr-decay-style=polynomial|weight-decay=0.01|decay-all-parameters|"
                          "initial-loss-scale=128|min-loss-scale=1e-4|hysteresis=1|seed=1|"
                          "make-vocab-size-divisible-by=1|calculate-per-token-loss",
                          err);
}

/* "(0.9, 0.98)" */
static int read_betas(struct arguments *a, struct error *err)
{
    const char *text = a->mlm.betas;
    char end;

    if (!text)
        return 0;
    if (sscanf(text, " ( %lf , %lf %c", &a->step.beta1, &a->rules.beta2, &end) != 3 ||
        !(a->step.beta1 >= 0 && a->step.beta1 < 1 && a->rules.beta2 >= 0 && a->rules.beta2 < 1))
        return error_set(err,
                         "--adam-betas=%.100s is not two numbers of at least 0 and less than 1; "
                         "write them like (0.9,0.98)",
                         text);
    return 0;
}

int arguments_recipe_begin(struct arguments *a, const struct options_result *given,
                           struct error *err)
{
    if (a->mlm.recipe == RECIPE_FAIRSEQ && set_fairseq(a, given, err) < 0)
        return -1;
    a->precision.fp16 |= a->mlm.memory_efficient_fp16;
    return read_betas(a, err);
}

/* --- Vocabulary ------------------------------------------------------------------------------ */

/* Look for dict.txt next to the data. */
static void find_dict(struct arguments *a)
{
    const struct option_list *list = a->data.data_path.count > 0         ? &a->data.data_path
                                     : a->data.train_data_path.count > 0 ? &a->data.train_data_path
                                                                         : &a->data.valid_data_path;
    const char *path = list->count > 0 ? list->items[0] : "", *slash = strrchr(path, '/');
    struct stat status;
    int length;

    if (!path[0])
        return;
    if (a->data.data_path.count > 0)
        length = snprintf(a->mlm.dict, sizeof(a->mlm.dict), "%s/dict.txt", path);
    else
        length = snprintf(a->mlm.dict, sizeof(a->mlm.dict), "%.*sdict.txt",
                          slash ? (int)(slash - path) + 1 : 0, path);
    if (length >= (int)sizeof(a->mlm.dict) || stat(a->mlm.dict, &status) < 0)
        a->mlm.dict[0] = '\0';
}

/* Without a tokenizer, the mask token must come from dict.txt next to the data. */
static int explain_data(const struct arguments *a, struct error *err)
{
    const char *path = a->data.data_path.count > 0 ? a->data.data_path.items[0] : "";
    char index[PATH_MAX];
    struct stat status;

    if (path[0] && stat(path, &status) < 0 && errno == ENOENT &&
        snprintf(index, sizeof(index), "%s.idx", path) < (int)sizeof(index) &&
        stat(index, &status) < 0)
        return error_set(err, "--data-path=%.200s: there is no such directory; check the path",
                         path);
    return error_set(err,
                     "the mask token is unknown: there is no dict.txt next to the data; give the "
                     "tokenizer that made it (--tokenizer-type), or --mask-id");
}

int arguments_use_bert(const struct arguments *a)
{
    return a->mlm.data_kind == MASKED_BERT ||
           (a->mlm.data_kind == MASKED_AUTO && a->model.network.binary_head && !a->data.mock_data);
}

/* The id of 'one', or else of 'other'; -1 if the vocabulary has neither. */
static int64_t find_token(const struct tokenizer *tokenizer, const char *one, const char *other)
{
    int64_t id = tokenizer_token(tokenizer, one);

    return id >= 0 ? id : tokenizer_token(tokenizer, other);
}

/* What Hugging Face's tokenizer tells its collator: RoBERTa's or BERT's special tokens, and how
 * many ids there are. */
static void find_specials(struct mask_config *mask, const struct tokenizer *tokenizer)
{
    static const char *const names[2][5] = {{"<s>", "<pad>", "</s>", "<unk>", "<mask>"},
                                            {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}};
    int bert = tokenizer_token(tokenizer, "<pad>") < 0;

    mask->special_count = 5;
    for (size_t i = 0; i < mask->special_count; i++)
        mask->specials[i] = (int32_t)tokenizer_token(tokenizer, names[bert][i]);
    mask->tokenizer_ids = tokenizer_vocab_size(tokenizer);
}

static int take_tokens(struct arguments *a, const struct options_result *given,
                       const struct tokenizer *tokenizer, struct error *err)
{
    int64_t size = tokenizer_vocab_size(tokenizer), pad, bos;
    const char *what = a->mlm.dict[0] ? a->mlm.dict : "the tokenizer";

    if (a->model.network.shape.vocabulary < 0 ||
        (!options_given(given, "vocab-size") && !a->checkpoint.load && !a->checkpoint.load_hf)) {
        a->model.network.shape.vocabulary = size;
        a->vocabulary_origin = what;
    }
    if (size > a->model.network.shape.vocabulary)
        return error_set(err,
                         "%s has %" PRId64 " ids, the model only %" PRId64
                         "; use the tokenizer of the model, or correct --vocab-size",
                         what, size, a->model.network.shape.vocabulary);
    if (a->mlm.mask_id < 0)
        a->mlm.mask_id = find_token(tokenizer, "<mask>", "[MASK]");
    if (a->mlm.mask_id < 0)
        return error_set(err,
                         "%s has no token <mask> or [MASK], which a masked language model needs; "
                         "use another one, or give --mask-id",
                         what);
    a->mlm.data.sep = (int32_t)find_token(tokenizer, "[SEP]", "</s>");
    pad = find_token(tokenizer, "<pad>", "[PAD]");
    bos = find_token(tokenizer, "<s>", "[CLS]");
    if (pad < 0 || bos < 0 || (a->mlm.data.sep < 0 && arguments_use_bert(a)))
        return error_set(
            err,
            "%s has no token %s, which samples of a masked language model need; use another one",
            what,
            pad < 0   ? "<pad> or [PAD]"
            : bos < 0 ? "<s> or [CLS]"
                      : "</s> or [SEP]");
    a->mlm.data.pad = (int32_t)pad;
    a->mlm.data.bos = (int32_t)bos;
    /* fairseq's specials come first; BERT's are spread over the first thousand ids. */
    a->mlm.data.mask.first_random = pad == 1 ? 4 : 0;
    find_specials(&a->mlm.data.mask, tokenizer);
    return 0;
}

int arguments_recipe_files(struct arguments *a, const struct options_result *given,
                           struct error *err)
{
    struct tokenizer *tokenizer;
    int rc;

    a->mlm.data.bos = 0;
    a->mlm.data.pad = 1;
    a->mlm.data.mask.first_random = 4;
    if (!a->model.network.masked || a->output.dry_run)
        return 0;
    if (!a->tokenizer_named)
        find_dict(a);
    if (a->mlm.dict[0]) {
        a->data.tokenizer.type = TOKENIZER_FAIRSEQ_WORDS;
        a->data.tokenizer.vocab_file = a->mlm.dict;
        a->tokenizer_named = 1;
    }
    if (!a->tokenizer_named) {
        if (a->data.mock_data && a->mlm.mask_id < 0 && a->model.network.shape.vocabulary > 5)
            a->mlm.mask_id = a->model.network.shape.vocabulary - 1;
        if (a->mlm.mask_id >= 0)
            return 0;
        return explain_data(a, err);
    }
    tokenizer = tokenizer_create(&a->data.tokenizer, err);
    if (!tokenizer)
        return -1;
    rc = take_tokens(a, given, tokenizer, err);
    tokenizer_destroy(tokenizer);
    return rc;
}

/* --- The rest -------------------------------------------------------------------------------- */

/* BERT's samples need files of sentences, which fairseq's directory is not. */
static int check_prefix(const struct arguments *a, struct error *err)
{
    const char *path = a->data.data_path.count == 1 ? a->data.data_path.items[0] : "";
    char index[PATH_MAX];
    struct stat status;

    if (!path[0] || stat(path, &status) < 0 || !S_ISDIR(status.st_mode) ||
        snprintf(index, sizeof(index), "%s.idx", path) >= (int)sizeof(index) ||
        stat(index, &status) == 0)
        return 0;
    return error_set(
        err,
        "--data-path=%.200s is a directory, but BERT's samples are made from sentences: "
        "name the prefix of files that `megatron preprocess --split-sentences` wrote, "
        "or use --bert-no-binary-head and --masked-data fairseq",
        path);
}

static int check_bert(const struct arguments *a, const struct options_result *given,
                      struct error *err)
{
    static const char *const names[] = {"sample-break-mode",
                                        "pack",
                                        "max-tokens",
                                        "masking",
                                        "freq-weighted-replacement",
                                        "leave-unmasked-prob",
                                        "random-token-prob"};

    if (!arguments_use_bert(a)) {
        /* Mock data has no sentences: the classifier of pairs is there, but learns nothing. */
        if (a->model.network.binary_head && a->mlm.data_kind != MASKED_AUTO)
            return error_set(err, "the binary head needs pairs of sentences; use --masked-data "
                                  "bert or --bert-no-binary-head");
        return options_given(given, "short-seq-prob")
                   ? error_set(err, "--short-seq-prob requires --masked-data bert; add it, or drop "
                                    "--short-seq-prob")
                   : 0;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (options_given(given, names[i]))
            return error_set(err, "--%s cannot be used with --masked-data bert; drop it", names[i]);
    if (a->model.network.binary_head && options_given(given, "calculate-per-token-loss"))
        return error_set(
            err, "--calculate-per-token-loss cannot be used with the binary head, whose "
                 "loss is of pairs; drop it, or add --bert-no-binary-head --masked-data bert");
    if (a->model.network.shape.sequence < 5)
        return error_set(err,
                         "--seq-length=%" PRId64 " is too short for pairs of sentences; raise it",
                         a->model.network.shape.sequence);
    if (a->data.mock_data)
        return error_set(err, "--mock-data has no sentences; use --masked-data fairseq");
    if (!a->tokenizer_named)
        return error_set(err, "--masked-data bert needs to know words and special tokens; name the "
                              "tokenizer that made the data (--tokenizer-type, --vocab-file)");
    return check_prefix(a, err);
}

static int check_data(const struct arguments *a, struct error *err)
{
    if (a->mlm.data.mask.leave_unmasked + a->mlm.data.mask.random_token > 1)
        return error_set(err,
                         "--leave-unmasked-prob=%g and --random-token-prob=%g must not exceed 1 "
                         "together",
                         a->mlm.data.mask.leave_unmasked, a->mlm.data.mask.random_token);
    if (a->run.rampup.count > 0)
        return error_set(err, "--rampup-batch-size cannot be used with a masked language model, "
                              "whose micro-batches are made before training; drop it");
    if (a->data.reset_attention_mask || a->data.reset_position_ids || a->data.eod_mask_loss)
        return error_set(err, "--reset-attention-mask, --reset-position-ids and --eod-mask-loss "
                              "are for causal models; drop them");
    if (a->mlm.frequency && a->data.tokenizer.type != TOKENIZER_FAIRSEQ_WORDS &&
        a->data.tokenizer.type != TOKENIZER_FAIRSEQ_BPE)
        return error_set(err, "--freq-weighted-replacement needs the counts of a dict.txt; use "
                              "--tokenizer-type FairseqWords or FairseqBPE");
    if (a->mlm.whole_words && (!a->tokenizer_named || a->mlm.dict[0]))
        return error_set(err,
                         "--mask-whole-words needs to know where words begin, which dict.txt does "
                         "not tell; name the tokenizer that made the data (--tokenizer-type)");
    return 0;
}

/* Reject what Hugging Face's collator cannot do. It finds words by gaps between the offsets of
 * tokens, which ids reveal only if tokens contain the spaces; and it masks all tokens of a word. */
static int check_collator(struct arguments *a, const struct options_result *given,
                          struct error *err)
{
    if (a->mlm.data.mask.rule != MASK_COLLATOR)
        return 0;
    if (!a->mlm.whole_words)
        return 0;
    if (a->data.tokenizer.type != TOKENIZER_FAIRSEQ_BPE &&
        a->data.tokenizer.type != TOKENIZER_GPT2_BPE)
        return error_set(err,
                         "--mask-whole-words with --masking huggingface needs to know the spaces "
                         "between words, which %s does not keep; use --tokenizer-type FairseqBPE, "
                         "or --masking fairseq",
                         tokenizer_type_name((enum tokenizer_type)a->data.tokenizer.type));
    if ((options_given(given, "leave-unmasked-prob") && a->mlm.data.mask.leave_unmasked > 0) ||
        (options_given(given, "random-token-prob") && a->mlm.data.mask.random_token > 0))
        return error_set(err, "--leave-unmasked-prob and --random-token-prob must be 0 with "
                              "--mask-whole-words and --masking huggingface, which masks all "
                              "tokens of a word; drop them");
    a->mlm.data.mask.leave_unmasked = a->mlm.data.mask.random_token = 0;
    return 0;
}

int arguments_recipe_end(struct arguments *a, const struct options_result *given, struct error *err)
{
    struct masked_config *d = &a->mlm.data;
    struct mask_config *m = &d->mask;
    int64_t micros = a->run.global_batch_size / a->run.micro_batch_size;

    if (a->rules.scale_window == 0) /* fairseq: 2^14 updates of one GPU */
        a->rules.scale_window = micros < 16384 ? 16384 / micros : 1;
    if (!a->model.network.masked)
        return 0;
    if (check_data(a, err) < 0 || check_bert(a, given, err) < 0 ||
        check_collator(a, given, err) < 0)
        return -1;
    d->most_selected = a->model.masked_max;
    d->bert = arguments_use_bert(a);
    d->binary = a->model.network.binary_head;
    d->max_sentences = a->run.micro_batch_size;
    d->max_tokens = a->mlm.max_tokens > 0 ? a->mlm.max_tokens : 0;
    d->slots = micros;
    d->per_token = a->step.per_token_loss;
    d->evaluated = options_given(given, "eval-iters") ? a->run.eval_iters : 0;
    d->position_offset = a->model.network.position_offset;
    m->vocabulary = a->model.network.shape.vocabulary;
    m->mask =
        (int32_t)(a->mlm.mask_id < 0 ? a->model.network.shape.vocabulary - 1 : a->mlm.mask_id);
    return 0;
}
