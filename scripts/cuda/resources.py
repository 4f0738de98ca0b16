#!/usr/bin/env python3
"""The record of what CUDA kernels need, kernels/cuda/resources.json: of each kernel and architecture
its registers, spills, local memory, shared memory and threads, the blocks that a multiprocessor holds,
bytes in flight and what its hot loops issue.

    scripts/cuda/resources.py            compiles kernels whose sources changed, and writes the record
                                         after each file
    scripts/cuda/resources.py --all      compiles all of them
    scripts/cuda/resources.py NAME.cu    compiles these
    scripts/cuda/resources.py --check    compiles nothing: fails when a source has changed since, or
                                         when the record breaks a rule

Rules: no spill; no local memory; at least one block on each card whose architecture the kernel is
compiled for, except where it ends in a trap (kernels/cuda/primitives.cuh); those of resource_rules.py.
Writing needs nvcc, g++, binutils and nvdisasm; toolkits without the last: pip install
nvidia-cuda-nvdisasm, or --nvdisasm PATH. --check needs nothing. Exits with 1 when a rule is broken or
the record is old, with 77 when a tool is missing.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import sass
from resource_rules import find_breaches_of_speed
from toolkit import (ARCHITECTURES, KERNELS, NO_NVCC, ROOT, Figures, compile_kernels, cubin_file,
                     demangle, find_breaches, find_nvcc, find_nvdisasm, has_kernels, hash_sources,
                     parse_figures, ptx_file)

RECORD = KERNELS / "resources.json"
CARDS = {"75": "T4", "80": "A100", "86": "A10", "89": "L4", "90": "H100, H200"}
MAXNTID = re.compile(r"\.entry\s+(\S+?)\(.*?\.maxntid\s+(\d+)", re.DOTALL)


class Occupancy:
    """The blocks of a kernel that a multiprocessor holds (occupancy.cpp)."""

    def __init__(self, nvcc: str, folder: str):
        self.program = f"{folder}/occupancy"
        include = Path(nvcc).resolve().parent.parent / "include"
        subprocess.run(["g++", "-std=c++20", "-O1", f"-I{include}",
                        str(Path(__file__).parent / "occupancy.cpp"), "-o", self.program], check=True)

    def count_blocks(self, kernels: list[tuple[int, ...]]) -> list[int]:
        lines = "".join(" ".join(map(str, kernel)) + "\n" for kernel in kernels)
        done = subprocess.run([self.program], input=lines, capture_output=True, text=True, check=True)
        return [int(line) for line in done.stdout.split()]


def describe(figures: Figures, code: sass.Code, blocks: int, threads: int) -> dict:
    described = {"registers": figures.registers, "spilled_bytes": figures.spilled_bytes,
                 "local_bytes": figures.local_bytes, "blocks": blocks,
                 "warps": blocks * threads // 32,
                 "loaded_ahead": sass.bytes_loaded_ahead(code),
                 "copied_ahead": sass.bytes_copied_ahead(code)}
    if sass.traps(code):
        described["traps"] = True
    return described | {"loops": sass.describe_loops(code)}


def record_file(tools: dict, source: Path, folder: str) -> dict:
    """Compiles one file for all architectures. Raises RuntimeError when nvcc fails."""
    figures = parse_figures(compile_kernels(tools["nvcc"], source, ARCHITECTURES, folder))
    names = demangle(sorted({mangled for mangled, _ in figures}))
    kernels: dict[str, dict] = {}
    for architecture in ARCHITECTURES:
        ptx = ptx_file(folder, source, architecture).read_text(encoding="utf-8")
        threads = {name: int(count) for name, count in MAXNTID.findall(ptx)}
        codes = sass.disassemble(tools["nvdisasm"],
                                 cubin_file(folder, source, architecture, ARCHITECTURES))
        of = {mangled: its for (mangled, a), its in figures.items() if a == architecture}
        blocks = tools["occupancy"].count_blocks(
            [(int(architecture), threads[mangled], its.registers, its.static_shared_bytes,
              names[mangled][1]) for mangled, its in of.items()])
        for (mangled, its), held in zip(of.items(), blocks):
            name, shared = names[mangled]
            kernel = kernels.setdefault(name, {"threads": threads[mangled],
                                               "shared_bytes": shared + its.static_shared_bytes,
                                               "architectures": {}})
            kernel["architectures"][architecture] = describe(its, codes[mangled], held,
                                                             threads[mangled])
    return {"sources": hash_sources(source), "kernels": dict(sorted(kernels.items()))}


def find_record_breaches(record: dict) -> list[str]:
    breaches = []
    for file, entry in record["files"].items():
        if not entry["kernels"] and (not (KERNELS / file).exists() or has_kernels(KERNELS / file)):
            breaches.append(f"kernels/cuda/{file}: no kernel")
        for name, kernel in entry["kernels"].items():
            for architecture, its in kernel["architectures"].items():
                of = f"kernels/cuda/{file}: {name} on sm_{architecture}"
                breaches += find_breaches(of, Figures(local_bytes=its["local_bytes"],
                                                      spilled_bytes=its["spilled_bytes"]))
                if its["blocks"] == 0 and not its.get("traps"):
                    breaches.append(f"{of} ({CARDS[architecture]}): cannot be launched: "
                                    f"{kernel['threads']} threads, {its['registers']} registers, "
                                    f"{kernel['shared_bytes']} bytes of shared memory")
            if missing := [a for a in ARCHITECTURES if a not in kernel["architectures"]]:
                breaches.append(f"kernels/cuda/{file}: {name} was not compiled for sm_"
                                + ", sm_".join(missing))
    return breaches


def find_changes(record: dict) -> list[str]:
    """A line for each file whose entry is not of its present sources."""
    here = {source.name: source for source in KERNELS.glob("*.cu")}
    files = record["files"]
    changes = [f"kernels/cuda/{name}: no entry" for name in sorted(set(here) - set(files))]
    changes += [f"kernels/cuda/{name}: has an entry, but is no more" for name in sorted(set(files) - set(here))]
    changes += [f"kernels/cuda/{name}: it, or a header that it includes, has changed since"
                for name in sorted(set(files) & set(here))
                if files[name]["sources"] != hash_sources(here[name])]
    return changes


def write_record(record: dict) -> None:
    """Writes a line for each kernel and architecture, so that a change of one is a line's."""
    text = json.dumps(record, indent=1)
    text = re.sub(r'("\d\d": )(\{.*?"loops": \[.*?\]\s*\})',
                  lambda m: m.group(1) + re.sub(r"\s*\n\s*", " ", m.group(2)), text, flags=re.DOTALL)
    RECORD.write_text(text + "\n", encoding="utf-8")


