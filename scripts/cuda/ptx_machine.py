"""Runs a kernel of PTX on numpy: all threads of the grid at once, those of the lowest instruction first.

Barriers and collectives wait for their threads. Bytes of asynchronous copies arrive when they are
waited for. An access must be aligned and lie within one allocation, or within the shared memory that
the launch asked for. Integer arithmetic and conversions are in ptx_operations.py.
"""

import re

import numpy as np

import ptx_operations
import tensor_core
from ptx import TYPE_BYTES, Instruction, Kernel, Unsupported

# Where the parts of the generic address space begin; addresses of device memory are lower.
SHARED = 1 << 60
LOCAL = 2 << 60
PARAM = 3 << 60
MODULE = 1 << 56  # arrays of the module

TYPES = {"b8": np.uint8, "u8": np.uint8, "s8": np.int8, "b16": np.uint16, "u16": np.uint16,
         "s16": np.int16, "f16": np.float16, "b32": np.uint32, "u32": np.uint32, "s32": np.int32,
         "f32": np.float32, "b64": np.uint64, "u64": np.uint64, "s64": np.int64, "f64": np.float64,
         "bf16x2": np.uint32, "f16x2": np.uint32, "bf16": np.uint16, "pred": np.bool_}
STORAGE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
LANES = 32
WARPGROUP = 4 * LANES
COLLECTIVES = {"shfl", "vote", "ldmatrix", "mma", "wgmma"}
NO_OPERATION = {"membar", "fence", "prefetch", "prefetchu", "discard", "applypriority",
                "griddepcontrol"}


class KernelFault(Exception):
    """What a GPU would stop at, too."""


