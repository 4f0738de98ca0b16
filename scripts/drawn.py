#!/usr/bin/env python3
"""Checkpoints whose weights are drawn from a seed, so that goldens hold no weights.

save_case() takes a folder as transformers saved it, gives every tensor drawn values, and describes
the files in tensors.json beside the configuration. tests/support/drawn_checkpoint.cpp draws the
same numbers from that description.

A value is center + j * 2^scale / 128 with j in [-128, 127] from the name, the seed and the index;
it is exact in f32, bf16 and f16 for scales from -7 to 0. With center 1, j is halved and the scale
is 0, so that values lie in [0.5, 1.5). An entry of tensors.json may multiply its values by
2^"power", or give them ("values", or "text" of bytes). Integers are the top bits that are drawn.
"""

import json
import math
import pathlib
import shutil
import tempfile

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
INTEGERS = {"U8": (np.uint8, 56), "I8": (np.uint8, 56), "I32": (np.uint32, 32)}  # shift of the bits
OWN_FILES = ("tensors.json", "expected.json")


def splitmix64(z):
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def fnv1a(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return np.uint64(value)


def draw_bits(name, shape, seed):
    with np.errstate(over="ignore"):
        start = splitmix64(fnv1a(name) + np.uint64(seed) * GOLDEN)
        indices = np.arange(math.prod(shape), dtype=np.uint64) + np.uint64(1)
        return splitmix64(start + indices * GOLDEN)


def draw(name, shape, seed, center, scale):
    """The values of a tensor, f32."""
    bits = draw_bits(name, shape, seed)
    j = (bits >> np.uint64(56)).astype(np.uint8).view(np.int8).astype(np.float32)
    values = 1 + np.floor(j / 2) / 128 if center == 1 else j * np.float32(2.0 ** (scale - 7))
    return values.astype(np.float32).reshape(shape)


def tensor_of(entry, seed):
    """The tensor that an entry of tensors.json describes."""
    name, dtype, shape = entry["name"], entry["dtype"], tuple(entry["shape"])
    numpy_type = {"I8": np.int8, "I32": np.int32, "U8": np.uint8}.get(dtype, np.float32)
    if dtype == "F8_E4M3":  # no NaN
        bits = (draw_bits(name, shape, seed) >> np.uint64(56)).astype(np.uint8).reshape(shape)
        bits = bits - ((bits & 0x7F) == 0x7F).astype(np.uint8)
        return torch.from_numpy(bits).view(torch.float8_e4m3fn)
    if "text" in entry:
        values = np.frombuffer(entry["text"].encode(), dtype=np.uint8).copy()
    elif "values" in entry:
        values = np.array(entry["values"], dtype=numpy_type)
    elif dtype in INTEGERS:
        unsigned, shift = INTEGERS[dtype]
        bits = draw_bits(name, shape, seed) >> np.uint64(shift)
        values = bits.astype(unsigned).view(numpy_type)
    else:
        values = draw(name, shape, seed, entry["center"], entry["scale"])
        values = values * np.float32(2.0 ** entry.get("power", 0))
    tensor = torch.from_numpy(values.reshape(shape))
    floats = {name: floating for floating, name in DTYPES.items()}
    return tensor.to(floats[dtype]) if dtype in floats else tensor


def default_spread(name, shape):
    """(center, scale): norms around 1, vectors small, matrices about 1.4 / sqrt(fan-in)."""
    if len(shape) == 1:
        return (1, 0) if "norm" in name and name.endswith("weight") else (0, -3)
    if "embed_tokens" in name or "position" in name or "pos_embed" in name:
        return 0, -1
    fan_in = math.prod(shape[1:])
    return 0, max(-7, min(0, round(math.log2(1.4 * math.sqrt(3) / math.sqrt(fan_in)))))


def redraw(folder, seed, spread=default_spread):
    """Replaces the values of all safetensors files of a folder; returns their description."""
    files, tensors = sorted(path.name for path in folder.glob("*.safetensors")), []
    for index, file in enumerate(files):
        drawn = {}
        with safe_open(folder / file, "pt") as opened:
            metadata = opened.metadata()
            for name in sorted(opened.keys()):
                tensor = opened.get_tensor(name)
                center, scale = spread(name, tuple(tensor.shape))
                values = torch.from_numpy(draw(name, tuple(tensor.shape), seed, center, scale))
                drawn[name] = values.to(tensor.dtype).contiguous()
                assert torch.equal(drawn[name].float(), values), name
                tensors.append({"name": name, "dtype": DTYPES[tensor.dtype],
                                "shape": list(tensor.shape), "center": center, "scale": scale,
                                "file": index})
        save_file(drawn, folder / file, metadata=metadata)
    return {"seed": seed, "files": files, "tensors": tensors}


def write_description(description, folder, **more):
    """Writes tensors.json; "file" is an index into "files"."""
    head = {"seed": description["seed"], "files": description["files"]} | more
    rows = ",\n".join("  " + json.dumps(row) for row in description["tensors"])
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items())
    (folder / "tensors.json").write_text("{\n" + lines + ',\n "tensors": [\n' + rows + "\n ]\n}\n")


def save_case(saved, case, seed, spread=default_spread, shared=(), leave_out=()):
    """Draws the weights of `saved` in place and writes `case`: its other files and tensors.json.

    `shared` names files, relative to `case`, that the checkpoint also holds and that several cases
    have in common, such as a tokenizer's. Subfolders that hold safetensors files are cases too.
    """
    saved, case = pathlib.Path(saved), pathlib.Path(case)
    shutil.rmtree(case, ignore_errors=True)
    case.mkdir(parents=True)
    common = {pathlib.Path(name).name for name in shared}
    for path in sorted(saved.iterdir()):
        if path.is_dir():
            save_case(path, case / path.name, seed + 1, spread)
        elif path.suffix != ".safetensors" and path.name not in common | set(leave_out):
            shutil.copyfile(path, case / path.name)
    write_description(redraw(saved, seed, spread), case, shared=list(shared))


def write_case(case, folder):
    """Writes the files of a case and its drawn weights to `folder`, as save_case() found them."""
    case, folder = pathlib.Path(case), pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(case.iterdir()):
        if path.is_dir():
            write_case(path, folder / path.name)
        elif path.name not in OWN_FILES:
            shutil.copyfile(path, folder / path.name)
    description = json.loads((case / "tensors.json").read_text())
    for name in description["shared"]:
        shutil.copyfile(case / name, folder / pathlib.Path(name).name)
    for index, file in enumerate(description["files"]):
        tensors = {row["name"]: tensor_of(row, description["seed"])
                   for row in description["tensors"] if row["file"] == index}
        save_file(tensors, folder / file, metadata={"format": "pt"})


def main():
    """Writes tests/golden/weights/drawn, with which the C++ side is compared."""
    case = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/weights/drawn"
    tensors = {"layer.weight": torch.zeros(3, 5, dtype=torch.bfloat16),
               "layer.norm.weight": torch.zeros(9), "layer.bias": torch.zeros(4).half()}
    with tempfile.TemporaryDirectory() as scratch:
        saved = pathlib.Path(scratch)
        save_file(tensors, saved / "model.safetensors")
        save_case(saved, case, seed=7)
        with safe_open(saved / "model.safetensors", "pt") as opened:
            expected = {name: opened.get_tensor(name).float().flatten().tolist()
                        for name in sorted(opened.keys())}
    (case / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
