# SPDX-License-Identifier: Apache-2.0
# See t/peers/hf-families.
import json
import os
import subprocess
import sys

import numpy
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

transformers.logging.set_verbosity_error()
megatron, folder, write = sys.argv[1], sys.argv[2], "--write" in sys.argv
LENGTH = 12
decoder = dict(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=16, intermediate_size=24,
               vocab_size=40, max_position_embeddings=32, pad_token_id=None, bos_token_id=None, eos_token_id=None)
neox = {k: v for k, v in decoder.items() if k != "num_key_value_heads"}
gemma = dict(decoder, head_dim=8)
rotations = {"full_attention": {"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0},
             "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}
families = {
    "llama3": ("llama", dict(decoder, tie_word_embeddings=True, rope_parameters={
        "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16})),
    "llama-linear": ("llama", dict(decoder, rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5})),
    "llama-yarn": ("llama", dict(decoder, rope_parameters={
        "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 8, "beta_fast": 4.0,
        "beta_slow": 0.5})),
    "mistral": ("mistral", dict(decoder, sliding_window=5, head_dim=8)),
    "qwen2": ("qwen2", dict(decoder, tie_word_embeddings=True)),
    "qwen3": ("qwen3", dict(decoder, head_dim=8)),
    "qwen2-windows": ("qwen2", dict(decoder, num_hidden_layers=4, use_sliding_window=True, sliding_window=4, layer_types=[
        "sliding_attention", "full_attention", "sliding_attention", "full_attention"])),
    "qwen3-windows": ("qwen3", dict(decoder, num_hidden_layers=3, head_dim=8, use_sliding_window=True, sliding_window=3,
                                    max_window_layers=0)),
    "phi3": ("phi3", dict(decoder, sliding_window=4, rope_parameters={
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})),
    "gpt-neox": ("gpt_neox", dict(neox, rotary_pct=0.5)),
    "gpt-neox-sequential": ("gpt_neox", dict(neox, use_parallel_residual=False, hidden_act="gelu_new", rotary_pct=1.0)),
    "olmo": ("olmo", dict(decoder, num_key_value_heads=4)),
    "olmo-clipped": ("olmo", dict(decoder, clip_qkv=0.8, tie_word_embeddings=True)),
    "olmo2": ("olmo2", decoder),
    "olmo3": ("olmo3", dict(decoder, sliding_window=4, layer_types=["sliding_attention", "full_attention"])),
    "olmo3-rotations": ("olmo3", dict(decoder, sliding_window=4, layer_types=["sliding_attention", "full_attention"],
                                      rope_parameters=rotations)),
    "gemma": ("gemma", gemma),
    "gemma-untied": ("gemma", dict(gemma, tie_word_embeddings=False)),
    "gemma2": ("gemma2", dict(gemma, num_hidden_layers=3, sliding_window=4, query_pre_attn_scalar=10,
                              attn_logit_softcapping=2.0, final_logit_softcapping=3.0)),
    "gemma3": ("gemma3_text", dict(gemma, num_hidden_layers=3, sliding_window=4, query_pre_attn_scalar=8,
                                   layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    "gemma3-rotations": ("gemma3_text", dict(gemma, sliding_window=4, rope_parameters=rotations, attn_logit_softcapping=0.5,
                                             layer_types=["sliding_attention", "full_attention"])),
}


def numbers(name, count):
    """Pseudo-random multiples of 2^-11 in [-1, 1), as the unit test makes them."""
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    x = (numpy.arange(count, dtype=numpy.uint64) * 2654435761 + h) & 0xFFFFFFFF
    for shift, by in ((16, 2246822519), (13, 3266489917)):
        x = (x ^ (x >> shift)) * by & 0xFFFFFFFF
    x ^= x >> 16
    return ((x >> 20).astype(numpy.float64) / 2048 - 1).astype(numpy.float32)


def weights(name, shape, from_zero):
    v = numbers(name, int(numpy.prod(shape))).reshape(shape)
    if "norm" in name:
        return v * numpy.float32(0.25) + (0 if from_zero or name.endswith("bias") else 1)
    return v * numpy.float32(0.5 if "embed" in name else 0.375)


def dot(a, name):
    return float(numpy.dot(a.detach().numpy().astype(numpy.float64).ravel(), numbers(name + "!", a.numel()).astype(float)))


failed = 0
for name, (kind, words) in families.items():
    config = AutoConfig.for_model(kind, **words)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).float().eval()
    from_zero = kind.startswith("gemma")
    with torch.no_grad():
        for key, value in model.state_dict().items():
            if not (config.tie_word_embeddings and key == "lm_head.weight"):
                saved = "embed_out.weight" if kind == "gpt_neox" and key == "lm_head.weight" else key
                value.copy_(torch.from_numpy(weights(saved, tuple(value.shape), from_zero)))
    tokens = torch.tensor([[(i * 7 + i * i * 3 + 1) % 40 for i in range(LENGTH + 1)]])
    logits = model(tokens[:, :-1]).logits
    losses = torch.nn.functional.cross_entropy(logits[0], tokens[0, 1:], reduction="none")
    losses.mean().backward()
    model.save_pretrained(name)
    stored = load_file(name + "/model.safetensors")
    parameters = dict(model.named_parameters())
    gradients = []
    for key in sorted(stored):
        other = "lm_head.weight" if key == "embed_out.weight" else key
        gradients.append([key, *stored[key].shape, dot(parameters[other].grad, key)])
    with open(name + "/config.json") as f:
        saved_config = json.load(f)
    keep = {k: v for k, v in saved_config.items() if k not in ("transformers_version", "dtype", "use_cache", "architectures")}
    golden = {"config": keep, "tensors": gradients, "tokens": tokens[0].tolist(), "losses": losses.tolist(),
              "logits": logits[0, -1].tolist()}
    if write:
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{name}.json", "w") as f:
            parts = [f'"{k}": ' + ("[\n" + ",\n".join(json.dumps(t) for t in v) + "]" if k == "tensors" else json.dumps(v))
                     for k, v in golden.items()]
            f.write("{" + ",\n".join(parts) + "}\n")
    for command in (["import", name, name + "-checkpoint"], ["export", name + "-checkpoint", name + "-back", "--dtype", "fp32"]):
        done = subprocess.run([megatron, "checkpoint", *command], capture_output=True, text=True)
        if done.returncode:
            print(done.stderr)
    good = done.returncode == 0
    if good:
        back = load_file(name + "-back/model.safetensors")
        again = AutoModelForCausalLM.from_pretrained(name + "-back", attn_implementation="eager").eval()
        good = type(again) is type(model) and back.keys() == stored.keys() and all(torch.equal(back[k], stored[k]) for k in back)
        good = good and torch.equal(again(tokens[:, :-1]).logits, logits)
    prompt = tokens[:, :5]
    theirs = model.generate(prompt, max_new_tokens=20, do_sample=False, eos_token_id=None)[0].tolist()
    done = subprocess.run([megatron, "generate", "--load", name, "--tokenizer-type", "NullTokenizer", "--prompt",
                           " ".join(map(str, prompt[0].tolist())), "--num-tokens", "20", "--ignore-eod", "--device", "cpu"],
                          capture_output=True, text=True)
    good = good and done.stdout.split() == [str(t) for t in theirs]
    print(f"{name}: {'equal weights, logits and texts' if good else 'NOT EQUAL'}")
    failed += not good
sys.exit(failed > 0)
