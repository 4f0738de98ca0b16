#!/usr/bin/env python3
"""Runs what nvcc makes of the CUDA kernels, inline assembly included, and compares every byte of memory
with the emulator's.

    scripts/cuda/ptx_check.py --tests build/auto/tests/cuda/caption_cuda_test
    scripts/cuda/ptx_check.py --dumps FOLDER [--kernel TEXT] [--architectures 75,80,89,90] [--most N] [NAME.cu ...]
    scripts/cuda/ptx_check.py --dumps FOLDER --sample
    scripts/cuda/ptx_check.py (--tests PROGRAM | --dumps FOLDER) --record [--most N] [NAME.cu ...]
    scripts/cuda/ptx_check.py --recorded

--tests runs the program, whose emulator writes launches to a folder (tests/support/cuda/launch_dump.h);
--dumps takes what is there. Each kernel's PTX is interpreted on the same parameters and memory
(ptx_machine.py). A launch with the sums of Hopper's tensor cores is run as sm_90 alone, one with those of
Ampere's as the others, and as sm_90 where its kernel has no launch of Hopper's: the interpreter sums as the
emulator did. A kernel without tensor cores, or with integers alone, is run as all. A kernel that ends in a trap on
an architecture is left out there. The PTX of sm_80 and 86 differs in its name only, and but for e4m3 so does that
of 89, which is compared where it differs.
--most takes N launches of each kernel and architecture, spread evenly from the smallest to the largest, and says
how many are left out. --sample takes one launch of each kernel on one architecture: on sm_90, or on sm_75 or
sm_89 where its code for sm_90 is a trap; it compiles several sources at once.
--record writes what was compared of each file to kernels/cuda/ptx_checked.json, with a hash of its sources and of
what stands for the instructions on the emulator and here; of files without a breach alone. --recorded needs nothing:
it fails unless that record has every file as it is, with all architectures.
Otherwise needs nvcc, c++filt, python3 with numpy; where the first python3 has none, the distribution's runs this. Exits with 1
when a byte differs, when PTX is not understood or when no launch of a kernel was written; with 77 when nvcc or numpy
is missing.
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

import ptx_record
from toolkit import (KERNELS, NO_NVCC, batches_of, compile_batch_to_ptx, demangle, find_nvcc,
                     short_name)

ARCHITECTURES = "75,80,89,90"
SAMPLED_ARCHITECTURES = "90,75,89"
SYSTEM_PYTHON = "/usr/bin/python3"


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
    by_work = sorted(launches, key=lambda one: (one[1]["threads"] * math.prod(one[1]["grid"]),
                                                sum(size for _, size in one[1]["allocations"])))
    return [by_work[i * (len(by_work) - 1) // max(most - 1, 1)] for i in range(most)]


def text_of(kernel) -> str:
    return "\n".join(instruction.text.replace(kernel.name, "") for instruction in kernel.code)


def check_sources(nvcc: str, sources: list[Path], dumps: dict,
                  arguments: argparse.Namespace) -> dict[tuple[str, str], Result]:
    """Compiles files together and runs the launches of their kernels; returns what is found by source and
    kernel. Raises RuntimeError when nvcc fails."""
    from ptx import read_module
    results: dict[tuple[str, str], Result] = {}
    seen: set[tuple[str, Path]] = set()  # instructions and launches that were compared
    source_of = {name: source.name for source in sources for of, name in dumps if of == source.name}
    for architecture in arguments.architectures.split(","):
        if arguments.sample and results and all(one.launches or one.wrong for one in results.values()):
            break
        with tempfile.TemporaryDirectory() as folder:
            kernels = read_module(compile_batch_to_ptx(nvcc, sources, architecture, folder))
        for mangled, (name, _) in demangle(list(kernels)).items():
            kernel = kernels[mangled]
            of = source_of.get(name, ", ".join(source.name for source in sources))
            result = results.setdefault((of, name), Result())
            if kernel.has("trap"):
                result.traps.add(architecture)
            elif arguments.kernel in name and not (arguments.sample and result.launches):
                launches = launches_for(kernel, dumps.get((of, name), []), architecture)
                run_launches(kernel, launches, result, architecture, arguments.most, seen)
    return {of: result for of, result in results.items() if arguments.kernel in of[1]}


def run_launches(kernel, launches: list[tuple[Path, dict]], result: Result, architecture: str,
                 most: int | None, seen: set) -> None:
    """Runs `most` of the launches on an architecture, but for those that had the same instructions."""
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


def print_results(results: dict[tuple[str, str], Result]) -> int:
    """Prints a line per kernel and one per breach; returns the number of breaches."""
    breaches = 0
    for (source, name), result in sorted(results.items()):
        lines = list(result.wrong)
        if not result.launches and not lines:
            lines = ["no test launches it with little memory"]
        trapped = f"; traps on sm_{', '.join(sorted(result.traps))}" if result.traps else ""
        left_out = len(result.found - result.chosen)
        sample = f" (a sample: {left_out} are left out)" if left_out else ""
        print(f"{source}: {name}: {result.launches} launches{sample}, {result.bytes} bytes, "
              f"{result.steps} steps, sm_{', '.join(sorted(result.architectures))}{trapped}")
        for line in lines:
            print(f"kernels/cuda/{source}: {name}: {line}")
        breaches += len(lines)
    sys.stdout.flush()
    return breaches


def record_results(source: Path, results: dict[tuple[str, str], Result], nvcc: str) -> None:
    """Writes the entry of a file whose kernels were all compared without a breach."""
    if all(result.launches and not result.wrong for result in results.values()):
        ptx_record.write_entry(source, nvcc, {
            name: {"launches": len(result.chosen), "bytes": result.bytes,
                   "architectures": sorted(result.architectures), "traps": sorted(result.traps)}
            for (_, name), result in results.items()})


def check(nvcc: str, dumps: dict, arguments: argparse.Namespace) -> int:
    start = time.time()
    sources = [source for source in sorted(KERNELS.glob("*.cu"))
               if not arguments.names or source.name in arguments.names]
    chosen = {of: folders for of, folders in dumps.items() if arguments.kernel in of[1]}
    if arguments.kernel:
        sources = [source for source in sources if any(source.name == name for name, _ in chosen)]
    batches = batches_of(sources) if arguments.sample else [[source] for source in sources]
    breaches = total = kernels = 0
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda batch: check_sources(nvcc, batch, chosen, arguments), batches)
        for batch, results in zip(batches, found):
            breaches += print_results(results)
            if arguments.record:
                record_results(batch[0], results, nvcc)
            total += sum(result.launches for result in results.values())
            kernels += len(results)
    print(f"ptx_check: {len(sources)} files, {kernels} kernels, {total} launches, {breaches} breaches, "
          f"{time.time() - start:.0f} s")
    return 1 if breaches or not total else 0


def take_python_with_numpy() -> bool:
    """Whether numpy can be imported; runs the script anew with the distribution's python3 where that one
    has it and this one has not."""
    try:
        import numpy  # noqa: F401
        return True
    except ImportError:
        pass
    if os.path.realpath(sys.executable) != os.path.realpath(SYSTEM_PYTHON) and os.access(SYSTEM_PYTHON, os.X_OK):
        done = subprocess.run([SYSTEM_PYTHON, "-c", "import numpy"], capture_output=True, check=False)
        if done.returncode == 0:
            os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc")
    parser.add_argument("--tests")
    parser.add_argument("--dumps")
    parser.add_argument("--kernel", default="")
    parser.add_argument("--architectures")
    parser.add_argument("--most", type=int, metavar="N")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.recorded:
        return ptx_record.check()
    nvcc = find_nvcc(arguments.nvcc)
    if nvcc is None:
        print(f"ptx_check: skipped: {NO_NVCC}")
        return 77
    if not take_python_with_numpy():
        print(f"ptx_check: skipped: neither {sys.executable} nor {SYSTEM_PYTHON} has numpy (python3-numpy)")
        return 77
    if arguments.sample:
        arguments.most = 1
    arguments.architectures = arguments.architectures or (SAMPLED_ARCHITECTURES if arguments.sample
                                                          else ARCHITECTURES)
    if arguments.most is not None and arguments.most < 1:
        parser.error("--most: at least 1")
    if arguments.record and (arguments.sample or arguments.kernel or arguments.architectures != ARCHITECTURES):
        parser.error("--record: all kernels of a file, on all architectures")
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
