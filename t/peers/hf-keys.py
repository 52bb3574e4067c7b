#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every key of config.json that changes what transformers computes must be carried by import and export or be refused.
For each family, each field of any family's configuration class (and each older name of one) gets other values. If
transformers' logits change (with dropout, too), then `megatron checkpoint import` must refuse the model, or the model
that `export` writes must have these logits. Keys that the code of a model reads and that are not tried are reported.
With --write, the verdicts are stored in t/unit/runtime/run/exchange/families/keys.txt, which the unit test hf reads.
usage: t/peers/hf-keys.py [--write] [FAMILY...]          a Python with torch, transformers and safetensors"""
import concurrent.futures
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.activations import ACT2CLS

top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
megatron = os.environ.get("MEGATRON_BUILD", top + "/_build") + "/runtime/megatron"
transformers.logging.set_verbosity(50)
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)

plain = dict(num_hidden_layers=4, num_attention_heads=4, hidden_size=16, intermediate_size=24, vocab_size=40,
             max_position_embeddings=32)
decoder = dict(plain, num_key_value_heads=2, pad_token_id=None)
full, sliding = "full_attention", "sliding_attention"
families = {
    "gpt2": dict(n_layer=4, n_head=4, n_embd=16, vocab_size=40, n_positions=32),
    "llama": decoder, "mistral": dict(decoder, sliding_window=3), "qwen2": decoder, "qwen3": dict(decoder, head_dim=8),
    "phi3": decoder, "gpt_neox": dict(plain, hidden_size=32, rotary_pct=0.5), "olmo": decoder, "olmo2": decoder,
    "olmo3": dict(decoder, sliding_window=3), "gemma": dict(decoder, head_dim=8),
    "gemma2": dict(decoder, head_dim=8, sliding_window=3), "gemma3_text": dict(decoder, head_dim=8, sliding_window=3, sliding_window_pattern=2),
    "roberta": plain, "bert": plain, "megatron-bert": plain,
}
masked = ("roberta", "bert", "megatron-bert")
# Keys without a say in what the model computes, or whose change makes another kind of output.
skipped = {"transformers_version", "architectures", "dtype", "return_dict", "problem_type", "id2label", "label2id",
           "vocab_size", "type_vocab_size", "model_type"}
# Read by transformers' code of all models, with no default that changes what these models compute.
generic = {"attention_chunk_size", "auto_map", "base_model_ep_plan", "base_model_fsdp_plan", "base_model_pp_plan",
           "base_model_tp_plan", "decoder", "default_rope_type", "generator", "gradient_checkpointing", "is_causal",
           "is_heterogeneous", "kv_sharing_modes", "name_or_path", "num_labels", "output_attentions",
           "output_cross_attentions", "quantization_config", "sub_configs", "text_config", "tie_last_hidden_states",
           "vision_aspect_ratio", "vision_feature_layer", "vision_feature_select_strategy"}
window = dict(use_sliding_window=True, sliding_window=3)
scaled = {"rope_type": "linear", "factor": 4.0}
llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
ropes = [scaled, llama3, {"rope_type": "yarn", "factor": 4.0}, {"rope_type": "dynamic", "factor": 4.0},
         {"rope_type": "yarn", "factor": 4.0, "beta_fast": 4.0, "original_max_position_embeddings": 8},
         {"rope_type": "yarn", "factor": 4.0, "truncate": False, "original_max_position_embeddings": 8},
         {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.5, "original_max_position_embeddings": 8},
         {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5,
          "original_max_position_embeddings": 8},
         {"rope_type": "default", "partial_rotary_factor": 0.5}]
ropes += [dict(r, rope_theta=77.0) for r in ropes] + [{"rope_type": "default", "rope_theta": 77.0}]
layered = [{full: dict(r, rope_theta=77.0), sliding: {"rope_type": "default", "rope_theta": t}}
           for r in ropes[:2] for t in (77.0, 99.0)] + [{full: ropes[-1], sliding: dict(scaled, rope_theta=77.0)}]
functions = [name for name in ACT2CLS if name not in ("prelu", "xielu")]
special = {
    "hidden_act": functions, "hidden_activation": functions, "activation_function": functions,
    "layer_types": [[full] * 4, [sliding] * 4, [sliding, full] * 2, [full, sliding] * 2, [sliding] * 3 + [full],
                    [sliding, full, full, full]],
    "sliding_window": [None, 2, 4], "sliding_window_pattern": [2, 3], "num_key_value_heads": [None, 1, 4],
    "head_dim": [None, 4, 8], "per_layer_config": [{"0": {"hidden_act": "relu", "hidden_activation": "relu",
                                                          "sliding_window": 2}}],
    "clip_qkv": [0.01], "use_bidirectional_attention": [True], "attn_logit_softcapping": [None, 0.5],
    "final_logit_softcapping": [None, 0.05], "query_pre_attn_scalar": [3], "position_embedding_type": ["relative_key"],
    "partial_rotary_factor": [0.5], "rope_theta": [77.0], "rotary_pct": [0.25, 1.0], "rotary_emb_base": [77.0],
    "rope_local_base_freq": [77.0], "rope_scaling": ropes + layered, "rope_parameters": ropes + layered,
    "original_max_position_embeddings": [8], "n_inner": [24], "intermediate_size": [20], "hidden_size": [32],
    "n_embd": [32], "num_hidden_layers": [2], "n_layer": [2], "num_attention_heads": [2], "n_head": [2],
    "max_position_embeddings": [20], "n_positions": [20], "pad_token_id": [None, 2],
    "bos_token_id": [2], "eos_token_id": [2], "qkv_bias": [True], "rms_norm_eps": [1e-3, 1e-5],
    "layer_norm_eps": [1e-3], "layer_norm_epsilon": [1e-3], "initializer_range": [0.5],
}
together = [dict(window, max_window_layers=n) for n in (0, 2, 4, 28)] + [window, dict(window, layer_types=[sliding, full] * 2)]
together += [dict(scaling, layer_types=[full] * 4) for scaling in ({"rope_scaling": scaled}, {"rope_theta": 77.0})]
together += [{"rope_theta": 77.0, "rope_scaling": r} for r in (scaled, llama3)]
together += [{"rope_theta": 77.0, "rope_local_base_freq": 99.0}, {"rope_scaling": scaled, "rope_local_base_freq": 99.0}]


def other_values(key, default):
    if key in special:
        return special[key]
    if isinstance(default, bool):
        return [not default]
    if isinstance(default, (int, float)):
        return [default * 2 + 0.25 if isinstance(default, float) else default + 1]
    return [True, 3, 0.25]


fields = {}
for kind in families:
    for field in dataclasses.fields(type(AutoConfig.for_model(kind))):
        known = field.default if field.default is not dataclasses.MISSING else None
        if fields.get(field.name) is None:
            fields[field.name] = known
for key in special:
    fields.setdefault(key, None)
used = set()


def watch(config):
    """Make the configuration remember which of its attributes are read."""
    kind = type(config)

    def get(self, name):
        if not name.startswith("_"):
            used.add(name)
        return kind.__getattribute__(self, name)

    config.__class__ = type(kind.__name__, (kind,), {"__getattribute__": get})


def weights(name, shape):
    seed = int.from_bytes(name.encode()[-60:], "little") % (1 << 63)
    v = torch.from_numpy(numpy.random.default_rng(seed).standard_normal(shape, dtype=numpy.float32))
    if "norm" in name.lower() or ".ln_" in name:
        return v * 0.2 + (0 if name.endswith("bias") else 0.8)
    # Small numbers, so that the epsilon of norms matters.
    return v * (1 / 256 if "embed" in name or "wte" in name or "wpe" in name else 0.25)


def output(model):
    tokens = torch.tensor([[(i * 7 + i * i * 3 + 1) % 37 + 3 for i in range(14)]])
    out = []
    for mode in (model.eval(), model.train()):
        torch.manual_seed(1)
        with torch.no_grad():
            out.append(mode(tokens).logits.double())
    return torch.cat(out)


def equal(a, b):
    return a.shape == b.shape and (a - b).abs().max() <= 2e-5 * b.abs().max()


def theirs(kind, config, directory):
    """Logits of a model with made-up weights, which are written to the directory if there is one."""
    loader = AutoModelForMaskedLM if kind in masked else AutoModelForCausalLM
    os.makedirs("config", exist_ok=True)
    with open("config/config.json", "w") as f:
        json.dump(config, f)
    settings = AutoConfig.from_pretrained("config")
    settings._attn_implementation = "eager"
    if not directory:
        used.clear()
        watch(settings)
    torch.manual_seed(2)
    model = loader.from_config(settings)
    tied = getattr(settings, "tie_word_embeddings", False)
    with torch.no_grad():
        for key, value in model.state_dict().items():
            if value.is_floating_point() and not (tied and (key == "lm_head.weight" or ".decoder." in key)):
                value.copy_(weights(key, tuple(value.shape)))
    if directory:
        shutil.rmtree(directory, ignore_errors=True)
        model.save_pretrained(directory)
        shutil.copy("config/config.json", directory + "/config.json")
    return output(model)


def ours(kind):
    """Import and export: logits, or None if the import is refused, and what megatron printed."""
    for name in ("checkpoint", "back"):
        shutil.rmtree(name, ignore_errors=True)
    done = subprocess.run([megatron, "checkpoint", "import", "in", "checkpoint"], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip()
    done = subprocess.run([megatron, "checkpoint", "export", "checkpoint", "back", "--dtype", "fp32"], capture_output=True,
                          text=True)
    if done.returncode:
        return torch.zeros(1), "not exported: " + done.stderr.strip()
    loader = AutoModelForMaskedLM if kind in masked else AutoModelForCausalLM
    try:
        return output(loader.from_pretrained("back", attn_implementation="eager")), "other logits"
    except Exception as error:
        return torch.zeros(1), "transformers cannot load the export: " + repr(error)[:200]


def changes(base):
    for key, default in fields.items():
        for value in [] if key in skipped else other_values(key, default):
            if key not in base or base[key] != value:
                yield {key: value}
    yield from together


def check(kind):
    """Go through the changes of one family. Returns what to print, rows for keys.txt and the number of failures."""
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        base = dict(families[kind], model_type=kind, tie_word_embeddings=kind in ("gpt2",) + masked)
        if not kind.startswith("gemma"):
            base["bos_token_id"] = base["eos_token_id"] = None
        usual = theirs(kind, base, "in")
        back, why = ours(kind)
        if back is None or not equal(back, usual):
            return [f"not ok - {kind}: {why}"], [], 1
        pins, lines, reads, verdicts = [f"base\t{kind}\t{json.dumps(base)}"], [], set(), {}
        for change in changes(base):
            text = json.dumps(change)[1:-1]
            config = dict(base, **change)
            try:
                logits = theirs(kind, config, None)
                reads |= used
                if not equal(logits, usual):
                    theirs(kind, config, "in")
            except Exception:
                continue  # transformers refuses it
            if equal(logits, usual):
                verdict = "unused"
            else:
                back, why = ours(kind)
                verdict = "carried"
                if back is None:
                    verdict = "refused" if "config.json: " in why else "refused by its weights"
                elif not equal(back, logits):
                    lines.append(f"not ok - {kind} with {text}: {why}")
                    continue
            verdicts[verdict] = verdicts.get(verdict, 0) + 1
            pins.append(f"{verdict}\t{kind}\t{text}")
        usual_config = AutoConfig.for_model(kind)
        unknown = sorted(k for k in reads - skipped - generic - fields.keys() if not callable(getattr(usual_config, k, None)))
        if unknown:
            lines.append(f"not ok - {kind}: its code reads keys that are not tried: {' '.join(unknown)}")
        return lines + [f"{'not ' if lines else ''}ok - {kind}: {verdicts}"], pins, len(lines)


def main():
    wanted = [kind for kind in families if kind in sys.argv or not set(sys.argv) & families.keys()]
    pins, failed = [], 0
    with concurrent.futures.ProcessPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
        for lines, rows, bad in pool.map(check, wanted):
            print("\n".join(lines), flush=True)
            pins += rows
            failed += bad
    if "--write" in sys.argv:
        path = top + "/t/unit/runtime/run/exchange/families/keys.txt"
        rows = [row.split("\t") for row in pins]
        if os.path.exists(path):
            with open(path) as f:
                rows += [row for row in (line.rstrip("\n").split("\t") for line in f) if row[1] not in wanted]
        rows.sort(key=lambda row: list(families).index(row[1]))
        # Changes without an effect on any family are not worth a row.
        effective = {row[2] for row in rows if row[0] != "unused"}
        with open(path, "w") as f:
            f.writelines("\t".join(row) + "\n" for row in rows if row[2] in effective)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
