#!/usr/bin/env python3
"""Writes tests/golden/llava_onevision: small LLaVA-OneVision checkpoints and what transformers
computes with them (captioner_goldens.py)."""

import torch
from transformers import (
    LlamaConfig, LlavaOnevisionConfig, LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionImageProcessor, LlavaOnevisionProcessor, LlavaOnevisionVideoProcessor,
    SiglipVisionConfig)

import captioner_goldens as goldens
from captioner_goldens import qwen2_config, qwen3_config

# How a user's message with a video is rendered now, and by the first repositories of the family.
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% for part in message['content'] if part['type'] == 'video' %}{{ '<video>\n' }}{% endfor %}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
FIRST_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + ' ' }}"
    "{% for part in message['content'] if part['type'] == 'video' %}{{ '<video>' }}{% endfor %}"
    "{% for part in message['content'] if part['type'] == 'text' %}"
    "{{ '\n' + part['text'] }}{% endfor %}"
    "{{ '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def siglip_config(**changes):
    return SiglipVisionConfig(**(dict(
        hidden_size=36, intermediate_size=50, num_hidden_layers=2, num_attention_heads=3,
        image_size=46, patch_size=14, vision_use_head=False) | changes))


class Onevision:
    name = "llava_onevision"
    prompts = goldens.PROMPTS

    def __init__(self, folder, template):
        self.model = goldens.open_reference(LlavaOnevisionForConditionalGeneration, folder)
        vision = self.model.config.vision_config
        slow, fast = goldens.tokenizers(folder)
        self.processors = [LlavaOnevisionProcessor(
            image_processor=LlavaOnevisionImageProcessor(), tokenizer=tokenizer,
            video_processor=LlavaOnevisionVideoProcessor.from_pretrained(folder),
            num_image_tokens=(vision.image_size // vision.patch_size) ** 2,
            vision_feature_select_strategy="full", chat_template=template)
            for tokenizer in (slow, fast)]

    def inputs(self, question, frames):
        ids, found = goldens.run_processors(self.processors, question, frames)
        return ids, {"pixel_values_videos": found.pixel_values_videos}

    def features(self, pixels):
        config = self.model.config
        features = self.model.model.get_video_features(
            pixels["pixel_values_videos"], vision_feature_layer=config.vision_feature_layer,
            vision_feature_select_strategy=config.vision_feature_select_strategy)
        return torch.cat((features[0], self.model.model.image_newline[None]))


def make(name, text, vision, dtype=torch.float32, template=None, clips=goldens.CLIPS,
         shard="1GB", names=None, changes=None, files=None, tokenizer=goldens.TOKENIZER):
    config = LlavaOnevisionConfig(
        vision_config=vision, text_config=text, video_token_index=goldens.token_id("<video>", tokenizer),
        image_token_index=goldens.token_id("<image>", tokenizer), **(changes or {}))

    def save(folder):
        model = LlavaOnevisionForConditionalGeneration(config)
        model.to(dtype).save_pretrained(folder, max_shard_size=shard)
        if names is not None:
            goldens.rename(folder, names)
        size = {"height": vision.image_size, "width": vision.image_size}
        LlavaOnevisionVideoProcessor(size=size, image_mean=[0.5] * 3,
                                     image_std=[0.5] * 3).save_pretrained(folder)
        if files == "older":  # one file for images and videos, with what only images need
            path = folder / "video_preprocessor_config.json"
            text = path.read_text().replace('"do_rescale"', '"do_pad": true,\n  "do_rescale"')
            (folder / "preprocessor_config.json").write_text(text)
            path.unlink()
        if template is not None:
            (folder / "chat_template.jinja").write_text(template)

    goldens.make_case(goldens.GOLDEN / "llava_onevision" / name, save,
                      lambda folder: Onevision(folder, template or TEMPLATE), clips, tokenizer)


def main():
    large = [clip | {"count": 1 + i % 2} for i, clip in enumerate(goldens.CLIPS)]
    make("qwen3_f32", qwen3_config(), siglip_config())
    make("tied_bf16", qwen3_config(tie_word_embeddings=True),
         siglip_config(image_size=40, patch_size=8, num_hidden_layers=3), torch.bfloat16,
         template=FIRST_TEMPLATE, changes={"vision_feature_layer": -2,
                                           "multimodal_projector_bias": False})
    make("shards_f16", qwen3_config(hidden_size=40, head_dim=24),
         siglip_config(image_size=32, patch_size=8), torch.float16, shard="60KB", files="older")
    make("new_names_llama", LlamaConfig(
        vocab_size=goldens.VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=1024),
         siglip_config(hidden_act="gelu", image_size=28, patch_size=14), torch.bfloat16,
         names=goldens.new_name, template=TEMPLATE)
    make("qwen2_tied", qwen2_config(tie_word_embeddings=True), siglip_config(), torch.float16)
    make("byte_level_qwen2", qwen2_config(), siglip_config(), torch.bfloat16, template=TEMPLATE,
         tokenizer=goldens.BYTE_TOKENIZER)
    make("qwen3_layers", qwen3_config(), siglip_config(), template=TEMPLATE,
         changes={"vision_feature_layer": [0, -1, -2]})
    make("real_384", qwen2_config(num_hidden_layers=1),
         siglip_config(image_size=384, num_hidden_layers=1, hidden_size=24, intermediate_size=40),
         clips=large)
    make("varco_384", qwen3_config(num_hidden_layers=1),
         siglip_config(image_size=384, patch_size=16, num_hidden_layers=1, hidden_size=24,
                       intermediate_size=40), torch.bfloat16, clips=large)


if __name__ == "__main__":
    main()
