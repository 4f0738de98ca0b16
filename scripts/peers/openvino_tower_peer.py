"""OpenVINO's CPU plugin as a contender for vision towers."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from measuring import Figures, Setting, Tower, run_child
from plan import OPENVINO_TOWER
from shapes import TOWERS

ROUNDS = 2


class OpenVinoTower:
    name = OPENVINO_TOWER

    def __init__(self, python: Path, export_python: Path, models: Path,
                 threads: int) -> None:
        self.python = python
        self.export_python = export_python
        self.models = models
        self.threads = threads

    def find_missing(self) -> str | None:
        if not self.python.is_file():
            return f"{self.python}: no such file; --python FILE"
        return None

    def prepare(self, work: Tower, setting: Setting) -> None:
        folder = self._model(work, setting)
        if folder.exists():
            return
        script = Path(__file__).with_name("openvino_tower_export.py")
        run_child([str(self.export_python), str(script), work.shape_name, setting.weights,
                   str(folder)])

    def run(self, work: Tower, setting: Setting) -> Figures:
        spec = {"model": str(self._model(work, setting)), "threads": self.threads,
                "num_frames": work.num_frames, "image_px": TOWERS[work.shape_name].image_px,
                "repeat": ROUNDS}
        script = Path(__file__).with_name("openvino_tower_worker.py")
        finished = run_child([str(self.python), str(script), json.dumps(spec)])
        seconds = json.loads(finished.stdout.splitlines()[-1])["seconds"]
        return Figures(part_rate=work.num_frames / median(seconds))

    def _model(self, work: Tower, setting: Setting) -> Path:
        return self.models / f"{work.shape_name}-openvino-{setting.weights}"
