#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of a training step of RoBERTa or BERT in PyTorch on one GPU, for comparison with `megatron train`: one compiled
graph, SDPA, fused AdamW, clipping, bf16 or fp16 weights with fp32 masters or autocast, logits of the masked rows only,
samples without padding, no dropout. Its own model has fused QKV products; --transformers times transformers' instead.
usage: t/peers/torch_masked.py [--preset roberta-large|bert-large|roberta-base] [--seq N] [--micro-batch N] ...
Prints a JSON line with "median_ms"."""
import argparse
import json
import statistics

import torch
import torch.nn.functional as F
from torch import nn

PRESETS = {"roberta-base": (12, 768, 12, 50265), "roberta-large": (24, 1024, 16, 50265),
           "bert-base": (12, 768, 12, 30522), "bert-large": (24, 1024, 16, 30522)}


class Layer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, h)
        x = self.norm1(x + self.out(y))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Masked(nn.Module):
    def __init__(self, layers, hidden, heads, vocabulary, seq):
        super().__init__()
        self.word, self.position = nn.Embedding(vocabulary, hidden), nn.Embedding(seq + 2, hidden)
        self.norm, self.head_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads) for _ in range(layers))
        self.dense, self.bias = nn.Linear(hidden, hidden), nn.Parameter(torch.zeros(vocabulary))
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens, rows, labels):
        x = self.norm(self.word(tokens) + self.position.weight[2:2 + tokens.shape[1]])
        for layer in self.layers:
            x = layer(x)
        y = self.head_norm(F.gelu(self.dense(x.flatten(0, 1)[rows])))
        return F.cross_entropy(F.linear(y, self.word.weight, self.bias).float(), labels)


class Theirs(nn.Module):
    """transformers' model with the head on the masked rows only."""

    def __init__(self, kind, layers, hidden, heads, vocabulary, seq):
        super().__init__()
        import transformers
        sizes = dict(vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                     intermediate_size=4 * hidden, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                     attn_implementation="sdpa")
        if kind == "bert":
            model = transformers.BertForMaskedLM(transformers.BertConfig(max_position_embeddings=seq, **sizes))
            self.body, self.head = model.bert, model.cls
        else:
            model = transformers.RobertaForMaskedLM(transformers.RobertaConfig(
                max_position_embeddings=seq + 2, type_vocab_size=1, layer_norm_eps=1e-5, **sizes))
            self.body, self.head = model.roberta, model.lm_head

    def forward(self, tokens, rows, labels):
        x = self.body(tokens)[0].flatten(0, 1)[rows]
        return F.cross_entropy(self.head(x).float(), labels)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--preset", default="roberta-large", choices=list(PRESETS))
    p.add_argument("--seq", type=int, default=512)
    p.add_argument("--micro-batch", type=int, default=32)
    p.add_argument("--type", default="bf16", choices=["bf16", "fp16"])
    p.add_argument("--precision", default="master", choices=["master", "autocast"])
    p.add_argument("--mode", default="default", help="of torch.compile; off: none")
    p.add_argument("--transformers", action="store_true")
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--warmup", type=int, default=5)
    p.add_argument("--loss-scale", type=float, default=65536.0, help="with fp16")
    a = p.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    layers, hidden, heads, vocabulary = PRESETS[a.preset]
    kind = torch.bfloat16 if a.type == "bf16" else torch.float16
    sizes = layers, hidden, heads, vocabulary, a.seq
    model = (Theirs(a.preset.split("-")[0], *sizes) if a.transformers else Masked(*sizes)).cuda()
    masters = None
    params = list(model.parameters())
    if a.precision == "master":
        masters = [x.detach().clone() for x in params]
        model.to(kind)
        for x in masters:
            x.grad = torch.zeros_like(x)
    adam = torch.optim.AdamW(masters or params, lr=1e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01, fused=True)
    run = model if a.mode == "off" else torch.compile(model, dynamic=False,
                                                      mode=None if a.mode == "default" else a.mode)
    count = int(0.15 * a.seq) * a.micro_batch
    scale = 1.0 if a.type == "bf16" else a.loss_scale

    def step():
        tokens = torch.randint(4, vocabulary, (a.micro_batch, a.seq), device="cuda")
        rows = torch.randperm(tokens.numel(), device="cuda")[:count]
        with torch.autocast("cuda", dtype=kind, enabled=a.precision == "autocast"):
            loss = run(tokens, rows, tokens.view(-1)[rows])
        (loss * scale).backward()
        with torch.no_grad():
            if masters:
                torch._foreach_copy_([x.grad for x in masters], [x.grad if x.grad is not None else torch.zeros_like(x)
                                                                  for x in params])
            own = masters or params
            if scale != 1.0:
                torch._foreach_div_([x.grad for x in own if x.grad is not None], scale)
            torch.nn.utils.clip_grad_norm_(own, 1.0, foreach=True)
        adam.step()
        if masters:
            with torch.no_grad():
                torch._foreach_copy_(params, masters)
        for x in params:
            x.grad = None
        return loss

    for _ in range(a.warmup):
        step()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(a.steps + 1)]
    marks[0].record()
    for i in range(a.steps):
        step()
        marks[i + 1].record()
    torch.cuda.synchronize()
    times = [x.elapsed_time(y) for x, y in zip(marks, marks[1:])]
    print(json.dumps({"preset": a.preset, "seq": a.seq, "micro_batch": a.micro_batch, "type": a.type,
                      "precision": a.precision, "mode": a.mode, "transformers": a.transformers,
                      "median_ms": round(statistics.median(times), 3),
                      "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)}))


main()
