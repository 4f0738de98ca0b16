"""Writes the model folder in the Hugging Face layout: bf16 weights, tokenizer, processor and generation settings."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import GenerationConfig, LlavaNextVideoForConditionalGeneration

import tokenizer as tok
from caption import UNLIKE
from dataset import SIDE
from model import MEAN, STD

_TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'user' %}USER: {% else %}ASSISTANT: {% endif %}"
    "{% for part in message['content'] %}{% if part['type'] == 'video' %}<video>\n{% endif %}{% endfor %}"
    "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }} {% endif %}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}")


def _write_json(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def export(model: LlavaNextVideoForConditionalGeneration, tokenizer_model: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    copy = LlavaNextVideoForConditionalGeneration(model.config)
    copy.load_state_dict(model.state_dict())
    copy.to(torch.bfloat16)
    copy.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=0, do_sample=False, max_new_tokens=512)
    copy.save_pretrained(folder)
    # caption-cli says by the first key that the model is for demonstration, and knows by the second what a refusal reads.
    config = json.loads((folder / "config.json").read_text())
    config |= {"caption_cli_demonstration": True, "caption_cli_unlike": UNLIKE}
    _write_json(folder / "config.json", dict(sorted(config.items())))
    (folder / "model.safetensors").chmod(0o644)
    tok.save(tok.load(tokenizer_model), folder)
    common = {
        "do_resize": True, "size": {"height": SIDE, "width": SIDE}, "resample": 3, "do_center_crop": False,
        "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": MEAN, "image_std": STD,
        "do_convert_rgb": True,
    }
    _write_json(folder / "preprocessor_config.json", common | {
        "crop_size": {"height": SIDE, "width": SIDE}, "image_processor_type": "LlavaNextImageProcessor",
        "video_processor_type": "LlavaNextVideoVideoProcessor", "processor_class": "LlavaNextVideoProcessor",
        "image_grid_pinpoints": model.config.image_grid_pinpoints})
    _write_json(folder / "processor_config.json", {
        "processor_class": "LlavaNextVideoProcessor", "patch_size": 14, "num_additional_image_tokens": 1,
        "vision_feature_select_strategy": "default", "image_token": "<image>", "video_token": "<video>"})
    (folder / "chat_template.jinja").write_text(_TEMPLATE)
