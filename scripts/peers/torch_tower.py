"""A CLIP vision tower of a known shape with random weights, in PyTorch."""

from __future__ import annotations

import torch
from transformers import CLIPVisionConfig, CLIPVisionModel

from shapes import TowerShape

SEED = 20


def make_random_tower(shape: TowerShape) -> CLIPVisionModel:
    torch.manual_seed(SEED)
    config = CLIPVisionConfig(hidden_size=shape.hidden, intermediate_size=shape.intermediate,
                              num_hidden_layers=shape.num_layers,
                              num_attention_heads=shape.num_heads, image_size=shape.image_px,
                              patch_size=shape.patch_px, hidden_act="quick_gelu")
    return CLIPVisionModel._from_config(config, attn_implementation="sdpa").eval()
