#!/usr/bin/env python3
"""Writes tests/golden/qwen3_vl: small Qwen3-VL checkpoints and what transformers computes with them
(captioner_goldens.py). Clips have frames of several sizes and times that are given as metadata, so
that nothing is sampled again."""

import shutil

import torch
from transformers import (
    Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor, Qwen3VLVideoProcessor)

import captioner_goldens as goldens
import drawn
import qwen_vl_goldens as qwen

TEMPLATE = "{% for message in messages %}" + qwen.TURNS
CLIPS = [dict(height=50, width=70, seed=3, count=4, kind="waves", fps=25, first=0, step=12),
         dict(height=61, width=40, seed=20, count=5, kind="waves", fps=30, first=1, step=7),
         dict(height=20, width=90, seed=40, count=2, kind="noise", fps=24, first=0, step=1)]


def vision_config(**changes):
    return qwen.vision_config(**(dict(
        num_position_embeddings=36, deepstack_visual_indexes=[0, 2]) | changes))


def text_config(**changes):
    return qwen.text_config(**(dict(
        num_hidden_layers=4, head_dim=24, rope_theta=5e6,
        rope_scaling={"rope_type": "default", "mrope_interleaved": True,
                      "mrope_section": [6, 3, 3]}) | changes))


class Qwen3Vl(qwen.Family):
    name = "qwen3_vl"
    template = TEMPLATE
    config_class, model_class = Qwen3VLConfig, Qwen3VLForConditionalGeneration
    processor_class, video_class = Qwen3VLProcessor, Qwen3VLVideoProcessor
    input_names = ["pixel_values_videos", "video_grid_thw"]

    def times(self, clip):
        indices = qwen.indices_of(clip)
        metadata = {"total_num_frames": indices[-1] + 1, "fps": clip["fps"],
                    "frames_indices": indices}
        return {"video_metadata": [metadata], "do_sample_frames": False}

    def features(self, pixels):
        """Rows as the decoder takes them: the embedding, then the rows of DeepStack."""
        (rows,), deepstack = self.model.model.get_video_features(*pixels.values())
        return torch.cat([rows, *deepstack], dim=1)


def spread(name, shape):
    if len(shape) == 1 and name.split(".")[-2].startswith("norm") and name.endswith("weight"):
        return 1, 0
    return drawn.default_spread(name, shape)


def make(name, text=None, vision=None, dtype=torch.float32, clips=CLIPS, shard="1GB",
         limits=(2000, 20000)):
    qwen.make_case(Qwen3Vl, name, text or text_config(), vision or vision_config(), dtype, clips,
                   shard, limits, spread)


def main():
    shutil.rmtree(goldens.GOLDEN / "qwen3_vl", ignore_errors=True)
    goldens.make_tokenizer(qwen.TOKENIZER, qwen.ADDED)
    make("untied_f32")
    make("tied_bf16", text_config(tie_word_embeddings=True, num_hidden_layers=3),
         dtype=torch.bfloat16)
    make("shards_f16", text_config(hidden_size=48, head_dim=32, rope_scaling={
        "rope_type": "default", "mrope_interleaved": True, "mrope_section": [8, 4, 4]}),
         vision_config(out_hidden_size=48, deepstack_visual_indexes=[1], num_heads=4),
         dtype=torch.float16, shard="150KB")
    make("no_deepstack", vision=vision_config(deepstack_visual_indexes=[], depth=2))
    make("uneven_sections", text_config(rope_scaling={
        "rope_type": "default", "mrope_interleaved": True, "mrope_section": [9, 2, 1]}),
         vision_config(deepstack_visual_indexes=[0, 1, 3], num_position_embeddings=50,
                       hidden_size=64, num_heads=2), dtype=torch.bfloat16)
    make("head_80", vision=vision_config(hidden_size=80, num_heads=4, patch_size=6),
         limits=(2000, 9000))
    make("real_size", text_config(num_hidden_layers=1),
         vision_config(depth=1, hidden_size=32, num_heads=2, patch_size=16,
                       num_position_embeddings=2304, deepstack_visual_indexes=[0]),
         dtype=torch.bfloat16, limits=(4096, 25165824),
         clips=[clip | {"height": 4 * clip["height"], "width": 5 * clip["width"]}
                for clip in CLIPS])


if __name__ == "__main__":
    main()
