#!/usr/bin/env python3
"""Makes tests/golden/calibrated: small matrices and inputs, and what the tools of GPTQ and AWQ make of them.

<case>.safetensors of GPTQ
  weight [N, K] F32, inputs [T, K] BF16
  codes [N, K] U8, scales and zeros [N, groups] F32, g_idx [K] I32, loss [1] F32 (as GPTQ.quantize returns it)
<case>.safetensors of AWQ
  weight_<i> [N, K] F32 of the matrices that share inputs, inputs [T, K] BF16; down [M, N] F32 where the module is an MLP
  scales [K], losses [20] F32
cases.json: the options of each case

The tools' own classes run in f32 on the CPU (calibration_references.py): GPTQ.add_batch and quantize of GPTQModel,
AwqQuantizer._search_best_scale of AutoAWQ.
The inputs are mixed and have a few columns of large numbers, as those of language models.

Run: PYTHONPATH=<unpacked gptqmodel 7.7.0>:<unpacked autoawq 0.2.9> /path/to/venv/bin/python \
         scripts/make_goldens_calibrated.py
(torch 2.9.1, safetensors, transformers 4.57.6)
"""
import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file

import calibration_references as references

SEED = 20261124
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "calibrated"


def draw_inputs(generator, rows, columns, dead):
    """Mixed inputs, rounded to bf16; every 37th column is 20 times larger, and `dead` ones are zeros."""
    mixing = torch.randn(columns, columns, generator=generator) * columns ** -0.5
    inputs = torch.randn(rows, columns, generator=generator) @ (torch.eye(columns) + mixing)
    inputs[:, 5::37] *= 20
    inputs[:, dead] = 0
    return inputs.to(torch.bfloat16)


def draw_weight(generator, rows, columns):
    weight = 0.05 * torch.randn(rows, columns, generator=generator)
    return weight * torch.exp2(torch.arange(rows) % 5 - 2.0)[:, None]


# name: N, K, T, group (-1: whole rows), order, symmetric, dead columns
GPTQ_CASES = {
    "gptq_stored": (24, 256, 320, 128, "stored", True, []),
    "gptq_groups": (24, 256, 96, 128, "groups", True, []),
    "gptq_groups_tail": (16, 328, 160, 64, "groups", True, [7, 100]),
    "gptq_activation": (24, 200, 128, 32, "activation", True, [3, 64, 65]),
    "gptq_whole_rows": (16, 136, 160, -1, "activation", True, [9]),
    "gptq_asymmetric": (24, 192, 160, 64, "stored", False, []),
}
# name: N of each matrix, K, T, group, M of the MLP
AWQ_CASES = {
    "awq_linear": ([64], 256, 160, 128, None),
    "awq_linear_sampled": ([64], 64, 1030, 64, None),
    "awq_whole_rows": ([64], 72, 96, 72, None),
    "awq_mlp": ([64, 64], 128, 120, 32, 40),
}


def make_gptq(generator, n, k, t, group, order, symmetric, dead):
    weight = draw_weight(generator, n, k)
    inputs = draw_inputs(generator, t, k, dead)
    made = references.gptq(weight, inputs.float(), group, order=order, symmetric=symmetric)
    assert made.damping == 0.05
    tensors = {"weight": weight, "inputs": inputs, "codes": made.codes, "scales": made.scales, "zeros": made.zeros,
               "g_idx": made.g_idx, "loss": torch.tensor([made.loss])}
    return tensors, {"method": "gptq", "group_columns": max(group, 0), "order": order, "symmetric": symmetric}


def make_awq(generator, rows, k, t, group, outputs):
    weights = [draw_weight(generator, n, k) for n in rows]
    inputs = draw_inputs(generator, t, k, [])
    down = None if outputs is None else draw_weight(generator, outputs, rows[0])
    scales, losses = references.awq_scales(weights, inputs.float(), group, down)
    tensors = {f"weight_{i}": weight for i, weight in enumerate(weights)}
    tensors |= {"inputs": inputs, "scales": scales, "losses": torch.tensor(losses)}
    if down is not None:
        tensors["down"] = down
    return tensors, {"method": "awq", "group_columns": 0 if group == k else group}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(SEED)
    described = {}
    for cases, make in ((GPTQ_CASES, make_gptq), (AWQ_CASES, make_awq)):
        for name, options in cases.items():
            tensors, described[name] = make(generator, *options)
            save_file({key: value.contiguous() for key, value in tensors.items()}, OUT / f"{name}.safetensors",
                      metadata={"format": "pt"})
    (OUT / "cases.json").write_text(json.dumps(described, indent=1) + "\n")
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_calibrated.py", "seed": SEED, "torch": torch.__version__,
        "gptqmodel": "7.7.0", "autoawq": "0.2.9"}, indent=1) + "\n")


if __name__ == "__main__":
    main()
