# SPDX-License-Identifier: Apache-2.0
"""Run by torch-dist: torch-dist.py MEGATRON FIXTURES [--write]"""
import argparse
import contextlib
import math
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import types
import warnings

warnings.simplefilter("ignore")
import torch
import torch.multiprocessing

# Attention asks for a buffer and for random numbers of a GPU, and saving waits for one.
torch.cuda.current_device = lambda: "cpu"
torch.cuda.synchronize = lambda *_: None
torch.Tensor.cuda = lambda self, *_, **__: self
from megatron.core import dist_checkpointing, parallel_state, safe_globals, tensor_parallel
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.transformer import TransformerConfig

tensor_parallel.get_cuda_rng_tracker = lambda: types.SimpleNamespace(fork=contextlib.nullcontext)
if hasattr(safe_globals, "register_safe_globals"):
    safe_globals.register_safe_globals()

LENGTH, VOCABULARY, PADDED = 16, 61, 64
# How tensors of layers are named and divided; the metadata of sharded_state_dict.
WAYS = {"stacked": None, "layers": {"non_homogeneous_layers": True}, "halves": {"singleton_local_shards": True}}
KINDS = {
    "gpt": dict(num_layers=2, hidden_size=16, num_attention_heads=2, ffn_hidden_size=64),
    "llama": dict(num_layers=2, hidden_size=16, num_attention_heads=4, num_query_groups=2, ffn_hidden_size=24,
                  normalization="RMSNorm", gated_linear_unit=True, activation_func=torch.nn.functional.silu,
                  add_bias_linear=False, layernorm_epsilon=1e-6),
}
KINDS["interleaved"] = dict(KINDS["llama"], rotary_interleaved=True)


def model_of(kind, tp=1, pp=1):
    llama = kind != "gpt"
    torch.manual_seed(5)
    config = TransformerConfig(use_cpu_initialization=True, hidden_dropout=0, attention_dropout=0, tensor_model_parallel_size=tp,
                               pipeline_model_parallel_size=pp, pipeline_dtype=torch.float32, bias_activation_fusion=not llama,
                               masked_softmax_fusion=False, **KINDS[kind])
    model = GPTModel(config, get_gpt_layer_local_spec(normalization="RMSNorm" if llama else None), vocab_size=PADDED,
                     max_sequence_length=LENGTH, pre_process=parallel_state.is_pipeline_first_stage(),
                     post_process=parallel_state.is_pipeline_last_stage(), share_embeddings_and_output_weights=not llama,
                     position_embedding_type="rope" if llama else "learned_absolute", rotary_base=500000).eval()
    # Norms and biases begin as constants: make every number matter, the same on all ranks.
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                generator = torch.Generator().manual_seed(sum(name.encode()))
                p += 0.1 * torch.randn(p.shape, generator=generator)
    return model


def arguments_of(kind, tp=1, pp=1):
    llama = kind != "gpt"
    k = KINDS[kind]
    return argparse.Namespace(
        num_layers=k["num_layers"], hidden_size=k["hidden_size"], num_attention_heads=k["num_attention_heads"],
        ffn_hidden_size=k["ffn_hidden_size"], group_query_attention=llama, num_query_groups=k.get("num_query_groups", 1),
        kv_channels=k["hidden_size"] // k["num_attention_heads"], max_position_embeddings=LENGTH, seq_length=LENGTH,
        position_embedding_type="rope" if llama else "learned_absolute", rotary_base=500000, rotary_percent=1.0,
        normalization="RMSNorm" if llama else "LayerNorm", norm_epsilon=k.get("layernorm_epsilon", 1e-5), swiglu=llama,
        untie_embeddings_and_output_weights=llama, add_bias_linear=not llama, add_qkv_bias=False, vocab_size=VOCABULARY,
        padded_vocab_size=PADDED, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, params_dtype=torch.float32,
        rotary_interleaved=kind == "interleaved", hidden_dropout=0.0, attention_dropout=0.0, iteration=7, consumed_train_samples=56)


def worker(rank, port, tp, pp, jobs):
    """Every rank saves its part of the same models: (kind, way, folder)."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=tp * pp)
    parallel_state.initialize_model_parallel(tp, pp)
    for kind, way, folder in jobs:
        model = model_of(kind, tp, pp)
        if rank == 0:
            os.makedirs(folder)
        torch.distributed.barrier()
        state = {"model": model.sharded_state_dict(metadata=WAYS[way]), "args": arguments_of(kind, tp, pp), "iteration": 7,
                 "checkpoint_version": 3.0}
        dist_checkpointing.save(state, folder, sharded_strategy=("torch_dist", 1))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def run_ranks(tp, pp, jobs):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    torch.multiprocessing.spawn(worker, (port, tp, pp, jobs), nprocs=tp * pp)


def ours(*words):
    done = subprocess.run([megatron, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"megatron {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def write_data(prefix, tokens):
    """One document in Megatron's .bin and .idx."""
    with open(prefix + ".bin", "wb") as f:
        f.write(struct.pack(f"<{len(tokens)}H", *tokens))
    with open(prefix + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 1, 2) + struct.pack("<iqqq", len(tokens), 0, 0, 1))


def their_loss(model, tokens):
    t = torch.tensor(tokens)
    mask = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)[None, None]
    with torch.no_grad():
        logits = model(t[None, :-1], torch.arange(LENGTH)[None], mask)[0, :, :VOCABULARY]
    return torch.nn.functional.cross_entropy(logits.float(), t[1:]).item()


