#!/usr/bin/env python3
"""The map of the house, as a test: who may include whom, and which room opens which package.

A room includes itself and rooms on lower floors only. A package's headers appear only in the
rooms named as its doors, and never in a public header. Files of kernels/cpu are included only by
files of kernels/cpu, so that nothing else depends on a layout or an instruction set; intrinsics
and inline assembly are there and in the files of MACHINE_CODE. The same holds for kernels/cuda,
whose PTX is in primitives.cuh and warpgroup.cuh; CUDA's own names are there and in the other
CUDA_FILES. Only these two and launch.cuh include the tests' emulator, so that kernels compile for it.
One file reads the environment. `--count` prints the number of breaches.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

FLOORS = [
    ["base"],
    ["backend", "kv", "store", "video", "text", "records", "sampling", "drafts"],
    ["tensor", "scheduler", "eval"],
    ["kernels", "weights", "vision"],
    ["model"],
    ["engine", "plan", "quantise"],
    ["pipeline", "bench", "doctor"],
    ["config"],
    ["apps"],
]
DOORS = {
    r"CLI/.*": {"apps"},
    r"yaml-cpp/.*": {"config"},
    r"libav(codec|format|util|filter)/.*|libsw(scale|resample)/.*": {"video"},
    r"opencv2/.*": {"vision"},
    r"sentencepiece.*": {"text"},
    r"hunspell.*": {"eval"},
    r"pcre2.*": {"text"},
    r"utf8proc.*": {"base", "eval", "text"},
    r"nlohmann/.*|xxhash.*|openssl/.*": {"base"},
    r"cuda.*|cublas.*|nv.*": {"backend", "kernels"},
    r"immintrin.*|x86intrin.*|cpuid.*": {"backend", "kernels"},
}

MACHINE_CODE = {
    "lib/backend/internal/cpu_features.cpp",
    "lib/bench/internal/multiply_add_amx.cpp",
    "lib/bench/internal/multiply_add_integers.h",
    "lib/bench/internal/multiply_add_avx512bf16.cpp",
    "lib/bench/internal/multiply_add_avx512vnni.cpp",
    "lib/bench/internal/multiply_add_avxvnni.cpp",
    "kernels/cuda/primitives.cuh",
    "kernels/cuda/warpgroup.cuh",
}
INSTRUCTION = re.compile(
    r"\b(_mm\d*_\w+|_tile_\w+|__builtin_ia32_\w+|__m(128|256|512)\w*|__asm__|asm\s+volatile|"
    r"asm(?=\s*\())\b")

# CUDA's keywords, variables and functions, which the emulator has under the names of primitives.cuh.
CUDA_NAME = re.compile(
    r"(?<![\w.])(__(global|device|shared|constant|forceinline|launch_bounds|grid_constant)__|"
    r"__(syncthreads|syncwarp|shfl|ballot|any|all|ldg|stcs|ldcs|cvta|activemask|threadfence)\w*|"
    r"__[fd]\w+_r[nzud]|__(float|double|int|uint)\w*2\w+|__\w+_as_\w+|(thread|block)Idx|(block|grid)Dim|cuda[A-Z]\w*)\b")
CUDA_FILES = {"kernels/cuda/primitives.cuh", "kernels/cuda/warpgroup.cuh", "kernels/cuda/arrive.cuh",
              "kernels/cuda/launch.cuh", "kernels/cuda/dependent_launch.cuh"}

ENVIRONMENT = re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b")
ENVIRONMENT_READER = "apps/caption-cli/environment.cpp"

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
SOURCE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}


def floor_of(room: str) -> int:
    for number, rooms in enumerate(FLOORS):
        if room in rooms:
            return number
    raise SystemExit(f"check_layers: room {room!r} is on no floor; add it to FLOORS")


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "lib" else parts[0]


def check_file(path: Path) -> list[str]:
    room = room_of(path)
    known = {name for rooms in FLOORS for name in rooms}
    is_public = path.suffix == ".h" and "internal" not in path.parts and "cpu" not in path.parts
    is_cpu_kernel = path.is_relative_to(ROOT / "kernels" / "cpu")
    breaches = []
    text = path.read_text(encoding="utf-8")
    if not is_cpu_kernel and str(path.relative_to(ROOT)) not in MACHINE_CODE:
        for match in INSTRUCTION.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            breaches.append(f"{path.relative_to(ROOT)}:{line}: {match.group(1)} belongs in "
                            "kernels/cpu, or the file in MACHINE_CODE")
    is_cuda_kernel = path.is_relative_to(ROOT / "kernels" / "cuda")
    if is_cuda_kernel and str(path.relative_to(ROOT)) not in CUDA_FILES:
        for match in CUDA_NAME.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            breaches.append(f"{path.relative_to(ROOT)}:{line}: {match.group(1)} belongs in "
                            f"{' or '.join(sorted(CUDA_FILES))}")
    if str(path.relative_to(ROOT)) != ENVIRONMENT_READER:
        for match in ENVIRONMENT.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            breaches.append(f"{path.relative_to(ROOT)}:{line}: the environment is read in "
                            f"{ENVIRONMENT_READER}")
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        where = f"{path.relative_to(ROOT)}:{line}"
        target = match.group(2)
        other = target.split("/")[0]
        if match.group(1) == '"' and "/" in target and other in known and other != room:
            if floor_of(other) >= floor_of(room):
                breaches.append(f"{where}: {room} (floor {floor_of(room)}) includes {target} "
                                f"(floor {floor_of(other)})")
            if "internal" in target.split("/"):
                breaches.append(f"{where}: {target} is private to {other}")
        if match.group(1) == '"' and target.startswith("kernels/cpu/") and not is_cpu_kernel:
            breaches.append(f"{where}: {target} is private to kernels/cpu")
        if match.group(1) == '"' and target.startswith("kernels/cuda/") and not is_cuda_kernel:
            breaches.append(f"{where}: {target} is private to kernels/cuda")
        if (match.group(1) == '"' and other == "tests"
                and str(path.relative_to(ROOT)) not in CUDA_FILES):
            breaches.append(f"{where}: {target} is of the tests")
        for pattern, doors in DOORS.items():
            if re.fullmatch(pattern, target) is None:
                continue
            if room not in doors:
                breaches.append(f"{where}: <{target}> belongs behind {', '.join(sorted(doors))}")
            elif is_public and room not in {"apps", "kernels"}:
                breaches.append(f"{where}: <{target}> in a public header")
    return breaches


def main() -> int:
    folders = [ROOT / "lib", ROOT / "kernels", ROOT / "apps"]
    files = sorted(path for folder in folders for path in folder.rglob("*")
                   if path.suffix in SOURCE_SUFFIXES)
    if not files:
        raise SystemExit("check_layers: no sources found")
    breaches = [breach for path in files for breach in check_file(path)]
    for breach in breaches:
        print(breach)
    if "--count" in sys.argv[1:]:
        print(len(breaches))
    else:
        print(f"check_layers: {len(files)} files, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
