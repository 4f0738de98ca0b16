"""Arithmetic, conversions, comparisons and bit operations of PTX, for ptx_machine.py."""

import numpy as np

from ptx import Instruction, Unsupported
from rounding import (bf16_of_f32, bf16_of_f64, add_to_odd, fused32, fused64, greatest, least)
from tensor_core import E4M3_NUMBERS

TYPES = {"b8": np.uint8, "u8": np.uint8, "s8": np.int8, "b16": np.uint16, "u16": np.uint16,
         "s16": np.int16, "f16": np.float16, "b32": np.uint32, "u32": np.uint32, "s32": np.int32,
         "f32": np.float32, "b64": np.uint64, "u64": np.uint64, "s64": np.int64, "f64": np.float64}
WIDER = {"u16": np.uint32, "s16": np.int32, "u32": np.uint64, "s32": np.int64}
FLOATS = {"f16", "f32", "f64"}
COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
               "gt": np.greater, "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal,
               "hi": np.greater, "hs": np.greater_equal}
ROUNDINGS = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
APPROXIMATE = {"approx", "ftz"}


# ---- conversions ----
def widen_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def e4m3_of_f32(x: np.ndarray) -> np.ndarray:
    """To nearest, ties to even: of two neighbours the one with an even code."""
    magnitude = np.minimum(np.abs(x.astype(np.float64)), 448.0)
    numbers = E4M3_NUMBERS[:0x7F].astype(np.float64)  # ascending with their codes
    above = np.minimum(np.searchsorted(numbers, magnitude), 0x7E)
    below = np.maximum(above - 1, 0)
    down, up = magnitude - numbers[below], numbers[above] - magnitude
    takes_below = (down < up) | ((down == up) & (below % 2 == 0))
    code = np.where(np.isnan(x), 0x7F, np.where(takes_below, below, above) | np.signbit(x) * 0x80)
    return code.astype(np.uint16)


def integer_of_float(x: np.ndarray, kind: str) -> np.ndarray:
    """Of a float without a fraction; beyond the type its nearest number, of NaN 0."""
    limits = np.iinfo(TYPES[kind])
    wide = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    low, high = wide <= float(limits.min), wide >= float(limits.max)
    inside = np.where(low | high, 0.0, wide)
    number = inside.astype(np.uint64 if kind == "u64" else np.int64)
    number = np.where(high, number.dtype.type(limits.max), number)
    return np.where(low, np.array(limits.min).astype(number.dtype), number).astype(TYPES[kind])


def convert(machine, op: Instruction, m: np.ndarray) -> np.ndarray:
    modes, to, kind = op.parts[1:-2], op.parts[-2], op.parts[-1]
    if APPROXIMATE & set(modes) or "sat" in modes or "rz" in modes or "relu" in modes:
        raise Unsupported(op.text)
    if to in ("bf16x2", "f16x2") and kind == "f32":
        narrow = bf16_of_f32 if to == "bf16x2" else lambda x: x.astype(np.float16).view(np.uint16)
        high, low = (narrow(machine.value(operand, "f32", m)).astype(np.uint32)
                     for operand in op.operands[1:3])
        return high << np.uint32(16) | low
    if to == "e4m3x2" and kind == "f32" and "satfinite" in modes:
        high, low = (e4m3_of_f32(machine.value(operand, "f32", m)) for operand in op.operands[1:3])
        return high << np.uint16(8) | low
    if to == "f16x2" and kind == "e4m3x2":
        pair = machine.value(op.operands[1], "u16", m)
        low, high = (E4M3_NUMBERS[pair >> np.uint16(at) & np.uint16(255)].astype(np.float16)
                     .view(np.uint16).astype(np.uint32) for at in (0, 8))
        return high << np.uint32(16) | low
    if kind == "bf16":
        return widen_bf16(machine.value(op.operands[1], "u16", m)).astype(TYPES[to])
    x = machine.value(op.operands[1], kind, m)
    if to == "bf16":
        return bf16_of_f32(x)
    if kind in FLOATS and to not in FLOATS:
        rounding = next((mode for mode in modes if mode in ROUNDINGS), None)
        if rounding is None:
            raise Unsupported(op.text)
        return integer_of_float(ROUNDINGS[rounding](x), to)
    if kind == to and modes and modes[0] in ROUNDINGS:
        return ROUNDINGS[modes[0]](x)
    return x.astype(TYPES[to])


