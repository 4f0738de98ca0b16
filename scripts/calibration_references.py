"""The classes of GPTQModel 7.7.0 and AutoAWQ 0.2.9 that quantise a matrix with calibration inputs, on a CPU.

Neither package imports without a GPU or compiled dependencies, so their modules are loaded one by one from folders of
PYTHONPATH (the unpacked sources of gptqmodel==7.7.0 and autoawq==0.2.9 from PyPI), with stubs for the modules that the
algorithms do not need. The classes themselves are unchanged.
"""
import enum
import importlib
import logging
import pathlib
import sys
import types

import torch
import transformers.pytorch_utils  # looks for the packages, so before their stubs


def load_module(name, stubs):
    """Imports a module without running the __init__ of its packages. `stubs` are modules with the names they have."""
    parts = name.split(".")
    folder = next((place / parts[0] for place in map(pathlib.Path, sys.path)
                   if (place / parts[0] / "__init__.py").exists()), None)
    if folder is None:
        raise SystemExit(f"{parts[0]} is not in PYTHONPATH")
    for depth in range(1, len(parts)):
        package = types.ModuleType(".".join(parts[:depth]))
        package.__path__ = [str(folder.joinpath(*parts[1:depth]))]
        sys.modules.setdefault(package.__name__, package)
    for stub, names in stubs.items():
        module = sys.modules.setdefault(stub, types.ModuleType(stub))
        for key, value in names.items():
            setattr(module, key, value)
    return importlib.import_module(name)


class Strategy(enum.Enum):
    RTN = "rtn"


class NamedModule:
    pass


def logger():
    return logging.getLogger("gptqmodel")


GPTQ_STUBS = {
    "gptqmodel.looper.named_module": {"NamedModule": NamedModule},
    "gptqmodel.quantization": {"QuantizeConfig": object},
    "gptqmodel.quantization.config": {
        "FallbackStrategy": Strategy, "SmoothMSE": object, "BaseQuantizeConfig": object, "_normalize_quant_bits": None,
        "resolve_quant_format": None},
    "gptqmodel.quantization.fallback_smooth": {"mse_optimal_quant": None, "smooth_block": None},
    "gptqmodel.utils": {"setup_logger": logger},
    "gptqmodel.utils.device": {"get_device": lambda _: torch.device("cpu")},
    "gptqmodel.utils.env": {"env_flag": lambda *_: False},
    "gptqmodel.utils.logger": {"setup_logger": logger},
    "gptqmodel.utils.torch": {"torch_sync": lambda **_: None},
    "gptqmodel.utils.fallback": {
        "resolve_fallback_strategy": lambda _: Strategy.RTN, "resolve_threshold": lambda *_: (None, False),
        "should_use_fallback": lambda *_: False},
}

AWQ_STUBS = {
    "awq.utils.calib_data": {"get_calib_dataset": None},
    "awq.quantize.scale": {"apply_scale": None, "apply_clip": None},
    "awq.modules.linear": {
        "WQLinear_GEMM": None, "WQLinear_GEMV": None, "WQLinear_Marlin": None, "WQLinear_GEMVFast": None},
}


def linear_of(weight):
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data = weight.clone()
    return layer.requires_grad_(False)


def gptq_solver(weight, group, order="groups", symmetric=True, damping=0.05):
    """Returns a GPTQ for a matrix. group: columns, -1 for whole rows; order: stored, activation or groups."""
    module = load_module("gptqmodel.quantization.gptq", GPTQ_STUBS)
    config = types.SimpleNamespace(
        bits=4, group_size=group, sym=symmetric, desc_act=order == "activation", act_group_aware=order == "groups",
        static_groups=False, damp_percent=damping, damp_auto_increment=0.01, mse=0.0, mock_quantization=False,
        fallback=None, hessian=types.SimpleNamespace(staging_dtype=torch.float32, chunk_size=None, chunk_bytes=None))
    layer = linear_of(weight)
    layer.target_device = torch.device("cpu")
    solver = module.GPTQ(layer, config)
    solver.quantizer.configure(perchannel=True)
    return solver


def gptq(weight, inputs, group, **options):
    """Runs GPTQ.add_batch and GPTQ.quantize with the options of gptq_solver().

    Returns a namespace with rounded [N, K], codes [N, K] u8, scales and zeros [N, groups], g_idx [K], loss, damping.
    """
    solver = gptq_solver(weight, group, **options)
    solver.add_batch(inputs, None)
    rounded, scales, zeros, g_idx, _, loss, used, _ = solver.quantize()
    of_column = g_idx.long()
    codes = torch.round(rounded / scales[:, of_column]) + zeros[:, of_column]
    assert torch.equal(scales[:, of_column] * (codes - zeros[:, of_column]), rounded)
    return types.SimpleNamespace(rounded=rounded, codes=codes.to(torch.uint8), scales=scales, zeros=zeros,
                                 g_idx=g_idx.to(torch.int32), loss=loss, damping=used)


def awq_quantizer(group):
    """Returns an AwqQuantizer for layers of f32 on the CPU; `losses` has those of the last search for scales."""
    module = load_module("awq.quantize.quantizer", AWQ_STUBS)
    module.get_best_device = lambda: torch.device("cpu")

    class Quantizer(module.AwqQuantizer):
        def __init__(self):
            self.group_size, self.w_bit, self.zero_point, self.duo_scaling = group, 4, True, True
            self.n_parallel_calib_samples, self.max_chunk_memory = None, 1 << 30
            self.losses = []

        def _compute_loss(self, *arguments):
            self.losses.append(super()._compute_loss(*arguments))
            return self.losses[-1]

    return Quantizer()


class Mlp(torch.nn.Module):
    """down(silu(gate(x)) * up(x)), as in Llama."""

    def __init__(self, gate, up, down):
        super().__init__()
        self.gate, self.up, self.down = linear_of(gate), linear_of(up), linear_of(down)

    def forward(self, x):
        return self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))


def awq_scales(weights, inputs, group, down=None):
    """Runs _search_best_scale. Returns the scales [K] and the losses of all ratios.

    The module whose output is compared is the matrix itself, or with `down` the MLP of gate and up. AutoAWQ keeps the
    weights with Tensor.cpu(), which on a GPU is a copy and on a CPU is not, so that they would be scaled again with each
    ratio; the module's state_dict() therefore returns copies.
    """
    quantizer = awq_quantizer(group)
    if down is None:
        parent = torch.nn.Sequential(torch.nn.Identity(), linear_of(weights[0]))
        layers, inspected = [parent[1]], None
    else:
        parent = torch.nn.Sequential(torch.nn.Identity(), Mlp(*weights, down))
        layers, inspected = [parent[1].gate, parent[1].up], parent[1]
    module = inspected or layers[0]
    state = module.state_dict
    module.state_dict = lambda: {key: value.clone() for key, value in state().items()}
    _, _, scales = quantizer._search_best_scale(parent, parent[0], layers, inputs.clone(), inspected)
    return scales.view(-1), quantizer.losses


def awq_limits(weight, inputs, group):
    """Runs _compute_best_clip. Returns the largest magnitudes [N, groups]."""
    return awq_quantizer(group)._compute_best_clip(weight.clone(), inputs.clone()).squeeze(-1)
