#!/usr/bin/env python3
"""Runs what nvcc makes of the CUDA kernels, inline assembly included, and compares every byte of memory
with the emulator's.

    scripts/cuda/ptx_check.py --tests build/auto/tests/cuda/caption_cuda_test
    scripts/cuda/ptx_check.py --dumps FOLDER [--kernel TEXT] [--architectures 75,80,89,90] [--most N] [NAME.cu ...]

--tests runs the program, whose emulator writes launches to a folder (tests/support/cuda/launch_dump.h);
--dumps takes what is there. Each kernel's PTX is interpreted on the same parameters and memory
(ptx_machine.py). A launch with the sums of Hopper's tensor cores is run as sm_90 alone, one with those of
Ampere's as the others, and as sm_90 where its kernel has no launch of Hopper's: the interpreter sums as the
emulator did. A kernel without tensor cores, or with integers alone, is run as all. A kernel that ends in a trap on
an architecture is left out there. The PTX of sm_80 and 86 differs in its name only, and but for e4m3 so does that
of 89, which is compared where it differs.
--most takes N launches of each kernel and architecture, spread evenly from the smallest to the largest, and says
how many are left out. Needs nvcc, c++filt, python3 with numpy. Exits with 1 when a byte differs, when PTX is not understood or
when no launch of a kernel was written; with 77 when nvcc or numpy is missing.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from toolkit import KERNELS, NO_NVCC, compile_to_ptx, demangle, find_nvcc, short_name

ARCHITECTURES = "75,80,89,90"


@dataclass
class Result:
    """What was found of a kernel."""
    launches: int = 0
    found: set = field(default_factory=set)   # folders of launches
    chosen: set = field(default_factory=set)  # of these, the sample's
    bytes: int = 0
    steps: int = 0
    architectures: set = field(default_factory=set)
    traps: set = field(default_factory=set)
    wrong: list = field(default_factory=list)


def read_dumps(folder: Path) -> dict[tuple[str, str], list[Path]]:
    """Folders of launches, by source and kernel."""
    dumps: dict[tuple[str, str], list[Path]] = {}
    for file in sorted(folder.glob("*/launch.json")):
        launch = json.loads(file.read_text(encoding="utf-8"))
        dumps.setdefault((launch["source"], short_name(launch["kernel"])), []).append(file.parent)
    return dumps


def read_memory(ptx_machine, folder: Path, name: str, kernel, launch: dict):
    content = (folder / name).read_bytes()
    ranges = list(ptx_machine.module_arrays(kernel))
    at = 0
    for address, size in launch["allocations"]:
        ranges.append((address, content[at:at + size]))
        at += size
    return ptx_machine.Allocations(ranges)


def run_launch(kernel, folder: Path, launch: dict, result: Result, architecture: str) -> None:
    """Interprets a launch and adds what it finds to the result."""
    import ptx_machine
    from ptx import Unsupported
    before, after = (read_memory(ptx_machine, folder, name, kernel, launch)
                     for name in ("before", "after"))
    params = (folder / "params").read_bytes()
    of = f"sm_{architecture}, {launch['grid']} blocks of {launch['threads']} threads ({folder.name})"
    try:
        result.steps += ptx_machine.Machine(kernel, launch, params, before).run()
    except (ptx_machine.KernelFault, Unsupported) as error:
        result.wrong.append(f"{of}: {type(error).__name__}: {error}")
        return
    differing = 0
    first = ""
    for number, (address, size) in enumerate(launch["allocations"]):
        is_wrong = before.content(address) != after.content(address)
        if is_wrong.any() and not first:
            first = f"first byte {int(is_wrong.argmax())} of allocation {number}, which has {size}"
        differing += int(is_wrong.sum())
    if differing:
        result.wrong.append(f"{of}: {differing} bytes differ from the emulator's, {first}")
    result.launches += 1
    result.bytes += sum(size for _, size in launch["allocations"])
    result.architectures.add(architecture)


def launches_for(kernel, folders: list[Path], architecture: str) -> list[tuple[Path, dict]]:
    """The launches whose tensor-core arithmetic the architecture has; that of integers is every one's."""
    launches = [(folder, json.loads((folder / "launch.json").read_text(encoding="utf-8")))
                for folder in folders]
    if all(instruction.type == "s32" for instruction in kernel.code
           if instruction.name in ("mma", "wgmma")):
        return launches
    of_ampere, of_hopper = ([one for one in launches if one[1]["sums"] == sums]
                            for sums in ("ampere", "hopper"))
    return of_hopper or of_ampere if int(architecture) >= 90 else of_ampere


