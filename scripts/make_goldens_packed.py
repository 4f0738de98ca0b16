#!/usr/bin/env python3
"""Makes tests/golden/packed: tiny AWQ and GPTQ checkpoints that the libraries' own classes packed and dequantised.

<case>/config.json          quantization_config with what the library writes of it
<case>/model.safetensors    the tensors of the packed class
<case>/expected.safetensors a.b.weight [N, K] F32, and a.b.weight_f16, as the library's own class dequantises the
                            file: with its scales widened to f32, and with them as they are, in F16

AutoAWQ: WQLinear_GEMM.from_linear packs, dequantize_gemm dequantises. from_linear takes multiples of 32 rows only, and no
group of -1 (it divides columns by it).
GPTQModel: TorchLinear packs with pack_block, or with pack_original where pack_block refuses a size that is no multiple of
32, as its hf_pack_layer does, also one that is no multiple of the codes of a word; convert_gptq_v2_to_v1_format_module makes version 1. A second TorchLinear loads the
tensors, converts version 1 with convert_gptq_v1_to_v2_format_module, and dequantises with dequantize_weight.
AutoGPTQ: qlinear_cuda.QuantLinear packs; its forward pass of the identity dequantises. Multiples of 32 only.

Neither package is installed: PYTHONPATH holds the unpacked sources of gptqmodel==7.7.0, autoawq==0.2.9 and
auto-gptq==0.7.1 from PyPI. Their modules run unchanged; the __init__ files of packages named in PACKAGES, which import
models and compiled kernels, do not run.

Run: PYTHONPATH=GPTQMODEL:AUTOAWQ:AUTO_GPTQ /path/to/venv/bin/python scripts/make_goldens_packed.py
(torch, safetensors, transformers, accelerate, device-smi, dill, logbar, pypcre, threadpoolctl, tokenicer, defuser)
"""
import importlib
import json
import os
import pathlib
import shutil
import sys
import types

os.environ["GPTQ_TORCH_TRITON_DEQUANT"] = "0"  # a kernel for GPUs
os.environ["GPTQMODEL_DISABLE_PACK_EXT"] = "1"  # compiled when it is first used

import safetensors
import torch
import transformers.modeling_utils  # looks for the packages, so before their modules
import transformers.pytorch_utils
from bare_packages import register_packages
from safetensors.torch import save_file

SEED = 23
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "packed"
VERSIONS = {"gptqmodel": "7.7.0", "autoawq": "0.2.9", "auto-gptq": "0.7.1"}
PACKAGES = ("gptqmodel", "gptqmodel.models", "gptqmodel.looper", "awq", "awq.modules", "awq.modules.linear", "auto_gptq",
            "auto_gptq.nn_modules", "auto_gptq.nn_modules.qlinear")