def their_model(kind, way):
    """The model of a checkpoint, as Megatron core loads it on one rank: a grid begins with other numbers."""
    model = model_of(kind)
    state = dist_checkpointing.load({"model": model.sharded_state_dict(metadata=WAYS.get(way))}, f"{kind}-{way}")
    model.load_state_dict(state["model"])
    return model


def our_loss(folder):
    out = ours("evaluate", "--load", folder, "--data-path", "data", "--split", "0,100,0", "--device", "cpu", "--cpu-threads", "1",
               "--micro-batch-size", "1", "--global-batch-size", "1", "--eval-iters", "1", "--vocab-size", str(VOCABULARY),
               "--hidden-dropout", "0", "--attention-dropout", "0")
    return float(re.search(r"lm loss value: (\S+)", out).group(1))


def differences(theirs, loaded):
    """Names of tensors that are not equal; the padding of a vocabulary may differ."""
    bad = [k for k in theirs if theirs[k] is not None and not k.endswith("_extra_state") and k not in loaded]
    for k, v in loaded.items():
        if not torch.is_tensor(v) or k.endswith("_extra_state"):
            continue
        rows = VOCABULARY if k in ("embedding.word_embeddings.weight", "output_layer.weight") else None
        if k not in theirs or not torch.equal(v[:rows], theirs[k][:rows]):
            bad.append(k)
    return bad


failed = 0


def report(name, bad, a, b):
    global failed
    near = math.isclose(a, b, rel_tol=2e-6)
    failed += bool(bad) or not near
    weights = "" if bad is None else "equal weights, " if not bad else f"DIFFERENT: {', '.join(bad)}, "
    print(f"{name}: {weights}{'loss' if near else 'LOSSES DIFFER:'} {a:.7f} and {b:.7f}", flush=True)


def check_exports(kind, name, model, folder):
    """Our checkpoint in 'folder' exported in both formats, loaded by torch and Megatron core."""
    shutil.rmtree("legacy", ignore_errors=True)
    words = ["--rotary-interleaved"] if kind == "interleaved" else []
    ours("checkpoint", "export", folder, "legacy", "--format", "megatron", "--transformer-impl", "local",
         "--make-vocab-size-divisible-by", str(PADDED), *words)
    state = torch.load("legacy/release/mp_rank_00/model_optim_rng.pt", weights_only=True)
    fresh = model_of(kind)
    with torch.no_grad():
        for p in fresh.parameters():
            p.zero_()
    fresh.load_state_dict(state["model"], strict=True)
    report(f"{name}, export --format megatron", differences(model.state_dict(), fresh.state_dict()), their_loss(fresh, TOKENS),
           their_loss(model, TOKENS))
    shutil.rmtree("dist", ignore_errors=True)
    ours("checkpoint", "export", folder, "dist", "--format", "torch_dist", *words)
    with torch.no_grad():
        for p in fresh.parameters():
            p.zero_()
    # As Megatron-LM does: the metadata that is stored decides how tensors are named.
    metadata = dist_checkpointing.load_content_metadata("dist/release")
    loaded = dist_checkpointing.load({"model": fresh.sharded_state_dict(metadata=metadata)}, "dist/release")
    assert loaded["args"].num_layers == KINDS[kind]["num_layers"] and loaded["checkpoint_version"] == 3.0
    fresh.load_state_dict(loaded["model"])
    report(f"{name}, export --format torch_dist", differences(model.state_dict(), fresh.state_dict()),
           their_loss(fresh, TOKENS), their_loss(model, TOKENS))


TOKENS = [(7 * i * i + 3 * i + 1) % VOCABULARY for i in range(LENGTH + 1)]


def main():
    import megatron.core
    print(f"Megatron core {megatron.core.__version__}, torch {torch.__version__}", flush=True)
    write_data("data", TOKENS)
    run_ranks(1, 1, [(kind, way, f"{kind}-{way}") for kind in KINDS for way in WAYS])
    run_ranks(2, 2, [(kind, "stacked", f"{kind}-grid") for kind in KINDS])
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    for kind in KINDS:
        for way in [*WAYS, "grid"]:
            model = their_model(kind, way)
            name, folder = f"{kind}, {way}", f"run-{kind}-{way}"
            ours("checkpoint", "import", f"{kind}-{way}", folder, "--format", "torch_dist")
            report(f"{name}, import", None, our_loss(folder), their_loss(model, TOKENS))
            if way in ("stacked", "grid"):
                check_exports(kind, name, model, folder)
    if "--write" in sys.argv:
        write_fixtures()
    sys.exit(failed > 0)


def write_fixtures():
    """What CI reads without Python: checkpoints of Megatron core and the losses of their models."""
    with open(os.path.join(fixtures, "losses.txt"), "w") as f:
        for kind in KINDS:
            for way in {"gpt": ("stacked", "grid"), "llama": ("stacked", "halves"), "interleaved": ("stacked",)}[kind]:
                shutil.rmtree(os.path.join(fixtures, f"{kind}-{way}"), ignore_errors=True)
                shutil.copytree(f"{kind}-{way}", os.path.join(fixtures, f"{kind}-{way}"))
                print(f"{kind}-{way}", f"{their_loss(their_model(kind, way), TOKENS):.7f}", file=f)
    for name in ("data.bin", "data.idx"):
        shutil.copy(name, fixtures)


if __name__ == "__main__":
    megatron, fixtures = sys.argv[1:3]
    main()
