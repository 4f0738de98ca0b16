"""llama.cpp as a contender, through its own llama-batched-bench.

T_PP is the time of a prompt up to its logits, T_TG that of decode steps with one token of each
sequence. Contexts are computed once and copied to the other sequences (-pps): with a KV stream per
sequence each then reads a copy of its own, as distinct prompts would; with one unified buffer
(-kvu) they share it. llama.cpp's figure for a shared prompt is the better of the two.
"""

from __future__ import annotations

import json
from pathlib import Path

from measuring import Figures, Finished, RunFailed, Setting, Work, WorkKind, run_child

KV_TYPES = {"16-bit": "f16", "int8": "q8_0"}
# Cells of a stream come in blocks of 256.
STREAM_ALIGNMENT = 256


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, folder: Path, models: Path, python: Path, shape_name: str,
                 threads: int) -> None:
        self.binary = folder / "bin" / "llama-batched-bench"
        self.models = models
        self.python = python
        self.shape_name = shape_name
        self.threads = threads

    def find_missing(self) -> str | None:
        return None if self.binary.is_file() else f"{self.binary}: no such file; --llama FOLDER"

    def prepare(self, setting: Setting) -> None:
        path = self._model(setting)
        if path.exists():
            return
        script = Path(__file__).with_name("random_gguf.py")
        part = path.with_suffix(".part")
        run_child([str(self.python), str(script), self.shape_name, setting.weights, str(part)])
        part.rename(path)

    def run(self, work: Work, setting: Setting) -> Figures:
        if work.kind is WorkKind.PREFILL:
            finished = self._bench(work, setting, decode_steps=1)
            return Figures(prefill=parse_rows(finished.stdout)[0]["speed_pp"])
        if work.kind is WorkKind.MEMORY:
            finished = self._bench(work, setting, 1, "-no-kvu")
            return Figures(peak_bytes=finished.peak_bytes)
        streams = self._bench(work, setting, work.decode_steps, "-no-kvu")
        figures = Figures(decode=parse_rows(streams.stdout)[0]["speed_tg"])
        if work.prompts.has_shared:
            unified = self._bench(work, setting, work.decode_steps, "-kvu")
            figures.shared_decode = max(figures.decode,
                                        parse_rows(unified.stdout)[0]["speed_tg"])
        return figures

    def _model(self, setting: Setting) -> Path:
        return self.models / f"{self.shape_name}-{setting.weights}.gguf"

    def _bench(self, work: Work, setting: Setting, decode_steps: int,
               *sharing: str) -> Finished:
        stream_tokens = work.context_tokens + decode_steps + 1
        stream_tokens += -stream_tokens % STREAM_ALIGNMENT
        kv_type = KV_TYPES[work.kv]
        return run_child(
            [str(self.binary), "-m", str(self._model(setting)), "--output-format", "jsonl",
             "-t", str(self.threads), "-c", str(work.num_seqs * stream_tokens),
             "-ctk", kv_type, "-ctv", kv_type, "-npp", str(work.context_tokens),
             "-ntg", str(decode_steps), "-npl", str(work.num_seqs), "-pps", *sharing,
             *setting.flags])


def parse_rows(stdout: str) -> list[dict]:
    """The JSON lines of llama-batched-bench; other lines are passed over."""
    rows = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
    if not rows:
        raise RunFailed("llama-batched-bench printed no row: does the context fit?")
    return rows
