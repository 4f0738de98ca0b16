"""Single parts of caption-cli as contenders: `bench` of a vision tower, kernels_bench's products.

A product takes activations in f32 and rounds them itself, to bf16 or to 8 bits with a scale per
row, and its result is f32.
"""

from __future__ import annotations

import json
from pathlib import Path

from measuring import Figures, Product, Setting, Tower, run_child
from ours import CaptionCli, parse_calibrations


class OurTower:
    name = CaptionCli.name

    def __init__(self, binary: Path, threads: int) -> None:
        self.binary = binary
        self.threads = threads

    def find_missing(self) -> str | None:
        return None if self.binary.is_file() else f"{self.binary}: no such file; --caption-cli FILE"

    def prepare(self, work: Tower, setting: Setting) -> None:
        """Nothing: its random weights are made anew in each run."""

    def run(self, work: Tower, setting: Setting) -> Figures:
        report = json.loads(run_child(
            [str(self.binary), "bench", "--shape", work.shape_name, "--dtype", setting.weights,
             "--threads", str(self.threads), "--json", "-"]).stdout)
        assert report["frames"] == work.num_frames, "bench encodes so many frames at a time"
        return Figures(part_rate=report["frames_per_s"],
                       flops_per_frame=report["flops_per_frame"],
                       calibrations=parse_calibrations(report))


class OurProduct:
    name = CaptionCli.name

    def __init__(self, binary: Path, threads: int) -> None:
        self.binary = binary
        self.threads = threads

    def find_missing(self) -> str | None:
        if self.binary.is_file():
            return None
        return f"{self.binary}: no such file; --kernels-bench FILE"

    def prepare(self, work: Product, setting: Setting) -> None:
        """Nothing: its weights are made anew in each run."""

    def run(self, work: Product, setting: Setting) -> Figures:
        report = json.loads(run_child(
            [str(self.binary), str(self.threads), "linear", setting.weights,
             *(str(size) for size in (work.rows, work.columns, work.features))]).stdout)
        return Figures(part_rate=report["operations"][0]["flops_per_s"],
                       calibrations=parse_calibrations(report))
