#!/usr/bin/env python3
"""Writes tests/golden/qwen3_vl: small Qwen3-VL checkpoints and what transformers computes with them
(captioner_goldens.py). Clips have frames of several sizes and times that are given as metadata, so
that nothing is sampled again."""

import shutil

import torch
from transformers import (
    Qwen2VLImageProcessorFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor,
    Qwen3VLVideoProcessor)

import captioner_goldens as goldens
import drawn

TOKENIZER = goldens.GOLDEN / "qwen_vl_tokenizer"
ADDED = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
         "<|image_pad|>", "<|video_pad|>"]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'video' %}{{ '<|vision_start|><|video_pad|><|vision_end|>' }}"
    "{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
CLIPS = [dict(height=50, width=70, seed=3, count=4, kind="waves", fps=25, first=0, step=12),
         dict(height=61, width=40, seed=20, count=5, kind="waves", fps=30, first=1, step=7),
         dict(height=20, width=90, seed=40, count=2, kind="noise", fps=24, first=0, step=1)]


class Processor(Qwen3VLProcessor):
    tokenizer_class = ("LlamaTokenizer", "LlamaTokenizerFast")  # of the small test tokenizer


def vision_config(**changes):
    return dict(depth=4, hidden_size=48, num_heads=3, intermediate_size=100, patch_size=4,
                spatial_merge_size=2, temporal_patch_size=2, out_hidden_size=64,
                num_position_embeddings=36, deepstack_visual_indexes=[0, 2]) | changes


def text_config(**changes):
    return dict(vocab_size=goldens.VOCAB, hidden_size=64, intermediate_size=112,
                num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=24,
                max_position_embeddings=4096, rms_norm_eps=1e-6, rope_theta=5e6,
                eos_token_id=2, tie_word_embeddings=False,
                rope_scaling={"rope_type": "default", "mrope_interleaved": True,
                              "mrope_section": [6, 3, 3]}) | changes


def indices_of(clip):
    return [clip["first"] + i * clip["step"] for i in range(clip["count"])]


class Qwen3Vl:
    name = "qwen3_vl"
    prompts = goldens.PROMPTS
    takes_clip = True

    def __init__(self, folder):
        self.model = Qwen3VLForConditionalGeneration.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager").eval()
        self.processors = [
            Processor(image_processor=Qwen2VLImageProcessorFast(), tokenizer=tokenizer,
                      video_processor=Qwen3VLVideoProcessor.from_pretrained(folder),
                      chat_template=TEMPLATE)
            for tokenizer in goldens.tokenizers(TOKENIZER)]

    def inputs(self, question, clip):
        message = [{"role": "user", "content": [{"type": "video"},
                                                {"type": "text", "text": question}]}]
        frames = torch.from_numpy(goldens.frames_of(clip)).permute(0, 3, 1, 2)
        indices = indices_of(clip)
        metadata = [{"total_num_frames": indices[-1] + 1, "fps": clip["fps"],
                     "frames_indices": indices}]
        found = []
        for processor in self.processors:
            text = processor.apply_chat_template(message, add_generation_prompt=True)
            found.append(processor(text=text, videos=[frames], video_metadata=metadata,
                                   do_sample_frames=False, return_tensors="pt"))
        assert torch.equal(found[0].input_ids, found[1].input_ids), question
        return found[0].input_ids[0].tolist(), {
            "pixel_values_videos": found[0].pixel_values_videos,
            "video_grid_thw": found[0].video_grid_thw}

    def features(self, pixels):
        """Rows as the decoder takes them: the embedding, then the rows of DeepStack."""
        (rows,), deepstack = self.model.model.get_video_features(*pixels.values())
        return torch.cat([rows, *deepstack], dim=1)


def spread(name, shape):
    if len(shape) == 1 and name.split(".")[-2].startswith("norm") and name.endswith("weight"):
        return 1, 0
    return drawn.default_spread(name, shape)


def make(name, text=None, vision=None, dtype=torch.float32, clips=CLIPS, shard="1GB",
         limits=(2000, 20000), **changes):
    ids = {token: goldens.token_id(token, TOKENIZER) for token in ADDED}
    vision, text = vision or vision_config(), text or text_config()
    config = Qwen3VLConfig(
        text_config=text, vision_config=vision, image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"], vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"], **changes)

    def save(folder):
        Qwen3VLForConditionalGeneration(config).to(dtype).save_pretrained(
            folder, max_shard_size=shard)
        Qwen3VLVideoProcessor(
            size={"shortest_edge": limits[0], "longest_edge": limits[1]},
            patch_size=vision["patch_size"], merge_size=vision["spatial_merge_size"],
            temporal_patch_size=vision["temporal_patch_size"]).save_pretrained(folder)

    goldens.make_case(goldens.GOLDEN / "qwen3_vl" / name, save, Qwen3Vl, clips,
                      tokenizer=TOKENIZER, spread=spread)


def main():
    shutil.rmtree(goldens.GOLDEN / "qwen3_vl", ignore_errors=True)
    goldens.make_tokenizer(TOKENIZER, ADDED)
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
