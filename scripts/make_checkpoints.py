#!/usr/bin/env python3
"""Writes the small random checkpoints of tests/golden/model, as transformers saves them.

  llama_bf16    LLaVA-NeXT-Video with Llama inside: bf16, one file, the tensor names since
                transformers 4.52, linear rope, untied, GQA
  qwen3_shards  LLaVA-NeXT-Video with Qwen3 inside: f16, four shards and an index, tied, odd
                patch grid, max pooling
  llama_old     files as the llava-hf repositories hold them: f32, MHA, biases in the attention,
                none in the projector
  composed      CLIP vision tower + projector.safetensors + Qwen3, trained apart

Weights are drawn wide enough (about 1/sqrt(fan_in)) that greedy tokens differ and have clear
margins. Then run make_goldens_model.py, the oracle over these folders.
"""

import io
import json
import pathlib
import shutil
import tempfile

import sentencepiece
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    CLIPImageProcessor, CLIPVisionConfig, CLIPVisionModel, LlamaConfig, LlamaTokenizer,
    LlavaNextVideoConfig, LlavaNextVideoForConditionalGeneration, LlavaNextVideoVideoProcessor,
    Qwen3Config, Qwen3ForCausalLM)

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/model"
SEED = 20261121

CORPUS = """\
이 영상을 자세히 설명해 주세요.
영상에는 파란 하늘 아래 넓은 공원이 보입니다. 나무가 바람에 흔들리고 있습니다.
도시의 거리에 자동차와 사람들이 지나갑니다. 높은 건물이 늘어서 있습니다.
화면 중앙에서 빨간 원이 왼쪽에서 오른쪽으로 천천히 움직입니다.
바다 위로 해가 지고 있으며 파도가 잔잔하게 일렁입니다.
USER: What is happening in this video? ASSISTANT: The video shows a red circle moving to the right.
USER: Describe the scene in detail. ASSISTANT: A quiet street with tall buildings and a few cars.
"""


def train_tokenizer(folder, added=("<video>", "<image>")):
    """SentencePiece BPE with byte fallback, set up as Llama's, plus added tokens."""
    trained = io.BytesIO()  # a file's path would become part of the model
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.splitlines() * 4), model_writer=trained, model_type="bpe",
        vocab_size=430, byte_fallback=True, character_coverage=0.98,
        normalization_rule_name="identity", add_dummy_prefix=True, remove_extra_whitespaces=False,
        split_digits=True, allow_whitespace_only_pieces=True, minloglevel=2, num_threads=1)
    with tempfile.TemporaryDirectory() as scratch:
        model = pathlib.Path(scratch) / "tokenizer.model"
        model.write_bytes(trained.getvalue())
        tokenizer = LlamaTokenizer(str(model), legacy=False)
        tokenizer.add_tokens(list(added), special_tokens=True)
        tokenizer.save_pretrained(folder)
    return tokenizer


def draw_weights(model, generator):
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 1:
            is_norm = "norm" in name and name.endswith("weight")
            value = 1 + 0.2 * noise if is_norm else 0.1 * noise
        elif "embed" in name and "patch" not in name:
            value = 0.3 * noise  # small beside a layer's output, or tied models repeat their input
        else:
            value = 1.4 * noise / parameter[0].numel() ** 0.5
        parameter.data.copy_(value)


def clip_config(**changes):
    return CLIPVisionConfig(**(dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3,
                                    num_attention_heads=2, image_size=28, patch_size=7,
                                    projection_dim=32) | changes))


def llama_config(**changes):
    return LlamaConfig(**(dict(vocab_size=440, hidden_size=64, intermediate_size=96,
                               num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                               max_position_embeddings=256, rms_norm_eps=1e-5, rope_theta=10000.0,
                               rope_scaling={"type": "linear", "factor": 2.5}) | changes))


def qwen3_config(**changes):
    # heads * head_dim differs from hidden_size, as in Qwen3-0.6B, 4B and 32B.
    return Qwen3Config(**(dict(vocab_size=440, hidden_size=48, intermediate_size=80,
                               num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                               head_dim=16, max_position_embeddings=512, rms_norm_eps=1e-6,
                               rope_theta=1e6, tie_word_embeddings=True) | changes))


