#!/usr/bin/env python3
"""Compiles the CUDA kernels with nvcc for every architecture that the project names, with warnings as
errors, and checks what ptxas says: no spill and no local memory.

    scripts/cuda/check_kernels.py [--nvcc PATH] [--architectures 75,80,86,89,90] [NAME.cu ...]

Prints the registers of each kernel, the most of all architectures. Exits with 1 when a check fails, with 77 when there is no nvcc.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KERNELS = ROOT / "kernels" / "cuda"
FLAGS = ["-std=c++20", "-O3", "-fmad=false", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra",
         "-Xptxas", "-v,--warn-on-spills,--warn-on-local-memory-usage"]
ENTRY = re.compile(r"Compiling entry function '(\S+)' for 'sm_(\d+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")


def find_nvcc(given: str | None) -> str | None:
    homes = [os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    places = [given, shutil.which("nvcc")] + [f"{home}/bin/nvcc" for home in homes if home]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def demangle(names: list[str]) -> dict[str, str]:
    if shutil.which("c++filt") is None:
        return {name: name for name in names}
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                          check=True).stdout
    short = (re.search(r"kernel_entry<(.*)>\(", line) for line in text.splitlines())
    return {name: re.sub(r"caption::kernels::cuda::|\(anonymous namespace\)::", "", match.group(1))
            if match else name for name, match in zip(names, short)}


def check_file(nvcc: str, source: Path, architectures: list[str]) -> bool:
    """Compiles one file; prints a line per kernel and one per breach. Returns whether all is well."""
    targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
    with tempfile.TemporaryDirectory() as folder:
        command = [nvcc, *FLAGS, *targets, "--threads", "2", f"-I{ROOT}", f"-I{ROOT / 'lib'}", "-c",
                   str(source), "-o", f"{folder}/object.o"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    if done.returncode != 0:
        print(f"{source.relative_to(ROOT)}: nvcc failed:\n{output}")
        return False
    registers: dict[str, dict[str, int]] = {}
    breaches = []
    entry = None
    for line in output.splitlines():
        if match := ENTRY.search(line):
            entry = match.groups()
        elif entry and (match := FRAME.search(line)) and any(map(int, match.groups())):
            breaches.append(f"{entry[0]} on sm_{entry[1]}: {match.group(0)}")
        elif entry and (match := USED.search(line)):
            registers.setdefault(entry[0], {})[entry[1]] = int(match.group(1))
    names = demangle(list(registers))
    for mangled, of_architecture in registers.items():
        missing = set(architectures) - set(of_architecture)
        if missing:
            breaches.append(f"{names[mangled]} was not compiled for sm_{', sm_'.join(sorted(missing))}")
        print(f"{source.name}: {names[mangled]}: {max(of_architecture.values())} registers")
    if not registers:
        breaches.append("nvcc compiled no kernel")
    for breach in breaches:
        print(f"{source.relative_to(ROOT)}: {breach}")
    return not breaches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc")
    parser.add_argument("--architectures", default="75,80,86,89,90")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    nvcc = find_nvcc(arguments.nvcc)
    if nvcc is None:
        print("check_kernels: skipped: no nvcc on PATH, in $CUDA_HOME/bin or /usr/local/cuda/bin")
        return 77
    sources = ([KERNELS / name for name in arguments.names]
               or sorted(KERNELS.glob("*.cu")))
    results = [check_file(nvcc, source, arguments.architectures.split(",")) for source in sources]
    print(f"check_kernels: {len(results)} files, {results.count(False)} with breaches")
    return 0 if all(results) and results else 1


if __name__ == "__main__":
    sys.exit(main())
