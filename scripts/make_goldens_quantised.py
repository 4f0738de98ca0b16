#!/usr/bin/env python3
"""Makes tests/golden/quantised: tiny quantised checkpoints, and the numbers that they stand for.

<case>/config.json          quantization_config as the library writes it
<case>/model.safetensors    the codes, and a bias, which is not quantised
<case>/expected.safetensors <module>.weight [N, K] as the library dequantises it: f32, or bf16 where
                            the format is decoded to bf16

bitsandbytes writes and dequantises its own files, those of 4 bits by its implementation for all devices: the one for
CPUs of 0.50.2 takes another block's scale when the block size does not divide K. AutoAWQ and the GPTQ tools refuse
most sizes, so the files of both are packed and unpacked here by their published formulas, in f32:
AutoAWQ 0.2 (awq/modules/linear/gemm.py, awq/utils/packing_utils.py) and AutoGPTQ 0.7.1
(auto_gptq/nn_modules/qlinear/qlinear_cuda.py, the path in torch). scripts/make_goldens_packed.py makes files with the
classes of these libraries.

Run: /path/to/venv/bin/python scripts/make_goldens_quantised.py
(torch, safetensors, bitsandbytes)
"""
import json
import pathlib
import shutil

import bitsandbytes
import safetensors
import torch
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute as dequantise_4bit
from safetensors.torch import save_file

SEED = 15
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "quantised"


def write_case(name, config, tensors, expected):
    folder = OUT / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"quantization_config": config}, indent=1) + "\n")
    contiguous = lambda group: {key: value.contiguous() for key, value in group.items()}
    save_file(contiguous(tensors), folder / "model.safetensors", metadata={"format": "pt"})
    save_file(contiguous(expected), folder / "expected.safetensors")


def integers(generator, low, high, *shape):
    return torch.randint(low, high, shape, generator=generator, dtype=torch.int32)


def scales(generator, *shape, dtype=torch.float16):
    return (0.001 + 0.02 * torch.rand(*shape, generator=generator)).to(dtype)


def to_words(fields, bits):
    """Packs the last axis of `fields`, the first field in the lowest bits of an int32."""
    per_word = 32 // bits
    parts = fields.to(torch.int64).reshape(*fields.shape[:-1], -1, per_word)
    words = (parts << (bits * torch.arange(per_word))).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


# ---- AWQ

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
AWQ_REVERSE_ORDER = [0, 4, 1, 5, 2, 6, 3, 7]


def awq_pack(codes):
    """[rows, N] -> int32 [rows, N / 8]: nibble i of a word is column AWQ_ORDER[i] of its eight."""
    return to_words(codes.reshape(codes.shape[0], -1, 8)[..., AWQ_ORDER].flatten(1), 4)


def awq_unpack(words):
    shifts = torch.arange(0, 32, 4)
    codes = torch.bitwise_right_shift(words[:, :, None], shifts[None, None, :]).reshape(words.shape[0], -1)
    order = torch.arange(codes.shape[-1]).view(-1, 8)[:, AWQ_REVERSE_ORDER].reshape(-1)
    return codes[:, order] & 15


def awq_case(name, generator, n, k, group_size, symmetric=False, dtype=torch.float16):
    groups = 1 if group_size == -1 else k // group_size
    zeros = torch.full((groups, n), 8) if symmetric else integers(generator, 0, 16, groups, n)
    tensors = {"a.b.qweight": awq_pack(integers(generator, 0, 16, k, n)), "a.b.qzeros": awq_pack(zeros),
               "a.b.scales": scales(generator, groups, n, dtype=dtype), "a.b.bias": torch.randn(n, generator=generator)}
    group = torch.arange(k) // (k // groups)
    weight = (awq_unpack(tensors["a.b.qweight"]) - awq_unpack(tensors["a.b.qzeros"])[group]) * tensors["a.b.scales"].float()[group]
    config = {"quant_method": "awq", "bits": 4, "group_size": group_size, "zero_point": not symmetric,
              "version": "gemm", "modules_to_not_convert": ["visual"]}
    write_case(name, config, tensors, {"a.b.weight": weight.T})


# ---- GPTQ


