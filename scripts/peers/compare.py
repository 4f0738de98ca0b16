#!/usr/bin/env python3
"""caption-cli beside its peers, on the same shapes of random weights.

Beside llama.cpp, ik_llama.cpp and OpenVINO GenAI as a language model, beside oneDNN (in PyTorch) in
matrix products alone, and beside PyTorch and OpenVINO in a vision tower.

Contenders run in turn, A B C A B C ..., each in a process of its own, and medians count: the host
of a virtual machine drifts by minutes, so ratios hold where rates do not. caption-cli calibrates
the machine before and after each of its runs. Nothing is downloaded; a peer that is not there is
skipped, and the report says so.

To install the peers, outside the repository:

  OpenVINO GenAI, and what makes llama.cpp's random models:
    python3 -m venv ~/peers/venv
    ~/peers/venv/bin/pip install openvino openvino-genai openvino-tokenizers gguf numpy
  PyTorch, and what makes OpenVINO's random models, in the same place or another (--export-python,
  --torch-python):
    ~/peers/venv/bin/pip install torch 'transformers<5' optimum-intel nncf
  llama.cpp, from its repository or from the copy in the source package of llama-cpp-python
  (pip download llama-cpp-python --no-binary llama-cpp-python --no-deps, then vendor/llama.cpp):
    cmake -S llama.cpp -B ~/peers/llama -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \\
          -DBUILD_SHARED_LIBS=OFF -DLLAMA_OPENSSL=OFF
    cmake --build ~/peers/llama --target llama-batched-bench
  ik_llama.cpp, from its repository; it reads the models made for llama.cpp:
    cmake -S ik_llama.cpp -B ~/peers/ik -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \\
          -DBUILD_SHARED_LIBS=OFF -DGGML_IQK_FA_ALL_QUANTS=OFF
    cmake --build ~/peers/ik --target llama-batched-bench

Then, on a machine that does nothing else:
    scripts/peers/compare.py --caption-cli build/cpu/apps/caption-cli/caption-cli \\
        --kernels-bench build/cpu/tests/kernels/kernels_bench \\
        --peers ~/peers --json figures.json --update docs/performance.md

The standard run takes about 16 minutes on two cores, --quick 4, --full an hour and more. The first
run makes the models (4 GB with qwen3-0.6b), which takes some minutes. With --runs FILE it can be made
in pieces, or go on where it was stopped: runs that are in the file are not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import part_report
import report
from comparison import CaseResult, all_calibrations, replace_figures
from kept_runs import KeptRun, KeptRuns, describe_run
from llama_peer import IK_PROGRAM, LLAMA_PROGRAM, LlamaCpp
from measuring import Contender, Figures, Part, Product, RunFailed, Setting, Tower, Work
from neighbours import describe_shares, watch_others
from openvino_peer import OpenVino
from openvino_tower_peer import OpenVinoTower
from our_parts import OurProduct, OurTower
from ours import CaptionCli
from plan import CASES, IK, LLAMA, OPENVINO, OPENVINO_TOWER, PART_CASES, TORCH, Case
from shapes import SHAPES
from torch_peer import Torch


@dataclass
class Section:
    """Cases that go into one place of the document."""

    mark: str
    cases: list[Case]
    to_markdown: Callable[[dict[str, str], list[CaseResult]], str]
    header: dict[str, str]
    results: list[CaseResult] = field(default_factory=list)
    runs: list[KeptRun] = field(default_factory=list)

    def describe_runs(self) -> None:
        """In the header."""
        dates = sorted(run.date for run in self.runs)
        if dates:
            self.header["date"] = " to ".join(dict.fromkeys((dates[0], dates[-1])))
        self.header["neighbours"] = describe_shares([run.others_share for run in self.runs])
        self.header["took"] = f"{sum(run.seconds for run in self.runs) / 60:.1f} minutes"


def main() -> int:
    arguments = parse_arguments()
    if arguments.self_check:
        import self_check
        return self_check.main()
    sections = [section for section in make_sections(arguments) if section.cases]
    if arguments.update:  # a mistake is known before minutes are spent
        for section in sections:
            replace_figures(arguments.update.read_text(), section.mark, "")
    contenders = Contenders(arguments)
    if missing := contenders.ours[Work].find_missing():
        say(missing)
        return 2
    arguments.models.mkdir(parents=True, exist_ok=True)
    kept = KeptRuns(arguments.runs)
    for section in sections:
        for case in section.cases:
            result, runs = run_case(case, case.rounds_at(arguments.level), contenders, kept)
            section.results.append(result)
            section.runs += runs
            section.describe_runs()
            if arguments.json:  # after each case: an interrupted run leaves what it has
                write_json(arguments, sections)
        markdown = section.to_markdown(section.header, section.results)
        print(markdown, flush=True)
        if arguments.update:
            text = replace_figures(arguments.update.read_text(), section.mark, markdown)
            arguments.update.write_text(text)
    return 0


def make_sections(arguments: argparse.Namespace) -> list[Section]:
    def pick(cases: tuple[Case, ...]) -> list[Case]:
        return [case for case in cases if case.rounds_at(arguments.level) > 0
                and any(text in case.work.describe() for text in arguments.only or [""])]

    shape = SHAPES[arguments.shape]
    run = {"date": time.strftime("%Y-%m-%d %H:%M"), "machine": describe_cpu()}
    threads = f"{arguments.threads} threads"
    return [Section(arguments.shape, pick(CASES),
                    lambda header, results: report.to_markdown(header, results, shape),
                    run | {"model": f"{arguments.shape}, random weights; {threads}"}),
            Section(part_report.MARK, pick(PART_CASES), part_report.to_markdown,
                    run | {"weights": f"random; {threads}"})]


def write_json(arguments: argparse.Namespace, sections: list[Section]) -> None:
    found = {section.mark: {
        "header": section.header,
        "rows": [asdict(row) for result in section.results
                 for row in (report.make_rows(result, SHAPES[arguments.shape])
                             if isinstance(result.case.work, Work)
                             else part_report.make_rows(result))],
        "calibrations": [asdict(c) for c in all_calibrations(section.results)],
        "not_measured": [failure for result in section.results for failure in result.failures]}
        for section in sections}
    arguments.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser.add_argument("--caption-cli", type=Path, metavar="FILE",
                        default=Path("build/cpu/apps/caption-cli/caption-cli"),
                        help="a release build (default: %(default)s)")
    parser.add_argument("--kernels-bench", type=Path, metavar="FILE",
                        help="for matrix products (default: beside --caption-cli in its build)")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", default=Path.home() / "peers",
                        help="holds llama/, ik/ and venv/ (default: %(default)s)")
    parser.add_argument("--llama", type=Path, metavar="FOLDER",
                        help="llama.cpp's build folder (default: PEERS/llama)")
    parser.add_argument("--ik", type=Path, metavar="FOLDER",
                        help="ik_llama.cpp's build folder (default: PEERS/ik)")
    parser.add_argument("--python", type=Path, metavar="FILE",
                        help="that has openvino-genai and gguf (default: PEERS/venv/bin/python)")
    parser.add_argument("--export-python", type=Path, metavar="FILE",
                        help="that has optimum-intel (default: as --python)")
    parser.add_argument("--torch-python", type=Path, metavar="FILE",
                        help="that has torch and transformers (default: as --export-python)")
    parser.add_argument("--models", type=Path, metavar="FOLDER",
                        default=cache / "caption-cli" / "peers",
                        help="where random models are kept (default: %(default)s)")
    parser.add_argument("--shape", choices=SHAPES, default="qwen3-0.6b")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", dest="level", action="store_const", const="quick",
                        default="standard", help="four works, once each")
    parser.add_argument("--full", dest="level", action="store_const", const="full",
                        help="all batch sizes, more rounds")
    parser.add_argument("--only", action="append", metavar="TEXT",
                        help="works whose name holds this: \"prefill\", \"B=16\", \"gemm\", "
                             "\"vision\"; may be repeated")
    parser.add_argument("--runs", type=Path, metavar="FILE",
                        help="keep each run here, and make none again that is here, to compare in "
                             "pieces")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every run, as JSON")
    parser.add_argument("--update", type=Path, metavar="FILE",
                        help="put the tables between the marks of this shape in a document")
    parser.add_argument("--self-check", action="store_true",
                        help="check how outputs are read, and measure nothing")
    arguments = parser.parse_args()
    arguments.kernels_bench = arguments.kernels_bench or (
        arguments.caption_cli.absolute().parents[2] / "tests" / "kernels" / "kernels_bench")
    arguments.ik = arguments.ik or arguments.peers / "ik"
    arguments.llama = arguments.llama or arguments.peers / "llama"
    arguments.python = arguments.python or arguments.peers / "venv" / "bin" / "python"
    arguments.export_python = arguments.export_python or arguments.python
    arguments.torch_python = arguments.torch_python or arguments.export_python
    return arguments


class Contenders:
    """Who takes part: ours by the kind of work, peers by name; who is missing and why."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        shape, threads, models = arguments.shape, arguments.threads, arguments.models
        self.ours: dict[type[Work | Part], Contender] = {
            Work: CaptionCli(arguments.caption_cli, shape, threads),
            Tower: OurTower(arguments.caption_cli, threads),
            Product: OurProduct(arguments.kernels_bench, threads)}
        self.peers: dict[str, Contender] = {
            LLAMA: LlamaCpp(LLAMA_PROGRAM, arguments.llama, models, arguments.python, shape,
                            threads),
            IK: LlamaCpp(IK_PROGRAM, arguments.ik, models, arguments.python, shape, threads),
            OPENVINO: OpenVino(arguments.python, arguments.export_python, models, shape, threads),
            OPENVINO_TOWER: OpenVinoTower(arguments.python, arguments.export_python, models,
                                          threads),
            TORCH: Torch(arguments.torch_python, threads)}
        self._missing: dict[str, str | None] = {}

    def find_missing(self, peer: str) -> str | None:
        if peer not in self._missing:
            self._missing[peer] = self.peers[peer].find_missing()
            if self._missing[peer]:
                say(f"{peer} is skipped: {self._missing[peer]}")
        return self._missing[peer]


