"""OpenVINO GenAI's continuous batching as a contender, in a Python that has its packages."""

from __future__ import annotations

import json
from pathlib import Path

from measuring import Figures, Setting, Work, WorkKind, run_child

# Without AVX-512 OpenVINO computes in f32 and refuses keys and values in bf16.
HAS_BF16 = "avx512f" in Path("/proc/cpuinfo").read_text()
KV_PRECISIONS = {"16-bit": "bf16" if HAS_BF16 else "f16", "int8": "u8"}
# Of a step while memory is measured: what caption-cli has by default.
MEMORY_STEP_TOKENS = 1024


class OpenVino:
    name = "OpenVINO GenAI"

    def __init__(self, python: Path, export_python: Path, models: Path, shape_name: str,
                 threads: int) -> None:
        self.python = python
        self.export_python = export_python
        self.models = models
        self.shape_name = shape_name
        self.threads = threads

    def find_missing(self) -> str | None:
        if not self.python.is_file():
            return f"{self.python}: no such file; --python FILE"
        return None

    def prepare(self, work: Work, setting: Setting) -> None:
        folder = self._model(setting)
        if folder.exists():
            return
        script = Path(__file__).with_name("openvino_export.py")
        run_child([str(self.export_python), str(script), self.shape_name, setting.weights,
                   str(folder)])

    def run(self, work: Work, setting: Setting) -> Figures:
        figures = Figures()
        if work.prompts.has_distinct:
            report = self._work_through(work, setting, shares_prefix=False)
            if work.kind is WorkKind.MEMORY:
                figures.peak_bytes = report["peak_bytes"]
            elif work.kind is WorkKind.PREFILL:
                figures.prefill = work.context_tokens / report["steps_s"][0]
            else:
                figures.decode = _decode_rate(report, work)
        if work.prompts.has_shared:
            report = self._work_through(work, setting, shares_prefix=True)
            figures.shared_decode = _decode_rate(report, work)
        return figures

    def _model(self, setting: Setting) -> Path:
        return self.models / f"{self.shape_name}-openvino-{setting.weights}"

    def _work_through(self, work: Work, setting: Setting, shares_prefix: bool) -> dict:
        num_outputs = {WorkKind.PREFILL: 1, WorkKind.MEMORY: 2}.get(work.kind,
                                                                    work.decode_steps + 1)
        # All prompts in one step, so that all sequences decode from the next step on.
        step_tokens = work.num_seqs * (work.context_tokens + 1)
        if work.kind is WorkKind.MEMORY:
            step_tokens = min(step_tokens, MEMORY_STEP_TOKENS)
        spec = {"model": str(self._model(setting)), "threads": self.threads,
                "kv_precision": KV_PRECISIONS[work.kv], "num_seqs": work.num_seqs,
                "context_tokens": work.context_tokens, "output_tokens": num_outputs,
                "shares_prefix": shares_prefix, "step_tokens": step_tokens}
        script = Path(__file__).with_name("openvino_worker.py")
        finished = run_child([str(self.python), str(script), json.dumps(spec)])
        return json.loads(finished.stdout.splitlines()[-1]) | {"peak_bytes": finished.peak_bytes}


def _decode_rate(report: dict, work: Work) -> float:
    """All prompts end in one step, so the last steps are those of decoding."""
    return work.num_seqs * work.decode_steps / sum(report["steps_s"][-work.decode_steps:])
