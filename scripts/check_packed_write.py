#!/usr/bin/env python3
"""Loads folders that `caption-cli quantize` makes in gptq and awq into the libraries' own classes, and compares.

The demonstration model and a random decoder of 128 x 200, whose groups of columns end within a row, are quantised in
CASES. GPTQModel's QuantizeConfig reads each configuration, its TorchLinear and AwqTorchLinear and AutoAWQ's
WQLinear_GEMM validate each matrix's size, load its tensors (no key missing or unexpected) and dequantise them with
their own functions, scales being widened to f32. Every bit must be that of the numbers that caption-cli reads
(tests/weights/decode_codes), and rounded to f16, that of the libraries with scales of f16. Numbers that are
rounded to nearest are within MOST_ERROR steps of the weights. Every matrix of the decoder must be packed or named among
those that are not. Exit code 1 on a difference. Not a test: the libraries' sources are
needed, unpacked from PyPI as for make_goldens_packed.py.

Run: PYTHONPATH=<gptqmodel 7.7.0>:<autoawq 0.2.9>:<auto-gptq 0.7.1> /path/to/venv/bin/python \\
         scripts/check_packed_write.py build/auto/apps/caption-cli/caption-cli build/auto/tests/weights/decode_codes
(torch, safetensors, transformers and the other packages of make_goldens_packed.py)
"""
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile

import make_goldens_packed as packed
import torch
import transformers
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "samples"
DEMO = SAMPLES / "demo-model"
CALIBRATE = ["--calibrate", str(SAMPLES / "videos"), "--references", str(SAMPLES / "references.jsonl"),
             "--calibration-tokens", "2048"]
CASES = {
    "gptq": ["gptq"],
    "gptq, groups of 32": ["gptq", "--group-size", "32"],
    "gptq, calibrated": ["gptq", *CALIBRATE],
    "gptq, act-order": ["gptq", "--act-order", *CALIBRATE],
    "gptq, act-order, groups of 32": ["gptq", "--act-order", "--group-size", "32", *CALIBRATE],
    "awq": ["awq"],
    "awq, groups of 64": ["awq", "--group-size", "64"],
    "awq, calibrated": ["awq", "--group-size", "64", *CALIBRATE],
}
# Half a step, and the rounding of scales and scaled weights to f16, at most 1/256 of a code for each of 15.
MOST_ERROR = 0.5 + 15 / 256


class Difference(Exception):
    pass


def require(condition, message):
    if not condition:
        raise Difference(message)


