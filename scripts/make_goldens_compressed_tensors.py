#!/usr/bin/env python3
"""Makes tests/golden/compressed_tensors: tiny checkpoints of compressed-tensors and of plain FP8, and the numbers that
they stand for.

<case>/config.json          quantization_config as the library writes it
<case>/model.safetensors    the codes of a.b, and a bias, which is not quantised
<case>/expected.safetensors <module>.weight [N, K] in the dtype of the scales, as the library dequantises it

compressed-tensors packs, unpacks and dequantises the files of its own formats; 0.12 is the last minor version that
reads weight_g_idx. Its decompress_weight() does not unpack zero points yet, so its parts are called one by one. The
plain FP8 format (quant_method "fp8") needs a GPU in transformers 4.57; its files are made and dequantised here by the
formula of transformers/integrations/finegrained_fp8.py, in f32.

Run: /path/to/venv/bin/python scripts/make_goldens_compressed_tensors.py
(torch, safetensors, transformers 4.57.6, compressed-tensors 0.12.2)
"""
import json
import pathlib
import shutil

import compressed_tensors
import safetensors
import torch
from compressed_tensors.compressors.quantized_compressors.naive_quantized import NaiveQuantizationCompressor
from compressed_tensors.compressors.quantized_compressors.pack_quantized import (
    PackedQuantizationCompressor, pack_to_int32, unpack_from_int32)
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import save_file

SEED = 16
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "compressed_tensors"
ACTIVATIONS = QuantizationArgs(num_bits=8, strategy="token", dynamic=True)
F8 = torch.float8_e4m3fn


def write_case(name, config, tensors, expected):
    folder = OUT / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"quantization_config": config}, indent=1) + "\n")
    contiguous = lambda group: {key: value.contiguous() for key, value in group.items()}
    save_file(contiguous(tensors), folder / "model.safetensors", metadata={"format": "pt"})
    save_file(contiguous(expected), folder / "expected.safetensors")


def config_of(scheme_format, *schemes, top_format=None):
    groups = {f"group_{i}": scheme for i, scheme in enumerate(schemes)}
    config = QuantizationConfig(config_groups=groups, format=top_format or scheme_format, ignore=["lm_head", "re:.*visual.*"],
                                quantization_status="compressed")
    found = json.loads(json.dumps(config.to_dict(), default=str))
    return found | {"version": compressed_tensors.__version__, "sparsity_config": {}, "transform_config": {}}