def choose(launches: list[tuple[Path, dict]], most: int | None) -> list[tuple[Path, dict]]:
    """`most` of the launches, evenly spread from the one with the fewest threads to the one with the most."""
    if most is None or len(launches) <= most:
        return launches
    by_threads = sorted(launches, key=lambda one: one[1]["threads"] * math.prod(one[1]["grid"]))
    return [by_threads[i * (len(by_threads) - 1) // max(most - 1, 1)] for i in range(most)]


def text_of(kernel) -> str:
    return "\n".join(instruction.text.replace(kernel.name, "") for instruction in kernel.code)


def check_file(nvcc: str, source: Path, architectures: list[str], dumps: dict,
               most: int | None) -> dict[str, Result]:
    """Compiles one file and runs its launches. Raises RuntimeError when nvcc fails."""
    from ptx import read_module
    results: dict[str, Result] = {}
    seen: set[tuple[str, Path]] = set()  # instructions and launches that were compared
    for architecture in architectures:
        with tempfile.TemporaryDirectory() as folder:
            kernels = read_module(compile_to_ptx(nvcc, source, architecture, folder))
        for mangled, (name, _) in demangle(list(kernels)).items():
            kernel = kernels[mangled]
            result = results.setdefault(name, Result())
            if kernel.has("trap"):
                result.traps.add(architecture)
                continue
            launches = launches_for(kernel, dumps.get((source.name, name), []), architecture)
            chosen = choose(launches, most)
            result.found |= {folder for folder, _ in launches}
            result.chosen |= {folder for folder, _ in chosen}
            for folder, launch in chosen:
                key = (text_of(kernel), folder)
                if key in seen:
                    result.architectures.add(architecture)
                else:
                    seen.add(key)
                    run_launch(kernel, folder, launch, result, architecture)
    return results


def print_results(source: Path, results: dict[str, Result]) -> int:
    """Prints a line per kernel and one per breach; returns the number of breaches."""
    breaches = 0
    for name, result in sorted(results.items()):
        lines = list(result.wrong)
        if not result.launches and not lines:
            lines = ["no test launches it with little memory"]
        trapped = f"; traps on sm_{', '.join(sorted(result.traps))}" if result.traps else ""
        left_out = len(result.found - result.chosen)
        sample = f" (a sample: {left_out} are left out)" if left_out else ""
        print(f"{source.name}: {name}: {result.launches} launches{sample}, {result.bytes} bytes, "
              f"{result.steps} steps, sm_{', '.join(sorted(result.architectures))}{trapped}")
        for line in lines:
            print(f"kernels/cuda/{source.name}: {name}: {line}")
        breaches += len(lines)
    sys.stdout.flush()
    return breaches


def check(nvcc: str, dumps: dict, arguments: argparse.Namespace) -> int:
    start = time.time()
    kernel = arguments.kernel
    architectures = arguments.architectures.split(",")
    sources = [source for source in sorted(KERNELS.glob("*.cu"))
               if not arguments.names or source.name in arguments.names]
    chosen = {of: folders for of, folders in dumps.items() if kernel in of[1]}
    if kernel:
        sources = [source for source in sources if any(source.name == name for name, _ in chosen)]
    breaches = total = 0
    with ThreadPoolExecutor(2) as pool:
        for source, results in zip(sources, pool.map(
                lambda source: check_file(nvcc, source, architectures, chosen, arguments.most), sources)):
            results = {name: result for name, result in results.items() if kernel in name}
            breaches += print_results(source, results)
            total += sum(result.launches for result in results.values())
    print(f"ptx_check: {len(sources)} files, {total} launches, {breaches} breaches, "
          f"{time.time() - start:.0f} s")
    return 1 if breaches or not total else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc")
    parser.add_argument("--tests")
    parser.add_argument("--dumps")
    parser.add_argument("--kernel", default="")
    parser.add_argument("--architectures", default=ARCHITECTURES)
    parser.add_argument("--most", type=int, metavar="N")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    nvcc = find_nvcc(arguments.nvcc)
    if nvcc is None:
        print(f"ptx_check: skipped: {NO_NVCC}")
        return 77
    try:
        import numpy  # noqa: F401
    except ImportError:
        print(f"ptx_check: skipped: {sys.executable} has no numpy")
        return 77
    if arguments.most is not None and arguments.most < 1:
        parser.error("--most: at least 1")
    if (arguments.tests is None) == (arguments.dumps is None):
        parser.error("one of --tests and --dumps is needed")
    if arguments.dumps:
        return check(nvcc, read_dumps(Path(arguments.dumps)), arguments)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([arguments.tests], env=os.environ | {"CAPTION_CUDA_DUMP": folder},
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"ptx_check: {arguments.tests} failed:\n{done.stdout}{done.stderr}")
            return 1
        return check(nvcc, read_dumps(Path(folder)), arguments)


if __name__ == "__main__":
    sys.exit(main())
