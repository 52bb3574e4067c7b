#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`megatron train` against PyTorch on CPUs in fp32: the same weights, the same tokens, AdamW: losses of 50 steps
and the weights after them, for GPT-2 and Llama, in and out through Hugging Face files. Prints TAP.
usage: t/peers/train.py [OPTION OF megatron train ...]        default: --device cpu; also --device cuda [--bf16]"""
import math
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
megatron = os.path.join(os.environ.get("MEGATRON_BUILD", os.path.join(top, "_build")), "runtime", "megatron")
device = sys.argv[1:] or ["--device", "cpu"]
# Losses, gradient norms and logits may differ by rounding.
bounds = (2e-2, 1e-1, 5e-2) if "--bf16" in device else (1e-4, 2e-3, 1e-3)
count = failed = 0


def ok(good, name, note=""):
    global count, failed
    count += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {count} - {name}")
    if note:
        print(f"# {note}")


def write_corpus(prefix, vocabulary, rng, masked):
    """Documents of random length with some structure in them, as .bin and .idx; 'masked': in runs of the token that ends documents."""
    lengths, tokens = [], []
    for _ in range(40):
        n = int(rng.integers(20, 200))
        walk = (np.cumsum(rng.integers(0, 5, n)) + rng.integers(0, vocabulary)) % (vocabulary - 1)
        if masked:
            walk[walk < vocabulary / 3] = vocabulary - 1
        tokens.append(np.append(walk, vocabulary - 1).astype(np.uint16))
        lengths.append(n + 1)
    np.concatenate(tokens).tofile(prefix + ".bin")
    pointers = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64) * 2
    with open(prefix + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + np.uint64(1).tobytes() + bytes([8]))
        f.write(np.uint64(len(lengths)).tobytes() + np.uint64(len(lengths) + 1).tobytes())
        f.write(np.array(lengths, np.int32).tobytes() + pointers.tobytes())
        f.write(np.arange(len(lengths) + 1, dtype=np.int64).tobytes())
    return lengths, np.concatenate(tokens)


def samples(lengths, tokens, sequence, wanted, seed):
    """Megatron's order of samples, written down once more from its description."""
    total = sum(lengths)
    epochs = 1
    while epochs * total < wanted * sequence + 1:
        epochs += 1
    sans, separate = ((epochs - 1) * total - 1) // sequence, False
    if epochs > 1:
        separate = wanted - sans < int(0.80 * ((total - 1) // sequence))
    rng = np.random.RandomState(seed)
    ids = np.arange(len(lengths), dtype=np.int32)
    if separate:
        documents = np.tile(ids, epochs - 1)
        rng.shuffle(documents)
        last = ids.copy()
        rng.shuffle(last)
        documents = np.concatenate((documents, last))
    else:
        documents = np.tile(ids, epochs)
        rng.shuffle(documents)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    stream = np.concatenate([tokens[starts[d]:starts[d + 1]] for d in documents])
    n = (epochs * total - 1) // sequence
    order = np.arange(n, dtype=np.uint32)
    if separate:
        first, second = order[:sans].copy(), order[sans:].copy()
        rng.shuffle(first)
        rng.shuffle(second)
        order = np.concatenate((first, second))
    else:
        rng.shuffle(order)
    return [stream[k * sequence:k * sequence + sequence + 1].astype(np.int64) for k in order]


def compare(name, model, options, work, steps=50, batch=4, sequence=32, lr=3e-3, masked=False):
    """'masked': the loss is the mean over the tokens of the whole batch that do not end a document."""
    vocabulary = model.config.vocab_size
    rng = np.random.default_rng(5)
    prefix = os.path.join(work, name)
    data = samples(*write_corpus(prefix, vocabulary, rng, masked), sequence, steps * batch, 1234)
    model.save_pretrained(prefix + "-in", safe_serialization=True)
    masks = ["--eod-mask-loss", "--calculate-per-token-loss"] if masked else []
    run = subprocess.run(
        [megatron, "train", *device, *options, *masks, "--load-hf", prefix + "-in", "--save-hf", prefix + "-out",
         "--seq-length", str(sequence), "--micro-batch-size", "1" if masked else "2", "--global-batch-size", str(batch),
         "--train-iters", str(steps), "--lr", str(lr), "--lr-decay-style", "cosine", "--min-lr", str(lr / 10),
         "--lr-warmup-iters", "3", "--weight-decay", "0.1", "--adam-beta2", "0.95", "--clip-grad", "1.0",
         "--hidden-dropout", "0", "--attention-dropout", "0", "--data-path", prefix, "--split", "100,0,0",
         "--log-interval", "1", "--eval-iters", "0", "--vocab-size", str(vocabulary),
         "--tensorboard-dir", prefix + "-events",
         "--data-cache-path", os.path.join(work, "cache")],
        capture_output=True, text=True)
    ours = [float(x) for x in re.findall(r"lm loss: (\S+)", run.stdout)]
    norms = [float(x) for x in re.findall(r"grad norm: (\S+)", run.stdout)]
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        events = EventAccumulator(prefix + "-events").Reload()
        seen = [(e.step, e.value) for e in events.Scalars("lm loss")]
        ok([s for s, _ in seen] == list(range(1, steps + 1)) and
           all(abs(v - x) < 1e-5 * x for (_, v), x in zip(seen, ours)), f"{name}: tensorboard reads the event file")
    except ImportError:
        print("# no tensorboard")
    ok(len(ours) == steps, f"{name}: {steps} steps", "" if run.returncode == 0 else run.stderr.strip()[-300:])
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    adam = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                             lr=0, betas=(0.9, 0.95), eps=1e-8)
    theirs, their_norms = [], []
    for step in range(steps):
        warm = 3
        if step <= warm:
            rate = lr * step / warm
        else:
            rate = lr / 10 + 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm))) * (lr - lr / 10)
        for group in adam.param_groups:
            group["lr"] = rate
        text = torch.tensor(np.stack(data[step * batch:(step + 1) * batch]))
        logits = model(text[:, :-1]).logits
        trains = (text[:, :-1] != vocabulary - 1).reshape(-1) if masked else slice(None)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, vocabulary)[trains], text[:, 1:].reshape(-1)[trains])
        adam.zero_grad()
        loss.backward()
        their_norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        adam.step()
        theirs.append(float(loss))
    if len(ours) != steps:
        return
    worst = max(abs(a - b) / b for a, b in zip(ours, theirs))
    ok(worst < bounds[0], f"{name}: losses as PyTorch's", f"largest relative difference {worst:.2e}; {ours[0]:.5f} to {ours[-1]:.5f}")
    worst = max(abs(a - b) / b for a, b in zip(norms, their_norms))
    ok(worst < bounds[1], f"{name}: gradient norms as PyTorch's", f"largest relative difference {worst:.2e}")
    again = type(model).from_pretrained(prefix + "-out", dtype=torch.float32)
    model.eval(), again.eval()
    text = torch.tensor(np.stack(data[:4]))[:, :-1]
    with torch.no_grad():
        a, b = model(text).logits, again(text).logits
    worst = float((a - b).abs().max() / a.abs().max())
    ok(worst < bounds[2], f"{name}: transformers reads the weights, logits agree", f"largest relative difference {worst:.2e}")
    # Untouched weights: zero steps are not possible, one step with lr 0 is.
    run = subprocess.run(
        [megatron, "train", *device, *options, "--load-hf", prefix + "-out", "--save-hf", prefix + "-same",
         "--seq-length", str(sequence), "--micro-batch-size", "1", "--train-iters", "1", "--lr", "0",
         "--hidden-dropout", "0", "--attention-dropout", "0", "--mock-data", "--eval-iters", "0",
         "--vocab-size", str(vocabulary)], capture_output=True, text=True)
    one, two = (load_file(prefix + end + "/model.safetensors") for end in ("-out", "-same"))
    ok(run.returncode == 0 and one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one),
       f"{name}: weights come through unchanged")


