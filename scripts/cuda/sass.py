"""What a warp issues in the loops of a kernel, from the text of `nvdisasm -c`."""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SECTION = re.compile(r"^\.text\.(\S+):")
LABEL = re.compile(r"^\.(L_\w+):")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*(?:\.\w+)*)\s*([^;]*);")
TENSOR = re.compile(r"[HIQ]MMA")
REGISTER = re.compile(r"\bR(\d+)")
LEAST_LOOP = 8          # instructions; shorter loops are left out
MOST_LOOPS = 3          # of a kernel, those with the most tensor instructions first
SPILL = re.compile(r"(LDL|STL)\b")


@dataclass
class Instruction:
    name: str
    arguments: str
    target: str | None


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
            name, arguments = match.groups()
            target = re.search(r"`\(\.(L_\w+)\)", arguments) if name.startswith("BRA") else None
            code.instructions.append(
                Instruction(name, arguments, target.group(1) if target else None))
    return kernels


def innermost_loops(code: Code) -> list[list[Instruction]]:
    """The instructions between a label and a branch back to it, where no other such pair lies
    within. Instructions of branches that a launch does not take are among them."""
    found = [(code.labels[i.target], at) for at, i in enumerate(code.instructions)
             if i.target in code.labels and code.labels[i.target] < at]
    inner = [loop for loop in found
             if not any(o != loop and loop[0] <= o[0] and o[1] <= loop[1] for o in found)]
    return [code.instructions[first:last + 1] for first, last in inner]


def count(instructions: list[Instruction], pattern: str) -> int:
    return sum(1 for i in instructions if re.match(pattern, i.name))


def describe_loops(code: Code) -> list[dict[str, float]]:
    """Counts of the hot loops' instructions. A loop without tensor instructions is named only in
    kernels that have none."""
    loops = [loop for loop in innermost_loops(code) if len(loop) >= LEAST_LOOP]
    of_tensor = [loop for loop in loops if count(loop, TENSOR.pattern)]
    loops = sorted(of_tensor or loops, key=lambda loop: (-count(loop, TENSOR.pattern), -len(loop)))
    described = []
    for loop in loops[:MOST_LOOPS]:
        tensor = count(loop, TENSOR.pattern)
        counts = {"instructions": len(loop), "tensor": tensor,
                  "global_loads": count(loop, r"LDG\b"), "copies": count(loop, r"LDGSTS"),
                  "shared_loads": count(loop, r"LDS\b|LDSM\b"),
                  "shared_stores": count(loop, r"STS\b"), "barriers": count(loop, r"BAR\b")}
        if tensor:
            counts["per_tensor"] = round(len(loop) / tensor, 2)
        described.append({name: number for name, number in counts.items()
                          if number or name == "instructions"})
    return described


def load_bytes(name: str) -> int:
    """Bytes of a lane that a load or copy instruction moves."""
    for suffix, size in ((".128", 16), (".64", 8), (".U16", 2), (".S16", 2), (".U8", 1), (".S8", 1)):
        if suffix in name:
            return size
    return 4


def bytes_loaded_ahead(code: Code) -> int:
    """The most bytes of a warp that loads have asked for before the first of them is read. The count
    begins anew at each label, so that it may be too low, not too high."""
    waiting: dict[int, int] = {}  # bytes of a lane, by the first register
    most = 0
    starts = set(code.labels.values())
    for at, instruction in enumerate(code.instructions):
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
    return 32 * most


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
