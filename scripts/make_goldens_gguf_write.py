#!/usr/bin/env python3
"""Makes tests/golden/gguf_write: numbers, and the blocks that gguf-py makes of them.

  values.f32   rows of 64 numbers: drawn in several scales, and the cases where rounding is decided, that is zeros
               of both signs, halves between codes, equal magnitudes of both signs, scales that are subnormal in f16
  TYPE.bin     gguf.quants.quantize() of them, for F16, BF16, Q8_0 and Q4_0

Run: /path/to/venv/bin/python scripts/make_goldens_gguf_write.py   (gguf, numpy)
"""
import importlib.metadata
import json
import pathlib
import shutil

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

SEED, COLUMNS = 31, 64
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "gguf_write"


def rows():
    rng = np.random.default_rng(SEED)
    for scale in (1e-9, 1e-7, 3e-5, 0.02, 1, 50, 5000):
        yield from rng.normal(0, scale, (12, COLUMNS))
    yield from rng.uniform(-1, 1, (12, COLUMNS)).astype(np.float16)
    yield np.zeros(COLUMNS)
    yield -np.zeros(COLUMNS)
    yield np.where(np.arange(COLUMNS) % 2, 1.5, -1.5)
    yield np.where(np.arange(COLUMNS) % 2, -1.5, 1.5)
    yield np.concatenate([np.arange(-31.5, 32), [127.0]])[:COLUMNS]  # halves, and codes of Q8_0 when 127 is there
    yield np.concatenate([[127.0], np.arange(-15.5, 15.5), [-127.0], np.arange(-15.5, 15.5)])[:COLUMNS]
    yield np.concatenate([[-8.0], np.arange(-7.75, 7.75, 0.5), [8.0], np.arange(-7.75, 7.75, 0.5)])[:COLUMNS]
    yield np.concatenate([[1e-30], np.zeros(COLUMNS - 1)])
    yield np.concatenate([[65504.0], np.full(COLUMNS - 1, 1.0)])


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    values = np.array(list(rows()), dtype=np.float32)
    values.astype("<f4").tofile(OUT / "values.f32")
    for kind in (Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0):
        with np.errstate(over="ignore"):
            np.ascontiguousarray(gguf.quants.quantize(values, kind)).tofile(OUT / f"{kind.name}.bin")
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_gguf_write.py", "seed": SEED, "columns": COLUMNS,
        "gguf": importlib.metadata.version("gguf"), "numpy": np.__version__}, indent=1) + "\n")


if __name__ == "__main__":
    main()