def main():
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as work:
        gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=250, n_positions=32, n_embd=64, n_layer=3, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
        compare("gpt2", gpt2, ["--num-layers", "3", "--hidden-size", "64", "--num-attention-heads", "4"], work)
        base = ["--num-layers", "3", "--hidden-size", "64", "--num-attention-heads", "4", "--ffn-hidden-size", "160",
                "--swiglu", "--normalization", "RMSNorm", "--position-embedding-type", "rope", "--disable-bias-linear",
                "--untie-embeddings-and-output-weights", "--group-query-attention", "--num-query-groups", "2"]
        shape = dict(vocab_size=250, hidden_size=64, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4,
                     num_key_value_heads=2, max_position_embeddings=32, rms_norm_eps=1e-5, tie_word_embeddings=False)
        compare("llama", transformers.LlamaForCausalLM(transformers.LlamaConfig(rope_theta=10000.0, **shape)), base, work)
        scaled = transformers.LlamaConfig(rope_theta=500000.0, rope_scaling=dict(
            rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=8192), **shape)
        compare("llama31", transformers.LlamaForCausalLM(scaled),
                [*base, "--rotary-base", "500000", "--use-rope-scaling"], work)
        compare("llama-masked", transformers.LlamaForCausalLM(transformers.LlamaConfig(rope_theta=10000.0, **shape)), base, work,
                steps=20, masked=True)
    print(f"1..{count}")
    return failed > 0


sys.exit(main())
