/* The option table of `megatron train`: Megatron-LM's names. */
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

/* clang-format off */
const struct option arguments_table[] = {
    HEADING("Network"),
    TEXT("megatron-model", model, "NAME", "a preset for the options below; `list` shows all"),
    SIZE("num-layers", num_layers, 1, "transformer layers"),
    SIZE("hidden-size", hidden_size, 1, "width of the residual stream"),
    SIZE("ffn-hidden-size", ffn_hidden_size, 1, "width of the MLP (4 x hidden)"),
    SIZE("num-attention-heads", num_attention_heads, 1, "attention heads"),
    SIZE("kv-channels", kv_channels, 1, "size of a head (hidden / heads)"),
    FLAG("group-query-attention", group_query_attention, "key heads are shared by groups"),
    SIZE("num-query-groups", num_query_groups, 1, "key heads, with --group-query-attention"),
    SIZE("seq-length", seq_length, 1, "tokens of a sample"),
    SIZE("max-position-embeddings", max_position_embeddings, 1, "learned positions"),
    CHOICE("position-embedding-type", position_embedding, "learned_absolute|rope|none",
           "how tokens know their place (learned_absolute)"),
    FLAG("use-rotary-position-embeddings", use_rotary, "same as --position-embedding-type rope"),
    REAL("rotary-base", rotary_base, "base of the rotations (10000)"),
    REAL("rotary-percent", rotary_percent, "share of a head that is rotated (1.0)"),
    FLAG("use-rope-scaling", rope_scaling, "Llama 3.1's longer rotations"),
    REAL("rope-scaling-factor", rope_scaling_factor, "their factor (8)"),
    CHOICE("normalization", normalization, "LayerNorm|RMSNorm", "which norm (LayerNorm)"),
    REAL("norm-epsilon", norm_epsilon, "added to the variance (1e-5)"),
    REAL("layernorm-epsilon", norm_epsilon, "older name of --norm-epsilon"),
    FLAG("swiglu", swiglu, "SwiGLU instead of GELU"),
    FLAG("untie-embeddings-and-output-weights", untie, "a head of its own"),
    UNFLAG("disable-bias-linear", linear_bias, "linear layers without bias"),
    FLAG("add-qkv-bias", qkv_bias, "a bias for query, key and value all the same"),
    SIZE("vocab-size", vocab_size, 1, "tokens of the vocabulary, without padding"),
    SIZE("make-vocab-size-divisible-by", make_vocab_size_divisible_by, 1,
        "the table is padded to a multiple of this times tp (128)"),
    REAL("init-method-std", init_method_std, "deviation of first weights (.02)"),
    REAL("hidden-dropout", hidden_dropout, "dropout on the residual stream (.1)"),
    REAL("attention-dropout", attention_dropout, "dropout on attention (.1)"),

    HEADING("Training"),
    SIZE("micro-batch-size", micro_batch_size, 1, "samples of one pass on a rank"),
    SIZE("global-batch-size", global_batch_size, 1, "samples of a step (micro x dp)"),
    LIST("rampup-batch-size", rampup, "START INCREMENT SAMPLES", "grow the global batch"),
    INT("train-iters", train_iters, 1, "steps to train"),
    INT("train-samples", train_samples, 1, "samples to train, instead of steps"),
    INT("seed", seed, 0, "of weights, dropout and data order (1234)"),
    REAL("lr", lr, "learning rate at its height"),
    REAL("min-lr", min_lr, "learning rate at its end (0)"),
    CHOICE("lr-decay-style", lr_decay_style, "linear|cosine|inverse-square-root|constant",
           "how it falls (linear)"),
    INT("lr-decay-iters", lr_decay_iters, 1, "steps until the end (train-iters)"),
    INT("lr-decay-samples", lr_decay_samples, 1, "samples until the end (train-samples)"),
    REAL("lr-warmup-fraction", lr_warmup_fraction, "share of the decay that is warm-up"),
    INT("lr-warmup-iters", lr_warmup_iters, 0, "steps of warm-up (0)"),
    INT("lr-warmup-samples", lr_warmup_samples, 0, "samples of warm-up (0)"),
    REAL("weight-decay", weight_decay, "decoupled decay; none on norms and biases (.01)"),
    REAL("clip-grad", clip_grad, "limit of the gradient's norm (1.0; 0: none)"),
    CHOICE("optimizer", optimizer, "adam", "AdamW, the only one here"),
    REAL("adam-beta1", beta1, "(.9)"),
    REAL("adam-beta2", beta2, "(.999)"),
    REAL("adam-eps", epsilon, "(1e-8)"),
    FLAG("bf16", bf16, "weights and activations in bfloat16 (GPU)"),
    FLAG("fp16", fp16, "in fp16, with a loss scale (GPU)"),
    REAL("loss-scale", loss_scale, "a fixed loss scale"),
    REAL("initial-loss-scale", initial_loss_scale, "first value of a moving one (2^32)"),
    REAL("min-loss-scale", min_loss_scale, "its least value (1)"),
    INT("loss-scale-window", loss_scale_window, 1, "good steps before it doubles (1000)"),
    INT("hysteresis", hysteresis, 1, "overflows before it halves (2)"),
    FLAG("recompute-activations", recompute_activations, "same as --recompute-granularity selective"),
    CHOICE("recompute-granularity", recompute_granularity, "full|selective",
           "make activations again in the backward pass"),
    CHOICE("recompute-method", recompute_method, "uniform|block", "of full: all layers, or some"),
    INT("recompute-num-layers", recompute_num_layers, 1, "layers of a stage, with block"),
    INT("exit-interval", exit_interval, 1, "end when the iteration is a multiple of this"),
    REAL("exit-duration-in-mins", exit_duration, "end after this time"),
    FLAG("exit-signal-handler", exit_signal_handler, "save and end on SIGTERM and SIGUSR1"),

    HEADING("Layout"),
    SIZE("tensor-model-parallel-size", tp, 1, "ranks that share each layer (1)"),
    SIZE("pipeline-model-parallel-size", pp, 1, "stages of layers (1)"),
    SIZE("context-parallel-size", cp, 1, "ranks that share each sequence (1)"),
    INT("num-layers-per-virtual-pipeline-stage", layers_per_virtual_stage, 1,
        "interleave: layers of a chunk"),
    FLAG("sequence-parallel", sequence_parallel, "divide rows over tp; always on here"),
    FLAG("use-distributed-optimizer", distributed_optimizer,
         "divide the optimizer over dp; always on here"),
    FLAG("overlap-grad-reduce", overlap_grad_reduce, "reduce gradients under backward; always on"),
    INT("ddp-bucket-size", bucket_size, 1, "parameters whose gradients are reduced together (40000000)"),
    FLAG("overlap-param-gather", overlap_param_gather, "gather weights under the update; always on"),
    REAL("distributed-timeout-minutes", timeout_minutes, "deadline of every wait (10)"),

    HEADING("Data"),
    LIST("data-path", data_path, "[WEIGHT] PREFIX ...", "tokenized data, divided by --split"),
    LIST("train-data-path", train_data_path, "[WEIGHT] PREFIX ...", "data to train on"),
    LIST("valid-data-path", valid_data_path, "[WEIGHT] PREFIX ...", "data to validate on"),
    LIST("test-data-path", test_data_path, "[WEIGHT] PREFIX ...", "data to test on"),
    TEXT("split", split, "A,B,C", "shares of train, valid, test (969,30,1)"),
    TEXT("data-cache-path", data_cache_path, "DIR", "where indices are kept"),
    CHOICE("dataloader-type", dataloader_type, "single", "one pass in order, the only one here"),
    FLAG("mock-data", mock_data, "made-up tokens, no files"),
    FLAG("reset-position-ids", reset_position_ids, "positions restart behind each document"),
    FLAG("reset-attention-mask", reset_attention_mask, "attention stays within a document"),
    FLAG("eod-mask-loss", eod_mask_loss, "no loss on end-of-document tokens"),
    INT("eod-id", eod_id, 0, "the end-of-document token (last of the vocabulary)"),
    INT("eval-iters", eval_iters, 0, "steps of an evaluation (100)"),
    INT("eval-interval", eval_interval, 1, "steps between evaluations (1000)"),
    FLAG("skip-train", skip_train, "evaluate the weights of --load or --load-hf, and end"),
    CHOICE("tokenizer-type", tokenizer.type, TOKENIZER_TYPES,
           "the vocabulary's size and end of document are taken from it"),
    TEXT("tokenizer-model", tokenizer.model, "FILE", "of a SentencePiece or rank tokenizer"),
    TEXT("vocab-file", tokenizer.vocab_file, "FILE", "vocab.json of a byte-level BPE"),
    TEXT("merge-file", tokenizer.merge_file, "FILE", "its merges.txt"),

    HEADING("Checkpoints"),
    TEXT("save", save, "DIR", "where to save checkpoints; one at the end, too"),
    INT("save-interval", save_interval, 1, "steps between checkpoints"),
    INT("keep-last", keep_last, 1, "remove all checkpoints but the newest N"),
    FLAG("async-save", async_save, "write checkpoints behind the training"),
    UNFLAG("no-save-optim", save_optimizer, "save the weights only"),
    TEXT("load", load, "DIR", "go on from the newest checkpoint there"),
    INT("ckpt-step", ckpt_step, 0, "from the checkpoint of this iteration instead"),
    FLAG("exit-on-missing-checkpoint", exit_on_missing, "--load must find one, also where it is --save"),
    UNFLAG("no-load-optim", load_optimizer, "start the optimizer and its schedule anew"),
    UNFLAG("no-load-rng", load_rng, "draw random numbers by --seed, not by the checkpoint's"),
    FLAG("finetune", finetune, "take the weights only and begin at iteration 0"),
    FLAG("override-opt_param-scheduler", override_scheduler,
         "take learning rate and decay from here, not from the checkpoint"),
    FLAG("use-checkpoint-opt_param-scheduler", use_checkpoint_scheduler,
         "take learning rate and decay from the checkpoint, not from here"),

    HEADING("Weights"),
    TEXT("load-hf", load_hf, "DIR", "start from Hugging Face weights (safetensors)"),
    TEXT("save-hf", save_hf, "DIR", "write Hugging Face weights at the end"),

    HEADING("Output"),
    INT("log-interval", log_interval, 1, "steps between log lines (100)"),
    FLAG("log-throughput", log_throughput, "TFLOP/s in the log line"),
    FLAG("log-params-norm", log_params_norm, "norm of the weights in the log line"),
    TEXT("tensorboard-dir", tensorboard_dir, "DIR", "event files for TensorBoard"),
    TEXT("metrics-file", metrics_file, "FILE", "one line of JSON per log line"),
    FLAG("profile", profile, "time by part of a step at the end"),
    FLAG("dry-run", dry_run, "plan and memory of every rank; trains nothing"),
    INT("world-size", world_size, 1, "ranks of a --dry-run"),

    HEADING("Device"),
    CHOICE("device", device, "auto|cpu|cuda", "where to compute (cuda where there is a GPU)"),
    INT("cpu-threads", threads, 1, "threads of a CPU rank (its cores)"),
    CHOICE("attention-backend", attention_backend, "auto|flash|fused|unfused|local",
           "unfused, local: attention with its scores in memory (auto)"),
    FLAG("deterministic-mode", deterministic, "same bits in every run"),
    FLAG("nccl-ub", nccl_ub, "register weights, gradients and exchanged rows with NCCL"),
    FLAG("random-order", random_order, "cpu: streams in random legal order, for tests"),

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
    IGNORED("log-timers-to-tensorboard"), IGNORED("log-validation-ppl-to-tensorboard"),
    IGNORED("log-memory-to-tensorboard"), IGNORED("log-num-zeros-in-grad"),
    IGNORED("tensorboard-queue-size"), IGNORED("tensorboard-log-interval"),
    IGNORED("timing-log-level"), IGNORED("use-cpu-initialization"), IGNORED("lazy-mpu-init"),
    IGNORED("use-legacy-models"), IGNORED("manual-gc"), IGNORED("manual-gc-*"), IGNORED("use-checkpoint-args"),
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
    {0, 0, 0, 0, 0, 0, 0, 0},
};
/* clang-format on */
