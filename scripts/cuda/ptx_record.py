"""The record of what ptx_check.py compared, kernels/cuda/ptx_checked.json."""

import json
import re
import subprocess

from pathlib import Path

from toolkit import KERNELS, ROOT, hash_files, hash_sources

RECORD = KERNELS / "ptx_checked.json"
ARCHITECTURES = ["75", "80", "89", "90"]
# What stands for the instructions of a GPU: on the emulator, and in the interpreter of PTX.
TWINS = ["tests/support/cuda/device_functions.cpp", "tests/support/cuda/device_functions.h",
         "tests/support/cuda/tensor_core.cpp", "tests/support/cuda/tensor_core.h",
         "tests/support/cuda/warp_product.h", "tests/support/cuda/warpgroup_functions.cpp",
         "tests/support/cuda/warpgroup_functions.h", "scripts/cuda/ptx.py", "scripts/cuda/ptx_machine.py",
         "scripts/cuda/ptx_operations.py", "scripts/cuda/rounding.py", "scripts/cuda/tensor_core.py"]


def read() -> dict:
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {"files": {}}


def hash_twins() -> str:
    return hash_files([ROOT / name for name in TWINS])


def version_of(nvcc: str) -> str:
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"V(\d+\.\d+\.\d+)", text).group(1)


def write_entry(source: Path, nvcc: str, kernels: dict) -> None:
    """Writes the record anew with an entry for a file, and without those of files that are no more."""
    record = read()
    record["files"][source.name] = {"sources": hash_sources(source), "twins": hash_twins(),
                                    "nvcc": version_of(nvcc), "kernels": dict(sorted(kernels.items()))}
    record["files"] = {name: record["files"][name] for name in sorted(record["files"])
                       if (KERNELS / name).exists()}
    text = re.sub(r'(\": )(\{[^{}]*\})', lambda m: m.group(1) + re.sub(r"\s*\n\s*", " ", m.group(2)),
                  json.dumps(record, indent=1))
    RECORD.write_text(text + "\n", encoding="utf-8")


def check() -> int:
    """Prints a line for each file that was not compared as it is, and for each kernel that has neither been
    compared nor is a trap on an architecture. Returns the exit code."""
    files = read()["files"]
    sources = sorted(KERNELS.glob("*.cu"))
    twins = hash_twins()
    breaches = [f"kernels/cuda/{name}: has an entry, but is no more"
                for name in sorted(set(files) - {source.name for source in sources})]
    for source in sources:
        entry = files.get(source.name)
        if entry is None:
            breaches.append(f"kernels/cuda/{source.name}: no entry")
            continue
        if entry["sources"] != hash_sources(source):
            breaches.append(f"kernels/cuda/{source.name}: it, or a header that it includes, has changed since")
        if entry["twins"] != twins:
            breaches.append(f"kernels/cuda/{source.name}: a twin of the instructions (ptx_record.py) has changed since")
        for name, kernel in entry["kernels"].items():
            missing = set(ARCHITECTURES) - set(kernel["architectures"]) - set(kernel["traps"])
            if missing or not kernel["launches"]:
                breaches.append(f"kernels/cuda/{source.name}: {name} was not compared for sm_"
                                + ", sm_".join(sorted(missing)))
    for line in breaches:
        print(line)
    if breaches:
        print("ptx_check: the record is old; ptx_check.py --tests PROGRAM --record NAME.cu ... writes it anew "
              "(needs nvcc and numpy)")
    kernels = sum(len(entry["kernels"]) for entry in files.values())
    print(f"ptx_check: {len(files)} files, {kernels} kernels recorded, {len(breaches)} breaches")
    return 1 if breaches or not kernels else 0
