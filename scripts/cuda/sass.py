"""What a warp issues in the loops of a kernel, from the text of `nvdisasm -c`."""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SECTION = re.compile(r"^\.text\.(\S+):")
LABEL = re.compile(r"^\.(L_\w+):")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z]\w*(?:\.\w+)*)\s*([^;]*);")
TENSOR = re.compile(r"[HIQ]G?MMA")
WORK = re.compile(r"[HIQ]G?MMA|FFMA|LDGSTS|LDG\b.*\.128")
REGISTER = re.compile(r"\bR(\d+)")
LEAST_LOOP = 8          # instructions; shorter loops are left out
MOST_LOOPS = 3          # of a kernel, those with the most tensor instructions first
SPILL = re.compile(r"(LDL|STL)\b")


@dataclass
class Instruction:
    name: str
    arguments: str
    target: str | None    # the label to which it branches
    is_predicated: bool


@dataclass
class Code:
    """The instructions of a kernel in their order, and where its labels are."""
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


def disassemble(nvdisasm: str, cubin: Path) -> dict[str, Code]:
    """The code of each kernel, by its mangled name."""
    text = subprocess.run([nvdisasm, "-c", str(cubin)], capture_output=True, text=True,
                          check=True).stdout
    kernels: dict[str, Code] = {}
    code = None
    for line in text.splitlines():
        if match := SECTION.match(line):
            code = kernels.setdefault(match.group(1), Code())
        elif code is None:
            continue
        elif match := LABEL.match(line):
            code.labels[match.group(1)] = len(code.instructions)
        elif match := INSTRUCTION.match(line):
            predicate, name, arguments = match.groups()
            target = re.search(r"`\(\.(L_\w+)\)", arguments) if name.startswith("BRA") else None
            code.instructions.append(
                Instruction(name, arguments, target.group(1) if target else None, bool(predicate)))
    return kernels


def find_loops(code: Code) -> list[tuple[int, int]]:
    """First and last instruction of each innermost loop: of a label and a branch back to it, where no
    other such pair lies within."""
    found = [(code.labels[i.target], at) for at, i in enumerate(code.instructions)
             if i.target in code.labels and code.labels[i.target] < at]
    return [loop for loop in found
            if not any(o != loop and loop[0] <= o[0] and o[1] <= loop[1] for o in found)]


def innermost_loops(code: Code) -> list[list[Instruction]]:
    return [code.instructions[first:last + 1] for first, last in find_loops(code)]


def leaves_for_good(instruction: Instruction) -> bool:
    """Whether warps whose lanes stay together do not go on with the next instruction, but for a
    predicate. BRA.DIV branches where lanes do not."""
    name = instruction.name
    return name.startswith(("BRA", "EXIT", "RET")) and name != "BRA.DIV"


def ways_forward(code: Code, at: int, last: int) -> list[int]:
    """Where a warp whose lanes stay together may go on after an instruction, up to `last`."""
    instruction = code.instructions[at]
    target = code.labels.get(instruction.target, -1)
    leaves = leaves_for_good(instruction)
    ways = [at + 1] if instruction.is_predicated or not leaves else []
    if at < target <= last and instruction.name != "BRA.DIV":
        ways.append(target)
    return ways


def longest_way(code: Code, first: int, last: int) -> int:
    """The most instructions that a warp whose lanes stay together issues in a round of a loop: of
    branches forward, the way with more."""
    most = {last: 1}
    for at in range(last - 1, first - 1, -1):
        ways = ways_forward(code, at, last)
        lengths = [most[way] for way in ways if way in most]
        if lengths:
            most[at] = 1 + max(lengths)
    return most.get(first, last - first + 1)


def working_way(code: Code, first: int, last: int) -> int:
    """The instructions of a round of a loop on the way with the most tensor instructions, fused
    multiply-adds and copies of 16 bytes; of several such ways on the shortest."""
    most = {last: (0, -1)}
    for at in range(last - 1, first - 1, -1):
        ways = ways_forward(code, at, last)
        works = bool(WORK.match(code.instructions[at].name))
        found = [most[way] for way in ways if way in most]
        if found:
            work, length = max(found)
            most[at] = (work + int(works), length - 1)
    return -most[first][1] if first in most else last - first + 1


def count(instructions: list[Instruction], pattern: str) -> int:
    return sum(1 for i in instructions if re.match(pattern, i.name))


