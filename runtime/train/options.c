/* SPDX-License-Identifier: Apache-2.0 */
/* The option table of `megatron train`: Megatron-LM's option names. */
#include "arguments.h"

#define AT(field) offsetof(struct arguments, field)
#define HEADING(text)                          \
    {                                          \
        text, OPTION_HEADING, 0, 0, 0, 0, 0, 0 \
    }
#define INT(name, field, low, help)                               \
    {                                                             \
        name, OPTION_INT, AT(field), "N", help, 0, low, INT64_MAX \
    }
#define SIZE(name, field, low, help)                              \
    {                                                             \
        name, OPTION_INT, AT(field), "N", help, 0, low, INT32_MAX \
    }
#define REAL(name, field, help)                          \
    {                                                    \
        name, OPTION_REAL, AT(field), "X", help, 0, 0, 0 \
    }
#define TEXT(name, field, arg, help)                     \
    {                                                    \
        name, OPTION_TEXT, AT(field), arg, help, 0, 0, 0 \
    }
#define FLAG(name, field, help)                        \
    {                                                  \
        name, OPTION_FLAG, AT(field), 0, help, 0, 0, 0 \
    }
#define UNFLAG(name, field, help)                        \
    {                                                    \
        name, OPTION_UNFLAG, AT(field), 0, help, 0, 0, 0 \
    }
#define LIST(name, field, arg, help)                     \
    {                                                    \
        name, OPTION_LIST, AT(field), arg, help, 0, 0, 0 \
    }
#define CHOICE(name, field, words, help)                     \
    {                                                        \
        name, OPTION_CHOICE, AT(field), 0, help, words, 0, 0 \
    }
#define IGNORED(name)                          \
    {                                          \
        name, OPTION_IGNORED, 0, 0, 0, 0, 0, 0 \
    }
#define RENAMED(name, now)                       \
    {                                            \
        name, OPTION_RENAMED, 0, 0, now, 0, 0, 0 \
    }

#define ABSENT(name, instead)                        \
    {                                                \
        name, OPTION_ABSENT, 0, 0, instead, 0, 0, 0  \
    }