# ---- integers ----
def divide_integers(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Towards zero; of division by zero, which PTX leaves open, all bits."""
    if x.dtype.kind == "u":
        return np.where(y == 0, x.dtype.type(-1 % (1 << 8 * x.dtype.itemsize)),
                        x // np.where(y == 0, x.dtype.type(1), y))
    safe = np.where(y == 0, x.dtype.type(1), y)
    quotient = np.abs(x) // np.abs(safe)
    return np.where(y == 0, x.dtype.type(-1), np.where((x < 0) != (safe < 0), -quotient, quotient))


def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x - divide_integers(x, y) * y


def multiply_high(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.itemsize < 8:
        wide = np.int64 if x.dtype.kind == "i" else np.uint64
        product = x.astype(wide) * y.astype(wide)
        return (product >> wide(8 * x.dtype.itemsize)).astype(x.dtype)
    product = x.astype(object) * y.astype(object)  # 128 bits
    return np.array([int(p) >> 64 & (2**64 - 1) for p in product], np.uint64).view(x.dtype)


def shift(name: str, x: np.ndarray, by: np.ndarray) -> np.ndarray:
    width = 8 * x.dtype.itemsize
    by = np.minimum(by.astype(np.int64), width)
    if name == "shl":
        return np.where(by >= width, x.dtype.type(0), x << np.minimum(by, width - 1).astype(x.dtype))
    if x.dtype.kind == "i":
        return x >> np.minimum(by, width - 1).astype(x.dtype)
    return np.where(by >= width, x.dtype.type(0), x >> np.minimum(by, width - 1).astype(x.dtype))


def look_up(x: np.ndarray, y: np.ndarray, z: np.ndarray, table: int) -> np.ndarray:
    result = np.zeros_like(x)
    for i in range(8):
        if table >> i & 1:
            result |= (x if i & 4 else ~x) & (y if i & 2 else ~y) & (z if i & 1 else ~z)
    return result


def permute_bytes(x: np.ndarray, y: np.ndarray, selector: np.ndarray) -> np.ndarray:
    both = x.astype(np.uint64) | y.astype(np.uint64) << np.uint64(32)
    result = np.zeros_like(both)
    for i in range(4):
        nibble = selector.astype(np.uint64) >> np.uint64(4 * i) & np.uint64(15)
        byte = both >> (nibble & np.uint64(7)) * np.uint64(8) & np.uint64(255)
        sign = np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0))
        result |= np.where(nibble & np.uint64(8), sign, byte) << np.uint64(8 * i)
    return result.astype(np.uint32)


def funnel_shift(parts: list[str], low: np.ndarray, high: np.ndarray, by: np.ndarray) -> np.ndarray:
    by = (by & 31 if "wrap" in parts else np.minimum(by, 32)).astype(np.uint64)
    both = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
    shifted = both << by >> np.uint64(32) if parts[1] == "l" else both >> by
    return (shifted & np.uint64(2**32 - 1)).astype(np.uint32)


def extract_bits(x: np.ndarray, at: np.ndarray, count: np.ndarray) -> np.ndarray:
    """bfe: `count` bits from `at` on, with zeros or the field's sign above."""
    width = 8 * x.dtype.itemsize
    taken = []
    for value, first, n in zip(x.tolist(), (at & 255).tolist(), (count & 255).tolist()):
        bits = (value >> first) & ((1 << n) - 1) if n else 0
        top = min(first + n - 1, width - 1)
        if x.dtype.kind == "i" and n and value >> top & 1:
            bits |= -1 << max(top - first + 1, 0)
        taken.append(bits & ((1 << width) - 1))
    return np.array(taken, np.uint64).astype(f"u{width // 8}").view(x.dtype)


def insert_bits(field: np.ndarray, x: np.ndarray, at: np.ndarray, count: np.ndarray) -> np.ndarray:
    """bfi: `count` low bits of `field` at the bit `at` of x."""
    width = 8 * x.dtype.itemsize
    mask = np.array([((1 << int(n)) - 1 << int(a)) & ((1 << width) - 1)
                     for a, n in zip(at & 255, count & 255)], np.uint64).astype(x.dtype)
    return x & ~mask | shift("shl", field, at) & mask


def dot_bytes(parts: list[str], x: np.ndarray, y: np.ndarray, c: np.ndarray) -> np.ndarray:
    kinds = [np.int8 if part == "s32" else np.uint8 for part in parts[-2:]]
    bytes_of = [np.ascontiguousarray(v).view(kind).reshape(-1, 4).astype(np.int64)
                for v, kind in zip((x, y), kinds)]
    return (c.astype(np.int64) + (bytes_of[0] * bytes_of[1]).sum(1)).astype(np.uint32)


def count_bits(x: np.ndarray) -> np.ndarray:
    return np.array([int(v).bit_count() for v in x], np.uint32)


def leading_zeros(x: np.ndarray) -> np.ndarray:
    return np.array([8 * x.dtype.itemsize - int(v).bit_length() for v in x], np.uint32)


def reverse_bits(x: np.ndarray) -> np.ndarray:
    width = 8 * x.dtype.itemsize
    return np.array([int(f"{int(v):0{width}b}"[::-1], 2) for v in x], np.uint64).astype(x.dtype)


# ---- floats ----
def fused_pairs(kind: str, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z of two 16-bit floats in 32 bits, each rounded once."""
    result = np.zeros_like(x)
    for h in (0, 16):
        halves = [(v >> np.uint32(h) & np.uint32(0xFFFF)).astype(np.uint16) for v in (x, y, z)]
        a, b, c = [(v.view(np.float16) if kind == "f16x2" else widen_bf16(v)).astype(np.float64)
                   for v in halves]
        total = add_to_odd(a * b, c)
        bits = total.astype(np.float16).view(np.uint16) if kind == "f16x2" else bf16_of_f64(total)
        result |= bits.astype(np.uint32) << np.uint32(h)
    return result


def halves_of(kind: str, x: np.ndarray, y: np.ndarray, name: str) -> np.ndarray:
    """x + y, x - y or x * y of pairs, as the same fused."""
    one = np.full_like(x, 0x3C003C00 if kind == "f16x2" else 0x3F803F80)
    sign = np.full_like(x, 0x80008000)
    if name == "mul":
        return fused_pairs(kind, x, y, sign)  # -0, which changes no product
    return fused_pairs(kind, x, one, y if name == "add" else y ^ sign)


def fuse(kind: str, values: list[np.ndarray]) -> np.ndarray:
    if kind in ("f16x2", "bf16x2"):
        return fused_pairs(kind, *values)
    if kind == "f32":
        return fused32(*values)
    return fused64(*values)


# ---- dispatch ----
def compare(machine, op: Instruction, m: np.ndarray) -> np.ndarray:
    x, y = (machine.value(operand, op.type, m) for operand in op.operands[1:3])
    name = op.parts[1]
    if name in ("num", "nan"):
        return (np.isnan(x) | np.isnan(y)) == (name == "nan")
    result = COMPARISONS[name[:2]](x, y)
    if op.type in FLOATS:
        unordered = np.isnan(x) | np.isnan(y)
        result = result | unordered if name.endswith("u") else result & ~unordered
    return result


def set_predicate(machine, op: Instruction, m: np.ndarray) -> None:
    result = compare(machine, op, m)
    first, _, second = op.operands[0].partition("|")
    both = (result, ~result)
    if len(op.operands) > 3:
        other = machine.value(op.operands[3], "pred", m)
        join = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[op.parts[2]]
        both = (join(result, other), join(~result, other))
    machine.put(first, both[0], m)
    if second:
        machine.put(second, both[1], m)


def arithmetic(op: Instruction, v: list[np.ndarray]) -> np.ndarray:
    """Results of the operands, all of the instruction's type."""
    name, kind, parts = op.name, op.type, op.parts
    if APPROXIMATE & set(parts) or {"sat", "cc", "rz", "relu"} & set(parts):
        raise Unsupported(op.text)
    is_float = kind in FLOATS
    if kind in ("f16x2", "bf16x2") and name in ("add", "sub", "mul"):
        return halves_of(kind, *v, name)
    if name in ("add", "sub"):
        return v[0] + v[1] if name == "add" else v[0] - v[1]
    if name == "mul" or name == "mad":
        if "hi" in parts:
            product = multiply_high(v[0], v[1])
        elif "wide" in parts:
            product = v[0].astype(WIDER[kind]) * v[1].astype(WIDER[kind])
        else:
            product = v[0] * v[1]
        return product if name == "mul" else product + v[2]
    if name == "fma":
        return fuse(kind, v)
    if name == "div":
        return v[0] / v[1] if is_float else divide_integers(*v)
    if name in ("min", "max") and is_float:
        return least(*v) if name == "min" else greatest(*v)
    return simple(name, v)


def simple(name: str, v: list[np.ndarray]) -> np.ndarray:
    operations = {
        "rem": remainder, "min": np.minimum, "max": np.maximum, "neg": np.negative, "abs": np.abs,
        "sqrt": np.sqrt, "rcp": lambda x: x.dtype.type(1) / x, "and": np.bitwise_and,
        "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
        "cnot": lambda x: (x == 0).astype(x.dtype), "popc": count_bits, "clz": leading_zeros,
        "brev": reverse_bits, "copysign": lambda x, y: np.copysign(y, x)}
    return operations[name](*v)


KNOWN = {"add", "sub", "mul", "mad", "fma", "div", "rem", "min", "max", "neg", "abs", "sqrt", "rcp",
         "and", "or", "xor", "not", "cnot", "popc", "clz", "brev", "copysign"}


def special(machine, op: Instruction, m: np.ndarray) -> np.ndarray:
    """Instructions whose operands are not all of one type."""
    def value(i: int, kind: str) -> np.ndarray:
        return machine.value(op.operands[i], kind, m)
    name, kind = op.name, op.type
    if name in ("shl", "shr"):
        return shift(name, value(1, kind), value(2, "u32"))
    if name == "selp":
        return np.where(value(3, "pred"), value(1, kind), value(2, kind))
    if name == "lop3":
        table = int(machine.immediate(op.operands[4], "u32")[0])
        return look_up(value(1, "u32"), value(2, "u32"), value(3, "u32"), table)
    if name == "prmt" and len(op.parts) == 2:
        return permute_bytes(value(1, "u32"), value(2, "u32"), value(3, "u32"))
    if name == "shf":
        return funnel_shift(op.parts, value(1, "u32"), value(2, "u32"), value(3, "u32"))
    if name == "bfe":
        return extract_bits(value(1, kind), value(2, "u32"), value(3, "u32"))
    if name == "bfi":
        return insert_bits(value(1, kind), value(2, kind), value(3, "u32"), value(4, "u32"))
    if name == "dp4a":
        return dot_bytes(op.parts, value(1, "u32"), value(2, "u32"), value(3, "u32"))
    if name == "mad":  # wide: the sum's type is not the factors'
        product = value(1, kind).astype(WIDER[kind]) * value(2, kind).astype(WIDER[kind])
        return product + value(3, {"s32": "s64", "u32": "u64", "s16": "s32", "u16": "u32"}[kind])
    raise Unsupported(op.text)


def execute(machine, op: Instruction, m: np.ndarray) -> None:
    name = op.name
    if name == "mov":
        result = machine.value(op.operands[1], op.type, m)
    elif name == "cvt":
        result = convert(machine, op, m)
    elif name == "setp":
        set_predicate(machine, op, m)
        return
    elif name in KNOWN and not (name == "mad" and "wide" in op.parts):
        result = arithmetic(op, [machine.value(operand, op.type, m) for operand in op.operands[1:]])
    else:
        result = special(machine, op, m)
    machine.put(op.operands[0], result, m)