def update(tools: dict, record: dict, sources: list[Path]) -> list[str]:
    """Compiles the files and writes the record after each. Returns a line for each file that nvcc
    refuses, which keeps its old entry."""
    failures = []
    for source in sources:
        print(f"resources: {source.relative_to(ROOT)}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            try:
                record["files"][source.name] = record_file(tools, source, folder)
            except RuntimeError as error:
                failures.append(f"{source.relative_to(ROOT)}: nvcc failed:\n{error}")
        record["files"] = dict(sorted(record["files"].items()))
        write_record(record)
    return failures


def choose_sources(record: dict, names: list[str], compiles_all: bool) -> list[Path]:
    """The files to compile; those that are no more lose their entries."""
    sources = sorted(KERNELS.glob("*.cu"))
    for name in set(record["files"]) - {source.name for source in sources}:
        del record["files"][name]
    if names or compiles_all:
        return [source for source in sources if compiles_all or source.name in names]
    return [source for source in sources
            if record["files"].get(source.name, {}).get("sources") != hash_sources(source)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc")
    parser.add_argument("--nvdisasm")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {"files": {}}
    failures: list[str] = []
    if not arguments.check:
        tools = {"nvcc": find_nvcc(arguments.nvcc), "nvdisasm": find_nvdisasm(arguments.nvdisasm)}
        if None in tools.values():
            missing = NO_NVCC if tools["nvcc"] is None else "no nvdisasm (see --help)"
            print(f"resources: skipped: {missing}")
            return 77
        with tempfile.TemporaryDirectory() as folder:
            tools["occupancy"] = Occupancy(tools["nvcc"], folder)
            chosen = choose_sources(record, arguments.names, arguments.all)
            failures = update(tools, record, chosen)
        write_record(record)
    changes = find_changes(record)
    breaches = failures + find_record_breaches(record) + find_breaches_of_speed(record)
    for line in changes + breaches:
        print(line)
    if changes:
        print("resources: the record is old; scripts/cuda/resources.py writes it anew (needs nvcc)")
    kernels = sum(len(entry["kernels"]) for entry in record["files"].values())
    print(f"resources: {len(record['files'])} files, {kernels} kernels, {len(breaches)} breaches")
    return 1 if changes or breaches or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