/* clang-format off */
const struct option arguments_table[] = {
    HEADING("Network"),
    TEXT("megatron-model", model, "NAME", "model preset that sets the options below; `list` shows all presets"),
    SIZE("num-layers", num_layers, 1, "number of transformer layers"),
    SIZE("hidden-size", hidden_size, 1, "transformer hidden size"),
    SIZE("ffn-hidden-size", ffn_hidden_size, 1, "hidden size of the feed-forward network (default: 4 x hidden-size)"),
    SIZE("num-attention-heads", num_attention_heads, 1, "number of transformer attention heads"),
    SIZE("kv-channels", kv_channels, 1, "projection dimension of each attention head (default: hidden-size / num-attention-heads)"),
    FLAG("group-query-attention", group_query_attention, "use grouped-query attention (GQA)"),
    SIZE("num-query-groups", num_query_groups, 1, "number of query groups, with --group-query-attention"),
    SIZE("seq-length", seq_length, 1, "sequence length of a training sample, in tokens"),
    SIZE("max-position-embeddings", max_position_embeddings, 1, "maximum number of position embeddings (default: seq-length)"),
    CHOICE("position-embedding-type", position_embedding, "learned_absolute|rope|none",
           "type of position embedding (default: learned_absolute)"),
    FLAG("use-rotary-position-embeddings", use_rotary, "same as --position-embedding-type rope"),
    REAL("rotary-base", rotary_base, "base of rotary position embeddings (default: 10000)"),
    REAL("rotary-percent", rotary_percent, "fraction of each head's dimension that is rotated (default: 1.0)"),
    FLAG("use-rope-scaling", rope_scaling, "scale rotary embeddings as Llama 3.1 does"),
    REAL("rope-scaling-factor", rope_scaling_factor, "RoPE scaling factor (default: 8)"),
    CHOICE("normalization", normalization, "LayerNorm|RMSNorm", "normalization layer (default: LayerNorm)"),
    REAL("norm-epsilon", norm_epsilon, "epsilon of LayerNorm and RMSNorm (default: 1e-5)"),
    REAL("layernorm-epsilon", norm_epsilon, "old name of --norm-epsilon"),
    FLAG("swiglu", swiglu, "use SwiGLU instead of GELU"),
    FLAG("untie-embeddings-and-output-weights", untie, "do not share input embeddings and output layer weights"),
    UNFLAG("disable-bias-linear", linear_bias, "disable bias in linear layers"),
    FLAG("add-qkv-bias", qkv_bias, "enable bias in the QKV linear layers only"),
    FLAG("masked-lm", masked, "train a masked language model: bidirectional attention, and a head that predicts the masked tokens only"),
    FLAG("post-norm", post_norm, "with --masked-lm: normalize after each branch and after the embedding, as BERT and RoBERTa do"),
    FLAG("exact-gelu", gelu_erf, "compute GELU with erf, as BERT and RoBERTa do, instead of its approximation by tanh"),
    SIZE("num-token-types", token_types, 0, "with --masked-lm: number of token types; 0: no such table (default: 0)"),
    SIZE("position-offset", position_offset, 0, "with --masked-lm: the row of the position table for a sample's first token; RoBERTa has 2 (default: 0)"),
    FLAG("bert-binary-head", binary_head, "with --masked-lm: add a pooler and a classifier of sentence pairs (NSP, SOP)"),
    UNFLAG("bert-no-binary-head", binary_head, "omit the pooler and the classifier of sentence pairs"),
    SIZE("max-masked-tokens", masked_max, 1, "with --masked-lm: the most masked tokens of one sample, which memory is planned for (default: 15% of seq-length, plus 1)"),
    SIZE("vocab-size", vocab_size, 1, "size of the vocabulary before padding"),
    SIZE("make-vocab-size-divisible-by", make_vocab_size_divisible_by, 1,
        "pad the vocabulary to a multiple of this times tensor-model-parallel-size (default: 128)"),
    REAL("init-method-std", init_method_std, "standard deviation of the initial weights (default: 0.02)"),
    REAL("hidden-dropout", hidden_dropout, "dropout probability for the hidden state (default: 0.1)"),
    REAL("attention-dropout", attention_dropout, "dropout probability for attention (default: 0.1)"),

    HEADING("Training"),
    SIZE("micro-batch-size", micro_batch_size, 1, "batch size per model instance (local batch size)"),
    SIZE("global-batch-size", global_batch_size, 1, "training batch size (default: micro-batch-size x data-parallel size)"),
    LIST("rampup-batch-size", rampup, "START INCREMENT SAMPLES", "increase the global batch size from START by INCREMENT over SAMPLES samples"),
    INT("train-iters", train_iters, 1, "number of iterations to train"),
    INT("train-samples", train_samples, 1, "number of samples to train, instead of --train-iters"),
    INT("seed", seed, 0, "random seed of weights, dropout and data order (default: 1234)"),
    REAL("lr", lr, "peak learning rate"),
    REAL("min-lr", min_lr, "minimum learning rate (default: 0)"),
    CHOICE("lr-decay-style", lr_decay_style, "linear|cosine|inverse-square-root|constant|WSD|polynomial",
           "learning rate decay schedule (default: linear)"),
    INT("lr-decay-iters", lr_decay_iters, 1, "iterations to decay the learning rate over (default: train-iters)"),
    INT("lr-decay-samples", lr_decay_samples, 1, "samples to decay the learning rate over (default: train-samples)"),
    REAL("lr-warmup-fraction", lr_warmup_fraction, "fraction of the decay iterations or samples used for warm-up"),
    INT("lr-warmup-iters", lr_warmup_iters, 0, "iterations to linearly warm up the learning rate (default: 0)"),
    INT("lr-warmup-samples", lr_warmup_samples, 0, "samples to linearly warm up the learning rate (default: 0)"),
    REAL("lr-warmup-init", lr_warmup_init, "learning rate at the start of warm-up (default: 0)"),
    CHOICE("lr-wsd-decay-style", lr_wsd_decay_style, "exponential|linear|cosine|minus_sqrt",
           "decay of the last part of WSD (default: exponential)"),
    INT("lr-wsd-decay-iters", lr_wsd_decay_iters, 1, "iterations of the last part of WSD"),
    INT("lr-wsd-decay-samples", lr_wsd_decay_samples, 1, "samples of the last part of WSD"),
    REAL("decoupled-lr", decoupled_lr, "peak learning rate of embedding and output layer (default: lr)"),
    REAL("decoupled-min-lr", decoupled_min_lr, "minimum learning rate of embedding and output layer (default: 0)"),
    REAL("weight-decay", weight_decay, "decoupled weight decay; not applied to norms and biases (default: 0.01)"),
    REAL("start-weight-decay", start_weight_decay, "initial weight decay, with --weight-decay-incr-style"),
    REAL("end-weight-decay", end_weight_decay, "weight decay at the end of training, with --weight-decay-incr-style"),
    CHOICE("weight-decay-incr-style", weight_decay_incr_style, "constant|linear|cosine",
           "how the weight decay changes over the run (default: constant)"),
    REAL("clip-grad", clip_grad, "gradient clipping norm; 0 disables clipping (default: 1.0)"),
    CHOICE("optimizer", optimizer, "adam|sgd", "optimizer: AdamW, or SGD with momentum (default: adam)"),
    REAL("sgd-momentum", sgd_momentum, "momentum of SGD (default: 0.9)"),
    REAL("adam-beta1", beta1, "first coefficient of Adam's running averages (default: 0.9)"),
    REAL("adam-beta2", beta2, "second coefficient of Adam's running averages (default: 0.999)"),
    REAL("adam-eps", epsilon, "term added to Adam's denominator for numerical stability (default: 1e-8)"),
    FLAG("bf16", bf16, "train in bfloat16 (GPU only)"),
    FLAG("fp16", fp16, "train in fp16 with loss scaling (GPU only)"),
    REAL("loss-scale", loss_scale, "static loss scale (default: dynamic)"),
    REAL("initial-loss-scale", initial_loss_scale, "initial dynamic loss scale (default: 2^32)"),
    REAL("min-loss-scale", min_loss_scale, "minimum dynamic loss scale (default: 1)"),
    INT("loss-scale-window", loss_scale_window, 1, "steps without overflow before the loss scale is doubled (default: 1000)"),
    INT("hysteresis", hysteresis, 1, "overflows before the loss scale is halved (default: 2)"),
    FLAG("recompute-activations", recompute_activations, "same as --recompute-granularity selective"),
    CHOICE("recompute-granularity", recompute_granularity, "full|selective",
           "recompute activations in the backward pass instead of storing them"),
    CHOICE("recompute-method", recompute_method, "uniform|block", "with full recomputation: all layers (uniform), or some (block)"),
    INT("recompute-num-layers", recompute_num_layers, 1, "layers per pipeline stage to recompute, with --recompute-method block"),
    INT("exit-interval", exit_interval, 1, "exit when the iteration is divisible by this"),
    REAL("exit-duration-in-mins", exit_duration, "exit after this many minutes"),
    FLAG("exit-signal-handler", exit_signal_handler, "save a checkpoint and exit on SIGTERM, SIGUSR1 or the first SIGINT (Ctrl-C)"),

    HEADING("Parallelism"),
    SIZE("tensor-model-parallel-size", tp, 1, "degree of tensor model parallelism (default: 1)"),
    SIZE("pipeline-model-parallel-size", pp, 1, "degree of pipeline model parallelism (default: 1)"),
    SIZE("context-parallel-size", cp, 1, "degree of context parallelism (default: 1)"),
    INT("num-layers-per-virtual-pipeline-stage", layers_per_virtual_stage, 1,
        "interleaved pipeline schedule: layers per virtual stage"),
    FLAG("sequence-parallel", sequence_parallel, "sequence parallelism; always on with tensor parallelism"),
    FLAG("use-distributed-optimizer", distributed_optimizer,
         "distributed optimizer (ZeRO-1); always on"),
    FLAG("overlap-grad-reduce", overlap_grad_reduce, "overlap gradient reduce-scatter with the backward pass; always on"),
    INT("ddp-bucket-size", bucket_size, 1, "number of parameters per gradient bucket (default: 40000000)"),
    FLAG("overlap-param-gather", overlap_param_gather, "overlap parameter all-gather with the optimizer step; always on"),
    REAL("distributed-timeout-minutes", timeout_minutes, "timeout of distributed operations (default: 10)"),

    HEADING("Data"),
    LIST("data-path", data_path, "[WEIGHT] PREFIX ...", "tokenized datasets with optional weights, divided by --split"),
    LIST("train-data-path", train_data_path, "[WEIGHT] PREFIX ...", "tokenized training datasets"),
    LIST("valid-data-path", valid_data_path, "[WEIGHT] PREFIX ...", "tokenized validation datasets"),
    LIST("test-data-path", test_data_path, "[WEIGHT] PREFIX ...", "tokenized test datasets"),
    TEXT("split", split, "A,B,C", "proportions of training, validation and test data (default: 969,30,1)"),
    TEXT("data-cache-path", data_cache_path, "DIR", "directory for dataset indices"),
    CHOICE("dataloader-type", dataloader_type, "single", "single pass through the data; the only type supported"),
    FLAG("mock-data", mock_data, "use mock data instead of files"),
    FLAG("reset-position-ids", reset_position_ids, "reset position ids after the end-of-document token"),
    FLAG("reset-attention-mask", reset_attention_mask, "reset the attention mask after the end-of-document token"),
    FLAG("eod-mask-loss", eod_mask_loss, "mask the loss of end-of-document tokens"),
    INT("eod-id", eod_id, 0, "end-of-document token id (default: the tokenizer's, or the last of the vocabulary)"),
    INT("eval-iters", eval_iters, 0, "iterations per evaluation (default: 100)"),
    INT("eval-interval", eval_interval, 1, "iterations between evaluations (default: 1000)"),
    FLAG("skip-train", skip_train, "evaluate the weights of --load or --load-hf and exit"),
    CHOICE("tokenizer-type", tokenizer.type, TOKENIZER_TYPES,
           "tokenizer that provides the vocabulary size and end-of-document token"),
    TEXT("tokenizer-model", tokenizer.model, "FILE", "SentencePiece, tokenizer.json or tiktoken file"),
    TEXT("vocab-file", tokenizer.vocab_file, "FILE", "vocab.json of a byte-level BPE tokenizer"),
    TEXT("merge-file", tokenizer.merge_file, "FILE", "merges.txt of a byte-level BPE tokenizer"),

    HEADING("Masked language models"),
    CHOICE("recipe", mlm.recipe, "megatron|fairseq",
           "set the options below, Adam, its schedule and loss scaling as fairseq's RoBERTa does; options on the command line override it (default: megatron)"),
    CHOICE("sample-break-mode", mlm.break_mode, "none|complete|complete_doc|eos",
           "how lines become samples: equal cuts, whole lines, whole lines of a document, one line (default: complete)"),
    SIZE("tokens-per-sample", seq_length, 2, "same as --seq-length: the longest sample, with its first token <s>"),
    SIZE("max-sentences", micro_batch_size, 1, "same as --micro-batch-size"),
    SIZE("max-tokens", mlm.max_tokens, 1, "limit a micro-batch to this many tokens with padding, besides --micro-batch-size"),
    SIZE("required-batch-size-multiple", mlm.multiple, 1, "micro-batches of more samples than this have a multiple of it (default: 8)"),
    SIZE("update-freq", mlm.update_freq, 1, "micro-batches per step, instead of --global-batch-size (default: 1)"),
    INT("max-update", train_iters, 1, "same as --train-iters"),
    INT("warmup-updates", lr_warmup_iters, 0, "same as --lr-warmup-iters"),
    INT("total-num-update", lr_decay_iters, 1, "same as --lr-decay-iters"),
    REAL("end-learning-rate", min_lr, "same as --min-lr"),
    REAL("power", mlm.power, "exponent of --lr-decay-style polynomial (default: 1.0)"),
    REAL("clip-norm", clip_grad, "same as --clip-grad"),
    REAL("dropout", hidden_dropout, "same as --hidden-dropout"),
    TEXT("adam-betas", mlm.betas, "(B1,B2)", "--adam-beta1 and --adam-beta2 in one option"),
    FLAG("adam-raw-eps", mlm.raw_epsilon, "add Adam's epsilon before the bias correction, as fairseq does"),
    FLAG("decay-all-parameters", mlm.decay_all, "apply weight decay to norms and biases, too, as fairseq does"),
    FLAG("calculate-per-token-loss", mlm.per_token, "weigh all predicted tokens of a step alike; without it, the mean of the means of micro-batches"),
    REAL("fp16-init-scale", initial_loss_scale, "same as --initial-loss-scale"),
    INT("fp16-scale-window", loss_scale_window, 1, "same as --loss-scale-window"),
    REAL("mask-prob", mlm.mask_prob, "share of the tokens to predict (default: 0.15)"),
    REAL("leave-unmasked-prob", mlm.leave_unmasked, "share of these that stay as they are (default: 0.1)"),
    REAL("random-token-prob", mlm.random_token, "share of these that become a random token (default: 0.1)"),
    CHOICE("masking", mlm.masking, "fairseq|fairseq-main|huggingface",
           "draw masks as fairseq 0.12, its main branch, or Hugging Face's collator (default: fairseq)"),
    FLAG("mask-whole-words", mlm.whole_words, "mask all tokens of a word together; needs a BPE or WordPiece tokenizer"),
    FLAG("freq-weighted-replacement", mlm.frequency, "draw random tokens by the counts of dict.txt"),
    INT("mask-id", mlm.mask_id, 0, "id of the mask token (default: the tokenizer's or dict.txt's)"),

    HEADING("Checkpoints"),
    TEXT("save", save, "DIR", "directory to save checkpoints in; one is always saved at the end"),
    INT("save-interval", save_interval, 1, "iterations between checkpoints"),
    INT("keep-last", keep_last, 1, "delete all but the newest N checkpoints"),
    FLAG("async-save", async_save, "write checkpoints in the background"),
    UNFLAG("no-save-optim", save_optimizer, "do not save the optimizer state"),
    TEXT("load", load, "DIR", "resume from the newest checkpoint in this directory"),
    INT("ckpt-step", ckpt_step, 0, "load the checkpoint of this iteration instead of the newest"),
    FLAG("exit-on-missing-checkpoint", exit_on_missing, "exit if --load contains no checkpoint, even if it is the same directory as --save"),
    FLAG("use-checkpoint-args", use_checkpoint_args,
         "take the network from the checkpoint, even against options of the command line"),
    UNFLAG("no-load-optim", load_optimizer, "do not load the optimizer state and learning-rate schedule"),
    UNFLAG("no-load-rng", load_rng, "do not load the random number state; use --seed"),
    FLAG("finetune", finetune, "load only the weights and start at iteration 0"),
    FLAG("override-opt_param-scheduler", override_scheduler,
         "use the learning-rate schedule of the command line, not of the checkpoint"),
    FLAG("use-checkpoint-opt_param-scheduler", use_checkpoint_scheduler,
         "use the learning-rate schedule of the checkpoint, not of the command line"),

    HEADING("Hugging Face weights"),
    TEXT("load-hf", load_hf, "DIR", "start from Hugging Face weights (safetensors)"),
    TEXT("save-hf", save_hf, "DIR", "write Hugging Face weights at the end"),

    HEADING("Output"),
    INT("log-interval", log_interval, 1, "iterations between log lines (default: 100)"),
    CHOICE("log-format", mlm.log_format, "megatron|json", "log lines as Megatron's, or as fairseq's --log-format json (default: megatron)"),
    INT("straggler-interval", straggler_interval, 0, "iterations between comparisons of all ranks, at log lines; 0 for none (default: 100)"),
    FLAG("log-throughput", log_throughput, "log the throughput in TFLOP/s per GPU"),
    FLAG("log-params-norm", log_params_norm, "log the norm of the parameters"),
    TEXT("tensorboard-dir", tensorboard_dir, "DIR", "write TensorBoard logs to this directory"),
    FLAG("log-validation-ppl-to-tensorboard", log_validation_ppl, "write the validation perplexity to TensorBoard"),
    FLAG("log-world-size-to-tensorboard", log_world_size, "write the number of ranks to TensorBoard"),
    FLAG("log-memory-to-tensorboard", log_memory, "write the memory of a rank to TensorBoard"),
    TEXT("metrics-file", metrics_file, "FILE", "append each log line as JSON to this file"),
    FLAG("profile", profile, "print how the time of a step is spent, at the end"),
    FLAG("dry-run", dry_run, "print on which GPUs the run fits, and the plan and memory of every rank, without training"),
    FLAG("verbose", verbose, "with --dry-run, print all arguments, too"),
    INT("world-size", world_size, 1, "number of ranks to assume with --dry-run"),

    HEADING("Device"),
    CHOICE("device", device, "auto|cpu|cuda", "device to compute on (default: cuda if the node has a GPU)"),
    INT("cpu-threads", threads, 1, "threads per CPU rank (default: its cores)"),
    CHOICE("attention-backend", attention_backend, "auto|flash|fused|unfused|local",
           "attention implementation; unfused and local store the scores (default: auto)"),
    FLAG("deterministic-mode", deterministic, "compute bit-identical results in every run"),
    FLAG("nccl-ub", nccl_ub, "register communication buffers with NCCL (user buffers)"),
    FLAG("random-order", random_order, "CPU only, for tests: run streams in random legal order"),

    IGNORED("use-mcore-models"), IGNORED("transformer-impl"), IGNORED("use-flash-attn"),
    IGNORED("no-masked-softmax-fusion"), IGNORED("no-rope-fusion"),
    IGNORED("no-position-embedding"), IGNORED("num-workers"), IGNORED("distributed-backend"),
    IGNORED("DDP-impl"), IGNORED("data-impl"), IGNORED("accumulate-allreduce-grads-in-fp32"),
    IGNORED("wandb-*"), IGNORED("no-query-key-layer-scaling"), IGNORED("no-save-rng"),
    IGNORED("no-create-attention-mask-in-dataloader"), IGNORED("use-dist-ckpt"),
    IGNORED("no-gradient-accumulation-fusion"), IGNORED("no-bias-gelu-fusion"),
    IGNORED("no-bias-swiglu-fusion"), IGNORED("no-bias-dropout-fusion"),
    IGNORED("attention-softmax-in-fp32"), IGNORED("no-async-tensor-model-parallel-allreduce"),
    IGNORED("local-rank"),
    IGNORED("tokenizer-name-or-path"), IGNORED("ckpt-format"),
    IGNORED("log-timers-to-tensorboard"), IGNORED("log-num-zeros-in-grad"),
    IGNORED("log-loss-scale-to-tensorboard"), IGNORED("log-batch-size-to-tensorboard"),
    IGNORED("log-learning-rate-to-tensorboard"),
    IGNORED("tensorboard-queue-size"), IGNORED("tensorboard-log-interval"),
    IGNORED("timing-log-level"), IGNORED("use-cpu-initialization"), IGNORED("lazy-mpu-init"),
    IGNORED("use-legacy-models"), IGNORED("manual-gc"), IGNORED("manual-gc-*"),
    IGNORED("cross-entropy-loss-fusion"), IGNORED("cross-entropy-fusion-impl"),
    IGNORED("empty-unused-memory-level"), IGNORED("no-mmap-bin-files"),
    IGNORED("no-check-for-nan-in-loss-and-grad"), IGNORED("grad-reduce-in-bf16"),
    IGNORED("profile-step-*"), IGNORED("profile-ranks"), IGNORED("no-persist-layer-norm"),
    IGNORED("tp-comm-overlap"), IGNORED("tp-comm-overlap-*"), IGNORED("auto-detect-ckpt-format"),
    IGNORED("dist-ckpt-strictness"), IGNORED("ckpt-fully-parallel-*"),
    IGNORED("ckpt-assume-constant-structure"),
    RENAMED("batch-size", "micro-batch-size"), RENAMED("warmup", "lr-warmup-fraction"),
    RENAMED("model-parallel-size", "tensor-model-parallel-size"),
    RENAMED("checkpoint-activations", "recompute-activations"),
    RENAMED("distribute-checkpointed-activations", "recompute-granularity"),
    RENAMED("max-len", "seq-length"), RENAMED("attention-dropout-prob", "attention-dropout"),
    ABSENT("num-experts", "models are dense: drop the options of experts (MoE)"),
    ABSENT("moe-*", "models are dense: drop the options of experts (MoE)"),
    ABSENT("expert-*", "models are dense: drop the options of experts (MoE)"),
    ABSENT("fp8-*", "train with --bf16"),
    ABSENT("fp8", "train with --bf16"),
    ABSENT("fp4-*", "train with --bf16"),
    ABSENT("multi-latent-attention", "attention is multi-head or grouped-query (--group-query-attention)"),
    ABSENT("mtp-*", "only the next token is predicted"),
    ABSENT("use-torch-fsdp2", "the distributed optimizer shards the optimizer state; use --tensor-model-parallel-size or --pipeline-model-parallel-size for less memory per GPU"),
    ABSENT("use-custom-fsdp", "the distributed optimizer shards the optimizer state; use --tensor-model-parallel-size or --pipeline-model-parallel-size for less memory per GPU"),
    ABSENT("use-megatron-fsdp", "the distributed optimizer shards the optimizer state; use --tensor-model-parallel-size or --pipeline-model-parallel-size for less memory per GPU"),
    ABSENT("data-parallel-sharding-strategy", "the distributed optimizer shards the optimizer state (ZeRO-1)"),
    ABSENT("encoder-*", "models are decoders without an encoder"),
    ABSENT("spec", "the network follows from its options; see --help"),
    ABSENT("hybrid-*", "models consist of attention and MLP layers"),
    ABSENT("mamba-*", "models consist of attention and MLP layers"),
    ABSENT("retro-*", "data come from --data-path"),
    ABSENT("load-main-params-from-ckpt", "--load takes the fp32 weights of a checkpoint"),
    ABSENT("pretrained-checkpoint", "use --load DIR --finetune"),
    ABSENT("non-persistent-*", "use --save with --async-save and --keep-last"),
    ABSENT("enable-ft-package", "use `megatron supervise`, which restarts a run"),
    ABSENT("rerun-mode", "a step whose gradients are inf or NaN is skipped and reported"),
    ABSENT("enable-one-logger", "use --tensorboard-dir or --metrics-file"),
    ABSENT("log-straggler", "use --profile"),
    ABSENT("inference-*", "use `megatron generate`"),
    {0, 0, 0, 0, 0, 0, 0, 0},
};
/* clang-format on */
