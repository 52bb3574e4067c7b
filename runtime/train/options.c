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
    CHOICE("position-embedding-type", position_embedding, "learned_absolute|rope|none|yarn",
           "type of position embedding (default: learned_absolute)"),
    FLAG("use-rotary-position-embeddings", use_rotary, "same as --position-embedding-type rope"),
    REAL("rotary-base", rotary_base, "base of rotary position embeddings (default: 10000)"),
    REAL("rotary-percent", rotary_percent, "fraction of each head's dimension that is rotated (default: 1.0)"),
    FLAG("use-rope-scaling", rope_scaling, "scale rotary embeddings as Llama 3.1 does"),
    REAL("rope-scaling-factor", rope_scaling_factor, "RoPE scaling factor (default: 8)"),
    REAL("rotary-seq-len-interpolation-factor", rotary_interpolation, "divide positions by this for longer sequences (default: 1)"),
    REAL("rotary-base-local", blocks.local_rotary_base, "rotary base of layers with a window, without scaling (default: rotary-base)"),
    REAL("yarn-rotary-scaling-factor", yarn_factor, "with --position-embedding-type yarn: factor of the sequence length"),
    REAL("yarn-original-max-position-embeddings", yarn_original, "sequence length before YaRN (default: max-position-embeddings / factor)"),
    REAL("yarn-beta-fast", yarn_beta_fast, "YaRN keeps channels that turn more often than this (default: 32)"),
    REAL("yarn-beta-slow", yarn_beta_slow, "YaRN scales channels that turn less often than this (default: 1)"),
    CHOICE("normalization", normalization, "LayerNorm|RMSNorm", "normalization layer (default: LayerNorm)"),
    REAL("norm-epsilon", norm_epsilon, "epsilon of LayerNorm and RMSNorm (default: 1e-5)"),
    REAL("layernorm-epsilon", norm_epsilon, "old name of --norm-epsilon"),
    CHOICE("norm-placement", blocks.branch_norm, "input|output|both",
           "norms at the input of attention and MLP, at their output (OLMo 2), or both (Gemma 2) (default: input)"),
    FLAG("use-parallel-residual", blocks.parallel_residual, "attention and MLP take the same input (GPT-NeoX)"),
    FLAG("swiglu", swiglu, "use SwiGLU instead of GELU"),
    FLAG("geglu", geglu, "use GeGLU instead of GELU"),
    FLAG("quick-geglu", quick_geglu, "use GeGLU with x * sigmoid(1.702 x) instead of GELU"),
    FLAG("squared-relu", squared_relu, "use squared ReLU instead of GELU"),
    FLAG("openai-gelu", openai_gelu, "use the tanh approximation of GELU; this is the default"),
    FLAG("erf-gelu", erf_gelu, "use the exact GELU"),
    FLAG("untie-embeddings-and-output-weights", untie, "do not share input embeddings and output layer weights"),
    UNFLAG("disable-bias-linear", linear_bias, "disable bias in linear layers"),
    FLAG("add-qkv-bias", qkv_bias, "enable bias in the QKV linear layers only"),
    FLAG("qk-layernorm", blocks.qk_norm, "normalize each query and key head"),
    FLAG("qk-layernorm-whole", qk_norm_whole, "normalize all query heads together, and all key heads (OLMo 2)"),
    TEXT("window-size", window_size, "LEFT,0", "sliding-window attention: tokens each token sees before itself"),
    SIZE("window-attn-skip-freq", blocks.window_every, 0, "every Nth layer has full attention in spite of --window-size"),
    REAL("softmax-scale", blocks.attention_scale, "factor of attention scores (default: 1 / sqrt(kv-channels))"),
    REAL("attn-logit-softcapping", blocks.attention_softcap, "soft cap of attention scores (Gemma 2) (default: none)"),
    REAL("final-logit-softcapping", blocks.logit_softcap, "soft cap of logits (Gemma 2) (default: none)"),
    REAL("embedding-scale", blocks.embedding_scale, "factor of word embeddings (Gemma: sqrt(hidden-size)) (default: none)"),
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
    CHOICE("lr-decay-style", lr_decay_style, "linear|cosine|inverse-square-root|constant",
           "learning rate decay schedule (default: linear)"),
    INT("lr-decay-iters", lr_decay_iters, 1, "iterations to decay the learning rate over (default: train-iters)"),
    INT("lr-decay-samples", lr_decay_samples, 1, "samples to decay the learning rate over (default: train-samples)"),
    REAL("lr-warmup-fraction", lr_warmup_fraction, "fraction of the decay iterations or samples used for warm-up"),
    INT("lr-warmup-iters", lr_warmup_iters, 0, "iterations to linearly warm up the learning rate (default: 0)"),
    INT("lr-warmup-samples", lr_warmup_samples, 0, "samples to linearly warm up the learning rate (default: 0)"),
    REAL("weight-decay", weight_decay, "decoupled weight decay; not applied to norms and biases (default: 0.01)"),
    REAL("clip-grad", clip_grad, "gradient clipping norm; 0 disables clipping (default: 1.0)"),
    CHOICE("optimizer", optimizer, "adam", "optimizer; only AdamW is supported"),
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
    FLAG("exit-signal-handler", exit_signal_handler, "save a checkpoint and exit on SIGTERM or SIGUSR1"),

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

    HEADING("Checkpoints"),
    TEXT("save", save, "DIR", "directory to save checkpoints in; one is always saved at the end"),
    INT("save-interval", save_interval, 1, "iterations between checkpoints"),
    INT("keep-last", keep_last, 1, "delete all but the newest N checkpoints"),
    FLAG("async-save", async_save, "write checkpoints in the background"),
    UNFLAG("no-save-optim", save_optimizer, "do not save the optimizer state"),
    TEXT("load", load, "DIR", "resume from the newest checkpoint in this directory"),
    INT("ckpt-step", ckpt_step, 0, "load the checkpoint of this iteration instead of the newest"),
    FLAG("exit-on-missing-checkpoint", exit_on_missing, "exit if --load contains no checkpoint, even if it is the same directory as --save"),
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
    FLAG("log-throughput", log_throughput, "log the throughput in TFLOP/s per GPU"),
    FLAG("log-params-norm", log_params_norm, "log the norm of the parameters"),
    TEXT("tensorboard-dir", tensorboard_dir, "DIR", "write TensorBoard logs to this directory"),
    TEXT("metrics-file", metrics_file, "FILE", "append each log line as JSON to this file"),
    FLAG("profile", profile, "print how the time of a step is spent, at the end"),
    FLAG("dry-run", dry_run, "print the plan and memory of every rank without training"),
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
