#!/usr/bin/env python3
"""Makes tests/golden/quantise: tiny matrices, and the tensors that the library of each format makes of them.

<case>/source.safetensors    a.b.weight [N, K]
<case>/expected.safetensors  the tensors of the module a.b, as the library saves them
cases.json                   the format of each case, and of double quantisation the library's mean

The libraries themselves round and pack, on the CPU:
  bitsandbytes 0.50.2   quantize_4bit, Linear8bitLt. Scales are quantised by the library's implementation for all
                        devices (backends/default/ops.py); its kernel for CPUs looks codes up in a table of 65536
                        entries, and how many of them differ is printed
  compressed-tensors 0.12.2   calculate_qparams, quantize and the compressors, in f32; scales in the weights' dtype
  AutoAWQ 0.2.9         AwqQuantizer.pseudo_quantize_tensor and WQLinear_GEMM.from_linear, in f16 as in its _apply_quant
  AutoGPTQ 0.7.1        Quantizer.find_params and quantize, QuantLinear.pack of qlinear_cuda_old
AutoAWQ and AutoGPTQ do not import without a GPU, so their modules are loaded one by one.

Run: PYTHONPATH=<folders of the packages> /path/to/venv/bin/python scripts/make_goldens_quantize.py
(torch, safetensors, transformers 4.57.6, bitsandbytes; from PyPI without dependencies: autoawq==0.2.9,
auto-gptq==0.7.1, compressed-tensors==0.12.2)
"""
import importlib
import json
import pathlib
import shutil
import sys
import types

import torch
from safetensors.torch import save_file

kernels = {}  # the implementations that bitsandbytes registers, by operation and device
register_kernel = torch.library.register_kernel


def remember_kernel(operation, device, *rest, **more):
    register = register_kernel(operation, device, *rest, **more)

    def remember(function):
        kernels[operation, device] = function
        return register(function)
    return remember


torch.library.register_kernel = remember_kernel
import bitsandbytes  # noqa: E402
import bitsandbytes.functional as functional  # noqa: E402
from bitsandbytes.utils import pack_dict_to_tensor  # noqa: E402
from compressed_tensors.compressors.quantized_compressors.naive_quantized import (  # noqa: E402
    NaiveQuantizationCompressor)
from compressed_tensors.compressors.quantized_compressors.pack_quantized import (  # noqa: E402
    PackedQuantizationCompressor)
from compressed_tensors.quantization import QuantizationArgs  # noqa: E402
from compressed_tensors.quantization.utils import calculate_qparams  # noqa: E402

SEED = 20261123
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "quantise"


def find_package(name):
    for folder in map(pathlib.Path, sys.path):
        if (folder / name / "__init__.py").exists():
            return folder / name
    raise SystemExit(f"{name} is not in PYTHONPATH")


def load_module(name, stubs=()):
    """Imports a module without running the __init__ of its packages. `stubs` are modules with names that it wants."""
    parts = name.split(".")
    folder = find_package(parts[0])
    for depth in range(1, len(parts)):
        package = types.ModuleType(".".join(parts[:depth]))
        package.__path__ = [str(folder.joinpath(*parts[1:depth]))]
        sys.modules.setdefault(package.__name__, package)
    for stub, names in stubs:
        module = types.ModuleType(stub)
        for wanted in names:
            setattr(module, wanted, None)
        sys.modules[stub] = module
    return importlib.import_module(name)


# ---- bitsandbytes


def blocks(weight, quant_type, double):
    packed, state = functional.quantize_4bit(weight, quant_type=quant_type)
    tensors = {"a.b.weight": packed}
    described = {"quant_type": quant_type, "blocksize": 64, "dtype": str(weight.dtype).removeprefix("torch."),
                 "shape": list(weight.shape)}
    if double:
        offset = state.absmax.mean()
        codes, nested = kernels["bitsandbytes::quantize_blockwise", "default"](
            state.absmax - offset, functional.create_dynamic_map(), 256)
        of_cpu, _ = functional.quantize_blockwise(state.absmax - offset, blocksize=256)
        print(f"  {(codes != of_cpu).sum()} of {codes.numel()} codes of scales differ from those of the kernel for CPUs")
        tensors |= {"a.b.weight.absmax": codes, "a.b.weight.nested_absmax": nested,
                    "a.b.weight.nested_quant_map": functional.create_dynamic_map()}
        described |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": offset.item()}
    else:
        tensors["a.b.weight.absmax"] = state.absmax
    tensors["a.b.weight.quant_map"] = state.code
    tensors[f"a.b.weight.quant_state.bitsandbytes__{quant_type}"] = pack_dict_to_tensor(described)
    return tensors


def llm_int8(weight):
    n, k = weight.shape
    layer = bitsandbytes.nn.Linear8bitLt(k, n, bias=False, has_fp16_weights=False)
    layer.load_state_dict({"weight": weight})
    return {"a.b." + key: value for key, value in layer.to("cpu").state_dict().items()}


# ---- compressed-tensors


def symmetric(weight, args, compressor):
    n, k = weight.shape
    shared = weight.float().reshape(n, -1, args.group_size or k)
    scale, zero = calculate_qparams(shared.amin(-1), shared.amax(-1), args)
    scale = scale.to(weight.dtype)
    compressed = compressor.compress_weight(weight=weight.float(), scale=scale.float(), quantization_args=args)
    assert not zero.any()
    tensors = {f"a.b.{key}": value for key, value in compressed.items() if key != "weight_zero_point"}
    return tensors | {"a.b.weight_scale": scale}


def w8a8(weight):
    return symmetric(weight, QuantizationArgs(num_bits=8, strategy="channel"), NaiveQuantizationCompressor())