def run_case(case: Case, rounds: int, contenders: Contenders,
             kept: KeptRuns) -> tuple[CaseResult, list[KeptRun]]:
    result = CaseResult(case, {entry: [] for entry in case.ours}, {}, [])
    runs: list[KeptRun] = []
    ours = contenders.ours[type(case.work)]
    if missing := ours.find_missing():
        result.failures.append(f"{case.work.describe()}: {missing}")
        return result, runs
    turns: list[tuple[Contender, Work | Part, Setting, list[Figures]]] = [
        (ours, case.work, entry.setting, figures) for entry, figures in result.ours.items()]
    for peer in case.peers:
        if missing := contenders.find_missing(peer.name):
            result.failures.append(f"{peer.name}: {missing}")
            continue
        turns.append((contenders.peers[peer.name], peer.adapt(case.work), peer.setting,
                      result.peers.setdefault(peer, [])))
    turns = turns[::2] + turns[1::2]  # peers between our entries, as the machine drifts
    failed: set[int] = set()
    for round_number in range(1, rounds + 1):
        for turn, (contender, work, setting, figures) in enumerate(turns):
            if turn in failed:
                continue
            name = describe_run(work, contender.name, setting, round_number)
            try:
                runs.append(kept.find_or_make(
                    name, lambda: make_run(f"{name} of {rounds}", contender, work, setting)))
                figures.append(runs[-1].figures)
            except RunFailed as failure:
                failed.add(turn)
                what = f"{work.describe()}, {contender.name} {setting.describe()}: {failure}"
                say(what)
                result.failures.append(what)
    return result, runs


def make_run(name: str, contender: Contender, work: Work | Part, setting: Setting) -> KeptRun:
    say(f"{time.strftime('%H:%M:%S')} {name}")
    contender.prepare(work, setting)
    begin = time.monotonic()
    date = time.strftime("%Y-%m-%d %H:%M")
    with watch_others() as others:
        figures = contender.run(work, setting)
    return KeptRun(figures, others.share, time.monotonic() - begin, date)


def say(text: str) -> None:
    print(f"compare: {text}", file=sys.stderr, flush=True)


def describe_cpu() -> str:
    name = platform.machine()
    flags: list[str] = []
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            name = value.strip()
        if key.strip() == "flags":
            flags = value.split()
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
    return f"{name}, {', '.join(flag for flag in wanted if flag in flags)}"


if __name__ == "__main__":
    sys.exit(main())
