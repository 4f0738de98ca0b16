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


class Composed:
    name = "composed"
    prompts = goldens.PROMPTS[:1]

    def __init__(self, folder):
        self.vision = SiglipVisionModel.from_pretrained(
            folder / "vision", dtype=torch.float32, attn_implementation="eager").eval()
        self.llm = Qwen3ForCausalLM.from_pretrained(
            folder / "llm", dtype=torch.float32, attn_implementation="eager").eval()
        self.projector = {name: tensor.float() for name, tensor in
                          load_file(folder / "projector.safetensors").items()}
        self.processor = LlavaOnevisionVideoProcessor(
            size={"height": IMAGE_PX, "width": IMAGE_PX}, image_mean=[0.5] * 3,
            image_std=[0.5] * 3)
        self.tokenizer = goldens.tokenizers()[1]
        self.video_id = goldens.token_id("<video>")
        self.model = self

    def features(self, pixels):
        frames = pixels["pixel_values_videos"][0]
        hidden = self.vision(frames, output_hidden_states=True).hidden_states[FEATURE_LAYER]
        side = int(hidden.shape[1] ** 0.5)
        grid = hidden.permute(0, 2, 1).reshape(len(hidden), -1, side, side)
        hidden = torch.nn.functional.avg_pool2d(grid, POOL_STRIDE).flatten(2).permute(0, 2, 1)
        for i, layer in enumerate(LAYERS):
            hidden = torch.nn.functional.gelu(hidden) if i > 0 else hidden
            hidden = torch.nn.functional.linear(
                hidden, self.projector[f"{layer}.weight"], self.projector[f"{layer}.bias"])
        return hidden.flatten(0, 1)

    def inputs(self, question, frames):
        video = torch.from_numpy(frames).permute(0, 3, 1, 2)
        pixels = dict(self.processor(videos=[video], return_tensors="pt"))
        # Template "{video}{prompt}": <s>, the vision tokens, then the text on its own.
        bos, *text = self.tokenizer(question).input_ids
        return [bos] + [self.video_id] * len(self.features(pixels)) + text, pixels

    def __call__(self, input_ids, pixel_values_videos=None, **more):
        embeddings = self.llm.get_input_embeddings()(input_ids)
        if pixel_values_videos is not None:
            embeddings[input_ids == self.video_id] = self.features(
                {"pixel_values_videos": pixel_values_videos})
        return self.llm(inputs_embeds=embeddings, **more)


def save(folder):
    SiglipVisionModel(SiglipVisionConfig(
        hidden_size=36, intermediate_size=50, num_hidden_layers=3, num_attention_heads=3,
        image_size=IMAGE_PX, patch_size=9, vision_use_head=False)).save_pretrained(
            folder / "vision")
    size = {"height": IMAGE_PX, "width": IMAGE_PX}
    SiglipImageProcessor(size=size).save_pretrained(folder / "vision")
    Qwen3ForCausalLM(goldens.qwen3_config()).to(torch.bfloat16).save_pretrained(folder / "llm")
    (folder / "llm/generation_config.json").unlink(missing_ok=True)
    for name in goldens.TOKENIZER_FILES:
        (folder / "llm" / name).write_bytes((goldens.TOKENIZER / name).read_bytes())
    tensors = {}
    for layer, (out, columns) in LAYERS.items():
        tensors |= {f"{layer}.weight": torch.zeros(out, columns), f"{layer}.bias": torch.zeros(out)}
    save_file(tensors, folder / "projector.safetensors")


def main():
    with torch.no_grad():
        goldens.make_case(goldens.GOLDEN / "composed" / "siglip", save, Composed)


if __name__ == "__main__":
    main()