def make_llava(name, text_config, vision_config, dtype, max_shard_size="1GB", **changes):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokenizer = train_tokenizer(folder)
    config = LlavaNextVideoConfig(
        vision_config=vision_config, text_config=text_config,
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=[[28, 28]], tie_word_embeddings=text_config.tie_word_embeddings,
        **changes)
    model = LlavaNextVideoForConditionalGeneration(config)
    draw_weights(model, torch.Generator().manual_seed(SEED))
    model.tie_weights()
    model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
    (folder / "generation_config.json").unlink(missing_ok=True)
    size = vision_config.image_size
    LlavaNextVideoVideoProcessor(size={"shortest_edge": size}, crop_size=size).save_pretrained(
        folder)
    return folder


def to_new_layout(folder):
    """The tensor names of the modules since transformers 4.52.

    save_pretrained() of 4.57 still turns them back into those of the llava-hf repositories; other
    tools, and later versions, write them as they are.
    """
    prefixes = [("language_model.model.", "model.language_model."),
                ("vision_tower.", "model.vision_tower."),
                ("multi_modal_projector.", "model.multi_modal_projector."),
                ("image_newline", "model.image_newline"), ("language_model.lm_head", "lm_head")]
    tensors = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        old, new = next((pair for pair in prefixes if name.startswith(pair[0])), ("", ""))
        tensors[new + name[len(old):]] = tensor
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def to_old_configuration(folder):
    """What the llava-hf repositories hold beside the tensors."""
    tensors = load_file(folder / "model.safetensors")
    # A buffer that old checkpoints carry and nobody reads.
    tensors["vision_tower.vision_model.embeddings.position_ids"] = torch.arange(17)[None]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    config = json.loads((folder / "config.json").read_text())
    config["torch_dtype"] = config.pop("dtype", "float32")
    for part in ("text_config", "vision_config"):
        config[part].pop("dtype", None)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    # The old place of the preprocessing constants.
    (folder / "video_preprocessor_config.json").rename(folder / "preprocessor_config.json")


def make_composed():
    folder = OUT / "composed"
    shutil.rmtree(folder, ignore_errors=True)
    generator = torch.Generator().manual_seed(SEED + 1)

    vision = CLIPVisionModel(clip_config())
    draw_weights(vision, generator)
    vision.to(torch.bfloat16).save_pretrained(folder / "vision")
    CLIPImageProcessor(size={"shortest_edge": 28}, crop_size=28).save_pretrained(folder / "vision")

    llm = Qwen3ForCausalLM(qwen3_config(tie_word_embeddings=False, num_hidden_layers=2))
    draw_weights(llm, generator)
    llm.to(torch.bfloat16).save_pretrained(folder / "llm")
    (folder / "llm/generation_config.json").unlink(missing_ok=True)
    train_tokenizer(folder / "llm")

    mlp = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.GELU(), torch.nn.Linear(48, 48))
    linear = torch.nn.Linear(32, 48)
    for module in (mlp, linear):
        draw_weights(module, generator)
    save_file(mlp.to(torch.bfloat16).state_dict(), folder / "projector_mlp.safetensors")
    save_file(linear.state_dict(), folder / "projector_linear.safetensors")


def main():
    to_new_layout(make_llava("llama_bf16", llama_config(), clip_config(), torch.bfloat16))
    make_llava("qwen3_shards", qwen3_config(), clip_config(image_size=35), torch.float16,
               max_shard_size="60KB", spatial_pool_mode="max")
    to_old_configuration(make_llava(
        "llama_old",
        llama_config(hidden_size=32, intermediate_size=48, num_key_value_heads=4,
                     attention_bias=True, rope_scaling=None, rms_norm_eps=1e-6),
        clip_config(num_hidden_layers=2), torch.float32, multimodal_projector_bias=False))
    make_composed()
    for path in OUT.glob("*/**/*.safetensors"):
        path.chmod(0o644)  # safetensors makes them the owner's alone


if __name__ == "__main__":
    main()
