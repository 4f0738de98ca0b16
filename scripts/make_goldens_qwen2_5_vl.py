#!/usr/bin/env python3
"""Writes tests/golden/qwen2_5_vl: small Qwen2.5-VL checkpoints and what transformers computes with
them (captioner_goldens.py). The frames per second that the processor is told are those of the
clip's times; a clip without times has the processor's default."""

import json
import shutil

import torch
from transformers import (
    Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor,
    Qwen2VLVideoProcessor)

import captioner_goldens as goldens
import drawn
import qwen_vl_goldens as qwen

TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}" + qwen.TURNS)
# Images that are less than a second, one second and five seconds apart.
CLIPS = [dict(height=50, width=70, seed=3, count=4, kind="waves", fps=25, first=0, step=10),
         dict(height=61, width=40, seed=20, count=5, kind="waves", fps=30, first=1, step=15),
         dict(height=20, width=90, seed=40, count=3, kind="noise", fps=24, first=0, step=60)]
# Images that are little less than one, two and four seconds apart.
ALMOST_SECONDS = [
    dict(height=50, width=70, seed=3, count=4, kind="waves", fps=25, first=0, step=12),
    dict(height=61, width=40, seed=20, count=5, kind="waves", fps=50, first=1, step=49),
    dict(height=20, width=90, seed=40, count=3, kind="noise", fps=60, first=0, step=119)]
TIMELESS = [dict(height=61, width=40, seed=20, count=5, kind="waves"),
            dict(height=50, width=70, seed=3, count=1, kind="waves"),
            dict(height=20, width=90, seed=40, count=2, kind="noise")]


def vision_config(**changes):
    return qwen.vision_config(**(dict(
        window_size=32, tokens_per_second=2, fullatt_block_indexes=[1, 3]) | changes))


def text_config(**changes):
    return qwen.text_config(**(dict(
        num_hidden_layers=3, rope_theta=1e6,
        rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]}) | changes))


class Qwen25Vl(qwen.Family):
    name = "qwen2_5_vl"
    template = TEMPLATE
    config_class, model_class = Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
    processor_class, video_class = Qwen2_5_VLProcessor, Qwen2VLVideoProcessor
    input_names = ["pixel_values_videos", "video_grid_thw", "second_per_grid_ts"]

    def times(self, clip):
        return {"fps": clip["fps"] / clip["step"]} if "fps" in clip else {}

    def features(self, pixels):
        (rows,) = self.model.model.get_video_features(
            pixels["pixel_values_videos"], pixels["video_grid_thw"])
        return rows


def spread(name, shape):
    if len(shape) == 1 and name.endswith(("norm1.weight", "norm2.weight", "ln_q.weight")):
        return 1, 0
    return drawn.default_spread(name, shape)


def new_name(name):
    """The names of the modules since transformers 4.52, which save_pretrained() turns back."""
    if name.startswith("visual."):
        return "model." + name
    return name.replace("model.", "model.language_model.", 1) if name.startswith("model.") else name


def make(name, text=None, vision=None, dtype=torch.float32, clips=CLIPS, shard="1GB",
         limits=(2000, 6000), change=None):
    qwen.make_case(Qwen25Vl, name, text or text_config(), vision or vision_config(), dtype, clips,
                   shard, limits, spread, change)


def as_on_the_hub(folder):
    """The text model's keys in the root of the configuration, rope type "mrope", and limits under
    the keys of an image processor."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    text = config.pop("text_config")
    for key in ("model_type", "layer_types"):
        del text[key]
    text |= {"rope_scaling": {"type": "mrope",
                              "mrope_section": text["rope_scaling"]["mrope_section"]},
             "sliding_window": 32768, "max_window_layers": 2}
    path.write_text(json.dumps(config | text, indent=2) + "\n")
    video = folder / "video_preprocessor_config.json"
    keys = ("patch_size", "temporal_patch_size", "merge_size", "image_mean", "image_std")
    values = json.loads(video.read_text())
    video.unlink()
    image = {key: values[key] for key in keys} | {
        "min_pixels": 1500, "max_pixels": 4000,
        "size": {"shortest_edge": 100, "longest_edge": 200},
        "image_processor_type": "Qwen2VLImageProcessor"}
    (folder / "preprocessor_config.json").write_text(json.dumps(image, indent=2) + "\n")


def main():
    shutil.rmtree(goldens.GOLDEN / "qwen2_5_vl", ignore_errors=True)
    make("untied_f32")
    make("tied_bf16", text_config(tie_word_embeddings=True), dtype=torch.bfloat16, clips=TIMELESS)
    make("shards_f16",
         text_config(hidden_size=48, num_attention_heads=3, num_key_value_heads=1),
         vision_config(out_hidden_size=48, num_heads=4, fullatt_block_indexes=[2]),
         dtype=torch.float16, shard="150KB")
    make("hub_layout", text_config(tie_word_embeddings=True), dtype=torch.bfloat16,
         change=as_on_the_hub)
    make("new_names", change=lambda folder: goldens.rename(folder, new_name))
    make("all_in_windows", vision=vision_config(
        fullatt_block_indexes=[], window_size=20, depth=2, tokens_per_second=3),
         limits=(1000, 3000))
    make("one_window", text_config(rope_scaling={
        "rope_type": "default", "mrope_section": [4, 2, 2]}),
         vision_config(window_size=400, hidden_size=80, num_heads=4, patch_size=6),
         limits=(2000, 9000))
    make("almost_seconds", clips=ALMOST_SECONDS)
    make("real_size", text_config(num_hidden_layers=1),
         vision_config(depth=2, hidden_size=32, num_heads=2, patch_size=14, window_size=112,
                       fullatt_block_indexes=[1]),
         dtype=torch.bfloat16, limits=(3136, 12845056),
         clips=[clip | {"height": 4 * clip["height"], "width": 5 * clip["width"]}
                for clip in CLIPS])


if __name__ == "__main__":
    main()
