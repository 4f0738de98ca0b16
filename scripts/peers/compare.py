#!/usr/bin/env python3
"""caption-cli beside llama.cpp and OpenVINO GenAI, on the same shapes of random weights.

Contenders run in turn, A B C A B C ..., each in a process of its own, and medians count: the host
of a virtual machine drifts by minutes, so ratios hold where rates do not. `caption-cli bench`
calibrates the machine before and after each of its runs. Nothing is downloaded; a peer that is not
there is skipped, and the report says so.

To install the peers, outside the repository:

  OpenVINO GenAI, and what makes llama.cpp's random models:
    python3 -m venv ~/peers/venv
    ~/peers/venv/bin/pip install openvino openvino-genai openvino-tokenizers gguf numpy
  what makes OpenVINO's random models, in the same place or another (--export-python):
    ~/peers/venv/bin/pip install torch 'transformers<5' optimum-intel nncf
  llama.cpp, from its repository or from the copy in the source package of llama-cpp-python
  (pip download llama-cpp-python --no-binary llama-cpp-python --no-deps, then vendor/llama.cpp):
    cmake -S llama.cpp -B ~/peers/llama -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \\
          -DBUILD_SHARED_LIBS=OFF -DLLAMA_OPENSSL=OFF
    cmake --build ~/peers/llama --target llama-batched-bench

Then, on a machine that does nothing else:
    scripts/peers/compare.py --caption-cli build/cpu/apps/caption-cli/caption-cli \\
        --peers ~/peers --json figures.json --update docs/performance.md

The standard run takes about 12 minutes on two cores, --quick 4, --full an hour and more. The first
run makes the models (3 GB for qwen3-0.6b), which takes a few minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

import report
from llama_peer import LlamaCpp
from measuring import Contender, Figures, RunFailed, Setting, Work
from neighbours import Neighbours
from openvino_peer import OpenVino
from ours import CaptionCli
from plan import CASES, LLAMA, OPENVINO, Case
from shapes import SHAPES


def main() -> int:
    arguments = parse_arguments()
    if arguments.self_check:
        import self_check
        return self_check.main()
    ours, peers = make_contenders(arguments)
    if missing := ours.find_missing():
        say(missing)
        return 2
    if arguments.update:  # a mistake is known before minutes are spent
        report.replace_figures(arguments.update.read_text(), arguments.shape, "")
    missing_peers = {name: peer.find_missing() for name, peer in peers.items()}
    for name, reason in missing_peers.items():
        if reason:
            say(f"{name} is skipped: {reason}")
    cases = [case for case in CASES if case.rounds_at(arguments.level) > 0
             and arguments.only in case.work.describe()]
    arguments.models.mkdir(parents=True, exist_ok=True)
    header = describe_run(arguments)
    neighbours = Neighbours()
    results = []
    for case in cases:
        results.append(run_case(case, case.rounds_at(arguments.level), ours, peers, missing_peers,
                                neighbours))
        header["neighbours"] = neighbours.describe()
        if arguments.json:  # after each case: an interrupted run leaves what it has
            found = report.to_json(header, results, SHAPES[arguments.shape])
            arguments.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    header["took"] = f"{(time.monotonic() - arguments.begin) / 60:.1f} minutes"
    markdown = report.to_markdown(header, results, SHAPES[arguments.shape])
    print(markdown, end="")
    if arguments.update:
        text = report.replace_figures(arguments.update.read_text(), arguments.shape, markdown)
        arguments.update.write_text(text)
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser.add_argument("--caption-cli", type=Path, metavar="FILE",
                        default=Path("build/cpu/apps/caption-cli/caption-cli"),
                        help="a release build (default: %(default)s)")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", default=Path.home() / "peers",
                        help="holds llama/ and venv/ (default: %(default)s)")
    parser.add_argument("--llama", type=Path, metavar="FOLDER",
                        help="llama.cpp's build folder (default: PEERS/llama)")
    parser.add_argument("--python", type=Path, metavar="FILE",
                        help="that has openvino-genai and gguf (default: PEERS/venv/bin/python)")
    parser.add_argument("--export-python", type=Path, metavar="FILE",
                        help="that has optimum-intel (default: as --python)")
    parser.add_argument("--models", type=Path, metavar="FOLDER",
                        default=cache / "caption-cli" / "peers",
                        help="where random models are kept (default: %(default)s)")
    parser.add_argument("--shape", choices=SHAPES, default="qwen3-0.6b")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", dest="level", action="store_const", const="quick",
                        default="standard", help="four works, once each")
    parser.add_argument("--full", dest="level", action="store_const", const="full",
                        help="all batch sizes, more rounds")
    parser.add_argument("--only", default="", metavar="TEXT",
                        help="works whose name holds this: \"prefill\", \"B=16\"")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every run, as JSON")
    parser.add_argument("--update", type=Path, metavar="FILE",
                        help="put the tables between the marks of this shape in a document")
    parser.add_argument("--self-check", action="store_true",
                        help="check how outputs are read, and measure nothing")
    arguments = parser.parse_args()
    arguments.llama = arguments.llama or arguments.peers / "llama"
    arguments.python = arguments.python or arguments.peers / "venv" / "bin" / "python"
    arguments.export_python = arguments.export_python or arguments.python
    arguments.begin = time.monotonic()
    return arguments


def make_contenders(arguments: argparse.Namespace) -> tuple[Contender, dict[str, Contender]]:
    shape, threads = arguments.shape, arguments.threads
    ours = CaptionCli(arguments.caption_cli, shape, threads)
    return ours, {
        LLAMA: LlamaCpp(arguments.llama, arguments.models, arguments.python, shape, threads),
        OPENVINO: OpenVino(arguments.python, arguments.export_python, arguments.models, shape,
                           threads)}


def run_case(case: Case, rounds: int, ours: Contender, peers: dict[str, Contender],
             missing_peers: dict[str, str | None], neighbours: Neighbours) -> report.CaseResult:
    result = report.CaseResult(case, {entry: [] for entry in case.ours}, {}, [])
    turns: list[tuple[Contender, Work, Setting, list[Figures]]] = [
        (ours, case.work, entry.setting, figures) for entry, figures in result.ours.items()]
    for peer in case.peers:
        if missing_peers[peer.name]:
            result.failures.append(f"{peer.name}: {missing_peers[peer.name]}")
            continue
        turns.append((peers[peer.name], peer.adapt(case.work), peer.setting,
                      result.peers.setdefault(peer, [])))
    turns = turns[::2] + turns[1::2]  # peers between our entries, as the machine drifts
    failed: set[int] = set()
    for round_number in range(1, rounds + 1):
        for turn, (contender, work, setting, figures) in enumerate(turns):
            if turn in failed:
                continue
            try:
                say_turn(work, contender, setting, round_number, rounds)
                contender.prepare(setting)
                with neighbours.watch():
                    figures.append(contender.run(work, setting))
            except RunFailed as failure:
                failed.add(turn)
                what = f"{work.describe()}, {contender.name} {setting.describe()}: {failure}"
                say(what)
                result.failures.append(what)
    return result


def say_turn(work: Work, contender: Contender, setting: Setting, round_number: int,
             rounds: int) -> None:
    say(f"{time.strftime('%H:%M:%S')} {work.describe()}: {contender.name} {setting.describe()}, "
        f"run {round_number} of {rounds}")


def say(text: str) -> None:
    print(f"compare: {text}", file=sys.stderr, flush=True)


def describe_run(arguments: argparse.Namespace) -> dict[str, str]:
    return {"date": time.strftime("%Y-%m-%d %H:%M"), "machine": describe_cpu(),
            "model": f"{arguments.shape}, random weights; {arguments.threads} threads"}


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
