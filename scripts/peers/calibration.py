#!/usr/bin/env python3
"""Measures GPTQModel 7.7.0 and AutoAWQ 0.2.9 on a random matrix, the shapes of caption_solver_bench.

Prints wall and processor seconds of the moments (GPTQ.add_batch), the inverse of the Hessian and its factor
(GPTQ.hessian_inverse), the rest of GPTQ.quantize, AwqQuantizer._search_best_scale of one linear layer and
_compute_best_clip (of 256 rows: its time is proportional to them); each once, in f32.

Run: PYTHONPATH=<unpacked gptqmodel 7.7.0>:<unpacked autoawq 0.2.9> /path/to/venv/bin/python \
         scripts/peers/calibration.py [--rows N] [--columns K] [--inputs T] [--threads 2]
(torch 2.9.1, transformers 4.57.6)
"""
import argparse
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import calibration_references as references  # noqa: E402

CLIPPED_ROWS = 256


class Watch:
    def __init__(self):
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def print(self, name, without=(0.0, 0.0)):
        wall, processor = time.perf_counter() - self.wall, time.process_time() - self.processor
        print(f"{name:22} {wall - without[0]:8.2f} s wall {processor - without[1]:8.2f} s processor", flush=True)
        return wall, processor


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--inputs", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    generator = torch.Generator().manual_seed(1)
    weight = 0.05 * torch.randn(options.rows, options.columns, generator=generator)
    inputs = torch.randn(options.inputs, options.columns, generator=generator)
    inputs[:, 5::37] *= 20

    solver = references.gptq_solver(weight, 128)
    watch = Watch()
    solver.add_batch(inputs, None)
    watch.print("moments")
    invert, spent = solver.hessian_inverse, [(0.0, 0.0)]

    def inverse(hessian):
        inner = Watch()
        factor = invert(hessian)
        spent.append(inner.print("gptq: inverse, factor"))
        return factor

    solver.hessian_inverse = inverse
    watch = Watch()
    solver.quantize()
    watch.print("gptq: codes", spent[-1])

    watch = Watch()
    references.awq_scales([weight], inputs, 128)
    watch.print("awq: scales")
    watch = Watch()
    references.awq_limits(weight[:CLIPPED_ROWS], inputs, 128)
    watch.print(f"awq: clip {min(CLIPPED_ROWS, options.rows)} rows")


if __name__ == "__main__":
    main()
