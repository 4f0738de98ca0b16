#!/usr/bin/env python3
"""Compiles the CUDA kernels with nvcc for every architecture that the project names, with warnings as
errors, and checks what ptxas says: no spill and no local memory.

    scripts/cuda/check_kernels.py [--nvcc PATH] [--architectures 75,80,86,89,90] [NAME.cu ...]

Prints the registers of each kernel, the most of all architectures. Exits with 1 when a check fails, with 77 when there is no nvcc.
scripts/cuda/resources.py makes the same checks, and writes a record.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from toolkit import (ARCHITECTURES, KERNELS, NO_NVCC, ROOT, compile_kernels, demangle,
                     find_breaches, find_nvcc, has_kernels, parse_figures)


def check_file(nvcc: str, source: Path, architectures: list[str]) -> bool:
    """Compiles one file; prints a line per kernel and one per breach. Returns whether all is well."""
    file = source.relative_to(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        try:
            figures = parse_figures(compile_kernels(nvcc, source, architectures, folder))
        except RuntimeError as error:
            print(f"{file}: nvcc failed:\n{error}")
            return False
    names = demangle(sorted({mangled for mangled, _ in figures}))
    breaches = [] if figures or not has_kernels(source) else ["nvcc compiled no kernel"]
    for mangled, (name, _) in names.items():
        of = {a: figures[mangled, a] for a in architectures if (mangled, a) in figures}
        missing = [a for a in architectures if a not in of]
        if missing:
            breaches.append(f"{name} was not compiled for sm_{', sm_'.join(missing)}")
        for architecture, its in of.items():
            breaches += find_breaches(f"{name} on sm_{architecture}", its)
        print(f"{source.name}: {name}: {max(its.registers for its in of.values())} registers")
    for breach in breaches:
        print(f"{file}: {breach}")
    return not breaches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc")
    parser.add_argument("--architectures", default=",".join(ARCHITECTURES))
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    nvcc = find_nvcc(arguments.nvcc)
    if nvcc is None:
        print(f"check_kernels: skipped: {NO_NVCC}")
        return 77
    sources = ([KERNELS / name for name in arguments.names]
               or sorted(KERNELS.glob("*.cu")))
    results = [check_file(nvcc, source, arguments.architectures.split(",")) for source in sources]
    print(f"check_kernels: {len(results)} files, {results.count(False)} with breaches")
    return 0 if all(results) and results else 1


if __name__ == "__main__":
    sys.exit(main())
