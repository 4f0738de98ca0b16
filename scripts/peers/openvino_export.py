"""An OpenVINO model of a known shape with random weights: openvino_export.py SHAPE FORMAT FOLDER.

FORMAT is int8 (a scale per row, what OpenVINO's own export makes of such models) or int4 (a scale
per 128 weights). Needs torch, transformers < 5, optimum-intel, nncf and openvino.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig
from transformers import Qwen3Config, Qwen3ForCausalLM

from shapes import SHAPES, TextShape

SEED = 20
FORMATS = {
    "int8": OVWeightQuantizationConfig(bits=8, sym=True),
    "int4": OVWeightQuantizationConfig(bits=4, sym=True, group_size=128, ratio=1.0),
}


def make_random_model(shape: TextShape) -> Qwen3ForCausalLM:
    torch.manual_seed(SEED)
    config = Qwen3Config(vocab_size=shape.vocab, hidden_size=shape.hidden,
                         intermediate_size=shape.intermediate,
                         num_hidden_layers=shape.num_layers,
                         num_attention_heads=shape.num_heads,
                         num_key_value_heads=shape.num_kv_heads, head_dim=shape.head_dim,
                         max_position_embeddings=shape.max_positions,
                         rope_theta=shape.rope_theta, rms_norm_eps=shape.norm_eps,
                         tie_word_embeddings=True)
    return Qwen3ForCausalLM(config).to(torch.bfloat16)


def main() -> None:
    shape_name, weight_format, target = sys.argv[1:]
    with tempfile.TemporaryDirectory(dir=Path(target).parent) as folder:
        make_random_model(SHAPES[shape_name]).save_pretrained(folder)
        model = OVModelForCausalLM.from_pretrained(folder, export=True,
                                                   quantization_config=FORMATS[weight_format])
        model.save_pretrained(target)


if __name__ == "__main__":
    main()
