#!/usr/bin/env python3
"""Writes tests/golden/times/qwen3_vl.json: the times that transformers writes into prompts of
Qwen3-VL, for pairs of frames of films with common rates, among them pairs whose middle is half a
tenth of a second, where the last bits of a time decide its digit.

    /path/to/venv/bin/python scripts/make_goldens_times.py        (transformers 4.57.6)
"""

import json
import random
from fractions import Fraction
from pathlib import Path

import transformers
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor

SEED = 20261129
OUT = Path(__file__).resolve().parent.parent / "tests" / "golden" / "times" / "qwen3_vl.json"
RATES = [(24, 1), (25, 1), (30, 1), (50, 1), (60, 1), (120, 1), (24000, 1001), (30000, 1001), (60000, 1001)]
NUM_TIES, NUM_OTHERS = 24, 4


def is_tie(pair, rate):
    return (Fraction(sum(pair), 2) / rate * 10 - Fraction(1, 2)).denominator == 1


def pairs_of(rng, rate):
    ties, others = [], []
    for _ in range(200_000):
        # Most near the start, where the error of a quotient is the largest part of a tenth.
        first = rng.randrange(0, rng.choice((1, 1, 1, 60)) * round(rate))
        pair = [first, first + rng.randrange(0, 2 * round(rate))]
        chosen, limit = (ties, NUM_TIES) if is_tie(pair, rate) else (others, NUM_OTHERS)
        if len(chosen) < limit:
            chosen.append(pair)
    return sorted(ties + others)


def main():
    rng = random.Random(SEED)
    cases = []
    for numerator, denominator in RATES:
        indices = [i for pair in pairs_of(rng, Fraction(numerator, denominator)) for i in pair]
        fps = numerator / denominator
        times = Qwen3VLProcessor._calculate_timestamps(None, list(indices), fps)
        cases.append({"numerator": numerator, "denominator": denominator, "frames": indices,
                      "times": [f"{time:.1f}" for time in times]})
    OUT.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"made_by": f"scripts/make_goldens_times.py, transformers {transformers.__version__}, seed {SEED}",
                       "cases": cases})
    OUT.write_text(text.replace('{"numerator"', '\n{"numerator"') + "\n", encoding="utf-8")
    print(OUT, OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
