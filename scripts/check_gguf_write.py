#!/usr/bin/env python3
"""Compares GGUF files that caption-cli made of a model folder with those of llama.cpp's own converter.

Tensors must be equal in name, type, shape and bytes, and every key that the converter writes equal in type
and value, but for the descriptions of the model (general.name and the like, which the converter guesses from
the folder's name). Keys that only our files have are listed. Not a test: the converter is a checkout of
ggml-org/llama.cpp. It does not know LLaVA-NeXT-Video's tower, so that --text-only is needed there.

Run: /path/to/venv/bin/python scripts/check_gguf_write.py LLAMA_CPP MODEL_FOLDER GGUF_FOLDER f16|q8_0
     [--pre NAME] [--text-only]   (gguf, torch, transformers, sentencepiece)
--pre is what the converter takes for the pre-tokenizer, which it knows of published tokenizers alone.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from gguf import GGUFReader

DESCRIPTIONS = {"general.name", "general.basename", "general.finetune", "general.version", "general.size_label",
                "tokenizer.ggml.add_sep_token",  # false: no captioner has such a token
                "general.organization", "general.license", "general.tags", "general.languages", "general.description"}
MAX_SHOWN = 12
# Runs the converter, with a pre-tokenizer that it does not look up where one is given.
RUN = """
import runpy, sys
folder, pre = sys.argv[1], sys.argv[2]
sys.path.insert(0, folder)
import conversion.base
names = conversion.base.gguf.get_tensor_name_map
conversion.base.gguf.get_tensor_name_map = lambda arch, layers: names(arch, max(layers, 8))  # mlp1.3 is no layer
if pre:
    conversion.base.TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
sys.argv = [folder + "/convert_hf_to_gguf.py", *sys.argv[3:]]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def convert(llama_cpp, model, outtype, out, pre, more):
    command = [sys.executable, "-c", RUN, llama_cpp, pre, model, "--outtype", outtype, "--outfile", str(out), *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the converter failed:\n{done.stderr[-2000:]}")


def keys_of(reader):
    return {key: (field.types, field.contents()) for key, field in reader.fields.items() if not key.startswith("GGUF.")}


def compare(ours_path, theirs_path):
    ours, theirs = GGUFReader(ours_path), GGUFReader(theirs_path)
    faults = []
    our_keys, their_keys = keys_of(ours), keys_of(theirs)
    for key, value in their_keys.items():
        if key in DESCRIPTIONS or our_keys.get(key) == value:
            continue
        found = our_keys.get(key)
        faults.append(f"{key}: {str(found)[:120]}, the converter has {str(value)[:120]}")
        if found and isinstance(value[1], list) and isinstance(found[1], list):
            places = [(i, a, b) for i, (a, b) in enumerate(zip(found[1], value[1])) if a != b]
            faults.append(f"    lengths {len(found[1])}, {len(value[1])}; first differences {places[:4]}")
    our_tensors = {tensor.name: tensor for tensor in ours.tensors}
    their_tensors = {tensor.name: tensor for tensor in theirs.tensors}
    for name in sorted(our_tensors.keys() ^ their_tensors.keys()):
        faults.append(f"{name}: only in the file of {'ours' if name in our_tensors else 'the converter'}")
    for name in our_tensors.keys() & their_tensors.keys():
        a, b = our_tensors[name], their_tensors[name]
        if (a.tensor_type, list(a.shape)) != (b.tensor_type, list(b.shape)):
            faults.append(f"{name}: {a.tensor_type.name} {list(a.shape)}, not {b.tensor_type.name} {list(b.shape)}")
        elif not np.array_equal(a.data.view(np.uint8), b.data.view(np.uint8)):
            faults.append(f"{name}: other bytes ({a.tensor_type.name})")
    extra = sorted(our_keys.keys() - their_keys.keys())
    print(f"{pathlib.Path(ours_path).name}: {len(our_tensors)} tensors, {len(their_keys)} keys of the converter, "
          f"{len(faults)} faults; further keys: {', '.join(extra) or 'none'}")
    for fault in faults[:MAX_SHOWN]:
        print("  " + fault)
    return not faults


def main():
    parser = argparse.ArgumentParser()
    for name in ("llama_cpp", "model", "folder", "outtype"):
        parser.add_argument(name)
    parser.add_argument("--pre", default="")
    parser.add_argument("--text-only", action="store_true")
    args = parser.parse_args()
    files = sorted(pathlib.Path(args.folder).glob("*.gguf"))
    ours = {False: [f for f in files if not f.name.startswith("mmproj")],
            True: [f for f in files if f.name.startswith("mmproj")]}
    is_equal = True
    with tempfile.TemporaryDirectory() as scratch:
        for is_tower in [False] if args.text_only or not ours[True] else [False, True]:
            out = pathlib.Path(scratch) / f"{is_tower}.gguf"
            convert(args.llama_cpp, args.model, args.outtype, out, args.pre, ["--mmproj"] if is_tower else [])
            is_equal &= compare(ours[is_tower][0], out)
    sys.exit(0 if is_equal else 1)


if __name__ == "__main__":
    main()
