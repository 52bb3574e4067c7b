/* SPDX-License-Identifier: Apache-2.0 */
/* What a user can do about an error or a warning. A layer below the commands states what is wrong
 * and names the remedy by this enum; only the commands, which own the options, have the words
 * (command/remedies.c). */
#ifndef MEGATRON_REMEDY_H
#define MEGATRON_REMEDY_H

#include "lib/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum remedy {
    /* Checkpoints */
    REMEDY_SAVE_DIRECTORY,   /* choose another directory to save to */
    REMEDY_SAVE_INTERVAL,    /* save less often */
    REMEDY_SAVE_THERE,       /* start a run that saves to the directory it loads from */
    REMEDY_LOAD,             /* load from another directory */
    REMEDY_ITERATION,        /* choose another iteration to load */
    REMEDY_START_AGAIN,      /* start again without these checkpoints */
    REMEDY_LOAD_HF,          /* load a Hugging Face folder as such */
    REMEDY_NO_OPTIMIZER,     /* load without the state of the optimizer */
    REMEDY_SCHEDULE,         /* decide which learning-rate schedule applies */
    REMEDY_NEW_SEED,         /* use the new seed, not that of the checkpoint */
    REMEDY_IMPORT,           /* import a Megatron-LM checkpoint */
    REMEDY_HEADS,            /* set the number of attention heads */
    REMEDY_NO_HEADS,         /* leave it to the checkpoint */
    REMEDY_VOCABULARY,       /* correct the size of the vocabulary */
    REMEDY_EXPORT_TYPE,      /* export the weights as another type */
    REMEDY_SHARD_SIZE,       /* export fewer, larger files */
    REMEDY_TOKEN_TYPES,      /* keep the embeddings of token types */
    REMEDY_MORE_TOKEN_TYPES, /* give the model more of them */
    REMEDY_TIMEOUT,          /* wait longer for other ranks */
    REMEDY_MEMORY,           /* use more memory */
    REMEDY_LONGER,           /* let collectives take longer */
    /* Text to read, and files to write */
    REMEDY_STRICT,             /* skip documents that are invalid */
    REMEDY_LINE_BYTES,         /* allow longer lines */
    REMEDY_PAGE_BYTES,         /* allow longer pages of a dump */
    REMEDY_SHORTER_LINES,      /* allow only shorter lines */
    REMEDY_INPUT_FORMAT,       /* choose the format of the input */
    REMEDY_NO_DUMP,            /* read a dump, or other text with another command or option */
    REMEDY_MEDIAWIKI,          /* read the input as a MediaWiki dump */
    REMEDY_PLAIN_TEXT,         /* read the input as plain text */
    REMEDY_STANDARD_INPUT,     /* read a pipe from standard input */
    REMEDY_KEYS,               /* choose the JSON keys with the text */
    REMEDY_KEY,                /* choose the JSON key with the text */
    REMEDY_OUTPUT,             /* write to another place */
    REMEDY_OVERWRITE,          /* replace existing files */
    REMEDY_NO_END_OF_DOCUMENT, /* do not append an end-of-document token */
    REMEDY_BUCKETS,            /* divide the hashes into more buckets */
    REMEDY_TEST_SETS,          /* choose other test sets */
    REMEDY_TEST_KEYS,          /* name the JSON keys of the test sets */
    REMEDY_LANGUAGES,          /* correct the list of languages */
    REMEDY_RULES,              /* look the rules up */
    /* Tokenizers */
    REMEDY_TOKENIZER,       /* choose another tokenizer */
    REMEDY_TOKENIZER_FILES, /* get the tokenizer's files again, or choose another tokenizer */
    REMEDY_OTHER_TOKENIZER, /* this program cannot read it: choose another one */
    REMEDY_TOKENIZER_MODEL, /* name the tokenizer's model */
    REMEDY_PUNKT,           /* name the directory of punkt's parameters */
    REMEDY_LANGUAGE,        /* name a language of punkt's */
    REMEDY_VOCAB_FILE,      /* name the vocabulary file */
    REMEDY_MERGE_FILE,      /* name both the vocabulary and the merges */
    REMEDY_VOCAB_SIZE,      /* give the size of the vocabulary */
    REMEDY_MORE_IDS,        /* allow larger token ids */
    REMEDY_ADD_BOS,         /* prepend the beginning-of-sequence token, and nothing else */
    REMEDY_NO_BOS,          /* do not prepend it */
    REMEDY_BOS_OR_SPECIALS, /* add either the one or the others */
    REMEDY_NO_SPECIALS,     /* do not add special tokens */
    REMEDY_NO_MERGES,       /* use the built-in merges */
    REMEDY_MAX_WORDS,       /* learn from fewer words */
    REMEDY_FAIRSEQ_WORDS,   /* read the dictionary as one of words */
    /* Data to train on */
    REMEDY_DATA,             /* name the data */
    REMEDY_DATA_PATHS,       /* name all data, or the data of each split */
    REMEDY_SPLIT,            /* correct the split */
    REMEDY_TRAIN_DATA,       /* correct the list of training data */
    REMEDY_VALID_DATA,       /* ... of validation data */
    REMEDY_TEST_DATA,        /* ... of test data */
    REMEDY_ALL_DATA,         /* ... of the data that is split */
    REMEDY_OR_SPLIT,         /* as an alternative, correct the split */
    REMEDY_MOCK_DATA,        /* train on real data */
    REMEDY_SEQUENCE_LENGTH,  /* set another sequence length */
    REMEDY_SENTENCES,        /* split the texts into sentences */
    REMEDY_ROBERTA_TOKENS,   /* tokenize the texts for RoBERTa */
    REMEDY_DATA_TOKENIZER,   /* use the tokenizer that made the data */
    REMEDY_DATA_END,         /* the same, or set the token that ends documents */
    REMEDY_APPEND_EOD,       /* tokenize the texts with a token that ends documents */
    REMEDY_MICRO_BATCH,      /* set another micro-batch size or sequence length */
    REMEDY_TRAIN_PREFIX,     /* name the training data by its prefix */
    REMEDY_SAMPLE_TOKENS,    /* set another length or another kind of samples */
    REMEDY_BATCH_TOKENS,     /* allow larger batches */
    REMEDY_MASKED_TOKENS,    /* plan memory for more masked tokens */
    REMEDY_MASK_PROBABILITY, /* correct the masking probability */
    REMEDY_MASK_SHARES,      /* correct the shares of unmasked and random tokens */
    /* Generation */
    REMEDY_PROMPT,            /* give a prompt */
    REMEDY_PROMPT_FILE,       /* name another file of prompts */
    REMEDY_MASK_TOKEN,        /* choose the mask token */
    REMEDY_END_TOKEN,         /* choose the token that ends a text */
    REMEDY_TEXT_LENGTH,       /* allow longer texts */
    REMEDY_PRECISION,         /* compute in another precision */
    REMEDY_LOAD_OR_PRECISION, /* use other weights, or another precision */
    REMEDY_NO_FP8,            /* do not compute in fp8 */
    REMEDY_NO_BLOCKS,         /* scale whole fp8 tensors, not blocks of them */
    REMEDY_FP8,               /* compute in fp8, as before */
    REMEDY_CPU,               /* as an alternative, compute on the CPUs */
    /* Images and plans */
    REMEDY_IMPORT_WAIT,  /* let all nodes but one wait for the image */
    REMEDY_SHARED_FILES, /* mount or name the shared file system */
    REMEDY_SCRATCH,      /* name a directory on the local disk */
    REMEDY_NODE_KIND,    /* bring the GPUs back, or correct the kind of the nodes */
    REMEDY_NODE_KINDS,   /* look the kinds of nodes up */
    REMEDY_PRICE,        /* give the price of a node */
    REMEDY_RUN_NAMES,    /* give as many names as there are runs */
    /* Slurm */
    REMEDY_PLUGIN_ON_NODE, /* install the plugin on a node, or do without one of them */
    REMEDY_PLUGIN_OF_SRUN, /* install it where srun runs, or do without it */
    REMEDY_USE_PLUGIN,     /* ask srun for the plugin */
    REMEDY_COUNT
};

/* Use the words of 'table': REMEDY_COUNT imperative clauses, without a period. main() calls this
 * once, before other threads start. */
void remedy_set_table(const char *const *table);

/* The words for 'remedy', such as "raise --max-line-bytes"; without a table "see the manual". */
const char *remedy_words(enum remedy remedy);

/* Append "; " and the words for 'remedy' to 'err' (which may be NULL). Returns -1. */
int error_remedy(struct error *err, enum remedy remedy);

/* error_set, then error_remedy. */
int error_set_remedy(struct error *err, enum remedy remedy, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "out of memory for ", the formatted text, and the remedy for it. Returns -1. */
int error_memory(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
