#!/usr/bin/env python3
"""Writes tests/golden/llava_next_video: small LLaVA-NeXT-Video checkpoints and what transformers
computes with them (captioner_goldens.py): the three chat templates of the family, the three
poolings, and the language models that its sizes have."""

import torch
from transformers import (
    CLIPVisionConfig, LlamaConfig, LlavaNextImageProcessor, LlavaNextVideoConfig,
    LlavaNextVideoForConditionalGeneration, LlavaNextVideoProcessor, LlavaNextVideoVideoProcessor,
    MistralConfig)

import captioner_goldens as goldens
from captioner_goldens import qwen2_config, qwen3_config

# How a user's message with a video is rendered by the sizes of the family.
VIDEO = ("{% for part in message['content'] if part['type'] == 'video' %}{{ '<video>\n' }}"
         "{% endfor %}")
TEXT = ("{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}"
        "{% endfor %}")
VICUNA = ("{% for message in messages %}{{ message['role'].upper() + ': ' }}" + VIDEO + TEXT +
          "{{ ' ' }}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}")
MISTRAL = ("{% for message in messages %}{{ '[INST] ' }}" + VIDEO + TEXT +
           "{{ ' [/INST]' }}{% endfor %}")
YI = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}" + VIDEO + TEXT +
      "{{ '<|im_end|>\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def clip_config(**changes):
    return CLIPVisionConfig(**(dict(
        hidden_size=36, intermediate_size=50, num_hidden_layers=3, num_attention_heads=3,
        image_size=35, patch_size=7, projection_dim=16) | changes))


def llama_config(**changes):
    return LlamaConfig(**(dict(
        vocab_size=goldens.VOCAB, hidden_size=48, intermediate_size=80, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=20, max_position_embeddings=1024,
        rms_norm_eps=1e-5, rope_theta=5e6) | changes))


class LlavaNextVideo:
    name = "llava_next_video"
    prompts = goldens.PROMPTS

    def __init__(self, folder, template):
        self.model = goldens.open_reference(LlavaNextVideoForConditionalGeneration, folder)
        slow, fast = goldens.tokenizers()
        self.processors = [LlavaNextVideoProcessor(
            video_processor=LlavaNextVideoVideoProcessor.from_pretrained(folder),
            image_processor=LlavaNextImageProcessor(), tokenizer=tokenizer,
            patch_size=self.model.config.vision_config.patch_size, chat_template=template,
            vision_feature_select_strategy="default") for tokenizer in (slow, fast)]
        self.stride = self.model.config.spatial_pool_stride

    def inputs(self, question, frames):
        message = [{"role": "user", "content": [{"type": "video"},
                                                {"type": "text", "text": question}]}]
        found = []
        video = torch.from_numpy(frames).permute(0, 3, 1, 2)
        for processor in self.processors:
            text = processor.apply_chat_template(message, add_generation_prompt=True)
            pixels = processor.video_processor(videos=[video], return_tensors="pt")
            # The processor divides the number of patches by four, which only holds for even grids.
            grid = pixels.pixel_values_videos.shape[-1] // processor.patch_size // self.stride
            text = text.replace("<video>", "<video>" * (grid * grid * len(frames)))
            found.append(processor.tokenizer(text).input_ids)
        assert found[0] == found[1], question
        return found[0], {"pixel_values_videos": pixels.pixel_values_videos}

    def features(self, pixels):
        config = self.model.config
        (features,) = self.model.get_video_features(
            pixels["pixel_values_videos"], vision_feature_layer=config.vision_feature_layer,
            vision_feature_select_strategy=config.vision_feature_select_strategy)
        return features.flatten(0, -2)


def make(name, text, vision, dtype=torch.float32, template=None, rendered=VICUNA,
         clips=goldens.CLIPS, shard="1GB", names=None, **changes):
    """`template` is saved with the checkpoint; `rendered` is how the reference renders messages."""
    config = LlavaNextVideoConfig(
        vision_config=vision, text_config=text, video_token_index=goldens.token_id("<video>"),
        image_token_index=goldens.token_id("<image>"), image_grid_pinpoints=[[35, 35]],
        tie_word_embeddings=text.tie_word_embeddings, spatial_pool_out_channels=vision.hidden_size,
        **changes)

    def save(folder):
        LlavaNextVideoForConditionalGeneration(config).to(dtype).save_pretrained(
            folder, max_shard_size=shard)
        if names is not None:
            goldens.rename(folder, names)
        size = vision.image_size
        LlavaNextVideoVideoProcessor(size={"shortest_edge": size}, crop_size=size).save_pretrained(
            folder)
        if template is not None:
            (folder / "chat_template.jinja").write_text(template)

    goldens.make_case(goldens.GOLDEN / "llava_next_video" / name, save,
                      lambda folder: LlavaNextVideo(folder, template or rendered), clips)


def main():
    large = [clip | {"count": 1} for clip in goldens.CLIPS]
    mistral = MistralConfig(
        vocab_size=goldens.VOCAB, hidden_size=40, intermediate_size=72, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=1, head_dim=16, max_position_embeddings=1024,
        sliding_window=None, rope_theta=1e6)
    make("vicuna_conv_f32", llama_config(), clip_config(), spatial_pool_mode="conv",
         template=VICUNA)
    make("yi_bf16", llama_config(num_key_value_heads=1), clip_config(), torch.bfloat16,
         template=YI)
    make("mistral_f16", mistral, clip_config(image_size=28), torch.float16, rendered=MISTRAL,
         shard="60KB")
    make("qwen2_chatml", qwen2_config(tie_word_embeddings=True), clip_config(), torch.bfloat16,
         rendered=YI, spatial_pool_mode="max", names=goldens.new_name)
    make("qwen3_conv_3", qwen3_config(), clip_config(image_size=49), torch.float16,
         spatial_pool_mode="conv", spatial_pool_stride=3, names=goldens.new_name, template=MISTRAL)
    make("qwen3_layers", qwen3_config(), clip_config(), torch.bfloat16, template=VICUNA,
         vision_feature_layer=[-2, 1], spatial_pool_mode="max")
    make("real_336", llama_config(num_hidden_layers=1),
         clip_config(image_size=336, patch_size=14, num_hidden_layers=2, hidden_size=24,
                     intermediate_size=40), clips=large, template=VICUNA)


if __name__ == "__main__":
    main()
