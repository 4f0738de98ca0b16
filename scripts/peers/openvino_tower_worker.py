"""Frames through a vision tower on OpenVINO, in a process of its own: prints seconds as JSON.

Run by openvino_peer.py with a JSON object as the only argument. Needs openvino and numpy.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import openvino

SEED = 20


def main() -> None:
    spec = json.loads(sys.argv[1])
    compiled = openvino.Core().compile_model(
        Path(spec["model"]) / "openvino_model.xml", "CPU",
        {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": spec["threads"],
         "PERFORMANCE_HINT": "LATENCY"})
    pixels = np.random.default_rng(SEED).standard_normal(
        (spec["num_frames"], 3, spec["image_px"], spec["image_px"]), dtype=np.float32)
    compiled(pixels)  # kernels are made for the shape
    seconds = []
    for _ in range(spec["repeat"]):
        begin = time.perf_counter()
        compiled(pixels)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
