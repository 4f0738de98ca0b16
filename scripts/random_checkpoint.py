#!/usr/bin/env python3
"""Writes a captioner's folder of the demonstration model's form with a decoder of any size.

The decoder's weights are random, bf16; tower, projector and tokenizer are the demonstration
model's, the projector's last layer being widened. Loading, quantising and memory are measured with
it; its captions mean nothing.

    scripts/random_checkpoint.py --hidden 2048 --intermediate 5632 --layers 16 -o /tmp/big
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "samples" / "demo-model"


def random_matrix(generator, *shape):
    return (torch.randn(*shape, generator=generator) * 0.02).to(torch.bfloat16)


def layer_tensors(generator, prefix, args):
    hidden, middle, kv = args.hidden, args.intermediate, args.kv_heads * 64
    shapes = {
        "self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (kv, hidden),
        "self_attn.v_proj": (kv, hidden), "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (middle, hidden), "mlp.up_proj": (middle, hidden),
        "mlp.down_proj": (hidden, middle),
    }
    tensors = {f"{prefix}{name}.weight": random_matrix(generator, *shape)
               for name, shape in shapes.items()}
    for norm in ("input_layernorm", "post_attention_layernorm"):
        tensors[f"{prefix}{norm}.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    return tensors


def other_tensors(generator, demo, args):
    old = demo["language_model.model.norm.weight"].shape[0]
    tensors = {name: tensor for name, tensor in demo.items()
               if not name.startswith("language_model.")}
    for name in ("image_newline", "multi_modal_projector.linear_1.weight",
                 "multi_modal_projector.linear_1.bias", "multi_modal_projector.linear_2.weight",
                 "multi_modal_projector.linear_2.bias"):
        shape = [args.hidden if extent == old else extent for extent in demo[name].shape]
        tensors[name] = random_matrix(generator, *shape)
    vocab = demo["language_model.lm_head.weight"].shape[0]
    for name in ("lm_head", "model.embed_tokens"):
        tensors[f"language_model.{name}.weight"] = random_matrix(generator, vocab, args.hidden)
    tensors["language_model.model.norm.weight"] = torch.ones(args.hidden, dtype=torch.bfloat16)
    return tensors


def write(args):
    args.output.mkdir(parents=True, exist_ok=True)
    for file in DEMO.iterdir():
        if file.name not in ("model.safetensors", "config.json"):
            shutil.copy(file, args.output)
    config = json.loads((DEMO / "config.json").read_text(encoding="utf-8"))
    config.pop("caption_cli_demonstration")
    config.pop("caption_cli_unlike")
    config["text_config"].update(
        head_dim=64, hidden_size=args.hidden, intermediate_size=args.intermediate,
        num_attention_heads=args.hidden // 64, num_hidden_layers=args.layers,
        num_key_value_heads=args.kv_heads)
    (args.output / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    generator = torch.Generator().manual_seed(args.seed)
    shards = args.layers // args.layers_per_file + 1
    places, total = {}, 0

    def save(number, tensors):
        nonlocal total
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        save_file(tensors, args.output / name, metadata={"format": "pt"})
        places.update(dict.fromkeys(tensors, name))
        total += sum(tensor.numel() * 2 for tensor in tensors.values())

    save(0, other_tensors(generator, load_file(DEMO / "model.safetensors"), args))
    for number in range(1, shards):
        tensors = {}
        for layer in range((number - 1) * args.layers_per_file, number * args.layers_per_file):
            tensors |= layer_tensors(generator, f"language_model.model.layers.{layer}.", args)
        save(number, tensors)
    (args.output / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": places}), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--hidden", type=int, default=2048, help="a multiple of 64")
    parser.add_argument("--intermediate", type=int, default=5632)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--layers-per-file", type=int, default=8, help="divides --layers")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.hidden % 64 or args.layers % args.layers_per_file:
        parser.error("--hidden is a multiple of 64, and --layers of --layers-per-file")
    write(args)


if __name__ == "__main__":
    main()
