#!/usr/bin/env python3
"""Writes tests/golden/projectors: composed models with each kind of projector, and what PyTorch
computes with them (captioner_goldens.py).

The references of the projectors are written here after their papers and the names of their
authors' modules: PerceiverResampler after arXiv:2204.14198 with the names of OpenFlamingo,
CAbstractor after arXiv:2312.06742 with the names of Honeybee and timm's RegStage. That of Idefics2
is transformers' own.
"""

import sys

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from transformers import (
    CLIPImageProcessor, CLIPVisionConfig, CLIPVisionModel, LlamaConfig, LlamaForCausalLM,
    LlavaNextVideoVideoProcessor, LlavaOnevisionVideoProcessor, MistralConfig, MistralForCausalLM,
    Qwen2ForCausalLM, Qwen3ForCausalLM, SiglipImageProcessor, SiglipVisionConfig,
    SiglipVisionModel)
from transformers.models.idefics2.configuration_idefics2 import Idefics2PerceiverConfig
from transformers.models.idefics2.modeling_idefics2 import (
    Idefics2MLP, Idefics2PerceiverResampler)

import captioner_goldens as goldens
import drawn


class Mlp(nn.Sequential):
    """Linear layers with an activation between every two."""

    def __init__(self, widths, activation):
        layers = []
        for columns, rows in zip(widths, widths[1:]):
            layers += [nn.Linear(columns, rows), activation()]
        super().__init__(*layers[:-1])


class PerceiverAttention(nn.Module):
    def __init__(self, dim, heads, head_dim):
        super().__init__()
        self.heads = heads
        self.norm_media, self.norm_latents = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, heads * head_dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * heads * head_dim, bias=False)
        self.to_out = nn.Linear(heads * head_dim, dim, bias=False)

    def forward(self, rows, latents):
        latents = self.norm_latents(latents)
        keys, values = self.to_kv(torch.cat((self.norm_media(rows), latents), dim=1)).chunk(2, -1)

        def split(tensor):
            return tensor.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        queries, keys, values = split(self.to_q(latents)), split(keys), split(values)
        weights = (queries @ keys.transpose(2, 3) * queries.shape[-1] ** -0.5).softmax(-1)
        return self.to_out((weights @ values).transpose(1, 2).flatten(2))


class PerceiverResampler(nn.Module):
    def __init__(self, columns, dim, out, latents, depth, heads, head_dim, mlp):
        """`columns` or `out` None: there is no layer before, or after, the resampler."""
        super().__init__()
        self.latents = nn.Parameter(torch.zeros(latents, dim))
        if columns is not None:
            self.proj_in = nn.Linear(columns, dim)
        self.layers = nn.ModuleList([nn.ModuleList([
            PerceiverAttention(dim, heads, head_dim),
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, mlp, bias=False), nn.GELU(),
                          nn.Linear(mlp, dim, bias=False))]) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        if out is not None:
            self.proj_out = nn.Linear(dim, out)

    def forward(self, rows):
        rows = self.proj_in(rows) if hasattr(self, "proj_in") else rows
        latents = self.latents.expand(len(rows), -1, -1)
        for attention, mlp in self.layers:
            latents = attention(rows, latents) + latents
            latents = mlp(latents) + latents
        latents = self.norm(latents)
        return self.proj_out(latents) if hasattr(self, "proj_out") else latents


class Idefics2(nn.Module):
    """Idefics2Connector, whose first part may be left out."""

    def __init__(self, columns, dim, inner, **config):
        super().__init__()
        if inner is not None:
            self.modality_projection = Idefics2MLP(columns, inner, dim, "silu")
        config = Idefics2PerceiverConfig(hidden_size=dim, **config)
        config._attn_implementation = "eager"
        self.perceiver_resampler = Idefics2PerceiverResampler(config)

    def forward(self, rows):
        if hasattr(self, "modality_projection"):
            rows = self.modality_projection(rows)
        return self.perceiver_resampler(rows, attention_mask=torch.ones(rows.shape[:2]))


class LayerNorm2d(nn.LayerNorm):
    def __init__(self, channels):
        super().__init__(channels, eps=1e-6)

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNorm(nn.Module):
    def __init__(self, channels, out, size=1, groups=1, activation=None):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, size, padding=size // 2, groups=groups, bias=False)
        self.bn = LayerNorm2d(out)
        self.activation = activation

    def forward(self, x):
        x = self.bn(self.conv(x))
        return x if self.activation is None else self.activation(x)


