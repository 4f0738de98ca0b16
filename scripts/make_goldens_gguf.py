#!/usr/bin/env python3
"""Makes tests/golden/gguf: files written by gguf-py, and their values as gguf-py decodes them.

types.gguf         a tensor of each type that the program decodes, [5, 1 to 3 blocks]; keys of every type
types.f32          the values of its tensors, f32, in the order of their names
k_blocks.gguf      Q4_K, Q5_K and Q6_K with several blocks of 256 columns in a row, and other numbers of rows
k_blocks.f32       their values
parts-0000N-of-00003.gguf  three tensors in three files, with llama.cpp's keys of a split
expected.json      {types: [{name, shape}], k_blocks: the same, alignment, scalars, arrays}

Types that gguf-py writes are rounded from normal numbers; the blocks of the others (Q4_K, Q5_K, Q6_K,
IQ4_NL) are random bytes with finite f16 numbers. Three blocks of each type have scales of both signs, of
zero and of the smallest f16 number.

Run: /path/to/venv/bin/python scripts/make_goldens_gguf.py   (gguf, numpy)
"""
import importlib.metadata
import json
import pathlib
import shutil

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

SEED = 22
ROWS = 5
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "gguf"
# Type, blocks in a row, and where the f16 numbers of a block are.
TYPES = [(Type.F32, 7, []), (Type.F16, 7, []), (Type.BF16, 7, []), (Type.Q8_0, 3, [0]), (Type.Q4_0, 3, [0]),
         (Type.Q4_1, 3, [0, 2]), (Type.Q5_0, 3, [0]), (Type.Q5_1, 3, [0, 2]), (Type.IQ4_NL, 3, [0]),
         (Type.Q4_K, 1, [0, 2]), (Type.Q5_K, 1, [0, 2]), (Type.Q6_K, 1, [208])]
# Type, rows, blocks in a row, and where the f16 numbers of a block are.
K_BLOCKS = [(Type.Q4_K, 4, 2, [0, 2]), (Type.Q4_K, 3, 3, [0, 2]), (Type.Q5_K, 3, 3, [0, 2]), (Type.Q5_K, 2, 2, [0, 2]),
            (Type.Q6_K, 3, 2, [208]), (Type.Q6_K, 2, 3, [208])]
ALIGNMENT = 64


def draw_blocks(rng, kind, rows, columns, halves):
    block, size = gguf.GGML_QUANT_SIZES[kind]
    count = rows * columns // block
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in halves:
        blocks[:, at:at + 2] = rng.normal(0, 0.02, (count, 1)).astype(np.float16).view(np.uint8)
    return blocks


def draw(rng, kind, num_blocks, halves, rows=ROWS):
    """The bytes of a tensor [rows, columns] and its columns."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    columns = num_blocks * block
    numbers = rng.normal(0, 0.02, (rows, columns)).astype(np.float32)
    try:
        raw = gguf.quants.quantize(numbers, kind).reshape(rows, -1).view(np.uint8)
    except NotImplementedError:
        raw = draw_blocks(rng, kind, rows, columns, halves).reshape(rows, -1)
    if halves:  # random codes with unusual scales
        blocks = raw.copy().reshape(-1, size)
        special = draw_blocks(rng, kind, rows, columns, halves)[:3]
        for i, scale in enumerate([-0.0, 2.0**-24, -65504.0]):
            for at in halves:
                special[i, at:at + 2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
        blocks[-3:] = special
        raw = blocks.reshape(rows, -1)
    return raw, columns


def write_types(rng):
    writer = gguf.GGUFWriter(OUT / "types.gguf", "llama")
    writer.add_custom_alignment(ALIGNMENT)
    scalars = {"u8": 200, "i8": -100, "u16": 60000, "i16": -30000, "u32": 4000000000, "i32": -2000000000,
               "u64": 2**63 - 1, "i64": -2**62, "f32": 0.1, "f64": 0.1, "bool": True, "string": "영상 \"x\""}
    add = {"u8": writer.add_uint8, "i8": writer.add_int8, "u16": writer.add_uint16, "i16": writer.add_int16,
           "u32": writer.add_uint32, "i32": writer.add_int32, "u64": writer.add_uint64, "i64": writer.add_int64,
           "f32": writer.add_float32, "f64": writer.add_float64, "bool": writer.add_bool,
           "string": writer.add_string}
    for name, value in scalars.items():
        add[name]("test." + name, value)
    arrays = {"ints": [3, -1, 2], "floats": [0.5, -2.0], "bools": [True, False, True],
              "strings": ["a", "", "가나"], "nested": [[1, 2], [3]]}
    for name, value in arrays.items():
        writer.add_array("test." + name, value)
    types, values = [], []
    for kind, num_blocks, halves in sorted(TYPES, key=lambda entry: entry[0].name):
        raw, columns = draw(rng, kind, num_blocks, halves)
        if kind == Type.F32:
            writer.add_tensor(kind.name, raw.view(np.float32))
        elif kind == Type.F16:
            writer.add_tensor(kind.name, raw.view(np.float16))
        else:
            writer.add_tensor(kind.name, raw, raw_dtype=kind)
        types.append({"name": kind.name, "shape": [ROWS, columns]})
        values.append(gguf.quants.dequantize(raw, kind).reshape(-1))
    finish(writer)
    (OUT / "types.f32").write_bytes(np.concatenate(values).astype("<f4").tobytes())
    scalars["f32"] = float(np.float32(0.1))
    return {"types": types, "alignment": ALIGNMENT, "scalars": scalars, "arrays": arrays}


def write_k_blocks(rng):
    writer = gguf.GGUFWriter(OUT / "k_blocks.gguf", "llama")
    types, values = [], []
    for kind, rows, num_blocks, halves in K_BLOCKS:
        raw, columns = draw(rng, kind, num_blocks, halves, rows)
        name = f"{kind.name}.{num_blocks}"
        writer.add_tensor(name, raw, raw_dtype=kind)
        types.append({"name": name, "shape": [rows, columns]})
        values.append(gguf.quants.dequantize(raw, kind).reshape(-1))
    finish(writer)
    (OUT / "k_blocks.f32").write_bytes(np.concatenate(values).astype("<f4").tobytes())
    return types


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_parts(rng):
    for i in range(3):
        writer = gguf.GGUFWriter(OUT / f"parts-{i + 1:05d}-of-00003.gguf", "llama")
        writer.add_uint16("split.no", i)
        writer.add_uint16("split.count", 3)
        writer.add_int32("split.tensors.count", 3)
        writer.add_tensor(f"part.{2 - i}", np.full((2, i + 1), i, np.float32))
        finish(writer)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    rng = np.random.default_rng(SEED)
    expected = write_types(rng)
    write_parts(rng)
    expected["k_blocks"] = write_k_blocks(rng)
    (OUT / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_gguf.py", "seed": SEED, "gguf": importlib.metadata.version("gguf"),
        "numpy": np.__version__}, indent=1) + "\n")


if __name__ == "__main__":
    main()
