"""Reads the text of PTX: the instructions of a kernel, its registers and the module's arrays."""

import re
from dataclasses import dataclass, field

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{;]*)\{")
LABEL = re.compile(r"([\w$]+)\s*:(?!:)\s*")
REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.DOTALL)
ARRAY = re.compile(r"\.(shared|local|const|global)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)"
                   r"\s*(?:\[(\d*)\])?\s*(?:=\s*(.*))?$", re.DOTALL)
OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*")
INSTRUCTION = re.compile(r"(?:@(!?)([%\w$]+)\s+)?([\w.:]+)\s*(.*)", re.DOTALL)
TYPE_BYTES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "b32": 4, "u32": 4,
              "s32": 4, "f32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8}


class Unsupported(Exception):
    """PTX that these scripts do not know."""


@dataclass
class Instruction:
    text: str
    predicate: str | None   # a register, or None
    is_negated: bool
    parts: list[str]        # of the opcode: ["add", "rn", "f32"]
    operands: list[str]

    @property
    def name(self) -> str:
        return self.parts[0]

    @property
    def type(self) -> str:
        return self.parts[-1]


@dataclass
class Array:
    space: str     # shared, local, const or global
    alignment: int
    size: int      # bytes; 0: the dynamic shared memory
    content: bytes | None


@dataclass
class Kernel:
    name: str
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)  # type by prefix or whole name
    arrays: dict[str, Array] = field(default_factory=dict)
    params: list[str] = field(default_factory=list)

    def has(self, name: str) -> bool:
        return any(instruction.name == name for instruction in self.code)


def match_brace(text: str, start: int) -> int:
    """The place after the brace that closes the one before `start`."""
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[start], 0)
        start += 1
    return start


def read_array(statement: str) -> tuple[str, Array] | None:
    match = ARRAY.search(statement)
    if match is None:
        return None
    space, alignment, kind, name, count, initial = match.groups()
    size = TYPE_BYTES[kind] * (int(count or 0) if "[" in statement else 1)
    content = None
    if initial is not None:
        numbers = [int(number, 0) for number in re.findall(r"-?\b(?:0x[0-9a-fA-F]+|\d+)", initial)]
        width = TYPE_BYTES[kind]
        content = b"".join((n % (1 << 8 * width)).to_bytes(width, "little") for n in numbers)
        content = content.ljust(size, b"\0")
    elif space in ("const", "global"):
        content = bytes(size)
    return name, Array(space, int(alignment or TYPE_BYTES[kind]), size, content)


def read_statement(kernel: Kernel, statement: str) -> None:
    while statement[:1] in ("{", "}") or LABEL.match(statement):
        if match := LABEL.match(statement):
            kernel.labels[match.group(1)] = len(kernel.code)
            statement = statement[match.end():]
        else:
            statement = statement[1:].lstrip()
    if not statement or statement.startswith((".pragma", ".loc", ".file")):
        if statement.startswith(".pragma"):
            rest = re.sub(r'^\.pragma\s+"[^"]*"', "", statement).strip()
            if rest:
                read_statement(kernel, rest)
        return
    if match := REGISTERS.match(statement):
        for name in match.group(2).split(","):
            kernel.registers[re.sub(r"<\d+>", "", name.strip())] = match.group(1)
    elif statement.startswith("."):
        if named := read_array(statement):
            kernel.arrays[named[0]] = named[1]
        else:
            raise Unsupported(f"PTX statement {statement!r}")
    else:
        match = INSTRUCTION.match(statement)
        kernel.code.append(Instruction(
            text=" ".join(statement.split()), predicate=match.group(2),
            is_negated=match.group(1) == "!", parts=match.group(3).split("."),
            operands=[operand.strip() for operand in OPERAND.findall(match.group(4))]))


def read_module(text: str) -> dict[str, Kernel]:
    """The kernels of a module, by their mangled names."""
    text = COMMENT.sub("", text)
    kernels: dict[str, Kernel] = {}
    arrays: dict[str, Array] = {}
    at = 0
    for match in ENTRY.finditer(text):
        for statement in text[at:match.start()].split(";"):
            if named := read_array(statement):
                arrays[named[0]] = named[1]
        at = match_brace(text, match.end())
        kernel = Kernel(match.group(1), arrays=dict(arrays))
        kernel.params = re.findall(r"([\w$]+)(?:\[\d+\])?\s*(?:,|$)", match.group(2).strip())
        for statement in text[match.end():at - 1].split(";"):
            read_statement(kernel, statement.strip())
        kernels[kernel.name] = kernel
    return kernels
