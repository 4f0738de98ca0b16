"""One product or tower of PyTorch on the CPU, in a process of its own: prints seconds as JSON.

Run by torch_peer.py with a JSON object as the only argument. PyTorch hands products of bf16 and of
8 bits to oneDNN; the first call's lines "onednn_verbose" say to which of its kernels. Needs torch,
and transformers for a tower.

Formats of a product's weight:
  bf16         as torch.nn.functional.linear takes it
  bf16 packed  in the order that oneDNN asks for, packed beforehand
  int8         packed; activations are codes of 8 bits already, the result is bf16
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch

SEED = 20
LEAST_ROUND_S = 0.02


def main() -> None:
    spec = json.loads(sys.argv[1])
    torch.set_num_threads(spec["threads"])
    torch.manual_seed(SEED)
    with torch.inference_mode():
        call = make_tower(spec) if "tower" in spec else make_product(spec)
        with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
            call()
        print(json.dumps({"seconds": [time_round(call) for _ in range(spec["repeat"])]}))


def make_product(spec: dict) -> Callable[[], object]:
    rows, columns, features = spec["rows"], spec["columns"], spec["features"]
    if spec["format"] == "int8":
        codes = torch.randint(0, 256, (rows, columns), dtype=torch.uint8)
        weight = torch.ops.onednn.qlinear_prepack(
            torch.randint(-127, 128, (features, columns), dtype=torch.int8), [rows, columns])
        scales, zeros = torch.rand(features), torch.zeros(features, dtype=torch.int32)
        return lambda: torch.ops.onednn.qlinear_pointwise(
            codes, 0.01, 128, weight, scales, zeros, None, 1.0, 0, torch.bfloat16, "none", [], "")
    x = torch.randn(rows, columns, dtype=torch.bfloat16)
    matrix = torch.randn(features, columns, dtype=torch.bfloat16)
    if spec["format"] == "bf16":
        return lambda: torch.nn.functional.linear(x, matrix)
    packed = torch.ops.mkldnn._reorder_linear_weight(matrix, rows)
    return lambda: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")


def make_tower(spec: dict) -> Callable[[], object]:
    from shapes import TOWERS
    from torch_tower import make_random_tower

    shape = TOWERS[spec["tower"]]
    tower = make_random_tower(shape).to(torch.bfloat16)
    pixels = torch.randn(spec["num_frames"], 3, shape.image_px, shape.image_px,
                         dtype=torch.bfloat16)
    return lambda: tower(pixels)


def time_round(call: Callable[[], object]) -> float:
    """Seconds of a call, in a round of at least LEAST_ROUND_S."""
    calls = 0
    begin = time.perf_counter()
    while True:
        call()
        calls += 1
        elapsed = time.perf_counter() - begin
        if elapsed >= LEAST_ROUND_S:
            return elapsed / calls


if __name__ == "__main__":
    main()
