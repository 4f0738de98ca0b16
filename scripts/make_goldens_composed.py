#!/usr/bin/env python3
"""Writes tests/golden/composed: a SigLIP tower, a projector of three layers and Qwen3, as trained
apart and put together by a user, and what transformers computes with them (captioner_goldens.py)."""

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    LlavaOnevisionVideoProcessor, Qwen3ForCausalLM, SiglipImageProcessor, SiglipVisionConfig,
    SiglipVisionModel)

import captioner_goldens as goldens

IMAGE_PX, FEATURE_LAYER, POOL_STRIDE = 45, -2, 2
# [out, in] by the layers' names in the file, whose order is that of the numbers.
LAYERS = {"8": (44, 36), "9": (40, 44), "10": (48, 40)}


class Composed(goldens.ComposedFamily):
    def __init__(self, folder):
        super().__init__()
        self.vision = SiglipVisionModel.from_pretrained(
            folder / "vision", dtype=torch.float32, attn_implementation="eager").eval()
        self.llm = Qwen3ForCausalLM.from_pretrained(
            folder / "llm", dtype=torch.float32, attn_implementation="eager").eval()
        self.projector = {name: tensor.float() for name, tensor in
                          load_file(folder / "projector.safetensors").items()}
        self.processor = LlavaOnevisionVideoProcessor(
            size={"height": IMAGE_PX, "width": IMAGE_PX}, image_mean=[0.5] * 3,
            image_std=[0.5] * 3)

    def features(self, pixels):
        frames = pixels["pixel_values_videos"][0]
        hidden = self.vision(frames, output_hidden_states=True).hidden_states[FEATURE_LAYER]
        hidden = goldens.average_pool(hidden, POOL_STRIDE)
        for i, layer in enumerate(LAYERS):
            hidden = torch.nn.functional.gelu(hidden) if i > 0 else hidden
            hidden = torch.nn.functional.linear(
                hidden, self.projector[f"{layer}.weight"], self.projector[f"{layer}.bias"])
        return hidden.flatten(0, 1)


def save(folder):
    SiglipVisionModel(SiglipVisionConfig(
        hidden_size=36, intermediate_size=50, num_hidden_layers=3, num_attention_heads=3,
        image_size=IMAGE_PX, patch_size=9, vision_use_head=False)).save_pretrained(
            folder / "vision")
    size = {"height": IMAGE_PX, "width": IMAGE_PX}
    SiglipImageProcessor(size=size).save_pretrained(folder / "vision")
    goldens.save_llm(Qwen3ForCausalLM(goldens.qwen3_config()).to(torch.bfloat16), folder / "llm")
    tensors = {}
    for layer, (out, columns) in LAYERS.items():
        tensors |= {f"{layer}.weight": torch.zeros(out, columns), f"{layer}.bias": torch.zeros(out)}
    save_file(tensors, folder / "projector.safetensors")


def main():
    with torch.no_grad():
        goldens.make_case(goldens.GOLDEN / "composed" / "siglip", save, Composed)


if __name__ == "__main__":
    main()
