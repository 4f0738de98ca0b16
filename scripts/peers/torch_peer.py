"""PyTorch on the CPU as a contender: oneDNN's matrix products, and a vision tower made of them."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from measuring import Figures, Finished, Part, Product, RunFailed, Setting, run_child
from plan import TORCH

PRODUCT_ROUNDS = 7
TOWER_ROUNDS = 2


class Torch:
    name = TORCH

    def __init__(self, python: Path, threads: int) -> None:
        self.python = python
        self.threads = threads

    def find_missing(self) -> str | None:
        if not self.python.is_file():
            return f"{self.python}: no such file; --torch-python FILE"
        try:
            run_child([str(self.python), "-c", "import torch, transformers"])
        except RunFailed as failure:
            return f"{failure}; --torch-python FILE"
        return None

    def prepare(self, work: Part, setting: Setting) -> None:
        """Nothing: its random weights are made anew in each run."""

    def run(self, work: Part, setting: Setting) -> Figures:
        if isinstance(work, Product):
            spec = {"rows": work.rows, "columns": work.columns, "features": work.features,
                    "format": setting.weights, "repeat": PRODUCT_ROUNDS}
            amount: float = work.flops
        else:
            spec = {"tower": work.shape_name, "num_frames": work.num_frames,
                    "repeat": TOWER_ROUNDS}
            amount = work.num_frames
        script = Path(__file__).with_name("torch_worker.py")
        finished = run_child([str(self.python), str(script),
                              json.dumps(spec | {"threads": self.threads})])
        seconds = json.loads(finished.stdout.splitlines()[-1])["seconds"]
        return Figures(part_rate=amount / median(seconds),
                       implementation=find_implementation(finished))


def find_implementation(finished: Finished) -> str:
    """The instructions of oneDNN's first matrix product, as "avx512_core_bf16".

    Throws RunFailed where there is none: then the rate is not oneDNN's.
    """
    for line in finished.stdout.splitlines():
        # onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,...
        fields = line.split(",")
        if fields[0] == "onednn_verbose" and "exec" in fields:
            kind, kernel = fields[fields.index("exec") + 2:][:2]
            if kind in ("matmul", "inner_product"):
                return kernel.partition(":")[2] or kernel
    raise RunFailed("PyTorch did not hand the product to oneDNN")