def blocks_of(weight, args):
    """The weight as [scales down, scales across, numbers that share a scale]."""
    n, k = weight.shape
    if args.strategy == "tensor":
        return weight.reshape(1, 1, -1)
    if args.strategy == "block":
        rows, columns = args.block_structure
        return weight.reshape(n // rows, rows, k // columns, columns).transpose(1, 2).flatten(2)
    width = args.group_size if args.strategy == "group" else k
    return weight.reshape(n, k // width, width)


def quantise(weight, args, dtype, g_idx):
    """Scales in `dtype`, and zero points, of the smallest and largest numbers."""
    shared = blocks_of(weight if g_idx is None or -1 in g_idx else weight[:, torch.argsort(g_idx)], args)
    scale, zero = calculate_qparams(shared.amin(-1), shared.amax(-1), args)
    return scale.to(dtype), zero


def module(generator, name, n, k, args, *, packed=False, dtype=torch.bfloat16, g_idx=None, more=None):
    """The tensors of one module, and its weight as the library dequantises it."""
    weight = 0.05 * torch.randn(n, k, generator=generator) + (0 if args.symmetric else 0.02)
    scale, zero = quantise(weight, args, dtype, g_idx)
    if args.strategy == "tensor":
        scale, zero = scale.reshape(1), zero.reshape(1)
    given = None if args.symmetric else zero
    compressor = (PackedQuantizationCompressor if packed else NaiveQuantizationCompressor)()
    tensors = compressor.compress_weight(weight=weight.to(dtype), scale=scale, quantization_args=args, zero_point=given,
                                         g_idx=g_idx)
    tensors["weight_scale"] = scale
    if given is not None and not packed:
        tensors["weight_zero_point"] = given
    if g_idx is not None:
        tensors["weight_g_idx"] = g_idx
    codes = tensors.get("weight")
    if packed:
        codes = unpack_from_int32(tensors["weight_packed"], args.num_bits, torch.Size(tensors["weight_shape"]))
        if given is not None:
            assert torch.equal(pack_to_int32(given, args.num_bits, packed_dim=0), tensors["weight_zero_point"])
            given = unpack_from_int32(tensors["weight_zero_point"], args.num_bits, (n, scale.shape[1]), packed_dim=0)
    expected = dequantize(x_q=codes, scale=scale, zero_point=given, args=args, g_idx=g_idx)
    assert expected.dtype == dtype and (expected - weight).abs().max() < 0.1
    return ({f"{name}.{key}": value for key, value in (tensors | (more or {})).items()}, {f"{name}.weight": expected})


def case(name, generator, n, k, args, scheme_format, *, activations=None, **options):
    packed = scheme_format == "pack-quantized"
    tensors, expected = module(generator, "a.b", n, k, args, packed=packed, **options)
    tensors["a.b.bias"] = torch.randn(n, generator=generator)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, input_activations=activations)
    write_case(name, config_of(scheme_format, scheme), tensors, expected)


def mixed_case(name, generator):
    four = QuantizationArgs(num_bits=4, strategy="group", group_size=32)
    eight = QuantizationArgs(num_bits=8, strategy="channel")
    tensors, expected = module(generator, "a.b", 24, 64, four, packed=True)
    for options in (module(generator, "a.c", 16, 40, eight), ):
        tensors, expected = tensors | options[0], expected | options[1]
    schemes = [QuantizationScheme(targets=["re:.*b$"], weights=four, format="pack-quantized"),
               QuantizationScheme(targets=["re:.*c$"], weights=eight, input_activations=ACTIVATIONS, format="int-quantized")]
    write_case(name, config_of(None, *schemes, top_format="mixed-precision"), tensors, expected)


# ---- plain FP8


def fp8_case(name, generator, n, k, *, suffix="weight_scale_inv", block=None, scale_shape=(), dtype=torch.float32, more=None):
    """All 254 numbers of the format occur where the matrix has as many."""
    codes = torch.randint(0, 256, (n * k,), generator=generator, dtype=torch.int32)
    codes[:256] = torch.arange(256)
    codes[(codes & 127) == 127] = 0
    weight = codes.to(torch.uint8).view(F8).reshape(n, k)
    rows, columns = block or (n if scale_shape in ((), (1,)) else 1, k)
    down, across = -(-n // rows), -(-k // columns)
    scale = (0.0001 + 0.0004 * torch.rand(down, across, generator=generator)).to(dtype)
    spread = scale.float().repeat_interleave(rows, 0)[:n].repeat_interleave(columns, 1)[:, :k]
    tensors = {"a.b.weight": weight, f"a.b.{suffix}": scale if block else scale.reshape(scale_shape),
               "a.b.bias": torch.randn(n, generator=generator)}
    tensors |= {f"a.b.{key}": value for key, value in (more or {}).items()}
    config = {"quant_method": "fp8", "activation_scheme": "static" if more else "dynamic", "fmt": "e4m3",
              "modules_to_not_convert": ["lm_head"]}
    if block:
        config["weight_block_size"] = list(block)
    write_case(name, config, tensors, {"a.b.weight": weight.float() * spread})


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    generator = torch.Generator().manual_seed(SEED)
    four = lambda **more: QuantizationArgs(num_bits=4, **more)
    eight = lambda **more: QuantizationArgs(num_bits=8, **more)
    order = lambda k, size: (torch.arange(k, dtype=torch.int32) // size)[torch.randperm(k, generator=generator)]
    f16, f32 = torch.float16, torch.float32
    group = lambda size: dict(strategy="group", group_size=size)
    case("w4_g32", generator, 40, 96, four(**group(32)), "pack-quantized")
    case("w4_g128_asymmetric_f16", generator, 21, 256, four(**group(128), symmetric=False), "pack-quantized", dtype=f16)
    case("w4_channel_odd", generator, 9, 75, four(strategy="channel"), "pack-quantized")
    case("w4_channel_asymmetric_f32", generator, 10, 60, four(strategy="channel", symmetric=False), "pack-quantized", dtype=f32)
    case("w4_act_order", generator, 24, 128, four(**group(32), actorder="group"), "pack-quantized", g_idx=order(128, 32))
    case("w4_act_order_asymmetric", generator, 13, 96, four(**group(16), actorder="group", symmetric=False), "pack-quantized",
         g_idx=order(96, 16))
    case("w4_g_idx_unset", generator, 8, 64, four(**group(32), actorder="group"), "pack-quantized",
         g_idx=torch.full((64,), -1, dtype=torch.int32))
    case("w8_g64_asymmetric", generator, 11, 128, eight(**group(64), symmetric=False), "pack-quantized")
    case("w8_channel_odd", generator, 7, 45, eight(strategy="channel"), "pack-quantized", dtype=f32)
    case("w8a8", generator, 33, 100, eight(strategy="channel"), "int-quantized", activations=ACTIVATIONS)
    case("w8a8_f32", generator, 12, 70, eight(strategy="channel"), "int-quantized", activations=ACTIVATIONS, dtype=f32)
    case("w8a8_asymmetric", generator, 14, 50, eight(strategy="channel", symmetric=False), "int-quantized", dtype=f16,
         activations=ACTIVATIONS)
    case("w8a8_static_tensor", generator, 16, 48, eight(strategy="tensor"), "int-quantized",
         activations=QuantizationArgs(num_bits=8, strategy="tensor"), more={"input_scale": torch.tensor([0.02])})
    floats = lambda **more: QuantizationArgs(num_bits=8, type="float", **more)
    case("fp8_tensor_static", generator, 20, 40, floats(strategy="tensor"), "float-quantized",
         activations=floats(strategy="tensor"), more={"input_scale": torch.tensor([0.02])})
    case("fp8_channel_f32", generator, 18, 55, floats(strategy="channel"), "float-quantized", dtype=f32,
         activations=floats(strategy="token", dynamic=True))
    case("fp8_block", generator, 32, 48, floats(strategy="block", block_structure=[16, 24]), "float-quantized")
    mixed_case("mixed", generator)
    fp8_case("plain_fp8_block", generator, 130, 140, block=(128, 128))
    fp8_case("plain_fp8_block_bf16", generator, 40, 24, block=(16, 16), dtype=torch.bfloat16)
    fp8_case("plain_fp8_tensor", generator, 16, 33)
    fp8_case("plain_fp8_static", generator, 12, 30, suffix="weight_scale", scale_shape=(1,),
             more={"input_scale": torch.tensor(0.01)})
    fp8_case("plain_fp8_channel", generator, 12, 30, suffix="weight_scale", scale_shape=(12, 1))
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_compressed_tensors.py", "seed": SEED, "torch": torch.__version__,
        "safetensors": safetensors.__version__, "compressed-tensors": compressed_tensors.__version__}, indent=1) + "\n")


if __name__ == "__main__":
    main()