def describe_loops(code: Code) -> list[dict[str, float]]:
    """Counts of the hot loops' instructions: `instructions` on the longest way, `working` on the way
    that does most, the others on all ways together. A loop without tensor instructions is named only in
    kernels that have none."""
    loops = [(code.instructions[first:last + 1], longest_way(code, first, last),
              working_way(code, first, last))
             for first, last in find_loops(code) if last - first + 1 >= LEAST_LOOP]
    of_tensor = [loop for loop in loops if count(loop[0], TENSOR.pattern)]
    loops = sorted(of_tensor or loops, key=lambda loop: (-count(loop[0], TENSOR.pattern), -loop[1]))
    described = []
    for loop, longest, working in loops[:MOST_LOOPS]:
        tensor = count(loop, TENSOR.pattern)
        counts = {"instructions": longest, "all_ways": len(loop), "tensor": tensor,
                  "global_loads": count(loop, r"LDG\b"), "copies": count(loop, r"LDGSTS"),
                  "shared_loads": count(loop, r"LDS\b|LDSM\b"),
                  "shared_stores": count(loop, r"STS\b"), "barriers": count(loop, r"BAR\b")}
        if tensor:
            counts["per_tensor"] = round(longest / tensor, 2)
            counts["working"] = working
        described.append({name: number for name, number in counts.items()
                          if number or name == "instructions"})
    return described


def load_bytes(name: str) -> int:
    """Bytes of a lane that a load or copy instruction moves."""
    for suffix, size in ((".128", 16), (".64", 8), (".U16", 2), (".S16", 2), (".U8", 1), (".S8", 1)):
        if suffix in name:
            return size
    return 4


def hot_parts(code: Code) -> list[tuple[int, int]]:
    """The loops with tensor instructions; of a kernel that has none its loops, without loops all."""
    loops = [loop for loop in find_loops(code) if loop[1] - loop[0] + 1 >= LEAST_LOOP]
    of_tensor = [(first, last) for first, last in loops
                 if count(code.instructions[first:last + 1], TENSOR.pattern)]
    return of_tensor or loops or [(0, len(code.instructions) - 1)]


def bytes_loaded_ahead(code: Code) -> int:
    """The most bytes of a warp that loads of a round of a hot loop have asked for before the first of
    them is read. The count begins anew at each label, so that it may be too low, not too high."""
    return 32 * max(loaded_ahead(code, first, last) for first, last in hot_parts(code))


def loaded_ahead(code: Code, begin: int, end: int) -> int:
    """The same of a lane, between two instructions."""
    waiting: dict[int, int] = {}  # bytes, by the first register
    most = 0
    starts = set(code.labels.values())
    for at in range(begin, end + 1):
        instruction = code.instructions[at]
        if at in starts:
            waiting.clear()
        registers = [int(r) for r in REGISTER.findall(instruction.arguments)]
        is_load = instruction.name.startswith("LDG.") or instruction.name == "LDG"
        read = registers[1:] if not instruction.name.startswith(("ST", "RED")) else registers
        wide = 4 if TENSOR.match(instruction.name) or ".128" in instruction.name else 2
        for first, size in list(waiting.items()):
            words = range(first, first + max(size // 4, 1))
            if any(r + i in words for r in read for i in range(wide)) or registers[:1] == [first]:
                del waiting[first]
        if is_load and registers:
            waiting[registers[0]] = load_bytes(instruction.name)
            most = max(most, sum(waiting.values()))
    return most


def bytes_copied_ahead(code: Code) -> int:
    """The bytes of asynchronous copies that a warp has under way in a loop that waits until n groups
    are left: n + 1 groups before it waits."""
    most = 0
    for loop in innermost_loops(code):
        waits = [int(match.group(1), 0) for i in loop if i.name == "DEPBAR.LE"
                 and (match := re.match(r"SB0, (0x[0-9a-f]+)", i.arguments))]
        groups = count(loop, r"LDGDEPBAR")
        size = sum(load_bytes(i.name) for i in loop if i.name.startswith("LDGSTS"))
        if waits and groups:
            most = max(most, (min(waits) + 1) * 32 * size // groups)
    return most


def traps(code: Code) -> bool:
    """Whether the kernel ends in a trap: of an instruction that the architecture lacks
    (kernels/cuda/primitives.cuh)."""
    return count(code.instructions, r"BPT\.TRAP") > 0