def tensors_of(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(file)
    return tensors


def decoder_matrices(tensors):
    return {name.removesuffix(".weight") for name, tensor in tensors.items()
            if name.startswith("language_model.") and ".layers." in name and name.endswith("_proj.weight")}


def load(module, tensors, name):
    """Loads the tensors of a module; none may be missing or unexpected."""
    parts = {key.removeprefix(name + "."): value for key, value in tensors.items() if key.startswith(name + ".")}
    module.load_state_dict(parts, strict=True)


def check_size(layer_class, config, shape):
    ok, error = layer_class.validate(bits=config["bits"], group_size=config["group_size"],
                                     desc_act=config.get("desc_act", False), sym=config.get("sym", False),
                                     in_features=shape[1], out_features=shape[0], pack_dtype=torch.int32)
    require(ok, f"{layer_class.__name__} refuses {shape}: {error}")


def gptq_layer(config, shape, tensors, name):
    """TorchLinear with the tensors, zeros as in version 2."""
    convert = importlib.import_module("gptqmodel.utils.model")
    layer_class = importlib.import_module("gptqmodel.nn_modules.qlinear.torch").TorchLinear
    has_bias = name + ".bias" in tensors
    check_size(layer_class, config, shape)
    layer = layer_class(bits=config["bits"], group_size=config["group_size"], sym=config["sym"],
                        desc_act=config["desc_act"], in_features=shape[1], out_features=shape[0], bias=has_bias).eval()
    load(layer, tensors, name)
    if config["checkpoint_format"] == "gptq":
        convert.convert_gptq_v1_to_v2_format_module(layer, bits=config["bits"], pack_dtype=torch.int32)
    return layer


def decode_gptq(config, shape, tensors, name):
    layer = gptq_layer(config, shape, tensors, name)
    rounded = layer.dequantize_weight().T
    layer.scales = layer.scales.float()
    yield "TorchLinear", layer.dequantize_weight().T, rounded


def decode_awq(config, shape, tensors, name):
    has_bias = name + ".bias" in tensors
    gemm = importlib.import_module("awq.modules.linear.gemm")
    layer = gemm.WQLinear_GEMM(config["bits"], config["group_size"], shape[1], shape[0], has_bias, "cpu")
    load(layer, tensors, name)
    decode = lambda scales: gemm.dequantize_gemm(layer.qweight, layer.qzeros, scales, layer.w_bit, layer.group_size).T
    yield "WQLinear_GEMM", decode(layer.scales.float()), decode(layer.scales)
    torch_awq = importlib.import_module("gptqmodel.nn_modules.qlinear.torch_awq")
    check_size(torch_awq.AwqTorchLinear, config, shape)
    layer = torch_awq.AwqTorchLinear(bits=config["bits"], group_size=config["group_size"], sym=not config["zero_point"],
                                     desc_act=False, in_features=shape[1], out_features=shape[0], bias=has_bias,
                                     register_buffers=True)
    load(layer, tensors, name)
    decode = lambda scales: torch_awq.dequantize_gemm(layer.qweight, layer.qzeros, scales, layer.bits,
                                                      layer.group_size).T
    yield "AwqTorchLinear", decode(layer.scales.float()), decode(layer.scales)


def rounding_error(numbers, weight, scales, group_size):
    """The largest distance between a number and its weight, in steps of the group's scale [groups, N]."""
    step = scales.float().repeat_interleave(group_size, dim=0)[:weight.shape[1]].T
    return float(((numbers - weight.float()).abs() / step).max())


def check_config(config):
    """GPTQModel's own class must find in the configuration what it says."""
    quantization = importlib.import_module("gptqmodel.quantization.config")
    read = quantization.QuantizeConfig.from_quant_config(dict(config))
    require((read.bits, read.group_size) == (config["bits"], config["group_size"]), f"QuantizeConfig reads {read}")
    require(str(read.quant_method.value) == config["quant_method"], f"QuantizeConfig reads {read.quant_method}")
    if config["quant_method"] == "gptq":
        require((read.desc_act, read.sym, str(read.format.value)) ==
                (config["desc_act"], config["sym"], config["checkpoint_format"]), f"QuantizeConfig reads {read}")
    else:
        require(str(read.format.value) == config["version"], f"QuantizeConfig reads {read.format}")


def check_folder(folder, plain, decode_codes, is_calibrated, scratch):
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    check_config(config)
    numbers = scratch / "numbers.safetensors"
    subprocess.run([decode_codes, folder, numbers], check=True)
    ours, tensors = load_file(numbers), tensors_of(folder)
    modules = {name.removesuffix(".qweight") for name in tensors if name.endswith(".qweight")}
    require({name.removesuffix(".weight") for name in ours} == modules, "caption-cli reads other matrices")
    left_out = decoder_matrices(plain) - modules
    kept = config.get("modules_to_not_convert") or []
    require(all(any(part in name for part in kept) for name in left_out), f"neither packed nor left out: {left_out}")
    classes, act_order = {}, 0
    for name in sorted(modules):
        expected = ours[name + ".weight"]
        shape = tuple(plain[name + ".weight"].shape)
        if config["quant_method"] == "gptq":
            in_order = torch.arange(shape[1]) // config["group_size"]
            act_order += int(not torch.equal(tensors[name + ".g_idx"].long(), in_order))
        error = rounding_error(expected, plain[name + ".weight"], tensors[name + ".scales"], config["group_size"])
        require(is_calibrated or error < MOST_ERROR, f"{name}: {error} steps from a weight")
        decode = decode_gptq if config["quant_method"] == "gptq" else decode_awq
        for layer, exact, rounded in decode(config, shape, tensors, name):
            require(exact.dtype == torch.float32 and torch.equal(exact, expected),
                    f"{name}: {layer} decodes other numbers")
            require(rounded.dtype == torch.float16 and torch.equal(rounded, expected.half()),
                    f"{name}: {layer} rounds to other numbers")
            classes[layer] = classes.get(layer, 0) + 1
    require(act_order > 0 or not config.get("desc_act"), "no matrix has its columns in another order")
    counts = ", ".join(f"{layer} {count}" for layer, count in sorted(classes.items()))
    return f"{counts} matrices equal, {act_order} with act-order, {len(left_out)} left as they are"


def random_decoder(folder):
    subprocess.run([sys.executable, ROOT / "scripts" / "random_checkpoint.py", "--hidden", "128", "--intermediate",
                    "200", "--layers", "2", "--layers-per-file", "2", "--kv-heads", "1", "-o", folder], check=True)
    return folder


def main():
    program, decode_codes = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    packed.register_packages()
    print("torch", torch.__version__, "transformers", transformers.__version__, packed.VERSIONS)
    is_equal = True
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = pathlib.Path(scratch_name)
        for model, plain in (("demonstration model", DEMO), ("128 x 200", random_decoder(scratch / "random"))):
            for number, (name, options) in enumerate(CASES.items()):
                folder = scratch / f"{plain.name}-{number}"
                subprocess.run([program, "quantize", "-q", plain, "-o", folder, "--format", *options], check=True)
                is_calibrated = "--calibrate" in options
                try:
                    found = check_folder(folder, tensors_of(plain), decode_codes, is_calibrated, scratch)
                    print(f"{model}, {name}: {found}")
                except Difference as difference:
                    print(f"{model}, {name}: {difference}")
                    is_equal = False
    sys.exit(0 if is_equal else 1)


if __name__ == "__main__":
    main()
