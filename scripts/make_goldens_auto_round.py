#!/usr/bin/env python3
"""Makes tests/golden/auto_round: tiny checkpoints that AutoRound's own classes packed and dequantised.

<case>/config.json          quantization_config as AutoRound's format "auto_round" writes it
<case>/model.safetensors    the tensors of the packed class
<case>/expected.safetensors a.b.weight [N, K] F32, as the library's own class dequantises the file with its scales
                            widened to f32

The class is the one that dynamic_import_quant_linear_for_packing of auto_round/export/export_to_autoround/export.py takes
for a packing_format; its forward pass of the identity, or dequantize_gemm, dequantises.

The package is not installed: PYTHONPATH holds the unpacked wheel of auto-round==0.16.1 from PyPI. The modules of the
classes run unchanged; the __init__ files of packages named in PACKAGES, which import models and datasets, do not run.

Run: PYTHONPATH=AUTO_ROUND /path/to/venv/bin/python scripts/make_goldens_auto_round.py
(torch, safetensors, transformers)
"""
import importlib
import json
import pathlib
import shutil
import sys

import safetensors
import torch
import transformers
import transformers.pytorch_utils
from bare_packages import register_packages
from safetensors.torch import save_file

SEED = 29
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "auto_round"
VERSION = "0.16.1"
PACKAGES = ("auto_round", "auto_round.utils", "auto_round.export", "auto_round.export.export_to_awq", "auto_round_extension",
            "auto_round_extension.torch")
N, K, GROUP = 32, 64, 32


def draw(generator, bits, symmetric):
    """Returns scales and zeros [N, groups], and a layer whose weights are at most 0.3 of a step beside codes."""
    codes = torch.randint(0, 1 << bits, (N, K), generator=generator).float()
    scales = (0.001 + 0.02 * torch.rand(N, K // GROUP, generator=generator)).half().float()
    zeros = torch.full((N, K // GROUP), float(1 << (bits - 1)))
    if not symmetric:
        zeros = torch.randint(1, 1 << bits, (N, K // GROUP), generator=generator).float()
    group_of = torch.arange(K) // GROUP
    layer = torch.nn.Linear(K, N).requires_grad_(False)
    moved = codes + 0.6 * torch.rand(codes.shape, generator=generator) - 0.3
    layer.weight.data = (moved - zeros[:, group_of]) * scales[:, group_of]
    layer.bias.data = torch.randn(N, generator=generator)
    return layer, scales, zeros


def write_case(name, packing_format, bits, symmetric, tensors, exact):
    folder = OUT / name
    folder.mkdir(parents=True)
    config = {"autoround_version": VERSION, "bits": bits, "block_name_to_quantize": "model.language_model.layers",
              "data_type": "int", "extra_config": {"model.visual.merger": {"bits": 16, "data_type": "float"}},
              "group_size": GROUP, "iters": 1000, "low_gpu_mem_usage": True, "nsamples": 512,
              "packing_format": packing_format, "quant_method": "auto-round", "sym": symmetric}
    (folder / "config.json").write_text(json.dumps({"quantization_config": config}, indent=1) + "\n")
    save_file({"a.b." + key: value.contiguous() for key, value in tensors.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    save_file({"a.b.weight": exact.float().contiguous()}, folder / "expected.safetensors")


def gptq_case(name, generator, packing_format, module, *, bits=4, symmetric=False, **options):
    layer, scales, zeros = draw(generator, bits, symmetric)
    packed = importlib.import_module("auto_round_extension.torch." + module).QuantLinear(bits, GROUP, K, N, True, **options)
    packed.device = torch.device("cpu")
    packed.pack(layer, scales, int(zeros.flatten()[0]) if symmetric else zeros, None, device="cpu")
    tensors = {key: value.clone() for key, value in packed.state_dict().items()}
    packed.bias = None
    packed.scales = packed.scales.float()
    write_case(name, packing_format, bits, symmetric, tensors, packed(torch.eye(K)).T)


def awq_case(name, generator, packing_format):
    awq = importlib.import_module("auto_round.export.export_to_awq.utils")
    layer, scales, zeros = draw(generator, 4, False)
    packed = awq.WQLinear_GEMM.from_linear(layer, 4, GROUP, scales=scales.T.contiguous(), zeros=zeros.T.contiguous(),
                                           device="cpu")
    tensors = packed.state_dict()
    exact = awq.dequantize_gemm(tensors["qweight"], tensors["qzeros"], tensors["scales"].float(), 4, GROUP).T
    write_case(name, packing_format, 4, False, tensors, exact)


def main():
    register_packages(PACKAGES, "auto_round", VERSION)
    sys.modules["auto_round.utils"].get_packing_device = lambda device=None: torch.device("cpu")
    shutil.rmtree(OUT, ignore_errors=True)
    generator = torch.Generator().manual_seed(SEED)
    gptq_case("auto_gptq", generator, "auto_round:auto_gptq", "qlinear_torch_zp")
    gptq_case("auto_gptq_symmetric", generator, "auto_round:auto_gptq", "qlinear_torch_zp", symmetric=True)
    gptq_case("gptqmodel", generator, "auto_round:gptqmodel", "qlinear_torch", g_idx=True)
    gptq_case("plain_8_bits", generator, "auto_round", "qlinear_torch", bits=8)
    awq_case("auto_awq", generator, "auto_round:auto_awq")
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_auto_round.py", "seed": SEED, "torch": torch.__version__,
        "transformers": transformers.__version__, "safetensors": safetensors.__version__, "auto-round": VERSION},
        indent=1) + "\n")


if __name__ == "__main__":
    main()
