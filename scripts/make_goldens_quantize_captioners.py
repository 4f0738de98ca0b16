#!/usr/bin/env python3
"""Quantises small random Qwen3-VL checkpoints with caption-cli, loads them in transformers with bitsandbytes, and
writes what transformers computes to tests/golden/quantise_captioners.

tensors.json describes the plain checkpoint (drawn.py). The test quantises it again, reads the numbers that the codes
stand for, and computes in f32: the same logits within LOGIT_TOLERANCE, the same tokens. Where a processor has
AVX512-BF16, Linear4bit of bitsandbytes 0.50.2 would multiply in bf16; its other path, which multiplies by the
dequantised matrix in f32, is chosen here.

It also loads a checkpoint of LLM.int8(), whose layers round their inputs to 8 bits, and checks that its codes and
those of every other format arrive in the modules that are to have them: no key is missing or unexpected. Of awq, w4a16
and w8a8 it loads the demonstration model, in transformers with AutoAWQ and compressed-tensors, and checks that what the
libraries decode is within half a step of every weight. (Those of gptq are loaded by check_packed_write.py.)

Run: PYTHONPATH=<xxhash, protobuf, torchvision, compressed-tensors, AutoAWQ> /path/to/venv/bin/python \\
         scripts/make_goldens_quantize_captioners.py build/auto/apps/caption-cli/caption-cli
(torch, safetensors, transformers 4.57.6, bitsandbytes 0.50.2, accelerate; from PyPI without dependencies:
compressed-tensors==0.12.2, autoawq==0.2.9, loguru, frozendict; pydantic)
"""
import importlib.machinery
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types

import bitsandbytes
import torch
from safetensors.torch import load_file
from transformers import LlavaNextVideoForConditionalGeneration

import captioner_goldens as goldens
import drawn
import qwen_vl_goldens as qwen
from make_goldens_quantised_captioners import is_quantised, row
from make_goldens_qwen3_vl import CLIPS, Qwen3Vl, spread, text_config, vision_config

OUT = goldens.GOLDEN / "quantise_captioners"
DEMO = pathlib.Path(__file__).resolve().parent.parent / "samples" / "demo-model"
LOGIT_TOLERANCE = 1e-4
NUM_GREEDY = 12
# Blocks of 64 divide the rows of every matrix: where they do not, the kernel of bitsandbytes 0.50.2 for CPUs
# dequantises with another block's scale.
TEXT = dict(num_hidden_layers=2, intermediate_size=128, head_dim=32,
            rope_scaling={"rope_type": "default", "mrope_interleaved": True, "mrope_section": [8, 4, 4]})
CASES = {"nf4": ["nf4"], "nf4_double": ["nf4", "--double-quant"], "fp4": ["fp4"]}
LAYERS = (bitsandbytes.nn.Linear4bit, bitsandbytes.nn.Linear8bitLt)


class Small(Qwen3Vl):
    prompts = goldens.PROMPTS[:2]


def save_plain(folder):
    vision = vision_config(deepstack_visual_indexes=[], depth=1)
    ids = {token: goldens.token_id(token, qwen.TOKENIZER) for token in qwen.ADDED}
    config = Small.config_class(
        text_config=text_config(**TEXT), vision_config=vision, image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"], vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"])
    Small.model_class(config).save_pretrained(folder)
    Small.video_class(size={"shortest_edge": 2000, "longest_edge": 20000}, patch_size=vision["patch_size"],
                      merge_size=vision["spatial_merge_size"],
                      temporal_patch_size=vision["temporal_patch_size"]).save_pretrained(folder)
    for file in qwen.TOKENIZER.iterdir():
        shutil.copyfile(file, folder / file.name)


def draw(folder, rows, seed):
    tensors = {entry["name"]: drawn.tensor_of(entry, seed) for entry in rows}
    goldens.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def load(folder, plain_names):
    """The model as from_pretrained() gives it, with codes where they are to be and nowhere else."""
    model, found = Small.model_class.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    assert not any(found.values()), found
    coded = {name for name, module in model.named_modules() if isinstance(module, LAYERS)}
    assert coded == {name.removesuffix(".weight") for name in plain_names if is_quantised(name)}
    for module in model.modules():
        if isinstance(module, bitsandbytes.nn.Linear4bit):
            module.support_avx512bf16_for_cpu = False
    return model.eval()


