"""The model: LLaVA-NeXT-Video in small, and the pieces of its forward pass that training runs on their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import CLIPVisionConfig, LlamaConfig, LlavaNextVideoConfig, LlavaNextVideoForConditionalGeneration

import branches
from dataset import FRAMES, SIDE
from tokenizer import PIECES

VOCAB = -(-(PIECES + 2) // 64) * 64  # the pieces, <video>, <image>, rounded up to whole rows of 64
VISION_DIM = 192
TOKENS_PER_FRAME = 16
PROBED_LAYERS = (1, 2)  # of the decoder: behind these, Probes read the video's last frame and the prompt's last token
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)


def config() -> LlavaNextVideoConfig:
    vision = CLIPVisionConfig(
        hidden_size=VISION_DIM, intermediate_size=512, num_hidden_layers=5, num_attention_heads=6, image_size=SIDE,
        patch_size=14, hidden_act="quick_gelu", layer_norm_eps=1e-5, projection_dim=VISION_DIM)
    text = LlamaConfig(
        vocab_size=VOCAB, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=1024, rms_norm_eps=1e-5, rope_theta=1e4,
        bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)
    return LlavaNextVideoConfig(
        vision_config=vision, text_config=text, video_token_index=PIECES, image_token_index=PIECES + 1,
        vision_feature_layer=-2, vision_feature_select_strategy="default", projector_hidden_act="gelu",
        multimodal_projector_bias=True, spatial_pool_mode="average", spatial_pool_stride=2,
        spatial_pool_out_channels=VISION_DIM, image_seq_length=64, video_seq_length=TOKENS_PER_FRAME * FRAMES,
        image_grid_pinpoints=[[SIDE, 2 * SIDE], [2 * SIDE, SIDE], [2 * SIDE, 2 * SIDE]], tie_word_embeddings=False)


def create(seed: int) -> LlavaNextVideoForConditionalGeneration:
    torch.manual_seed(seed)
    model = LlavaNextVideoForConditionalGeneration(config())
    model.set_attn_implementation("eager")  # a third faster than sdpa's backward at these sizes
    tower = model.model.vision_tower.vision_model
    torch.nn.init.normal_(tower.embeddings.patch_embedding.weight, std=0.04)
    return model


def pixels(frames: np.ndarray) -> Tensor:
    """uint8 [..., height, width, 3] -> normalised float [..., 3, height, width]."""
    x = torch.from_numpy(np.array(frames)).float().div_(255.0)
    return x.sub_(torch.tensor(MEAN)).div_(torch.tensor(STD)).movedim(-1, -3).contiguous()


def _tower_layer(layer: torch.nn.Module, hidden: Tensor) -> Tensor:
    return layer(hidden, None, None)[0]


def pooled(model: LlavaNextVideoForConditionalGeneration, x: Tensor, layer_of=_tower_layer) -> Tensor:
    """Frames [n, 3, 112, 112] -> [n, 16, VISION_DIM]: layer -2 without the class token, averaged 2 x 2.

    The same numbers as the model's own video path, without running the last tower layer, whose output is unused.
    """
    tower = model.model.vision_tower.vision_model
    hidden = tower.pre_layrnorm(tower.embeddings(x))
    for layer in tower.encoder.layers[:-1]:
        hidden = layer_of(layer, hidden)
    n, side = hidden.shape[0], SIDE // 14
    grid = hidden[:, 1:].reshape(n, side // 2, 2, side // 2, 2, VISION_DIM)
    return grid.mean(dim=(2, 4)).reshape(n, TOKENS_PER_FRAME, VISION_DIM)


@dataclass(frozen=True)
class Answers:
    """One style's answers about the first n clips of a batch.

    ids [n, length]: the prompt after the video and the answer without its last token, padded with 0;
    targets, weights [n, length - asked]: what follows each token from the prompt's last one on, weight 0 for padding.
    """

    ids: Tensor
    targets: Tensor
    weights: Tensor
    asked: int  # position of the prompt's last token


@dataclass(frozen=True)
class Read:
    """What the decoder made of a batch: logits [n, length - asked, VOCAB] of each style, and hidden states to probe.

    `probed`: (hidden states [n, width]) of the first n clips, after PROBED_LAYERS.
    """

    logits: list[Tensor]
    probed: list[Tensor]


def read(model: LlavaNextVideoForConditionalGeneration, features: Tensor, head_ids: Tensor, answers: list[Answers],
         layer_of=branches.layer) -> Read:
    """features [b, 128, VISION_DIM]; head_ids [h]: the prompt before the video."""
    decoder = model.model.language_model
    vision = model.model.multi_modal_projector(features)
    head = decoder.embed_tokens(head_ids)[None].expand(len(features), -1, -1)
    prefix = torch.cat([head, vision.to(head.dtype)], dim=1)
    states = branches.run(decoder, prefix, [decoder.embed_tokens(a.ids) for a in answers], layer_of)
    logits = [model.lm_head(decoder.norm(x[:, a.asked:])) for a, x in zip(answers, states[-1][1:])]
    early, late = (states[i] for i in PROBED_LAYERS)
    probed = [early[0][:, -TOKENS_PER_FRAME:].mean(dim=1)]
    return Read(logits, probed + [x[:, a.asked] for a, x in zip(answers, late[1:])])


def caption_loss(logits: list[Tensor], answers: list[Answers]) -> Tensor:
    """The cross entropy of all answers together, averaged by their weights."""
    flat = torch.cat([x.flatten(0, 1) for x in logits]).float()
    targets, weights = (torch.cat([getattr(a, name).flatten() for a in answers]) for name in ("targets", "weights"))
    losses = torch.nn.functional.cross_entropy(flat, targets, reduction="none")
    return (losses * weights).sum() / weights.sum()