class SqueezeExcite(nn.Module):
    def __init__(self, channels, squeezed):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x):
        mean = x.mean((2, 3), keepdim=True)
        return x * self.fc2(functional.silu(self.fc1(mean))).sigmoid()


class Bottleneck(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.conv1 = ConvNorm(channels, out, activation=functional.silu)
        self.conv2 = ConvNorm(out, out, 3, groups=out, activation=functional.silu)
        self.se = SqueezeExcite(out, round(channels / 4))
        self.conv3 = ConvNorm(out, out)
        self.downsample = ConvNorm(channels, out) if channels != out else nn.Identity()

    def forward(self, x):
        return functional.silu(self.conv3(self.se(self.conv2(self.conv1(x)))) + self.downsample(x))


class RegStage(nn.Module):
    def __init__(self, depth, channels, out):
        super().__init__()
        for i in range(depth):
            self.add_module(f"b{i + 1}", Bottleneck(channels if i == 0 else out, out))

    def forward(self, x):
        for block in self.children():
            x = block(x)
        return x


class CAbstractor(nn.Module):
    def __init__(self, columns, hidden, out, tokens, depth, mlp_depth, positions=None, norm=False):
        super().__init__()
        if positions is not None:
            self.pos_emb = nn.Parameter(torch.zeros(1, positions, columns))
        if norm:
            self.prenorm = nn.LayerNorm(columns, eps=1e-6)
        edge = int(tokens ** 0.5)
        self.net = nn.Sequential(RegStage(depth, columns, hidden),
                                 nn.AdaptiveAvgPool2d((edge, edge)),
                                 RegStage(depth, hidden, hidden))
        self.readout = Mlp([hidden] + [out] * mlp_depth, nn.SiLU)

    def forward(self, rows):
        if hasattr(self, "prenorm"):
            rows = self.prenorm(rows)
        if hasattr(self, "pos_emb"):
            # An older table has a first row for the class token.
            rows = rows + self.pos_emb[:, -rows.shape[1]:]
        edge = int(rows.shape[1] ** 0.5)
        grid = rows.transpose(1, 2).unflatten(2, (edge, edge))
        return self.readout(self.net(grid).flatten(2).transpose(1, 2))


class Composed(goldens.ComposedFamily):
    def __init__(self, folder, case):
        super().__init__()

        def load(kind, part):
            return kind.from_pretrained(folder / part, dtype=torch.float32,
                                        attn_implementation="eager").eval()

        self.case = case
        self.vision = load(type(case["vision"]), "vision")
        self.llm = load(type(case["llm"]), "llm")
        names = case.get("names", lambda name: name)
        stored = load_file(folder / "projector.safetensors")
        self.projector = case["projector"].float().eval()
        self.projector.load_state_dict(
            {name: stored[names(name)].float() for name in self.projector.state_dict()})
        size = self.vision.config.image_size
        self.is_clip = isinstance(self.vision, CLIPVisionModel)
        self.processor = LlavaNextVideoVideoProcessor(
            size={"shortest_edge": size}, crop_size=size) if self.is_clip else (
            LlavaOnevisionVideoProcessor(size={"height": size, "width": size},
                                         image_mean=[0.5] * 3, image_std=[0.5] * 3))

    def features(self, pixels):
        states = self.vision(pixels["pixel_values_videos"][0],
                             output_hidden_states=True).hidden_states
        rows = torch.cat([states[layer] for layer in self.case.get("layers", [-1])], dim=-1)
        rows = rows[:, 1:] if self.is_clip else rows
        stride = self.case.get("stride", 1)
        rows = goldens.average_pool(rows, stride) if stride > 1 else rows
        return self.projector(rows).flatten(0, 1)


def spread(name, shape):
    """As goldens.spread(), with the norms of these projectors around 1."""
    is_norm = name.endswith(".bn.weight") or name.endswith(".1.0.weight")
    if is_norm and len(shape) == 1:
        return 1, 0
    return (0, -1) if name.endswith("pos_emb") else goldens.spread(name, shape)


def save(folder, case):
    case["vision"].save_pretrained(folder / "vision")
    size = case["vision"].config.image_size
    if isinstance(case["vision"], CLIPVisionModel):
        CLIPImageProcessor(size={"shortest_edge": size}, crop_size=size).save_pretrained(
            folder / "vision")
    else:
        SiglipImageProcessor(size={"height": size, "width": size}).save_pretrained(
            folder / "vision")
    dtype = case.get("dtype", torch.float32)
    goldens.save_llm(case["llm"].to(dtype), folder / "llm")
    names = case.get("names", lambda name: name)
    save_file({names(name): tensor.to(dtype).contiguous()
               for name, tensor in case["projector"].state_dict().items()},
              folder / "projector.safetensors")


def clip(**changes):
    return CLIPVisionModel(CLIPVisionConfig(**(dict(
        hidden_size=36, intermediate_size=50, num_hidden_layers=3, num_attention_heads=3,
        image_size=35, patch_size=7, projection_dim=16) | changes)))


def siglip(**changes):
    return SiglipVisionModel(SiglipVisionConfig(**(dict(
        hidden_size=36, intermediate_size=50, num_hidden_layers=2, num_attention_heads=3,
        image_size=45, patch_size=9, vision_use_head=False) | changes)))


def small(kind, config, **changes):
    return kind(config(**(dict(
        vocab_size=goldens.VOCAB, hidden_size=48, intermediate_size=80, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=1024,
        rms_norm_eps=1e-5, rope_theta=1e6, sliding_window=None) | changes)))


def cases():
    qwen3 = Qwen3ForCausalLM(goldens.qwen3_config())
    return {
        "mlp_layers": {
            "vision": clip(), "layers": [-2, 1, -2], "llm": small(LlamaForCausalLM, LlamaConfig),
            "projector": Mlp([3 * 36, 52, 48], nn.ReLU),
            "names": lambda name: "module.mm_projector." + name},
        "perceiver_clip": {
            "vision": clip(), "layers": [-2], "llm": qwen3, "dtype": torch.bfloat16,
            "projector": PerceiverResampler(None, 36, 48, latents=7, depth=2, heads=3, head_dim=8,
                                            mlp=60)},
        "perceiver_siglip": {
            "vision": siglip(), "llm": Qwen2ForCausalLM(goldens.qwen2_config(hidden_size=48)),
            "projector": PerceiverResampler(36, 48, None, latents=5, depth=1, heads=1,
                                            head_dim=64, mlp=96),
            "names": lambda name: "perceiver." + name, "stride": 2},
        "idefics2_siglip": {
            "vision": siglip(), "layers": [1], "llm": small(MistralForCausalLM, MistralConfig),
            "projector": Idefics2(36, 48, 68, resampler_n_latents=6, resampler_depth=2,
                                  resampler_n_heads=4, resampler_head_dim=12,
                                  num_key_value_heads=2),
            "names": lambda name: "connector." + name},
        "idefics2_clip": {
            "vision": clip(hidden_size=48, image_size=28), "dtype": torch.float16,
            "llm": small(LlamaForCausalLM, LlamaConfig, tie_word_embeddings=True),
            "projector": Idefics2(48, 48, None, resampler_n_latents=3, resampler_depth=1,
                                  resampler_n_heads=1, resampler_head_dim=96,
                                  num_key_value_heads=1)},
        "c_abstractor_clip": {
            "vision": clip(), "layers": [-2], "llm": qwen3, "dtype": torch.bfloat16,
            "projector": CAbstractor(36, 44, 48, tokens=9, depth=2, mlp_depth=2, positions=26,
                                     norm=True)},
        "c_abstractor_siglip": {
            "vision": siglip(image_size=46, patch_size=6),
            "llm": Qwen2ForCausalLM(goldens.qwen2_config(hidden_size=48)),
            "projector": CAbstractor(36, 36, 48, tokens=4, depth=3, mlp_depth=1),
            "names": lambda name: "abstractor." + name},
        "c_abstractor_layers": {
            "vision": siglip(), "layers": [-1, 0], "stride": 2,
            "llm": small(MistralForCausalLM, MistralConfig),
            "projector": CAbstractor(72, 40, 48, tokens=9, depth=1, mlp_depth=3, positions=4)},
    }


def main():
    """Makes the cases that the command line names, or all."""
    with torch.no_grad():
        for name, case in cases().items():
            if len(sys.argv) > 1 and name not in sys.argv[1:]:
                continue
            goldens.make_case(goldens.GOLDEN / "projectors" / name,
                              lambda folder: save(folder, case),
                              lambda folder: Composed(folder, case), spread=spread)


if __name__ == "__main__":
    main()
