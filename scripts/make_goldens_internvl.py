#!/usr/bin/env python3
"""Writes tests/golden/internvl: small InternVL checkpoints and what transformers computes with them
(captioner_goldens.py). One of them has the tensor names and the configuration of the internvl_chat
repositories; for the reference its tensors are renamed."""

import json
import re
import shutil
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    GotOcr2ImageProcessorFast, InternVLConfig, InternVLForConditionalGeneration, InternVLProcessor,
    InternVLVideoProcessor, InternVLVisionConfig)

import captioner_goldens as goldens
from captioner_goldens import qwen2_config, qwen3_config

TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'video' %}{{ '<video>\n' }}{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
# The tokens that an InternVL tokenizer's configuration names.
TOKENS = {"start_image_token": "<img>", "end_image_token": "</img>",
          "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"}


def vit_config(**changes):
    return InternVLVisionConfig(**(dict(
        hidden_size=32, intermediate_size=52, num_hidden_layers=3, num_attention_heads=4,
        image_size=56, patch_size=14, attention_bias=True) | changes))


class InternVl:
    name = "internvl"
    prompts = goldens.PROMPTS

    def __init__(self, folder, image_px):
        self.model = goldens.open_reference(InternVLForConditionalGeneration, folder)
        config = self.model.config
        self.processors = []
        for tokenizer in goldens.tokenizers(folder):
            for attribute, token in TOKENS.items():
                setattr(tokenizer, attribute, token)
                setattr(tokenizer, attribute + "_id", tokenizer.convert_tokens_to_ids(token))
            grid = image_px // config.vision_config.patch_size[0]
            size = {"height": image_px, "width": image_px}
            self.processors.append(InternVLProcessor(
                image_processor=GotOcr2ImageProcessorFast(size=size), tokenizer=tokenizer,
                video_processor=InternVLVideoProcessor(size=size, image_mean=MEAN, image_std=STD),
                image_seq_length=int((grid * config.downsample_ratio) ** 2),
                chat_template=TEMPLATE))

    def inputs(self, question, frames):
        ids, found = goldens.run_processors(self.processors, question, frames)
        return ids, {"pixel_values": found.pixel_values}

    def features(self, pixels):
        return self.model.model.get_image_features(pixels["pixel_values"]).flatten(0, 1)


def chat_name(name):
    """The name in an internvl_chat repository of a tensor that save_pretrained() wrote."""
    for old, new in ((r"^vision_tower\.", "vision_model."), (r"encoder\.layer\.", "encoder.layers."),
                     ("cls_token", "class_embedding"), ("position_embeddings", "position_embedding"),
                     (r"patch_embeddings\.projection", "patch_embedding"),
                     (r"attention\.projection_layer", "attn.proj"),
                     (r"attention\.([qk])_norm", r"attn.\1_norm"),
                     ("layernorm_before", "norm1"), ("layernorm_after", "norm2"),
                     (r"lambda_([12])$", r"ls\1"),
                     (r"^multi_modal_projector\.layer_norm", "mlp1.0"),
                     (r"^multi_modal_projector\.linear_1", "mlp1.1"),
                     (r"^multi_modal_projector\.linear_2", "mlp1.3")):
        name = re.sub(old, new, name)
    return name


def to_chat(folder):
    """Gives a checkpoint the tensors and the configuration of an internvl_chat repository."""
    tensors, chat = load_file(folder / "model.safetensors"), {}
    for name, tensor in tensors.items():
        found = re.match(r"(vision_tower\.encoder\.layer\.\d+\.)attention\.q_proj\.(\w+)$", name)
        if found:
            stem, kind = found.groups()
            qkv = [tensors[f"{stem}attention.{part}_proj.{kind}"] for part in "qkv"]
            chat[chat_name(stem) + f"attn.qkv.{kind}"] = torch.cat(qkv)
        elif not re.search(r"attention\.[kv]_proj", name):
            chat[chat_name(name)] = tensor
    save_file(chat, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    vision = config["vision_config"]
    vision = {"model_type": "intern_vit_6b", "image_size": vision["image_size"][0],
              "patch_size": vision["patch_size"][0], "qkv_bias": vision["attention_bias"],
              "qk_normalization": vision["use_qk_norm"]} | {
        key: vision[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers",
                                     "num_attention_heads", "norm_type", "layer_norm_eps",
                                     "hidden_act")}
    (folder / "config.json").write_text(json.dumps({
        "model_type": "internvl_chat", "architectures": ["InternVLChatModel"],
        "downsample_ratio": 0.5, "ps_version": "v2", "select_layer": -1,
        "force_image_size": vision["image_size"], "template": "internvl2_5",
        "torch_dtype": config.get("dtype"), "vision_config": vision,
        "llm_config": config["text_config"]}, indent=2) + "\n")


def from_chat(folder, config):
    """Turns such a checkpoint into one that the reference opens."""
    names = InternVLForConditionalGeneration(config)
    with tempfile.TemporaryDirectory() as scratch:
        names.save_pretrained(scratch)
        names = load_file(scratch + "/model.safetensors")
    chat, tensors = load_file(folder / "model.safetensors"), {}
    for name in names:
        found = re.match(r"(vision_tower\.encoder\.layer\.\d+\.)attention\.([qkv])_proj\.(\w+)$",
                         name)
        if found:
            stem, part, kind = found.groups()
            qkv = chat[chat_name(stem) + f"attn.qkv.{kind}"].chunk(3)
            tensors[name] = qkv["qkv".index(part)].contiguous()
        else:
            tensors[name] = chat[chat_name(name)]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)


def make(name, text, vision, dtype=torch.float32, clips=goldens.CLIPS, shard="1GB", names=None,
         is_chat=False, files=None, tokenizer=goldens.TOKENIZER, **changes):
    config = InternVLConfig(vision_config=vision, text_config=text,
                            image_token_id=goldens.token_id("<IMG_CONTEXT>", tokenizer), **changes)
    image_px = vision.image_size[0]

    def save(folder):
        InternVLForConditionalGeneration(config).to(dtype).save_pretrained(
            folder, max_shard_size=shard)
        if names is not None:
            goldens.rename(folder, names)
        if is_chat:
            to_chat(folder)
        size = {"height": image_px, "width": image_px}
        image = GotOcr2ImageProcessorFast(size=size, image_mean=MEAN, image_std=STD)
        image.save_pretrained(folder)
        if files == "3.5":  # with the class defaults that the published folders hold
            InternVLVideoProcessor().save_pretrained(folder)
        if is_chat:
            (folder / "preprocessor_config.json").write_text(json.dumps({
                "crop_size": image_px, "do_center_crop": True, "do_normalize": True,
                "do_resize": True, "feature_extractor_type": "CLIPFeatureExtractor",
                "image_mean": MEAN, "image_std": STD, "resample": 3, "size": image_px}) + "\n")

    def load(folder):
        if is_chat:
            from_chat(folder, config)
        return InternVl(folder, image_px)

    goldens.make_case(goldens.GOLDEN / "internvl" / name, save, load, clips, tokenizer)


def main():
    shutil.rmtree(goldens.GOLDEN / "internvl", ignore_errors=True)
    large = [clip | {"count": 1 + i % 2} for i, clip in enumerate(goldens.CLIPS)]
    rms = dict(norm_type="rms_norm", use_qk_norm=True, attention_bias=False)
    make("vit_300m_f32", qwen3_config(), vit_config(), files="3.5")
    make("vit_6b_bf16", qwen3_config(hidden_size=40, head_dim=24),
         vit_config(hidden_size=40, num_attention_heads=5, **rms), torch.bfloat16)
    make("shards_f16", qwen2_config(), vit_config(image_size=84, num_hidden_layers=2),
         torch.float16, shard="90KB")
    make("new_names_tied", qwen3_config(tie_word_embeddings=True),
         vit_config(image_size=64, patch_size=8, hidden_act="gelu_pytorch_tanh"), torch.bfloat16,
         names=goldens.new_name, downsample_ratio=0.25, projector_hidden_act="quick_gelu")
    make("chat_300m", qwen2_config(rope_scaling={"rope_type": "dynamic", "factor": 2.0}),
         vit_config(), torch.bfloat16, is_chat=True)
    make("chat_6b", qwen3_config(), vit_config(**rms), is_chat=True)
    make("byte_level_qwen3", qwen3_config(), vit_config(), torch.bfloat16,
         tokenizer=goldens.BYTE_TOKENIZER)
    make("real_448", qwen3_config(num_hidden_layers=1),
         vit_config(image_size=448, num_hidden_layers=1, hidden_size=16, intermediate_size=40),
         torch.bfloat16, clips=large)


if __name__ == "__main__":
    main()
