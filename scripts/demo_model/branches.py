"""One forward pass for several answers about the same clip: the video is read once, each answer is a branch after it.

A branch attends to the video and to itself, never to another branch, and its positions go on where the video ends, so
every branch gives the numbers that it would give as a sequence of its own. `self_check` proves that against transformers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import LlamaModel


@dataclass(frozen=True)
class Layout:
    """The shape of a batch: `clips` videos of `prefix` tokens, and for each branch how many clips it has and its length.

    A branch with fewer clips than the batch belongs to the first ones.
    """

    clips: int
    prefix: int
    branches: tuple[tuple[int, int], ...]

    def rows(self) -> list[int]:
        return [self.clips * self.prefix, *(n * length for n, length in self.branches)]

    def positions(self) -> Tensor:
        parts = [torch.arange(self.prefix).repeat(self.clips)]
        parts += [torch.arange(self.prefix, self.prefix + length).repeat(n) for n, length in self.branches]
        return torch.cat(parts)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q [n, l, heads, d] of the last l positions; k, v [n, s, groups, d]. Returns [n, l, heads * d]; causal."""
    n, length, heads, dim = q.shape
    total, groups = k.shape[1], k.shape[2]
    q = q.permute(0, 2, 1, 3).reshape(n, groups, heads // groups * length, dim)
    scores = (q @ k.permute(0, 2, 3, 1)).unflatten(2, (heads // groups, length)).float() * dim**-0.5
    seen = torch.ones(length, total, dtype=torch.bool, device=q.device).tril(total - length)
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).to(v.dtype)
    out = weights.flatten(2, 3) @ v.permute(0, 2, 1, 3)
    return out.reshape(n, heads, length, dim).permute(0, 2, 1, 3).reshape(n, length, heads * dim)


def layer(module: torch.nn.Module, x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """One decoder layer over the rows of `x` [rows, width]: the videos first, then branch after branch."""
    attention, h = module.self_attn, module.input_layernorm(x)
    q = _rotate(attention.q_proj(h).unflatten(-1, (-1, attention.head_dim)), cos, sin)
    k = _rotate(attention.k_proj(h).unflatten(-1, (-1, attention.head_dim)), cos, sin)
    v = attention.v_proj(h).unflatten(-1, (-1, attention.head_dim))
    rows = layout.rows()
    q, k, v = (t.to(v.dtype).split(rows) for t in (q, k, v))
    first = layout.clips, layout.prefix
    prefix_k, prefix_v = k[0].unflatten(0, first), v[0].unflatten(0, first)
    out = [_attend(q[0].unflatten(0, first), prefix_k, prefix_v).flatten(0, 1)]
    for i, shape in enumerate(layout.branches, 1):
        keys = torch.cat([prefix_k[:shape[0]], k[i].unflatten(0, shape)], dim=1)
        values = torch.cat([prefix_v[:shape[0]], v[i].unflatten(0, shape)], dim=1)
        out.append(_attend(q[i].unflatten(0, shape), keys, values).flatten(0, 1))
    x = x + attention.o_proj(torch.cat(out))
    return x + module.mlp(module.post_attention_layernorm(x))


def run(decoder: LlamaModel, prefix: Tensor, branches: list[Tensor], layer_of=layer) -> list[list[Tensor]]:
    """The hidden states after every layer, before the last norm.

    prefix [clips, p, width]; branches [n, length, width] of the first n clips. Returns one list a layer:
    [clips, p, width] of the videos, then [n, length, width] of each branch.
    """
    layout = Layout(prefix.shape[0], prefix.shape[1], tuple((b.shape[0], b.shape[1]) for b in branches))
    x = torch.cat([prefix.flatten(0, 1), *(b.flatten(0, 1) for b in branches)])
    cos, sin = (t[0, :, None] for t in decoder.rotary_emb(x, layout.positions()[None]))
    states = []
    for module in decoder.layers:
        x = layer_of(module, x, cos, sin, layout)
        rows = x.split(layout.rows())
        shapes = ((layout.clips, layout.prefix), *layout.branches)
        states.append([part.unflatten(0, shape) for part, shape in zip(rows, shapes)])
    return states


@torch.no_grad()
def self_check(decoder: LlamaModel, seed: int = 5) -> None:
    """Raises AssertionError when a branch differs from the sequence it stands for or sees another branch."""
    random = torch.Generator().manual_seed(seed)
    width = decoder.config.hidden_size
    prefix = torch.randn(3, 11, width, generator=random)
    branches = [torch.randn(n, length, width, generator=random) for n, length in ((3, 7), (3, 4), (2, 13))]
    states = run(decoder, prefix, branches)[-1]
    for branch, state in zip(branches, states[1:]):
        alone = torch.cat([prefix[:len(branch)], branch], dim=1)
        truth = decoder(inputs_embeds=alone, use_cache=False).last_hidden_state
        ours = decoder.norm(torch.cat([states[0][:len(branch)], state], dim=1))
        worst = float((truth - ours).abs().max())
        assert worst < 1e-4, f"a branch differs from its own sequence by {worst}"
    for changed in range(len(branches)):
        others = [b + 1.0 if i == changed else b for i, b in enumerate(branches)]
        after = run(decoder, prefix, others)[-1]
        for i, (a, b) in enumerate(zip(states, after)):
            moved = float((a - b).abs().max())
            assert (moved > 1e-2) == (i == changed + 1), f"branch {changed} changed, part {i} moved by {moved}"
