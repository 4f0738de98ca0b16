"""What is measured, of whom, and how a child process is run for it."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

CHILD_TIMEOUT_S = 900


class WorkKind(Enum):
    PREFILL = "prefill"  # one prompt, up to its first token
    DECODE = "decode"  # steps that give one token to each sequence
    MEMORY = "memory"  # the most that prefill and a few steps hold


class Prompts(Enum):
    """Of the sequences of a DECODE work."""

    DISTINCT = "distinct"
    SHARED = "shared"  # all but the last tokens are the same
    BOTH = "both"  # each measured by itself

    @property
    def has_distinct(self) -> bool:
        return self is not Prompts.SHARED

    @property
    def has_shared(self) -> bool:
        return self is not Prompts.DISTINCT


@dataclass(frozen=True)
class Work:
    kind: WorkKind
    context_tokens: int  # of each prompt
    num_seqs: int = 1
    kv: str = "16-bit"  # or "int8"
    decode_steps: int = 24
    prompts: Prompts = Prompts.DISTINCT

    def describe(self) -> str:
        if self.kind is WorkKind.PREFILL:
            return f"prefill {self.context_tokens}"
        what = "decode" if self.kind is WorkKind.DECODE else "peak memory"
        return f"{what} B={self.num_seqs}, {self.context_tokens} context, {self.kv} KV"


@dataclass(frozen=True)
class Product:
    """y[rows, features] = x[rows, columns] weight[features, columns]^T, by itself."""

    rows: int
    columns: int
    features: int

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.columns * self.features

    def describe(self) -> str:
        return f"gemm M={self.rows}, K={self.columns}, N={self.features}"


@dataclass(frozen=True)
class Tower:
    """Pixels to hidden states of a vision tower."""

    shape_name: str
    num_frames: int = 2  # encoded together

    def describe(self) -> str:
        return f"vision {self.shape_name}"


Part = Product | Tower


@dataclass(frozen=True)
class Setting:
    """How a contender holds weights, and flags of its own."""

    weights: str  # in the contender's own words
    weight_bits: int
    flags: tuple[str, ...] = ()

    def describe(self) -> str:
        return " ".join((self.weights, *self.flags))


@dataclass(frozen=True)
class Calibration:
    """Rates of the machine, as `caption-cli bench` finds them around a run."""

    read_bytes_per_s: float
    flops_per_s: float
    arithmetic: str


@dataclass
class Figures:
    """Of one run. Rates in tokens per second unless said; 0 where the work does not say."""

    prefill: float = 0
    decode: float = 0
    shared_decode: float = 0
    peak_bytes: int = 0
    needed_bytes: int = 0  # of peak_bytes: weights, and the KV pages in use
    part_rate: float = 0  # FLOP/s of a product, frames/s of a tower
    flops_per_frame: float = 0
    implementation: str = ""  # that the contender chose for itself, where it says
    calibrations: list[Calibration] = field(default_factory=list)


class RunFailed(Exception):
    """A contender cannot do a work; the text says why."""


class Contender(Protocol):
    name: str

    def find_missing(self) -> str | None:
        """What has to be installed first, or None."""

    def prepare(self, work: Any, setting: Setting) -> None:
        """Makes the model's files where there are none yet."""

    def run(self, work: Any, setting: Setting) -> Figures:
        """`work` is of the kind that the contender is for: Work, Product or Tower."""
        ...


@dataclass(frozen=True)
class Finished:
    stdout: str
    stderr: str
    peak_bytes: int  # ru_maxrss


def run_child(command: list[str], timeout_s: float = CHILD_TIMEOUT_S,
              folder: Path | None = None) -> Finished:
    """In `folder`, or where this runs. Throws RunFailed with the last line of stderr."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   cwd=folder)
        timer = threading.Timer(timeout_s, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        errors = err.read()
        if process.returncode != 0:
            lines = [line.strip() for line in errors.splitlines() if line.strip()]
            reason = lines[-1] if lines else "no message"
            raise RunFailed(f"{command[0]} ended with {process.returncode}: {reason}")
        return Finished(stdout=out.read(), stderr=errors, peak_bytes=usage.ru_maxrss * 1024)
