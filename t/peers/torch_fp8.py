#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of a training step of a GPT or Llama in PyTorch with fp8 linear layers on one GPU, for comparison with
`megatron train --fp8-format hybrid`: torch._scaled_mm with tensor-wise current scales for all three products of every
linear layer (e4m3, gradients e5m2, fast accumulation in the forward pass only), one compiled graph, SDPA, fused AdamW,
clipping, bf16 weights with fp32 masters, no dropout, random tokens. Embedding, head, norms and attention are bf16.
usage: t/peers/torch_fp8.py --layers N --hidden N --heads N --seq N --micro-batch N --vocab N [--accum N]
           [--llama --kv-heads N --ffn N] [--bf16: the same without fp8]
Prints a JSON line with "median_ms"."""
import argparse
import json
import statistics

import torch
import torch.nn.functional as F
from torch import nn

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def cast(x, kind):
    """x in fp8, and the factor that undoes its scale."""
    most = torch.finfo(kind).max
    scale = most / x.abs().max().float().clamp(min=1e-12)
    return (x.float() * scale).clamp(-most, most).to(kind), scale.reciprocal()


def by_column(x):
    """The second factor of torch._scaled_mm is column-major."""
    return x.t().contiguous().t()


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        rows = x.reshape(-1, x.shape[-1])
        x8, sx = cast(rows, E4M3)
        w8, sw = cast(weight, E4M3)
        y = torch._scaled_mm(x8, w8.t(), scale_a=sx, scale_b=sw, out_dtype=torch.bfloat16, use_fast_accum=True)
        ctx.save_for_backward(x8, sx, w8, sw)
        ctx.shape = x.shape
        return y.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, dy):
        x8, sx, w8, sw = ctx.saved_tensors
        d8, sd = cast(dy.reshape(-1, dy.shape[-1]), E5M2)
        dx = torch._scaled_mm(d8, by_column(w8), scale_a=sd, scale_b=sw, out_dtype=torch.bfloat16)
        dw = torch._scaled_mm(d8.t().contiguous(), by_column(x8), scale_a=sd, scale_b=sx, out_dtype=torch.bfloat16)
        return dx.view(ctx.shape), dw


class Linear(nn.Linear):
    fp8 = True

    def forward(self, x):
        y = Product.apply(x, self.weight) if self.fp8 else F.linear(x, self.weight)
        return y if self.bias is None else y + self.bias


class Layer(nn.Module):
    def __init__(self, a):
        super().__init__()
        h, self.heads, self.groups, self.size = a.hidden, a.heads, a.kv_heads, a.hidden // a.heads
        self.llama = a.llama
        norm = nn.RMSNorm if a.llama else nn.LayerNorm
        self.norm1, self.norm2 = norm(h), norm(h)
        self.qkv = Linear(h, (a.heads + 2 * a.kv_heads) * self.size, bias=not a.llama)
        self.out = Linear(h, h, bias=not a.llama)
        self.up = Linear(h, (2 if a.llama else 1) * a.ffn, bias=not a.llama)
        self.down = Linear(a.ffn, h, bias=not a.llama)

    def rotate(self, x, turns):
        a, b = x.float().chunk(2, dim=-1)
        cos, sin = turns
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)

    def forward(self, x, turns):
        b, s, h = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, -1, self.size).transpose(1, 2).split(
            (self.heads, self.groups, self.groups), dim=1)
        if self.llama:
            q, k = self.rotate(q, turns), self.rotate(k, turns)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.groups != self.heads)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, h))
        y = self.up(self.norm2(x))
        if self.llama:
            gate, up = y.chunk(2, dim=-1)
            return x + self.down(F.silu(gate) * up)
        return x + self.down(F.gelu(y, approximate="tanh"))


class Model(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.word = nn.Embedding(a.vocab, a.hidden)
        self.position = None if a.llama else nn.Embedding(a.seq, a.hidden)
        self.layers = nn.ModuleList(Layer(a) for _ in range(a.layers))
        self.norm = (nn.RMSNorm if a.llama else nn.LayerNorm)(a.hidden)
        self.head = nn.Linear(a.hidden, a.vocab, bias=False)
        if not a.llama:
            self.head.weight = self.word.weight
        size = a.hidden // a.heads
        angles = torch.outer(torch.arange(a.seq).float(), 500000.0 ** (-torch.arange(0, size, 2).float() / size))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.word(tokens)
        if self.position is not None:
            x = x + self.position.weight
        for layer in self.layers:
            x = layer(x, (self.cos, self.sin))
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def arguments():
    p = argparse.ArgumentParser()
    for name in ("layers", "hidden", "heads", "seq", "micro-batch", "vocab"):
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--accum", type=int, default=1)
    p.add_argument("--llama", action="store_true")
    p.add_argument("--kv-heads", type=int)
    p.add_argument("--ffn", type=int)
    p.add_argument("--bf16", action="store_true")
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--warmup", type=int, default=5)
    a = p.parse_args()
    a.kv_heads = a.kv_heads or a.heads
    a.ffn = a.ffn or 4 * a.hidden
    return a


def main():
    a = arguments()
    torch.manual_seed(1)
    Linear.fp8 = not a.bf16
    model = Model(a).cuda()
    params = list(model.parameters())
    masters = [x.detach().clone() for x in params]
    tables = model.cos, model.sin
    model.to(torch.bfloat16)
    model.cos, model.sin = tables  # rotations stay in fp32
    for x in masters:
        x.grad = torch.zeros_like(x)
    adam = torch.optim.AdamW(masters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    run = torch.compile(model, dynamic=False)

    def step():
        for x in masters:
            x.grad.zero_()
        for _ in range(a.accum):
            tokens = torch.randint(0, a.vocab, (a.micro_batch, a.seq + 1), device="cuda")
            (run(tokens[:, :-1], tokens[:, 1:]) / a.accum).backward()
            with torch.no_grad():
                torch._foreach_add_([x.grad for x in masters], [x.grad for x in params])
            for x in params:
                x.grad = None
        torch.nn.utils.clip_grad_norm_(masters, 1.0, foreach=True)
        adam.step()
        with torch.no_grad():
            torch._foreach_copy_(params, masters)

    for _ in range(a.warmup):
        step()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(a.steps + 1)]
    marks[0].record()
    for i in range(a.steps):
        step()
        marks[i + 1].record()
    torch.cuda.synchronize()
    times = [x.elapsed_time(y) for x, y in zip(marks, marks[1:])]
    print(json.dumps({"layers": a.layers, "hidden": a.hidden, "seq": a.seq, "micro_batch": a.micro_batch,
                      "fp8": not a.bf16, "median_ms": round(statistics.median(times), 3),
                      "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)}))


main()