@torch.no_grad()
def greedy(model, ids, pixels):
    """Tokens, the first and the last logits and the smallest lead."""
    output = model(input_ids=torch.tensor([ids]), use_cache=True, **pixels)
    first, cache, tokens, margin = output.logits[0, -1], output.past_key_values, [], float("inf")
    last = first
    while True:
        best = torch.topk(last, 2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        tokens.append(int(best.indices[0]))
        if len(tokens) == NUM_GREEDY:
            return tokens, first, last, margin
        last = model(input_ids=torch.tensor([[tokens[-1]]]), use_cache=True, past_key_values=cache,
                     cache_position=torch.tensor([len(ids) + len(tokens) - 1])).logits[0, -1]


def expect(family, model):
    results = []
    for clip in CLIPS:
        ids, pixels = goldens.inputs_of(family, goldens.PROMPTS[0], clip)
        tokens, first, last, margin = greedy(model, ids, pixels)
        if margin < 4 * LOGIT_TOLERANCE or len(set(tokens)) < 3 or 2 in tokens:
            return None
        with torch.no_grad():
            features = family.features(pixels)
        results.append({
            "frames": clip, "pixel_values_hash": goldens.xxh(next(iter(pixels.values())).numpy()),
            "num_vision_tokens": len(features), "features": goldens.sample(features, 100), "ids": ids,
            "logits": goldens.sample(first, 150), "greedy": tokens, "last_logits": goldens.sample(last, 150),
            "margin": float(f"{margin:.3g}")})
    return results


def quantise(program, plain, folder, options):
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([program, "quantize", "-q", plain, "-o", folder, "--format", *options], check=True)
    return folder


def make(program, name, options, scratch):
    plain = scratch / "plain"
    plain.mkdir()
    save_plain(plain)
    names = load_file(plain / "model.safetensors")
    rows = []
    for tensor in sorted(names):
        center, scale = spread(tensor, tuple(names[tensor].shape))
        rows.append(row(tensor, "F32", names[tensor].shape, center=center, scale=scale, file=0))
    for seed in range(1, 500):
        draw(plain, rows, seed)
        family = Small(plain)
        found = expect(family, load(quantise(program, plain, scratch / "codes", options), names))
        if found is not None:
            break
    else:
        raise AssertionError(f"{name}: no seed without close choices")
    load(quantise(program, plain, scratch / "int8", ["int8"]), names)
    case = OUT / name
    case.mkdir(parents=True)
    for file in ("config.json", "video_preprocessor_config.json"):
        shutil.copyfile(plain / file, case / file)
    shared = [f"../../{qwen.TOKENIZER.name}/{file.name}" for file in sorted(qwen.TOKENIZER.iterdir())]
    drawn.write_description({"seed": seed, "files": ["model.safetensors"], "tensors": rows}, case, shared=shared)
    goldens.write_expected(case / "expected.json", family, CLIPS, found, quantize=options,
                           logit_tolerance=LOGIT_TOLERANCE)
    print(name, "seed", seed, "margins", [result["margin"] for result in found], "bytes",
          sum(file.stat().st_size for file in case.iterdir()))


def import_autoawq():
    """The layer of AutoAWQ 0.2.9, which is older than transformers 4.57, and asks for datasets and a GPU, and its
    function that decodes."""
    import transformers.activations as activations
    import transformers.quantizers.quantizer_awq as quantizer
    activations.PytorchGELUTanh = activations.GELUTanh
    datasets = types.ModuleType("datasets")
    datasets.__spec__ = importlib.machinery.ModuleSpec("datasets", None)
    datasets.load_dataset = None
    sys.modules.setdefault("datasets", datasets)
    quantizer.AwqQuantizer.validate_environment = lambda self, **_: None  # it would take other layers on a CPU
    from awq.modules.linear import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm
    return WQLinear_GEMM, lambda layer: dequantize_gemm(
        layer.qweight, layer.qzeros, layer.scales, layer.w_bit, layer.group_size).T


def import_compressed_tensors():
    from compressed_tensors.linear.compressed_linear import CompressedLinear
    return CompressedLinear, lambda layer: layer.compressor.decompress_module(layer)


def check_decoded(program, scratch):
    """Every weight of the demonstration model's decoder is within half a step of what the libraries decode; scales
    and decoded weights are rounded to bf16 or f16, by at most 1/256 of a code together."""
    plain = LlavaNextVideoForConditionalGeneration.from_pretrained(DEMO, dtype=torch.float32)
    for name, columns, codes, is_symmetric, library in (
            ("awq", 128, 15, False, import_autoawq), ("w4a16", 128, 15, True, import_compressed_tensors),
            ("w8a8", None, 255, True, import_compressed_tensors)):
        layer_class, decode = library()
        model, found = LlavaNextVideoForConditionalGeneration.from_pretrained(
            quantise(program, DEMO, scratch / name, [name]), dtype=torch.float32, output_loading_info=True)
        assert not any(found.values()), found
        coded = {place: layer for place, layer in model.named_modules() if isinstance(layer, layer_class)}
        assert len(coded) == 28, (name, len(coded))
        worst = 0
        for place, layer in coded.items():
            weight = plain.get_submodule(place).weight.detach()
            groups = weight.reshape(len(weight), -1, columns or weight.shape[1])
            most, least = groups.amax(-1).clamp(min=0), groups.amin(-1).clamp(max=0)
            steps = (2 * torch.maximum(most, -least) if is_symmetric else most - least) / codes
            errors = (decode(layer).float() - weight).reshape(groups.shape).abs().amax(-1) / steps
            worst = max(worst, float(errors.max()))
        assert worst < 0.5 + codes / 256, (name, worst)
        print(f"{name}: {len(coded)} matrices, at most {worst:.3f} steps from the weights")


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        check_decoded(program, pathlib.Path(scratch))
    shutil.rmtree(OUT, ignore_errors=True)
    for name, options in CASES.items():
        with tempfile.TemporaryDirectory() as scratch:
            make(program, name, options, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