def w4a16(weight):
    args = QuantizationArgs(num_bits=4, strategy="group", group_size=128)
    return symmetric(weight, args, PackedQuantizationCompressor())


# ---- AWQ and GPTQ


def linear_of(weight):
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data = weight
    return layer


def awq(weight):
    quantizer = load_module("awq.quantize.quantizer", [
        ("awq.utils.calib_data", ["get_calib_dataset"]), ("awq.quantize.scale", ["apply_scale", "apply_clip"]),
        ("awq.modules.linear", ["WQLinear_GEMM", "WQLinear_GEMV", "WQLinear_Marlin", "WQLinear_GEMVFast"])])
    del sys.modules["awq.modules.linear"]
    gemm = load_module("awq.modules.linear.gemm")
    layer = linear_of(weight).half()
    settings = types.SimpleNamespace(group_size=128, w_bit=4, zero_point=True)
    layer.weight.data, scales, zeros = quantizer.AwqQuantizer.pseudo_quantize_tensor(settings, layer.weight.data)
    packed = gemm.WQLinear_GEMM.from_linear(layer, 4, 128, scales=scales.t().contiguous(), zeros=zeros.t().contiguous())
    return {f"a.b.{key}": getattr(packed, key) for key in ("qweight", "qzeros", "scales")}


def gptq(weight):
    rounding = load_module("auto_gptq.quantization.quantizer")
    layout = load_module("auto_gptq.nn_modules.qlinear.qlinear_cuda_old")
    n, k = weight.shape
    scales, zeros, rounded = [], [], []
    for first in range(0, k, 128):
        quantizer = rounding.Quantizer()
        quantizer.configure(4, perchannel=True, sym=True)
        group = weight[:, first:first + 128].float()
        quantizer.find_params(group, weight=True)
        rounded.append(quantizer.quantize(group))
        scales.append(quantizer.scale)
        zeros.append(quantizer.zero)
    layer = linear_of(torch.cat(rounded, 1).half())
    packed = layout.QuantLinear(4, 128, k, n, bias=False)
    packed.pack(layer, torch.cat(scales, 1), torch.cat(zeros, 1), None)
    return {f"a.b.{key}": getattr(packed, key) for key in ("qweight", "qzeros", "scales", "g_idx")}


# ---- cases


def matrix(generator, n, k, dtype, zeros=()):
    """Rows of several magnitudes, one of them with a large number; `zeros` are slices that hold zeros."""
    weight = 0.05 * torch.randn(n, k, generator=generator) * torch.exp2(torch.arange(n) % 5 - 2.0)[:, None]
    weight[1, 3] = 2.5
    for index in zeros:
        weight[index] = 0
    return weight.to(dtype)


F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
WHOLE_ROW = (slice(2, 3), slice(None))
A_GROUP = (slice(3, 4), slice(128, 256))
# name: format, make, N, K, dtype, zeros
CASES = {
    "nf4": ("nf4", lambda w: blocks(w, "nf4", False), 24, 128, BF16, [WHOLE_ROW]),
    "nf4_odd": ("nf4", lambda w: blocks(w, "nf4", False), 7, 33, F32, []),
    "nf4_last_block_of_zeros": ("nf4", lambda w: blocks(w, "nf4", False), 9, 40, F16, [(slice(8, 9), slice(None))]),
    "nf4_double": ("nf4", lambda w: blocks(w, "nf4", True), 67, 256, F16, [WHOLE_ROW]),
    "nf4_double_odd": ("nf4", lambda w: blocks(w, "nf4", True), 21, 75, BF16, []),
    "fp4": ("fp4", lambda w: blocks(w, "fp4", False), 24, 96, F32, [WHOLE_ROW]),
    "fp4_double": ("fp4", lambda w: blocks(w, "fp4", True), 40, 192, BF16, []),
    "int8": ("int8", llm_int8, 33, 100, BF16, []),
    "int8_f32": ("int8", llm_int8, 8, 75, F32, []),
    "w8a8": ("w8a8", w8a8, 20, 100, BF16, [WHOLE_ROW]),
    "w8a8_f32": ("w8a8", w8a8, 9, 75, F32, []),
    "w4a16": ("w4a16", w4a16, 16, 256, BF16, [A_GROUP]),
    "w4a16_f16": ("w4a16", w4a16, 9, 128, F16, []),
    "awq": ("awq", awq, 32, 256, BF16, [A_GROUP]),
    "awq_f32": ("awq", awq, 32, 384, F32, []),
    "gptq": ("gptq", gptq, 32, 256, BF16, [A_GROUP]),
    "gptq_short_group": ("gptq", gptq, 64, 160, F32, []),
}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    generator = torch.Generator().manual_seed(SEED)
    described = {}
    for name, (form, make, n, k, dtype, zeros) in CASES.items():
        print(name)
        weight = matrix(generator, n, k, dtype, zeros)
        tensors = make(weight.clone())
        folder = OUT / name
        folder.mkdir(parents=True)
        save_file({"a.b.weight": weight}, folder / "source.safetensors", metadata={"format": "pt"})
        save_file({key: value.contiguous() for key, value in tensors.items()}, folder / "expected.safetensors",
                  metadata={"format": "pt"})
        described[name] = {"format": form, "double_quant": "double" in name}
    (OUT / "cases.json").write_text(json.dumps(described, indent=1) + "\n")
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_quantize.py", "seed": SEED, "torch": torch.__version__,
        "bitsandbytes": bitsandbytes.__version__, "compressed-tensors": "0.12.2", "autoawq": "0.2.9",
        "auto-gptq": "0.7.1"}, indent=1) + "\n")


if __name__ == "__main__":
    main()
