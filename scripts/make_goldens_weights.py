#!/usr/bin/env python3
"""Makes tests/golden/weights: checkpoints written by the safetensors library, and their values.

single/   model.safetensors with every dtype the program reads, and F64, which it only lists
sharded/  the same tensors as model.safetensors.index.json and two shards
expected.json  {tensors: [{name, dtype, shape, values}]}, values exact in a double

Run: /path/to/venv/bin/python scripts/make_goldens_weights.py   (torch, safetensors)
"""
import json
import pathlib
import shutil

import safetensors
import torch
from safetensors.torch import save_file

SEED = 20
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "weights"


def tensors():
    generator = torch.Generator().manual_seed(SEED)
    normal = lambda *shape: torch.randn(*shape, generator=generator)
    integers = lambda low, high, *shape: torch.randint(low, high, shape, generator=generator)
    return {
        "model.embed.weight": normal(3, 5),
        "model.layers.0.weight": normal(4, 3).to(torch.bfloat16),
        "model.layers.0.bias": normal(7).to(torch.float16),
        "vision.patch.weight": normal(2, 3, 1, 2, 2),
        "scale": normal(1).reshape(()),
        "empty": torch.zeros(0, 4),
        "codes.i8": integers(-128, 128, 3).to(torch.int8),
        "codes.u8": integers(0, 256, 5).to(torch.uint8),
        "codes.i32": integers(-(2**31), 2**31, 2, 2).to(torch.int32),
        "codes.i64": integers(-(2**40), 2**40, 3),
        "listed.f64": normal(2).to(torch.float64),
    }


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    (OUT / "single").mkdir(parents=True)
    (OUT / "sharded").mkdir()
    everything = tensors()
    save_file(everything, OUT / "single" / "model.safetensors", metadata={"format": "pt"})
    names = sorted(everything)
    weight_map = {}
    for i, part in enumerate([names[::2], names[1::2]]):
        shard = f"model-{i + 1:05d}-of-00002.safetensors"
        save_file({name: everything[name] for name in part}, OUT / "sharded" / shard)
        weight_map.update({name: shard for name in part})
    index = {"metadata": {"total_size": sum(t.nbytes for t in everything.values())}, "weight_map": weight_map}
    (OUT / "sharded" / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    rows = [{"name": name, "dtype": str(everything[name].dtype).removeprefix("torch."),
             "shape": list(everything[name].shape), "values": everything[name].flatten().double().tolist()}
            for name in names]
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    (OUT / "expected.json").write_text('{\n "tensors": [\n' + lines + "\n ]\n}\n")
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_weights.py", "seed": SEED, "torch": torch.__version__,
        "safetensors": safetensors.__version__}, indent=1) + "\n")


if __name__ == "__main__":
    main()
