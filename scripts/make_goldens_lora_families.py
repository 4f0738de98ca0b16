#!/usr/bin/env python3
"""Writes adapters of the captioner families, and what PEFT computes with them, for the C++ tests.

  make_goldens_lora_families.py [CASE...]   tests/golden/lora/<case>/: adapter_config.json,
      tensors.json (drawn weights, see drawn.py) and expected.json as captioner_goldens.py writes
      it, computed with the adapter beside the weights of a family's golden checkpoint, and compared
      here with the adapter merged into them

Needs peft and accelerate besides the packages of captioner_goldens.py.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers
from peft import PeftModel, __version__ as peft_version

import captioner_goldens as goldens
import drawn
from make_goldens_internvl import InternVl
from make_goldens_llava_onevision import TEMPLATE, Onevision
from make_goldens_lora import OUT, save_adapter, spread
from make_goldens_qwen2_5_vl import Qwen25Vl
from make_goldens_qwen3_vl import Qwen3Vl

FAMILIES = {"internvl": lambda folder: InternVl(folder, 56),
            "llava_onevision": lambda folder: Onevision(folder, TEMPLATE),
            "qwen2_5_vl": Qwen25Vl, "qwen3_vl": Qwen3Vl}
TEXT = r".*language_model.*\."  # modules of the language model; towers have some of the same names

# The adapters: of the language model alone (_text, and for mixed batches _qv and _mlp), and of
# every linear layer of language model, tower and merger or projector (_all).
CASES = {
    "internvl_text": ("internvl/vit_300m_f32", dict(
        r=4, lora_alpha=8, target_modules=TEXT + "(q_proj|k_proj|v_proj|o_proj)$")),
    "internvl_all": ("internvl/vit_6b_bf16", dict(
        r=3, lora_alpha=6, target_modules="all-linear")),
    "llava_onevision_text": ("llava_onevision/qwen2_tied", dict(
        r=5, lora_alpha=10, target_modules=TEXT + "(q_proj|v_proj|gate_proj|down_proj)$")),
    "llava_onevision_all": ("llava_onevision/qwen3_f32", dict(
        r=2, lora_alpha=5, use_rslora=True, target_modules="all-linear")),
    "qwen2_5_vl_text": ("qwen2_5_vl/shards_f16", dict(
        r=4, lora_alpha=6, target_modules=TEXT + "(q_proj|k_proj|up_proj|down_proj)$")),
    "qwen2_5_vl_all": ("qwen2_5_vl/untied_f32", dict(
        r=3, lora_alpha=6, target_modules="all-linear")),
    "qwen3_vl_text": ("qwen3_vl/untied_f32", dict(
        r=4, lora_alpha=8, target_modules=TEXT + "(q_proj|k_proj|v_proj|o_proj|gate_proj)$")),
    "qwen3_vl_qv": ("qwen3_vl/untied_f32", dict(
        r=8, lora_alpha=4, target_modules=TEXT + "(q_proj|v_proj)$")),
    "qwen3_vl_mlp": ("qwen3_vl/untied_f32", dict(
        r=2, lora_alpha=7, target_modules=TEXT + "(up_proj|down_proj)$")),
    "qwen3_vl_all": ("qwen3_vl/uneven_sections", dict(
        r=3, lora_alpha=6, target_modules="all-linear")),
}


def furthest(some, others):
    """The largest difference of the logits of two results."""
    return max(float(np.abs(np.subtract(a[key]["values"], b[key]["values"])).max())
               for a, b in zip(some, others) for key in ("features", "logits", "last_logits"))


def make_case(name, base, options, seed):
    """Whether no greedy choice was close with the adapter of this seed."""
    expected = json.loads((goldens.GOLDEN / base / "expected.json").read_text())
    clips = [row["frames"] for row in expected["clips"]]
    with tempfile.TemporaryDirectory() as scratch:
        folder, adapter = pathlib.Path(scratch) / "base", pathlib.Path(scratch) / "adapter"
        drawn.write_case(goldens.GOLDEN / base, folder)
        open_family = FAMILIES[base.split("/")[0]]
        save_adapter(open_family(folder).model, base, options, adapter)
        drawn.save_case(adapter, OUT / name, seed, spread)
        family = open_family(folder)
        family.prompts = family.prompts[:1]
        tuned = PeftModel.from_pretrained(family.model, adapter).eval()  # changes family.model
        results = goldens.expect(family, clips)
        if results is None:
            return False
        tuned.merge_and_unload()
        merged = goldens.expect(family, clips)
    assert [row["greedy"] for row in merged] == [row["greedy"] for row in results], name
    assert all(row["greedy"] != plain["greedy"] for row, plain in zip(results, expected["clips"]))
    goldens.write_expected(OUT / name / "expected.json", family, clips, results, base=base,
                           peft=peft_version)
    print(name, "seed", seed, "margins", [row["margin"] for row in results],
          f"merged {furthest(results, merged):.3g}", flush=True)
    return True


def main():
    transformers.utils.logging.disable_progress_bar()
    with torch.no_grad():
        for name, (base, options) in CASES.items():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            if not any(make_case(name, base, options, seed) for seed in range(1, 100)):
                raise SystemExit(f"{name}: no seed without close choices")


if __name__ == "__main__":
    main()
