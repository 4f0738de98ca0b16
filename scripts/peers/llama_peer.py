"""llama.cpp, and ik_llama.cpp after it, as contenders, through their own llama-batched-bench.

T_PP is the time of a prompt up to its logits, T_TG that of decode steps with one token of each
sequence. llama.cpp computes a context once and copies it to the other sequences (-pps): with a KV
stream per sequence each then reads a copy of its own, as distinct prompts would; with one unified
buffer (-kvu) they share it, and its figure for a shared prompt is the better of the two.
ik_llama.cpp has the unified buffer only.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measuring import Figures, Finished, RunFailed, Setting, Work, WorkKind, run_child
from plan import IK, LLAMA

KV_TYPES = {"16-bit": "f16", "int8": "q8_0"}
# Cells of a stream come in blocks of 256.
STREAM_ALIGNMENT = 256


@dataclass(frozen=True)
class Rates:
    """Tokens per second."""

    prefill: float
    decode: float


@dataclass(frozen=True)
class Program:
    """What differs between the programs of this name."""

    name: str  # of the contender
    folder_flag: str
    output_flags: tuple[str, ...]
    distinct: tuple[str, ...]  # flags: each sequence has a context of its own
    shared: tuple[tuple[str, ...], ...]  # ways to have one context for all; the best counts
    parse: Callable[[Finished], Rates]


def parse_json_rows(finished: Finished) -> Rates:
    """The first JSON line of llama.cpp's; other lines are passed over."""
    for line in finished.stdout.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            return Rates(row["speed_pp"], row["speed_tg"])
    raise RunFailed("llama-batched-bench printed no row: does the context fit?")


def parse_table(finished: Finished) -> Rates:
    """The first row of ik_llama.cpp's table."""
    names: list[str] = []
    for line in (finished.stdout + finished.stderr).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "S_PP t/s" in cells:
            names = cells
        elif names and len(cells) == len(names) and cells[0].isdigit():
            row = dict(zip(names, cells))
            return Rates(float(row["S_PP t/s"]), float(row["S_TG t/s"]))
    raise RunFailed("llama-batched-bench printed no row: does the context fit?")


COPIED_STREAMS = ("-pps", "-no-kvu")
LLAMA_PROGRAM = Program(LLAMA, "--llama", ("--output-format", "jsonl"), distinct=COPIED_STREAMS,
                        shared=(COPIED_STREAMS, ("-pps", "-kvu")), parse=parse_json_rows)
IK_PROGRAM = Program(IK, "--ik", (), distinct=(), shared=(("-pps",),), parse=parse_table)


class LlamaCpp:
    def __init__(self, program: Program, folder: Path, models: Path, python: Path,
                 shape_name: str, threads: int) -> None:
        self.name = program.name
        self.program = program
        self.binary = folder.absolute() / "bin" / "llama-batched-bench"
        self.models = models.absolute()
        self.python = python
        self.shape_name = shape_name
        self.threads = threads

    def find_missing(self) -> str | None:
        if self.binary.is_file():
            return None
        return f"{self.binary}: no such file; {self.program.folder_flag} FOLDER"

    def prepare(self, work: Work, setting: Setting) -> None:
        path = self._model(setting)
        if path.exists():
            return
        script = Path(__file__).with_name("random_gguf.py")
        part = path.with_suffix(".part")
        run_child([str(self.python), str(script), self.shape_name, setting.weights, str(part)])
        part.rename(path)

    def run(self, work: Work, setting: Setting) -> Figures:
        distinct = self.program.distinct
        if work.kind is WorkKind.PREFILL:
            finished = self._bench(work, setting, 1, distinct)
            return Figures(prefill=self.program.parse(finished).prefill)
        if work.kind is WorkKind.MEMORY:
            return Figures(peak_bytes=self._bench(work, setting, 1, distinct).peak_bytes)
        ways = (distinct,) if work.prompts.has_distinct else ()
        shared = self.program.shared if work.prompts.has_shared else ()
        rates = {way: self.program.parse(self._bench(work, setting, work.decode_steps, way)).decode
                 for way in dict.fromkeys(ways + shared)}
        return Figures(decode=max((rates[way] for way in ways), default=0),
                       shared_decode=max((rates[way] for way in shared), default=0))

    def _model(self, setting: Setting) -> Path:
        return self.models / f"{self.shape_name}-{setting.weights}.gguf"

    def _bench(self, work: Work, setting: Setting, decode_steps: int,
               sharing: tuple[str, ...]) -> Finished:
        stream_tokens = work.context_tokens + decode_steps + 1
        stream_tokens += -stream_tokens % STREAM_ALIGNMENT
        kv_type = KV_TYPES[work.kv]
        command = [str(self.binary), "-m", str(self._model(setting)),
                   "-t", str(self.threads), "-c", str(work.num_seqs * stream_tokens),
                   "-ctk", kv_type, "-ctv", kv_type, "-npp", str(work.context_tokens),
                   "-ntg", str(decode_steps), "-npl", str(work.num_seqs), *sharing,
                   *self.program.output_flags, *setting.flags]
        with tempfile.TemporaryDirectory() as folder:  # for the log files that ik_llama.cpp writes
            return run_child(command, folder=Path(folder))
