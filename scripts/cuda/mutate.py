#!/usr/bin/env python3
"""Breaks the CUDA kernels one place at a time and asks the tests on the emulator to notice.

    scripts/cuda/mutate.py [--build build/auto] [--jobs 2] [--sample N] [--seed S] [--quick]
                           [--together] [--again] [--list] [--record] [NAME.cu NAME.cuh ...]

A mutation replaces one operator, barrier, wait or bound of a file in kernels/cuda. A source that
includes the file is compiled as the build compiles it, but with -O1, linked in the place of the
build's object, and the suites of caption_cuda_test that SUITES names for it run to their first
failure; where they pass, the next such source follows, and after the last one the whole test.
Tests that include the file themselves come first, the smallest before others: of a header of constant
expressions they notice most with one compilation. A static assertion that fails has noticed it, too.
With `--quick` what the suites do not notice counts as not noticed, without a run of the whole test.
`--together` compiles all chosen mutations of all files at once, each in a branch (mutation_switch.py), which
takes a tenth of the time or less; of an expression or statement of one line only, and with --quick. What does
not compile so, as in a constant expression, is compiled alone.
`--sample` takes N mutations of each file, which depend on the seed and on the mutations alone.
`--list` only prints the mutations.

Verdicts are kept in BUILD/mutations.jsonl, so that an interrupted run goes on: what was noticed is not
judged again until its file changes. `--again` judges everything.

`--record` writes the counts of each file, as soon as all its mutations are judged, to
scripts/cuda/mutation_verdicts.tsv, with a digest of its text and which mutations were judged.

A mutation that no test notices must be equivalent: then scripts/cuda/equivalent_mutations.tsv has a
line for it, with the reason (columns: file, the line, the mutated line, why). Exits with 1 when a
mutation that was not noticed is not listed, or a listed one is noticed or no longer occurs.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import mutation_switch
from mutation_record import KERNELS, KINDS, read_equivalent, read_verdicts, record

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = ROOT / "tests" / "cuda"
TARGET = "caption_cuda_test"
TEST_SECONDS = 120   # of processor time, for a source's suites; the whole test may take five times
WAIT_SECONDS = 3600  # for a test that waits for ever
# The suites that run a source's kernels, by the beginning of its name; other sources' are all, other tests'
# that of their name. An entry that lacks a suite costs time only.
SUITES = {
    "activation": "elementwise", "attend": "attention,cuda/paged_attention",
    "attention": "attention,cuda/paged_attention", "beam_candidates": "beam_candidates",
    "code_rows": "codes,cuda/integer_tiles,cuda/fp8",
    "code_tiles": "codes", "compressed_attention": "compressed_attention", "convert": "convert",
    "depthwise": "vision", "embedding": "embedding",
    "few_rows": "linear,cuda/linear_output,cuda/norm_linear", "fp8": "fp8", "grid_patches": "vision",
    "integer_tiles": "integer_tiles", "kv_write": "kv_write",
    "linear": "linear,cuda/codes,cuda/norm_linear,cuda/weight",
    "merge_patches": "vision", "multiply_codes": "codes,cuda/integer_tiles",
    "multiply_integers": "codes,cuda/integer_tiles", "multiply_rows": "linear,cuda/linear_output",
    "norm": "norm,cuda/norm_linear", "pack_codes": "codes,cuda/fp8", "peak_rate": "peak_rate",
    "place_codes": "codes,cuda/fp8,cuda/weight", "pool_2d": "vision", "resize": "vision", "rope.cu": "rope",
    "rope_kv": "rope_kv_write", "round_rows": "linear,cuda/norm_linear", "rows": "elementwise",
    "sample_rows": "sample_rows", "swiglu": "elementwise",
    "tile_gemm": "linear,cuda/linear_output,cuda/norm_linear", "vision_embed": "vision",
    "warpgroup": "warpgroups", "weight": "weight,cuda/embedding",
}

OPERAND = r"[^;,()]*"  # with parentheses up to three deep
for _ in range(3):
    OPERAND = rf"(?:[^;,()]|\((?:{OPERAND}|,)*\))+"
RULES = [(re.compile(pattern), replacement) for pattern, replacement in [
    (r"sync_block\(\);", ""),
    (r"sync_warp\(\);", ""),
    (r"(show_to|begin)_products\(\);", ""),
    (r"wait_(copies|products)<(\w+)>", r"wait_\1<\2 + 1>"),
    (r"(?<=mask) /= 2", " /= 4"),
    (r" < (?!k[A-Z]\w*\b|\d)", " <= "),  # loops over a thread's own arrays are no bounds of memory
    (r" >= ", " > "),
    (r" > ", " >= "),
    (r" == ", " != "),
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r" \* ", " + "),
    (r" / ", " * "),
    (r" % ", " / "),
    (r" \+= ", " -= "),
    (r" \*= ", " += "),
    (r" && ", " || "),
    (r" \|\| ", " && "),
    (rf" \? ((?:[^?:;]|::)+) : ({OPERAND})(?=[;,)])", r" ? \2 : \1"),
    (r"(?<=p\.)(gate|up|x)_stride\b", "y_stride"),
]]
# Not code of a kernel: preprocessor lines, templates and declarations of types.
SKIPPED = re.compile(r"^\s*(//|#|template|using|namespace|static_assert|struct|enum|inline constexpr)")
# The emulator has functions of its own for these.
FILES_SKIPPED = {"primitives.cuh", "arrive.cuh", "dependent_launch.cuh", "launch.cuh", "warpgroup.cuh"}


@dataclass(frozen=True)
class Mutation:
    file: str
    line: int
    before: str
    after: str


def mutations_of(path: Path) -> list[Mutation]:
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        code = line.split("//")[0]
        if SKIPPED.match(line) or not code.strip():
            continue
        for pattern, replacement in RULES:
            for match in pattern.finditer(code):
                after = code[:match.start()] + match.expand(replacement) + code[match.end():]
                if after != code:
                    mutation = Mutation(path.name, number, code.strip(), after.strip())
                    found[mutation.line, mutation.after] = mutation
    return list(found.values())


def mutated_text(mutation: Mutation) -> str:
    """The text of a file with a mutation."""
    lines = (KERNELS / mutation.file).read_text(encoding="utf-8").split("\n")
    lines[mutation.line - 1] = mutation.after
    return "\n".join(lines)


def included_by(path: Path) -> set[str]:
    """The files of kernels/cuda that a file itself includes."""
    return set(re.findall(r'^#include "kernels/cuda/([^"/]+)"', path.read_text(encoding="utf-8"), re.M))


class Build:
    """How the build compiles the kernels and links the test."""

    def __init__(self, folder: Path):
        self.folder = folder
        steps = subprocess.run(["ninja", "-C", str(folder), "-t", "commands", TARGET],
                               capture_output=True, text=True, check=True).stdout.splitlines()
        link = next(line for line in reversed(steps) if f"-o tests/cuda/{TARGET} " in line)
        link = link.split("&&")[1] if "&&" in link else link
        self.link = shlex.split(link)
        self.compile = {}  # by the name of the source
        self.members = {}  # of CMake's unity sources that are compiled: the names of those they include
        for entry in json.loads((folder / "compile_commands.json").read_text(encoding="utf-8")):
            source = Path(entry["file"])
            sources = [source]
            if source.name.startswith("unity_") and source.exists():
                sources = [Path(name) for name in
                           re.findall(r'^#include "(.*)"', source.read_text(encoding="utf-8"), re.M)]
            command = shlex.split(entry["command"])
            is_linked = command[command.index("-o") + 1] in self.link
            kernels = [one.name for one in sources if
                       one.parent == TESTS and is_linked and one.suffix == ".cpp" and included_by(one) or
                       one.parent == KERNELS and ("-fsanitize=thread" in command or one.suffix == ".cpp")]
            if kernels and (is_linked or source.name not in self.compile):
                self.compile[source.name] = command
                self.members[source.name] = kernels

    def includers(self, file: str) -> list[str]:
        """The sources that have to be compiled again, by the includes among kernels/cuda: first the tests that
        include the file itself, the smallest before others."""
        included = {path.name: included_by(path) for path in KERNELS.iterdir()}
        wanted, before = {file}, set()
        while wanted != before:
            before = set(wanted)
            wanted |= {name for name, names in included.items() if names & before}
        tests = {path.name: path.stat().st_size for path in TESTS.glob("*.cpp") if file in included_by(path)}
        return sorted((name for name, members in self.members.items() if (wanted | set(tests)) & set(members)),
                      key=lambda name: (min(tests.get(member, sys.maxsize) for member in self.members[name]), name))

    def suites(self, name: str) -> str:
        """Those that run the kernels of a source, or of all in a unity source."""
        return ",".join(sorted({suites_of(member) for member in self.members[name]}))


def first_failure(output: str) -> str:
    fault = re.search(r"(race|out of bounds|host memory|misaligned|uninitialised|copy not waited "
                      r"for|divergence|launch): ", output)
    case = re.search(r"TEST CASE:\s+(.*)", output)
    return f"{fault.group(1) if fault else 'numbers'} ({case.group(1) if case else 'crash'})"


def compile_source(build: Build, name: str, folder: Path, options: tuple[str, ...] = ()) -> str | None:
    """Returns the compiler's text when it fails, otherwise None."""
    command = [part for part in build.compile[name] if part != "ccache"]
    command[command.index("-o") + 1] = str(folder / f"{name}.o")
    if "-MF" in command:
        command[command.index("-MF") + 1] = str(folder / f"{name}.d")
    mutated = folder / "kernels" / "cuda" / name
    if build.members[name] != [name]:
        unity = next(part for part in command if part.endswith(f"/{name}"))
        text = Path(unity).read_text(encoding="utf-8")
        mutated = folder / name
        mutated.write_text(text.replace(f"{KERNELS}/", f"{folder}/kernels/cuda/"), encoding="utf-8")
    command = [str(mutated) if part.endswith(f"/{name}") and mutated.exists()
               else ("-O1" if part == "-O3" else part) for part in command]
    command[1:1] = [f"-I{folder}", "-w", *options]
    done = subprocess.run(command, cwd=build.folder, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr


def suites_of(name: str) -> str:
    test = name.removesuffix("_test.cpp")
    found = next((suites for start, suites in SUITES.items() if name.startswith(start)), None)
    return f"cuda/{found or (test if test != name else '*')}"


def link(build: Build, names: list[str], folder: Path) -> Path:
    """Links the test with these objects, and with all others of `folder`."""
    command = list(build.link)
    for name in names:
        compiled = build.compile[name][build.compile[name].index("-o") + 1]
        mutated = str(folder / f"{name}.o")
        if compiled in command:
            command = [mutated if part == compiled else part for part in command]
        else:  # a member of an archive, which the linker takes only where a symbol is missing
            command.insert(command.index("-o"), mutated)
    if (folder / "switch.o").exists():
        command.insert(command.index("-o"), str(folder / "switch.o"))
    program = folder / TARGET
    command[command.index("-o") + 1] = str(program)
    subprocess.run(command, cwd=build.folder, capture_output=True, check=True)
    return program


def run_suites(program: Path, suites: str | None, mutant: int = 0) -> str | None:
    """Runs the suites, or all; returns how they failed, or None."""
    seconds = TEST_SECONDS * (1 if suites and suites.count(",") < 9 else 5)
    try:
        done = subprocess.run(["prlimit", f"--cpu={seconds}", str(program), "-aa=1",
                               *([f"-ts={suites}"] if suites else [])],
                              cwd=program.parent, env=os.environ | {"CAPTION_MUTANT": str(mutant)},
                              capture_output=True, text=True, errors="replace",
                              timeout=WAIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "does not end"
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return "does not end"
    return None if done.returncode == 0 else first_failure(done.stdout + done.stderr)


def run(build: Build, mutation: Mutation, folder: Path, is_quick: bool) -> str | None:
    """Returns how the mutation was noticed, or None."""
    shutil.copytree(KERNELS, folder / "kernels" / "cuda")
    mutated = folder / "kernels" / "cuda" / mutation.file
    mutated.write_text(mutated_text(mutation), encoding="utf-8")
    compiled: list[str] = []
    for name in build.includers(mutation.file):
        if (errors := compile_source(build, name, folder)) is not None:
            return "static assertion" if "static assertion failed" in errors else "does not compile"
        compiled.append(name)
        # The suites of this source, with all that have been compiled so far.
        if (how := run_suites(link(build, compiled, folder), build.suites(name))) is not None:
            return how
    return None if is_quick else run_suites(link(build, compiled, folder), None)


def includers_of(build: Build, mutations: Iterable[Mutation]) -> list[str]:
    return sorted({name for file in {m.file for m in mutations} for name in build.includers(file)})


def compile_together(build: Build, mutations: list[Mutation], folder: Path, jobs: int) -> dict[int, Mutation]:
    """Compiles the files with their mutations, numbered from 1, in branches, and what includes them. Returns
    those that compile so."""
    shutil.copytree(KERNELS, folder / "kernels" / "cuda")
    (folder / "switch.h").write_text(mutation_switch.HEADER, encoding="utf-8")
    (folder / "switch.cpp").write_text(mutation_switch.SOURCE, encoding="utf-8")
    subprocess.run(["c++", "-O1", "-c", "switch.cpp"], cwd=folder, check=True)
    left = dict(enumerate(mutations, 1))
    names = includers_of(build, mutations)
    while names:
        for file in sorted({m.file for m in mutations}):
            by_line: dict[int, list[tuple[int, str]]] = {}
            for number, m in left.items():
                if m.file == file:
                    by_line.setdefault(m.line, []).append((number, m.after))
            text, places = mutation_switch.switched((KERNELS / file).read_text(encoding="utf-8"), by_line)
            (folder / "kernels" / "cuda" / file).write_text(text, encoding="utf-8")
            left = {number: m for number, m in left.items() if m.file != file or number in places}
        with ThreadPoolExecutor(jobs) as pool:
            errors = "".join(pool.map(lambda name: compile_source(
                build, name, folder, ("-include", str(folder / "switch.h"))) or "", names))
        places = set(re.findall(r"/([\w.]+):(\d+):\d+: error", errors))
        wrong = [number for number, m in left.items() if (m.file, str(m.line)) in places]
        if errors and not wrong:
            raise RuntimeError(errors)
        names = includers_of(build, [left.pop(number) for number in wrong])
    return left


def judge_together(build: Build, mutations: list[Mutation], folder: Path,
                   jobs: int) -> Iterator[tuple[Mutation, str | None]]:
    """How those mutations were noticed that compile together."""
    left = compile_together(build, mutations, folder, jobs)
    names = includers_of(build, mutations)
    program = link(build, names, folder)
    suites = {file: {suite for name in build.includers(file) for suite in build.suites(name).split(",")}
              for file in {m.file for m in mutations}}
    seconds = {}  # that a suite takes, so that the shortest runs first
    for suite in sorted(set().union(*suites.values())):
        begin = time.monotonic()
        if (how := run_suites(program, suite)) is not None:
            raise RuntimeError(f"without a mutation: {how}")
        seconds[suite] = time.monotonic() - begin

    def how_noticed(number: int) -> str | None:
        runs = (run_suites(program, suite, number)
                for suite in sorted(suites[left[number].file], key=seconds.__getitem__))
        return next((how for how in runs if how is not None), None)
    with ThreadPoolExecutor(jobs) as pool:
        yield from zip(left.values(), pool.map(how_noticed, left))


def sample(mutations: list[Mutation], count: int, seed: int) -> list[Mutation]:
    """`count` of a file's mutations, or all where it has fewer. Which ones depends on no line number."""
    def key(m: Mutation) -> bytes:
        return hashlib.sha256(f"{seed} {m.file} {m.before} {m.after}".encode()).digest()
    return sorted(sorted(mutations, key=key)[:count], key=lambda m: m.line)


def hash_of(m: Mutation) -> str:
    """Of the mutated file without comments and white space."""
    text = re.sub(r"//[^\n]*", "", mutated_text(m))
    return hashlib.sha256(f"{m.file} {' '.join(text.split())}".encode()).hexdigest()


def write_verdict(path: Path, m: Mutation, how: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        verdict = {"hash": hash_of(m), "file": m.file, "line": m.before, "mutated": m.after, "how": how}
        file.write(json.dumps(verdict) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "auto")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, metavar="N", help="of each file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="only the suites of a source")
    parser.add_argument("--together", action="store_true", help="compile all mutations at once")
    parser.add_argument("--again", action="store_true", help="judge what was noticed before, too")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    names = arguments.names or sorted(path.name for path in KERNELS.iterdir()
                                      if path.name not in FILES_SKIPPED)
    of_files = [mutations_of(KERNELS / name) for name in names]
    everything = [mutation for mutations in of_files for mutation in mutations]
    if arguments.together:
        of_files = [mutation_switch.switchable((KERNELS / name).read_text(encoding="utf-8"), mutations)
                    for name, mutations in zip(names, of_files)]
    if arguments.sample is not None:
        of_files = [sample(mutations, arguments.sample, arguments.seed) for mutations in of_files]
    mutations = [mutation for mutations in of_files for mutation in mutations]
    if arguments.list:
        for m in mutations:
            print(f"{m.file}:{m.line}: {m.before}  =>  {m.after}")
        print(f"{len(mutations)} mutations")
        return 0
    build = Build(arguments.build.resolve())
    equivalent = read_equivalent()
    counts = dict.fromkeys(KINDS, 0)
    judged = "all" if arguments.sample is None else f"{arguments.sample} of seed {arguments.seed}"
    judged += ", of one line" if arguments.together else ""
    counts_of = {m.file: dict(counts) for m in mutations}
    num_of = Counter(m.file for m in mutations)
    breaches = []
    kept = build.folder / "mutations.jsonl"
    verdicts = {} if arguments.again else read_verdicts(kept)

    def judge(m: Mutation) -> tuple[Mutation, str | None]:
        if (how := verdicts.get(hash_of(m))) is None:
            with tempfile.TemporaryDirectory() as folder:
                how = run(build, m, Path(folder), arguments.quick)
            if how is not None:
                write_verdict(kept, m, how)
        return m, how

    def judge_all() -> Iterator[tuple[Mutation, str | None]]:
        yield from ((m, verdicts[hash_of(m)]) for m in mutations if hash_of(m) in verdicts)
        if not (left := [m for m in mutations if hash_of(m) not in verdicts]):
            return
        alone = set(left)  # those that do not compile together with others
        with tempfile.TemporaryDirectory() as folder:
            for m, how in judge_together(build, left, Path(folder), arguments.jobs):
                alone.discard(m)
                if how is not None:
                    write_verdict(kept, m, how)
                yield m, how
        yield from pool.map(judge, sorted(alone, key=left.index))

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for m, how in judge_all() if arguments.together else pool.map(judge, mutations):
            why = equivalent.get((m.file, m.before, m.after))
            if how == "does not compile":
                kind = how
            elif how is not None:
                kind = "noticed"
                if why is not None:
                    breaches.append(f"{m.file}:{m.line}: listed as equivalent, but noticed")
            else:
                kind = "NOT NOTICED" if why is None else "equivalent"
                if why is None:
                    breaches.append(f"{m.file}:{m.line}: not noticed: {m.after}")
            counts[kind] += 1
            counts_of[m.file][kind] += 1
            print(f"{m.file}:{m.line}: {m.before}  =>  {m.after}: {how or why or kind}", flush=True)
            if arguments.record and sum(counts_of[m.file].values()) == num_of[m.file]:
                record({m.file: counts_of[m.file]}, judged)
    produced = {(m.file, m.before, m.after) for m in everything}
    breaches += [f"{file}: listed as equivalent, but no mutation now: {after}"
                 for file, before, after in equivalent
                 if file in names and (file, before, after) not in produced]
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    for breach in breaches:
        print(breach)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
