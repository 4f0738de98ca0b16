"""Runs that are kept in a file, so that a comparison may be made in pieces.

A line of JSON per run. A run that the file has is not made again: the file stands for one shape and
one number of threads.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from measuring import Calibration, Figures, Part, Setting, Work


@dataclass(frozen=True)
class KeptRun:
    figures: Figures
    others_share: float  # of the CPU time, taken by other processes and the host
    seconds: float
    date: str


def describe_run(work: Work | Part, contender: str, setting: Setting, round_number: int) -> str:
    prompts = f", {work.prompts.value} prompts" if isinstance(work, Work) else ""
    return f"{work.describe()}{prompts}: {contender} {setting.describe()}, run {round_number}"


class KeptRuns:
    """Without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._runs: dict[str, KeptRun] = {}
        if path is None or not path.exists():
            return
        for line in path.read_text().splitlines():
            fields = json.loads(line)
            name = fields.pop("run")
            self._runs[name] = _parse_run(fields)

    def find_or_make(self, name: str, make: Callable[[], KeptRun]) -> KeptRun:
        if name not in self._runs:
            self._runs[name] = make()
            if self._path is not None:
                with self._path.open("a") as file:
                    line = {"run": name} | asdict(self._runs[name])
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
        return self._runs[name]


def _parse_run(fields: dict) -> KeptRun:
    figures = fields.pop("figures")
    calibrations = [Calibration(**calibration) for calibration in figures.pop("calibrations")]
    return KeptRun(figures=Figures(**figures, calibrations=calibrations), **fields)