def write_case(name, config, tensors, exact, rounded):
    folder = OUT / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"quantization_config": config}, indent=1) + "\n")
    save_file({"a.b." + key: value.contiguous() for key, value in tensors.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    assert exact.dtype == torch.float32 and rounded.dtype == torch.float16
    save_file({"a.b.weight": exact.contiguous(), "a.b.weight_f16": rounded.contiguous()}, folder / "expected.safetensors")


def draw(generator, n, k, groups, bits, symmetric, smallest_zero=0):
    """Returns codes [N, K], scales [N, groups] that f16 holds, and zeros [N, groups], all in f32."""
    codes = torch.randint(0, 1 << bits, (n, k), generator=generator).float()
    scales = (0.001 + 0.02 * torch.rand(n, groups, generator=generator)).half().float()
    zeros = torch.full((n, groups), float(1 << (bits - 1)))
    if not symmetric:
        zeros = torch.randint(smallest_zero, 1 << bits, (n, groups), generator=generator).float()
    return codes, scales, zeros


def linear_of(generator, codes, scales, zeros, g_idx):
    """A layer of the numbers that the codes stand for, each moved by up to 0.3 of a step."""
    g_idx = g_idx.long()
    moved = codes + 0.6 * torch.rand(codes.shape, generator=generator) - 0.3
    layer = torch.nn.Linear(codes.shape[1], codes.shape[0]).requires_grad_(False)
    layer.weight.data = (moved - zeros[:, g_idx]) * scales[:, g_idx]
    layer.bias.data = torch.randn(codes.shape[0], generator=generator)
    return layer


def groups_of_columns(generator, k, width, act_order):
    g_idx = torch.arange(k, dtype=torch.int32) // width
    return g_idx[torch.randperm(k, generator=generator)] if act_order else g_idx


# ---- AutoAWQ


def awq_case(name, generator, n, k, group_size, symmetric=False):
    gemm = importlib.import_module("awq.modules.linear.gemm")
    codes, scales, zeros = draw(generator, n, k, k // group_size, 4, symmetric)
    layer = linear_of(generator, codes, scales, zeros, torch.arange(k) // group_size).half()
    packed = gemm.WQLinear_GEMM.from_linear(layer, 4, group_size, scales=scales.T.contiguous(), zeros=zeros.T.contiguous())
    tensors = packed.state_dict()
    dequantise = lambda s: gemm.dequantize_gemm(tensors["qweight"], tensors["qzeros"], s, 4, group_size).T
    config = {"quant_method": "awq", "bits": 4, "group_size": group_size, "zero_point": not symmetric, "version": "gemm",
              "modules_to_not_convert": None}
    write_case(name, config, tensors, dequantise(tensors["scales"].float()), dequantise(tensors["scales"]))


# ---- GPTQModel


def torch_linear(n, k, bits, group_size, sym, act_order):
    module = importlib.import_module("gptqmodel.nn_modules.qlinear.torch")
    return module.TorchLinear(bits=bits, group_size=group_size, sym=sym, desc_act=act_order, in_features=k, out_features=n,
                              bias=True).eval()


def gptqmodel_case(name, generator, n, k, *, bits=4, group_size=32, version=1, sym=False, act_order=False):
    convert = importlib.import_module("gptqmodel.utils.model")
    width = k if group_size == -1 else group_size
    codes, scales, zeros = draw(generator, n, k, -(-k // width), bits, sym)
    g_idx = groups_of_columns(generator, k, width, act_order)
    layer = linear_of(generator, codes, scales, zeros, g_idx)
    packed = torch_linear(n, k, bits, group_size, sym, act_order)
    try:
        packed.pack_block(layer, scales, zeros, g_idx)
    except ValueError:
        packed.pack_original(layer, scales, zeros, g_idx)
    packed.qzero_format(format=2)
    if version == 1:
        convert.convert_gptq_v2_to_v1_format_module(packed, types.SimpleNamespace(bits=bits, pack_dtype=torch.int32))
    tensors = {key: value.clone() for key, value in packed.state_dict().items()}
    loaded = torch_linear(n, k, bits, group_size, sym, act_order)
    loaded.load_state_dict(tensors)
    if version == 1:
        convert.convert_gptq_v1_to_v2_format_module(loaded, bits=bits, pack_dtype=torch.int32)
    rounded = loaded.dequantize_weight().T
    loaded.scales = loaded.scales.float()
    config = {"bits": bits, "group_size": group_size, "desc_act": act_order, "lm_head": False, "quant_method": "gptq",
              "checkpoint_format": "gptq" if version == 1 else "gptq_v2", "pack_dtype": "int32", "sym": sym,
              "meta": {"quantizer": ["gptqmodel:" + VERSIONS["gptqmodel"]], "uri": "https://github.com/modelcloud/gptqmodel",
                       "damp_percent": 0.05, "true_sequential": True}}
    write_case(name, config, tensors, loaded.dequantize_weight().T, rounded)


# ---- AutoGPTQ


def auto_gptq_case(name, generator, n, k, *, bits=4, group_size=32, sym=False, act_order=False, smallest_zero=1):
    qlinear = importlib.import_module("auto_gptq.nn_modules.qlinear.qlinear_cuda")
    codes, scales, zeros = draw(generator, n, k, -(-k // group_size), bits, sym, smallest_zero)
    g_idx = groups_of_columns(generator, k, group_size, act_order)
    layer = linear_of(generator, codes, scales, zeros, g_idx).half()
    packed = qlinear.QuantLinear(bits, group_size, k, n, True)
    packed.pack(layer, scales.clone(), zeros.clone(), g_idx)
    tensors = {key: value.clone() for key, value in packed.state_dict().items()}
    packed.bias = None
    rounded = packed(torch.eye(k, dtype=torch.float16)).T
    packed.scales = packed.scales.float()
    config = {"bits": bits, "group_size": group_size, "damp_percent": 0.01, "desc_act": act_order, "static_groups": False,
              "sym": sym, "true_sequential": True, "model_name_or_path": None, "model_file_base_name": None,
              "quant_method": "gptq", "checkpoint_format": "gptq"}
    write_case(name, config, tensors, packed(torch.eye(k)).T, rounded)


def main():
    register_packages(PACKAGES, "gptqmodel", VERSIONS["gptqmodel"])
    sys.modules["gptqmodel"].DEBUG_ON = False
    shutil.rmtree(OUT, ignore_errors=True)
    generator = torch.Generator().manual_seed(SEED)
    awq_case("awq_g32", generator, 32, 96, 32)
    awq_case("awq_g64", generator, 32, 64, 64)
    awq_case("awq_g128_symmetric", generator, 32, 128, 128, symmetric=True)
    gptqmodel_case("gptqmodel_v1", generator, 32, 64)
    gptqmodel_case("gptqmodel_v1_act_order", generator, 32, 64, act_order=True)
    gptqmodel_case("gptqmodel_v1_g128_symmetric_act_order", generator, 32, 160, group_size=128, sym=True, act_order=True)
    gptqmodel_case("gptqmodel_v2_g64_act_order", generator, 16, 128, group_size=64, version=2, act_order=True)
    gptqmodel_case("gptqmodel_v2_row", generator, 8, 72, group_size=-1, version=2)
    gptqmodel_case("gptqmodel_v1_short_group", generator, 24, 88, act_order=True)
    gptqmodel_case("gptqmodel_8_bits_v1_act_order", generator, 32, 64, bits=8, act_order=True)
    gptqmodel_case("gptqmodel_8_bits_v1_symmetric", generator, 20, 100, bits=8, sym=True)
    gptqmodel_case("gptqmodel_8_bits_v2", generator, 8, 128, bits=8, group_size=128, version=2)
    auto_gptq_case("auto_gptq_act_order", generator, 32, 64, act_order=True)
    auto_gptq_case("auto_gptq_zeros_of_0", generator, 32, 64, smallest_zero=0)
    auto_gptq_case("auto_gptq_8_bits_symmetric", generator, 32, 64, bits=8, sym=True)
    # Words with codes or zeros left over at their end.
    gptqmodel_case("gptqmodel_v1_part_of_word", generator, 37, 44)
    gptqmodel_case("gptqmodel_v1_part_of_word_act_order", generator, 34, 77, act_order=True)
    gptqmodel_case("gptqmodel_v1_part_of_word_symmetric", generator, 13, 52, sym=True)
    gptqmodel_case("gptqmodel_v2_part_of_word_row", generator, 9, 35, group_size=-1, version=2)
    gptqmodel_case("gptqmodel_8_bits_v1_part_of_word_act_order", generator, 35, 70, bits=8, act_order=True)
    gptqmodel_case("gptqmodel_8_bits_v2_part_of_word", generator, 6, 45, bits=8, version=2)
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_packed.py", "seed": SEED, "torch": torch.__version__,
        "transformers": transformers.__version__, "safetensors": safetensors.__version__, **VERSIONS}, indent=1) + "\n")


if __name__ == "__main__":
    main()
