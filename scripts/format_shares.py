#!/usr/bin/env python3
"""The speed of every format of weights, loaded or made, as a share of what the machine could do, beside bf16's share.

Makes the formats of a model's folder with `caption-cli quantize`, and of its F16 GGUF file files of the other GGUF types
(package gguf; blocks of K types are random), then decodes random tokens with each: `caption-cli bench --model`, in
turns with bf16, whose share is measured before each one. The figure is the share of the roofline of bandwidth and
16-bit arithmetic, which `bench` calibrates in each run, for products of 8 bits, too; a ratio to bf16's of 1 says that a format gains all of the bytes that it saves.

    scripts/random_checkpoint.py --hidden 1024 --intermediate 3072 --layers 28 --kv-heads 8 --layers-per-file 4 \
        -o /tmp/formats/base
    scripts/format_shares.py --cli build/auto/apps/caption-cli/caption-cli /tmp/formats/base
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

AT_LOAD = ("int8", "w8a8", "int4", "w4a8", "nf4")
MADE = ("nf4", "fp4", "int8", "w8a8", "w4a16", "awq", "gptq", "gguf-q8_0", "gguf-q4_0")
GGUF_TYPES = ("Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "Q4_K", "Q5_K", "Q6_K")
# Bytes of a block before and after which its factors stand, as pairs of an offset and a count of F16 numbers.
K_FACTORS = {"Q4_K": ((0, 2),), "Q5_K": ((0, 2),), "Q6_K": ((208, 1),), "IQ4_NL": ((0, 1),)}


def run(command):
    finished = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        sys.exit(f"format_shares: exit code {finished.returncode} of: {' '.join(map(str, command))}\n{finished.stderr}")
    return finished.stdout


def make(cli, base, folder, name):
    """Returns the made folder; one that is complete stays."""
    made = folder / name
    run([cli, "quantize", "-q", base, "-o", made, "--format", name])
    return made


def random_blocks(numpy, shape, kind):
    """Blocks of a GGUF type for which gguf has no rounding: random codes, and factors of about 2^-9."""
    import gguf
    per_block, num_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    random = numpy.random.default_rng(20)
    blocks = random.integers(0, 256, size=(shape[0], shape[1] // per_block, num_bytes), dtype=numpy.uint8)
    for offset, count in K_FACTORS[kind]:
        factors = (random.random((*blocks.shape[:2], count)) * 2.0 ** -9).astype(numpy.float16)
        blocks[:, :, offset:offset + 2 * count] = factors.view(numpy.uint8)
    return blocks.reshape(shape[0], -1)


def write_gguf(source, kind, target):
    """Writes `source`, a folder of a text and a tower file in F16, with matrices of the text of another type."""
    import gguf
    import numpy
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.gguf")):
        if path.name.startswith("mmproj"):
            shutil.copy(path, target)
            continue
        reader = gguf.GGUFReader(path)
        writer = gguf.GGUFWriter(target / path.name, reader.fields["general.architecture"].contents())
        for field in reader.fields.values():
            if field.name.startswith("GGUF.") or field.name == "general.architecture":
                continue
            of_elements = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], of_elements)
        for tensor in reader.tensors:
            if tensor.tensor_type != gguf.GGMLQuantizationType.F16:
                writer.add_tensor(tensor.name, tensor.data)
                continue
            raw = gguf.GGMLQuantizationType[kind]
            if kind in K_FACTORS:
                rows = random_blocks(numpy, tensor.data.shape, kind)
            else:
                rows = gguf.quants.quantize(tensor.data.astype(numpy.float32), raw)
            writer.add_tensor(tensor.name, rows, raw_dtype=raw)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return target


def models(args):
    """Pairs of a name and the options of `bench`."""
    folder = args.base.parent
    for name in AT_LOAD:
        yield f"{name}, made at load", ["--model", args.base, "--dtype", name]
    for name in MADE:
        made = make(args.cli, args.base, folder, name)
        model = next((path for path in sorted(made.glob("*.gguf")) if not path.name.startswith("mmproj")), made)
        yield f"{name}, folder", ["--model", model, "--dtype", "bf16"]
    f16 = make(args.cli, args.base, folder, "gguf-f16")
    for kind in GGUF_TYPES:
        made = folder / f"gguf-{kind}"
        if not made.exists():
            write_gguf(f16, kind, made)
        model = next(path for path in sorted(made.glob("*.gguf")) if not path.name.startswith("mmproj"))
        yield f"{kind}, GGUF", ["--model", model, "--dtype", "bf16"]


def measure(args, options, sequences):
    """(tok/s, share of the roofline, GB of weights read by a step) of decoding."""
    text = run([*args.before.split(), args.cli, "bench", "--requests", sequences, "--max-num-seqs", sequences,
                "--prompt-tokens", 16, "--output-tokens", args.tokens, "--json", "-", *options])
    report = json.loads(text)
    variant = report["variants"][0]
    timed = variant["runs"][variant["median_run"]]
    share = max(timed[name] / statistics.mean(report[when][rate] for when in ("machine_before", "machine_after"))
                for name, rate in (("bytes_per_s", "read_bytes_per_s"), ("flops_per_s", "flops_per_s")))
    return timed["output_tokens_per_s"], share


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path, help="folder with weights of 16 bits; formats are made beside it")
    parser.add_argument("--cli", required=True, type=Path)
    parser.add_argument("--sequences", default="1,16")
    parser.add_argument("--tokens", type=int, default=48, help="of each sequence")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="only formats whose names have one of these parts")
    parser.add_argument("--before", default="", help="words before each command, as nice or taskset")
    args = parser.parse_args()
    chosen = [pair for pair in models(args) if any(part in pair[0] for part in args.only.split(","))]
    print("| format | sequences | tok/s | share | bf16's share | ratio |\n|---|--:|--:|--:|--:|--:|")
    for sequences in args.sequences.split(","):
        for name, options in chosen:
            pairs = [(measure(args, ["--model", args.base, "--dtype", "bf16"], sequences),
                      measure(args, options, sequences)) for _ in range(args.rounds)]
            ratios = sorted(theirs[1] / bf16[1] for bf16, theirs in pairs)
            middle = [statistics.median(figures) for figures in
                      ([theirs[0] for _, theirs in pairs], [theirs[1] for _, theirs in pairs],
                       [bf16[1] for bf16, _ in pairs], ratios)]
            print(f"| {name} | {sequences} | {middle[0]:.1f} | {middle[1]:.0%} | {middle[2]:.0%} | "
                  f"{middle[3]:.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}] |", flush=True)


if __name__ == "__main__":
    main()