class Allocations:
    """Ranges of addresses, and their bytes in one array."""

    def __init__(self, ranges: list[tuple[int, bytes]]):
        ranges = sorted(ranges)
        self.begins = np.array([begin for begin, _ in ranges], np.uint64)
        self.sizes = np.array([len(content) for _, content in ranges], np.uint64)
        places, parts, at = [], [], 0
        for _, content in ranges:
            places.append(at)
            parts.append(np.frombuffer(content, np.uint8))
            padding = 16 + -len(content) % 16
            parts.append(np.zeros(padding, np.uint8))
            at += len(content) + padding
        self.places = np.array(places, np.int64)
        self.bytes = np.concatenate(parts) if parts else np.zeros(0, np.uint8)

    def place(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """Where accesses of `size` bytes lie in `bytes`."""
        if addresses.size == 0:
            return addresses.astype(np.int64)
        which = np.searchsorted(self.begins, addresses, "right") - 1
        offsets = addresses - self.begins[which]
        wrong = (which < 0) | (offsets + np.uint64(size) > self.sizes[which])
        if wrong.any():
            raise KernelFault(f"{size} bytes at {addresses[wrong][0]:#x} are in no allocation")
        return self.places[which] + offsets.astype(np.int64)

    def content(self, begin: int) -> np.ndarray:
        which = int(np.searchsorted(self.begins, np.uint64(begin)))
        at = self.places[which]
        return self.bytes[at:at + int(self.sizes[which])]


class Machine:
    """A launch: `launch` has grid, threads, shared_bytes and sums; `memory` is changed by run()."""

    def __init__(self, kernel: Kernel, launch: dict, params: bytes, memory: Allocations):
        self.kernel = kernel
        self.memory = memory
        self.sums = launch["sums"]
        self.threads = launch["threads"]
        x, y, z = launch["grid"]
        self.count = self.threads * x * y * z
        index = np.arange(self.count, dtype=np.uint32)
        thread, self.block = index % self.threads, (index // self.threads).astype(np.int64)
        block = index // np.uint32(self.threads)
        self.special = {"%tid.x": thread, "%laneid": thread % LANES, "%warpid": thread // LANES,
                        "%ctaid.x": block % x, "%ctaid.y": block // x % y, "%ctaid.z": block // (x * y)}
        constant = {"%tid.y": 0, "%tid.z": 0, "%ntid.x": self.threads, "%ntid.y": 1, "%ntid.z": 1,
                    "%nctaid.x": x, "%nctaid.y": y, "%nctaid.z": z}
        self.special |= {name: np.full(self.count, value, np.uint32)
                         for name, value in constant.items()}
        self.registers: dict[str, np.ndarray] = {}
        self.params = np.frombuffer(params + bytes(-len(params) % 16), np.uint8)
        self.symbols: dict[str, int] = {name: 0 for name in kernel.params}
        self.shared_bytes, self.local_bytes = self.place_arrays(launch["shared_bytes"])
        self.shared = np.full((x * y * z, self.shared_bytes + -self.shared_bytes % 16), 0xFF, np.uint8)
        self.local = np.full((self.count, self.local_bytes + -self.local_bytes % 16), 0xFF, np.uint8)
        self.pc = np.zeros(self.count, np.int64)
        self.is_waiting = np.zeros(self.count, bool)
        self.groups = np.zeros(self.count, np.int64)  # of copies, committed by each thread
        self.copies: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []

    def place_arrays(self, dynamic_bytes: int) -> tuple[int, int]:
        """Gives arrays their addresses; returns the bytes of shared memory and of local memory."""
        at = {"shared": 0, "local": 0}
        dynamic = None
        for name, array in self.kernel.arrays.items():
            if array.space in ("const", "global"):
                self.symbols[name] = module_address(self.kernel, name)
            elif array.size == 0:
                dynamic = name
            else:
                at[array.space] += -at[array.space] % array.alignment
                self.symbols[name] = at[array.space]
                at[array.space] += array.size
        if dynamic is not None:
            at["shared"] += -at["shared"] % 16
            self.symbols[dynamic] = at["shared"]
        return at["shared"] + dynamic_bytes, at["local"]

    # ---- values ----
    def raw(self, name: str, m: np.ndarray) -> np.ndarray:
        if name in self.special:
            return self.special[name][m]
        if name not in self.registers:  # not written on any way here: any value may do
            return np.zeros(m.size, self.storage(name))
        return self.registers[name][m]

    def storage(self, name: str) -> type:
        kind = self.kernel.registers.get(name) or self.kernel.registers.get(re.sub(r"\d+$", "", name))
        if kind is None:
            raise Unsupported(f"register {name}")
        return np.bool_ if kind == "pred" else STORAGE[TYPE_BYTES[kind]]

    def immediate(self, text: str, kind: str):
        size = np.dtype(TYPES[kind]).itemsize
        if text[:2] in ("0f", "0F", "0d", "0D"):
            value = int(text[2:], 16)
        elif text in self.symbols:
            value = self.symbols[text]
        elif match := re.fullmatch(r"([\w$]+)\s*\+\s*(\d+)", text):
            value = self.symbols[match.group(1)] + int(match.group(2))
        else:
            value = int(text.rstrip("U"), 0)
        return np.array([value & ((1 << 8 * size) - 1)], STORAGE[size]).view(TYPES[kind])

    def value(self, operand: str, kind: str, m: np.ndarray) -> np.ndarray:
        """The operand of the threads m as an array of a type: its low bytes, if the register has more."""
        if operand.startswith("!"):
            return ~self.value(operand[1:], kind, m)
        if operand[0] == "{":
            return self.packed(operand, kind, m)
        if operand[0] != "%" and operand not in self.kernel.registers:
            return np.broadcast_to(self.immediate(operand, kind), m.shape)
        raw = self.raw(operand, m)
        if kind == "pred" or raw.dtype == np.bool_:
            return raw != 0
        size = np.dtype(TYPES[kind]).itemsize
        return raw.astype(STORAGE[size], copy=False).view(TYPES[kind])

    def packed(self, operand: str, kind: str, m: np.ndarray) -> np.ndarray:
        """{low, ..., high} as one number: mov.b32 %r1, {%rs1, %rs2}."""
        names = names_of(operand)
        size = np.dtype(TYPES[kind]).itemsize
        part = f"b{8 * size // len(names)}"
        parts = [self.value(name, part, m).astype(np.uint64) << np.uint64(8 * size // len(names) * i)
                 for i, name in enumerate(names)]
        return np.bitwise_or.reduce(parts).astype(STORAGE[size]).view(TYPES[kind])

    def put(self, name: str, value: np.ndarray, m: np.ndarray) -> None:
        if name == "_":
            return
        if name[0] == "{":
            names = names_of(name)
            size = value.dtype.itemsize // len(names)
            raw = np.ascontiguousarray(value).view(STORAGE[size]).reshape(m.size, len(names))
            for i, part in enumerate(names):
                self.put(part, raw[:, i], m)
            return
        storage = self.storage(name)
        if name not in self.registers:
            self.registers[name] = np.zeros(self.count, storage)
        if storage != np.bool_:
            value = np.ascontiguousarray(value)
            size = np.dtype(storage).itemsize
            if value.dtype.itemsize == size:
                value = value.view(storage)
            elif value.dtype.kind == "i":
                value = value.astype(f"i{size}").view(storage)
        self.registers[name][m] = value

    # ---- memory ----
    def address(self, operand: str, m: np.ndarray) -> np.ndarray:
        match = re.fullmatch(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\w+))?\s*\]", operand)
        if match is None:
            raise Unsupported(f"address {operand}")
        base, offset = match.groups()
        return self.value(base, "u64", m) + np.uint64(int(offset or "0", 0) & (2**64 - 1))

    def locate(self, space: str, addresses: np.ndarray, size: int, m: np.ndarray):
        """The array of bytes that holds the addresses, and where in it they are."""
        if space == "generic":
            window = int(addresses.max()) & (3 << 60)
            space = {SHARED: "shared", LOCAL: "local", PARAM: "param"}.get(window, "global")
            if ((addresses & np.uint64(3 << 60)) != np.uint64(window)).any():
                raise Unsupported("a generic access of several spaces at once")
            addresses = addresses - np.uint64(window)
        if (addresses % np.uint64(size) != 0).any():
            raise KernelFault(f"misaligned {space} address, access of {size} bytes")
        if space in ("global", "const"):
            return self.memory.bytes, self.memory.place(addresses, size)
        if space == "param":
            return self.params, addresses.astype(np.int64)
        whole, limit, row = ((self.shared, self.shared_bytes, self.block[m]) if space == "shared"
                             else (self.local, self.local_bytes, m))
        if (addresses + np.uint64(size) > np.uint64(limit)).any():
            raise KernelFault(f"{space} address {int(addresses.max()):#x} beyond {limit} bytes")
        return whole.reshape(-1), row * whole.shape[1] + addresses.astype(np.int64)

    def load_bytes(self, space: str, addresses: np.ndarray, size: int, m: np.ndarray) -> np.ndarray:
        if m.size == 0:
            return np.zeros((0, size), np.uint8)
        held, at = self.locate(space, addresses, size, m)
        return held[at[:, None] + np.arange(size)]

    def store_bytes(self, space: str, addresses: np.ndarray, content: np.ndarray, m: np.ndarray) -> None:
        if m.size == 0:
            return
        size = content.shape[1]
        held, at = self.locate(space, addresses, size, m)
        held[at[:, None] + np.arange(size)] = content

    def do_ld(self, op: Instruction, m: np.ndarray) -> None:
        names = names_of(op.operands[0])
        size = np.dtype(TYPES[op.type]).itemsize
        content = self.load_bytes(space_of(op), self.address(op.operands[1], m), size * len(names), m)
        for i, name in enumerate(names):
            part = np.ascontiguousarray(content[:, i * size:(i + 1) * size])
            self.put(name, part.view(TYPES[op.type])[:, 0], m)

    def do_st(self, op: Instruction, m: np.ndarray) -> None:
        parts = [np.ascontiguousarray(self.value(name, op.type, m)).view(np.uint8).reshape(m.size, -1)
                 for name in names_of(op.operands[1])]
        self.store_bytes(space_of(op), self.address(op.operands[0], m), np.concatenate(parts, 1), m)

    def do_cvta(self, op: Instruction, m: np.ndarray) -> None:
        base = {"shared": SHARED, "local": LOCAL, "param": PARAM}.get(space_of(op), 0)
        value = self.value(op.operands[1], "u64", m)
        moved = value - np.uint64(base) if "to" in op.parts else value + np.uint64(base)
        self.put(op.operands[0], moved, m)

    def do_atom(self, op: Instruction, m: np.ndarray) -> None:
        """Threads change a word in the order of their numbers."""
        result, where, by = op.operands if op.name == "atom" else (None, *op.operands)
        is_sum = "add" in op.parts
        if op.type not in ("u32", "b32") or not (is_sum or "or" in op.parts):
            raise Unsupported(op.text)
        held, at = self.locate(space_of(op), self.address(where, m), 4, m)
        words, word_of = np.unique(at, return_inverse=True)
        before = held[words[:, None] + np.arange(4)].view(np.uint32)[:, 0]
        x = self.value(by, "u32", m)
        after = before.copy()
        found = np.empty(m.size, np.uint32)
        if is_sum:
            order = np.argsort(word_of, kind="stable")
            sums = x[order].cumsum(dtype=np.uint32) - x[order]
            firsts = np.searchsorted(word_of[order], np.arange(words.size))
            found[order] = before[word_of[order]] + sums - sums[firsts][word_of[order]]
            np.add.at(after, word_of, x)
        else:
            for thread, word in enumerate(word_of):
                found[thread] = after[word]
                after[word] |= x[thread]
        held[words[:, None] + np.arange(4)] = after.view(np.uint8).reshape(-1, 4)
        if result is not None:
            self.put(result, found, m)

    do_red = do_atom

    # ---- asynchronous copies ----
    def do_cp(self, op: Instruction, m: np.ndarray) -> None:
        if op.parts[1] != "async" or "bulk" in op.parts:
            raise Unsupported(op.text)
        if op.parts[2] == "commit_group":
            self.groups[m] += 1
        elif op.parts[2] == "wait_group":
            self.finish_copies(m, int(op.operands[0]))
        elif op.parts[2] == "wait_all":
            self.groups[m] += 1
            self.finish_copies(m, 0)
        else:
            self.begin_copy(op, m)

    def begin_copy(self, op: Instruction, m: np.ndarray) -> None:
        size = int(op.operands[2])
        read = (self.value(op.operands[3], "u32", m) if len(op.operands) > 3
                else np.full(m.size, size, np.uint32))
        if (~np.isin(read, (0, size))).any():
            raise Unsupported("an asynchronous copy of a part of its bytes")
        content = np.zeros((m.size, size), np.uint8)
        source = self.address(op.operands[1], m)
        content[read > 0] = self.load_bytes("global", source[read > 0], size, m[read > 0])
        self.copies.append((m, self.groups[m].copy(), self.address(op.operands[0], m), content))

    def finish_copies(self, m: np.ndarray, left: int) -> None:
        """Stores what the threads m copied in groups but the last `left`."""
        is_waiter = np.zeros(self.count, bool)
        is_waiter[m] = True
        kept = []
        for threads, group, to, content in self.copies:
            done = is_waiter[threads] & (group < self.groups[threads] - left)
            self.store_bytes("shared", to[done], content[done], threads[done])
            if not done.all():
                kept.append((threads[~done], group[~done], to[~done], content[~done]))
        self.copies = kept

    # ---- collectives: m holds whole warps, or warpgroups ----
    def do_shfl(self, op: Instruction, m: np.ndarray) -> None:
        mode = op.parts[2]
        target, _, predicate = op.operands[0].partition("|")
        x = self.value(op.operands[1], "u32", m).reshape(-1, LANES)
        by = self.value(op.operands[2], "u32", m).reshape(-1, LANES).astype(np.int64) & 31
        limits = self.value(op.operands[3], "u32", m).reshape(-1, LANES).astype(np.int64)
        lane = np.arange(LANES)
        segment, clamp = limits >> 8 & 31, limits & 31
        most = lane & segment | clamp & ~segment
        source = {"up": lane - by, "down": lane + by, "bfly": lane ^ by,
                  "idx": lane & segment | by & ~segment}[mode]
        is_inside = source >= most if mode == "up" else source <= most
        source = np.where(is_inside, source, lane)
        self.put(target, np.take_along_axis(x, source, 1).reshape(-1), m)
        if predicate:
            self.put(predicate, np.broadcast_to(is_inside, x.shape).reshape(-1), m)

    def do_vote(self, op: Instruction, m: np.ndarray) -> None:
        x = self.value(op.operands[1], "pred", m).reshape(-1, LANES)
        if "ballot" in op.parts:
            bits = (x.astype(np.uint64) << np.arange(LANES, dtype=np.uint64)).sum(1).astype(np.uint32)
        else:
            bits = {"all": x.all(1), "any": x.any(1), "uni": x.all(1) | ~x.any(1)}[op.parts[2]]
        self.put(op.operands[0], np.repeat(bits, LANES), m)

    def do_ldmatrix(self, op: Instruction, m: np.ndarray) -> None:
        names = names_of(op.operands[0])
        addresses = self.address(op.operands[1], m).reshape(-1, LANES)[:, :8 * len(names)]
        rows_of = m.reshape(-1, LANES)[:, :8 * len(names)].reshape(-1)
        content = self.load_bytes("shared", addresses.reshape(-1), 16, rows_of)
        elements = content.view(np.uint16).reshape(-1, len(names), 8, 8)  # warp, matrix, row, column
        lane = np.arange(LANES)
        for i, name in enumerate(names):
            first, second = [elements[:, i, lane % 4 * 2 + h, lane // 4] if "trans" in op.parts else
                             elements[:, i, lane // 4, lane % 4 * 2 + h] for h in (0, 1)]
            pairs = first.astype(np.uint32) | second.astype(np.uint32) << np.uint32(16)
            self.put(name, pairs.reshape(-1), m)

    def do_mma(self, op: Instruction, m: np.ndarray) -> None:
        shape = next(part for part in op.parts if re.fullmatch(r"m\d+n\d+k\d+", part))
        sizes = [int(n) for n in re.findall(r"\d+", shape)]
        to_kind, a_kind, b_kind, _ = op.parts[-4:]
        if op.parts[-4 - 2:-4] != ["row", "col"]:
            raise Unsupported(op.text)
        names = [names_of(operand) for operand in op.operands]
        a = self.fragments(names[1], m, (sizes[0], sizes[2]), a_kind, False)
        b = self.fragments(names[2], m, (sizes[1], sizes[2]), b_kind, True).transpose(0, 2, 1)
        rows, columns = sum_places(len(names[3]))
        c = np.zeros((m.size // LANES, sizes[0], sizes[1]), TYPES[to_kind])
        for i, name in enumerate(names[3]):
            c[:, rows[i], columns[i]] = self.value(name, to_kind, m).reshape(-1, LANES)
        if to_kind == "f32" and a_kind in ("bf16", "f16", "e4m3") and a_kind == b_kind:
            if a_kind == "e4m3" and self.sums == "hopper":
                raise Unsupported(op.text)
            c = tensor_core.multiply_floats(self.sums, a_kind, a, b, c)
        elif to_kind == "s32" and {a_kind, b_kind} <= {"s8", "u8"}:
            c = tensor_core.multiply_bytes(a, b, c)
        else:
            raise Unsupported(op.text)
        for i, name in enumerate(names[0]):
            self.put(name, np.ascontiguousarray(c[:, rows[i], columns[i]]).reshape(-1), m)

    def do_wgmma(self, op: Instruction, m: np.ndarray) -> None:
        """Products of a warpgroup, made when they begin: c [64, n] += a [64, 16] * b."""
        if op.parts[1] in ("fence", "commit_group", "wait_group"):
            return
        sizes = re.fullmatch(r"m64n(\d+)k16", op.parts[4])
        if sizes is None or op.parts[5:] != ["f32", "bf16", "bf16"] or op.operands[3:] != ["1", "1", "1", "0"]:
            raise Unsupported(op.text)
        n = int(sizes.group(1))
        names = [names_of(operand) for operand in op.operands[:2]]
        a = self.fragments(names[1], m, (16, 16), "bf16", False)
        b = self.rows_of_descriptor(self.value(op.operands[2], "u64", m), m, n)
        b = np.repeat(b, WARPGROUP // LANES, 0).transpose(0, 2, 1)
        c = np.zeros((m.size // LANES, 16, n), np.float32)
        rows, columns = sum_places(4)
        places = [(rows[i % 4], columns[i % 4] + i // 4 * 8) for i in range(len(names[0]))]
        for name, (row, column) in zip(names[0], places):
            c[:, row, column] = self.value(name, "f32", m).reshape(-1, LANES)
        c = tensor_core.multiply_floats(self.sums, "bf16", a, b, c)
        for name, (row, column) in zip(names[0], places):
            self.put(name, np.ascontiguousarray(c[:, row, column]).reshape(-1), m)

    def rows_of_descriptor(self, descriptors: np.ndarray, m: np.ndarray, n: int) -> np.ndarray:
        """The matrix [warpgroups, n, 16] of 16-bit elements in shared memory that matrix descriptors name:
        rows of 128 bytes in groups of 8, of which the swizzle exchanges units of 16 bytes."""
        each = descriptors.reshape(-1, WARPGROUP)
        if (each != each[:, :1]).any():
            raise KernelFault("threads of a warpgroup have different matrix descriptors")
        of_group = each[:, 0]
        used = np.uint64(0x3FFF | 0x3FFF << 32 | 3 << 62)
        if (of_group & ~used).any() or (of_group >> np.uint64(62) != 1).any():
            raise Unsupported("a matrix descriptor that is not of rows of 128 bytes, swizzled")
        begin = (of_group & np.uint64(0x3FFF)) << np.uint64(4)
        distance = (of_group >> np.uint64(32) & np.uint64(0x3FFF)) << np.uint64(4)
        row = np.arange(n, dtype=np.uint64)[None, :, None]
        unit = np.arange(2, dtype=np.uint64)[None, None, :]
        address = (begin[:, None, None] + row // np.uint64(8) * distance[:, None, None]
                   + row % np.uint64(8) * np.uint64(128) + unit * np.uint64(16))
        address ^= (address >> np.uint64(7) & np.uint64(7)) << np.uint64(4)
        threads = np.repeat(m.reshape(-1, WARPGROUP)[:, 0], 2 * n)
        content = self.load_bytes("shared", address.reshape(-1), 16, threads)
        return content.view(np.uint16).reshape(-1, n, 16)

    def fragments(self, names: list[str], m: np.ndarray, shape: tuple[int, int], kind: str,
                  is_b: bool) -> np.ndarray:
        """The matrix [warps, rows, k] that registers hold; of B, whose k is consecutive in a register,
        the transposed one."""
        bits = {"bf16": np.uint16, "f16": np.uint16, "e4m3": np.uint8}
        dtype = np.dtype(bits[kind] if kind in bits else TYPES[kind])
        each = 4 // dtype.itemsize  # elements of a register, along k
        matrix = np.zeros((m.size // LANES, *shape), dtype)
        lane = np.arange(LANES)
        row_groups = 1 if is_b else shape[0] // 8
        for i, name in enumerate(names):
            words = np.ascontiguousarray(self.value(name, "u32", m)).view(dtype)
            words = words.reshape(-1, LANES, each)
            row = lane // 4 + i % row_groups * 8
            for e in range(each):
                matrix[:, row, lane % 4 * each + e + i // row_groups * 4 * each] = words[:, :, e]
        return matrix

    # ---- control ----
    def ready_for(self, op: Instruction, m: np.ndarray, now: int) -> np.ndarray:
        """The threads that a barrier or collective lets go on: those whose block, or warp, has come.
        The others of m wait."""
        is_barrier = op.name in ("bar", "barrier") and op.parts[1] != "warp"
        size = self.threads if is_barrier else WARPGROUP if op.name == "wgmma" else LANES
        is_here = (self.pc == now).reshape(-1, size)
        has_ended = (self.pc == self.end).reshape(-1, size)
        is_complete = (is_here | has_ended).all(1) if is_barrier else is_here.all(1)
        go = (is_here & is_complete[:, None]).reshape(-1)
        self.is_waiting[m] = True
        self.is_waiting[go] = False
        return np.nonzero(go)[0]

    def step(self, op: Instruction, m: np.ndarray) -> None:
        name = op.name
        if name in ("ret", "exit"):
            self.pc[m] = self.end
        elif name == "bra":
            self.pc[m] = self.kernel.labels[op.operands[0]]
        elif name == "trap":
            raise KernelFault("the kernel ends in a trap")
        elif name in ("bar", "barrier") or name in NO_OPERATION:
            pass
        elif handler := getattr(self, f"do_{name}", None):
            handler(op, m)
        else:
            ptx_operations.execute(self, op, m)

    def run(self) -> int:
        """Runs the launch; returns the number of steps. Raises KernelFault or Unsupported."""
        self.end = len(self.kernel.code)
        steps = 0
        while True:
            now = int(np.where(self.is_waiting, self.end, self.pc).min())
            if now >= self.end:
                if self.is_waiting.any():
                    raise KernelFault("threads wait for others at "
                                      + self.kernel.code[int(self.pc[self.is_waiting].min())].text)
                return steps
            op = self.kernel.code[now]
            m = np.nonzero((self.pc == now) & ~self.is_waiting)[0]
            steps += 1
            meets = op.name in COLLECTIVES or op.name in ("bar", "barrier")
            if meets:
                if op.predicate is not None:
                    raise Unsupported(op.text)
                m = self.ready_for(op, m, now)
            self.pc[m] = now + 1
            if op.predicate is not None:
                m = m[self.value(op.predicate, "pred", m) != op.is_negated]
            if m.size:
                with np.errstate(all="ignore"):
                    self.step(op, m)


def module_address(kernel: Kernel, name: str) -> int:
    """The address of an array of the module; each has 1 MiB of addresses."""
    names = [n for n, array in kernel.arrays.items() if array.space in ("const", "global")]
    return MODULE + (names.index(name) << 20)


def module_arrays(kernel: Kernel) -> list[tuple[int, bytes]]:
    return [(module_address(kernel, name), array.content) for name, array in kernel.arrays.items()
            if array.space in ("const", "global")]


def names_of(operand: str) -> list[str]:
    return [name.strip() for name in operand.strip("{}").split(",")]


def space_of(op: Instruction) -> str:
    for part in op.parts:
        if part.split("::")[0] in ("global", "shared", "param", "local", "const"):
            return part.split("::")[0]
    return "generic"


def sum_places(count: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Rows and columns of the elements of C that lanes hold, by register."""
    lane = np.arange(LANES)
    return ([lane // 4 + i // 2 * 8 for i in range(count)], [lane % 4 * 2 + i % 2 for i in range(count)])