def gptq_unpack_zeros(words, bits, is_v1):
    shifts = torch.arange(0, 32, bits, dtype=torch.int32).unsqueeze(0)
    zeros = torch.bitwise_right_shift(words.unsqueeze(2).expand(-1, -1, 32 // bits), shifts.unsqueeze(0))
    zeros = torch.bitwise_and(zeros, (1 << bits) - 1)
    return (zeros + 1 if is_v1 else zeros).reshape(words.shape[0], -1)


def gptq_unpack_codes(words, bits):
    shifts = torch.arange(0, 32, bits, dtype=torch.int32).unsqueeze(0)
    codes = torch.bitwise_right_shift(words.unsqueeze(1).expand(-1, 32 // bits, -1), shifts.unsqueeze(-1))
    return torch.bitwise_and(codes, (1 << bits) - 1).reshape(-1, words.shape[1])


def gptq_case(name, generator, n, k, *, bits=4, group_size=32, checkpoint_format="gptq", sym=False, act_order=False,
              with_g_idx=True):
    width = k if group_size == -1 else group_size
    groups = -(-k // width)
    g_idx = torch.arange(k, dtype=torch.int32) // width
    if act_order:
        order = torch.randperm(k, generator=generator)
        g_idx = g_idx[torch.argsort(order)]
    is_v1 = checkpoint_format == "gptq"
    # A v1 file stores zero - 1; the field of a v1 file that holds all ones is the zero 2^bits.
    fields = torch.full((groups, n), (1 << (bits - 1)) - is_v1) if sym else integers(generator, 0, 1 << bits, groups, n)
    tensors = {"a.b.qweight": to_words(integers(generator, 0, 1 << bits, n, k), bits).T, "a.b.qzeros": to_words(fields, bits),
               "a.b.scales": scales(generator, groups, n), "a.b.bias": torch.randn(n, generator=generator)}
    if with_g_idx:
        tensors["a.b.g_idx"] = g_idx
    zeros = gptq_unpack_zeros(tensors["a.b.qzeros"], bits, is_v1)
    codes = gptq_unpack_codes(tensors["a.b.qweight"], bits)
    weight = tensors["a.b.scales"].float()[g_idx.long()] * (codes - zeros[g_idx.long()])
    config = {"quant_method": "gptq", "bits": bits, "group_size": group_size, "desc_act": act_order, "sym": sym,
              "lm_head": False, "true_sequential": True, "checkpoint_format": checkpoint_format,
              "pack_dtype": "int32"}
    if not is_v1:
        config["meta"] = {"quantizer": ["gptqmodel:4.0.0"], "damp_percent": 0.01}
    write_case(name, config, tensors, {"a.b.weight": weight.T})


# ---- bitsandbytes


def bnb_config(**more):
    return {"quant_method": "bitsandbytes", "_load_in_4bit": False, "_load_in_8bit": False, "bnb_4bit_compute_dtype": "bfloat16",
            "bnb_4bit_quant_storage": "uint8", "bnb_4bit_quant_type": "fp4", "bnb_4bit_use_double_quant": False,
            "llm_int8_enable_fp32_cpu_offload": False, "llm_int8_has_fp16_weight": False, "llm_int8_skip_modules": None,
            "llm_int8_threshold": 6.0, "load_in_4bit": False, "load_in_8bit": False} | more


def linear(generator, n, k):
    layer = torch.nn.Linear(k, n)
    layer.weight.data = 0.05 * torch.randn(n, k, generator=generator)
    layer.bias.data = torch.randn(n, generator=generator)
    return layer


def bnb_4bit_case(name, generator, n, k, quant_type, double):
    layer = bitsandbytes.nn.Linear4bit(k, n, quant_type=quant_type, compress_statistics=double)
    layer.load_state_dict(linear(generator, n, k).state_dict())
    layer = layer.to("cpu")
    tensors = {"a.b." + key: value for key, value in layer.state_dict().items()}
    state = layer.weight.quant_state
    absmax = state.absmax
    if double:
        absmax = bitsandbytes.functional.dequantize_blockwise(absmax, state.state2) + state.offset
    weight = dequantise_4bit(layer.weight.data.reshape(-1), absmax, state.code, 64, (n, k), torch.float32)
    config = bnb_config(load_in_4bit=True, _load_in_4bit=True, bnb_4bit_quant_type=quant_type, bnb_4bit_use_double_quant=double)
    write_case(name, config, tensors, {"a.b.weight": weight})


def bnb_8bit_case(name, generator, n, k):
    layer = bitsandbytes.nn.Linear8bitLt(k, n, has_fp16_weights=False)
    layer.load_state_dict(linear(generator, n, k).state_dict())
    layer = layer.to("cpu")
    tensors = {"a.b." + key: value for key, value in layer.state_dict().items()}
    weight = bitsandbytes.functional.int8_vectorwise_dequant(layer.weight.data, tensors["a.b.SCB"])
    config = bnb_config(load_in_8bit=True, _load_in_8bit=True)
    write_case(name, config, tensors, {"a.b.weight": weight})


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    generator = torch.Generator().manual_seed(SEED)
    awq_case("awq_g32", generator, 40, 96, 32)
    awq_case("awq_g64_symmetric", generator, 8, 192, 64, symmetric=True)
    awq_case("awq_g128_bf16", generator, 24, 256, 128, dtype=torch.bfloat16)
    awq_case("awq_row", generator, 16, 75, -1)
    gptq_case("gptq_v1", generator, 40, 96)
    gptq_case("gptq_v1_symmetric_act_order", generator, 24, 128, sym=True, act_order=True)
    gptq_case("gptq_v2_act_order_short_group", generator, 24, 88, checkpoint_format="gptq_v2", act_order=True)
    gptq_case("gptq_no_g_idx", generator, 16, 64, with_g_idx=False)
    gptq_case("gptq_row", generator, 8, 72, group_size=-1, sym=True)
    gptq_case("gptq_8_bits_v1_act_order", generator, 20, 100, bits=8, act_order=True)
    gptq_case("gptq_8_bits_v2", generator, 36, 256, bits=8, group_size=128, checkpoint_format="gptq_v2")
    bnb_4bit_case("nf4", generator, 24, 128, "nf4", False)
    bnb_4bit_case("nf4_double", generator, 67, 256, "nf4", True)
    bnb_4bit_case("nf4_across_rows", generator, 25, 80, "nf4", False)
    bnb_4bit_case("nf4_odd", generator, 7, 33, "nf4", True)
    bnb_4bit_case("fp4", generator, 24, 96, "fp4", False)
    bnb_4bit_case("fp4_double", generator, 24, 192, "fp4", True)
    bnb_8bit_case("llm_int8", generator, 33, 100)
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_quantised.py", "seed": SEED, "torch": torch.__version__,
        "safetensors": safetensors.__version__, "bitsandbytes": bitsandbytes.__version__}, indent=1) + "\n")


if __name__ == "__main__":
    main()
