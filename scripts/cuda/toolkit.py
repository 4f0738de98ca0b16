"""nvcc on the kernels of kernels/cuda, and what it says of them, for the scripts of this folder."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KERNELS = ROOT / "kernels" / "cuda"
ARCHITECTURES = ["75", "80", "86", "89", "90"]
# Architectures whose code is made of another's PTX, as scripts/cmake/CaptionCuda.cmake says, and those
# of kernels of e4m3.
PTX_OF = {"86": "80", "89": "80"}
PTX_OF_FP8 = {"86": "80"}
FLAGS = ["-std=c++20", "-O3", "-fmad=false", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra",
         f"-I{ROOT}", f"-I{ROOT / 'lib'}"]
NO_NVCC = "no nvcc on PATH, in $CUDA_HOME/bin or /usr/local/cuda/bin"
ENTRY = re.compile(r"Compiling entry function '(\S+)' for 'sm_(\d+)a?'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
INCLUDE = re.compile(r'^\s*#\s*include\s+"(kernels/cuda/[^"]+)"', re.MULTILINE)
# From the start of a line to the first character after the name: "int f(", "constexpr int kA[", "struct S {".
DECLARATION = re.compile(r"^(?:\[\[[a-z_]+\]\] )?([A-Za-z_][A-Za-z0-9_:<>,&* ]*)", re.MULTILINE)
NO_DECLARATION = re.compile(r"namespace|template|public|private|extern|using namespace")
LAST_NAME = re.compile(r"([A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*) *$")
MOST_BATCH_BYTES = 60000  # a file that is larger is a batch
STATIC_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass
class Figures:
    """What ptxas says of a kernel on an architecture."""
    registers: int = 0
    local_bytes: int = 0    # of a thread's stack
    spilled_bytes: int = 0  # stored and loaded
    static_shared_bytes: int = 0


def find_tool(name: str, given: str | None) -> str | None:
    homes = [os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    places = [given, shutil.which(name)] + [f"{home}/bin/{name}" for home in homes if home]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def find_nvcc(given: str | None) -> str | None:
    return find_tool("nvcc", given)


def find_nvdisasm(given: str | None) -> str | None:
    """nvdisasm of the toolkit, or of the Python package nvidia-cuda-nvdisasm."""
    packaged = (str(path) for folder in sys.path
                for path in Path(folder or ".").glob("nvidia/*/bin/nvdisasm"))
    return find_tool("nvdisasm", given) or next(packaged, None)


def with_features(source: Path, architecture: str) -> str:
    """The architecture as nvcc is told it: products of warpgroups are features of sm_90a."""
    has_warpgroups = source.name.startswith("warpgroup_") and architecture == "90"
    return "90a" if has_warpgroups else architecture


def ptx_of(source: Path, architecture: str) -> str:
    """The architecture of whose PTX the code of one is made."""
    others = PTX_OF_FP8 if source.name.startswith("fp8_") else PTX_OF
    return with_features(source, others.get(architecture, architecture))


def code_by_ptx(source: Path, architectures: list[str]) -> dict[str, list[str]]:
    """The architectures whose code is made of each PTX."""
    groups: dict[str, list[str]] = {}
    for architecture in architectures:
        code = with_features(source, architecture)
        groups.setdefault(ptx_of(source, architecture), []).append(code)
    return groups


def ptx_file(folder: str, source: Path, architecture: str) -> Path:
    """Where compile_kernels() leaves the PTX."""
    return Path(folder) / f"{source.stem}.compute_{ptx_of(source, architecture)}.ptx"


def cubin_file(folder: str, source: Path, architecture: str, architectures: list[str]) -> Path:
    """Where compile_kernels() for `architectures` leaves the code of one of them."""
    ptx = ptx_of(source, architecture)
    has_others = len(code_by_ptx(source, architectures)[ptx]) > 1
    name = f"compute_{ptx}.sm_{architecture}" if has_others else f"compute_{ptx}"
    return Path(folder) / f"{source.stem}.{name}.cubin"


def compile_kernels(nvcc: str, source: Path, architectures: list[str], folder: str) -> str:
    """Compiles one file into `folder`, which then has ptx_file() and cubin_file() of each
    architecture, and returns what nvcc and ptxas print. Raises RuntimeError with that text when nvcc
    fails."""
    targets = [f"-gencode=arch=compute_{ptx},code=[{','.join(f'sm_{a}' for a in codes)}]"
               for ptx, codes in code_by_ptx(source, architectures).items()]
    command = [nvcc, *FLAGS, "-Xptxas", "-v", *targets, "--threads", "2", "--keep", "--keep-dir",
               folder, "-c", str(source), "-o", f"{folder}/{source.stem}.o"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout + done.stderr


def compile_batch_to_ptx(nvcc: str, sources: list[Path], architecture: str, folder: str) -> str:
    """Returns the PTX of files that are compiled as one. Raises RuntimeError with nvcc's text when it fails."""
    batch = Path(folder) / f"{sources[0].stem}.cu"
    batch.write_text("".join(f'#include "{source}"\n' for source in sources), encoding="utf-8")
    to = batch.with_suffix(f".{architecture}.ptx")
    command = [nvcc, *FLAGS, f"-arch=compute_{with_features(sources[0], architecture)}", "-ptx", str(batch),
               "-o", str(to)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return to.read_text(encoding="utf-8")


def declared_names(source: Path) -> set[str]:
    """The names that lines of a file declare which begin in the first column."""
    names = set()
    for line in DECLARATION.findall(source.read_text(encoding="utf-8")):
        if not NO_DECLARATION.match(line):
            names |= set(LAST_NAME.findall(re.sub(r" (:|final) .*", "", line)))
    return names


def sources_of(source: Path) -> list[Path]:
    """The file and the headers of kernels/cuda that it includes, directly or not."""
    found = {source}
    queue = [source]
    while queue:
        for name in INCLUDE.findall(queue.pop().read_text(encoding="utf-8")):
            if (header := ROOT / name) not in found:
                found.add(header)
                queue.append(header)
    return sorted(found)


def hash_files(paths: list[Path]) -> str:
    """Comments of C++ and white space do not count: machine code does not depend on them."""
    digest = hashlib.sha256()
    for path in paths:
        text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
        content = " ".join(text.split()).encode()
        digest.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def hash_sources(source: Path) -> str:
    return hash_files(sources_of(source))


def batches_of(sources: list[Path]) -> list[list[Path]]:
    """Files that can be compiled as one, since none declares a name that another, or a header of another,
    declares: nvcc reads what they include once. Those for warpgroups remain alone."""
    batches: list[dict] = []
    for source in sorted(sources, key=lambda source: -source.stat().st_size):
        own = declared_names(source)
        known = own.union(*(declared_names(header) for header in sources_of(source)))
        size = source.stat().st_size
        is_alone = source.name.startswith("warpgroup_")
        for batch in batches:
            if (not is_alone and batch["size"] + size <= MOST_BATCH_BYTES
                    and not own & batch["known"] and not known & batch["own"]):
                break
        else:
            batch = {"sources": [], "size": MOST_BATCH_BYTES if is_alone else 0, "own": set(), "known": set()}
            batches.append(batch)
        batch["sources"].append(source)
        batch["size"] += size
        batch["own"] |= own
        batch["known"] |= known
    return [batch["sources"] for batch in batches]


def parse_figures(output: str) -> dict[tuple[str, str], Figures]:
    """The figures of each (mangled name, architecture) in the output of ptxas -v."""
    figures: dict[tuple[str, str], Figures] = {}
    entry = None
    for line in output.splitlines():
        if match := ENTRY.search(line):
            entry = figures.setdefault(match.groups(), Figures())
        elif entry and (match := FRAME.search(line)):
            entry.local_bytes = max(entry.local_bytes, int(match.group(1)))
            entry.spilled_bytes += int(match.group(2)) + int(match.group(3))
        elif entry and (match := USED.search(line)):
            entry.registers = int(match.group(1))
            shared = STATIC_SHARED.search(line)
            entry.static_shared_bytes = int(shared.group(1)) if shared else 0
    return figures


def has_kernels(source: Path) -> bool:
    """Whether the file launches kernels; one that does not chooses among those of others."""
    return "launch<" in source.read_text(encoding="utf-8")


def find_breaches(of: str, figures: Figures) -> list[str]:
    """A line for each rule that a kernel breaks: no spill, no local memory."""
    breaches = []
    if figures.spilled_bytes:
        breaches.append(f"{of}: registers are spilled, {figures.spilled_bytes} bytes of stores and loads")
    if figures.local_bytes:
        breaches.append(f"{of}: {figures.local_bytes} bytes of local memory per thread")
    return breaches


def demangle(names: list[str]) -> dict[str, tuple[str, int]]:
    """The struct of each kernel_entry, without namespaces, and the bytes of shared memory that a
    launch gives it (kernels/cuda/launch.cuh). Raises RuntimeError without c++filt (binutils)."""
    if shutil.which("c++filt") is None:
        raise RuntimeError("c++filt of binutils is not installed")
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                          check=True).stdout
    found = {}
    for name, line in zip(names, text.splitlines()):
        match = re.search(r"kernel_entry<(.*), (\d+)ul>\(", line)
        found[name] = (short_name(match.group(1)), int(match.group(2))) if match else (name, 0)
    return found


def short_name(kernel: str) -> str:
    return re.sub(r"caption::(kernels::cuda::)?|\(anonymous namespace\)::", "", kernel)
