#!/usr/bin/env python3
"""Writes tests/golden/sampling/chain.json: what the logits processors of transformers leave.

    /path/to/venv/bin/python scripts/make_goldens_sampling.py

Each case holds parameters and, from the float32 chain of transformers' own processors, the ids that
are left with the log-softmax (float64) of their scores; greedy cases hold the raw scores' argmax.
Cases where top_p would split a group of equal scores are refused: torch's sort leaves their order
open.
"""

import json
from pathlib import Path

import torch
import transformers
from transformers.generation import logits_process as hf

SEED = 20251121
VOCAB = 96
STOP_IDS = [3, 17]
OUT = Path(__file__).resolve().parent.parent / "tests" / "golden" / "sampling" / "chain.json"


def make_rows() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(SEED)
    spread = torch.randn(VOCAB, generator=generator) * 3
    peaked = torch.randn(VOCAB, generator=generator)
    peaked[41] = 14.0
    # Steps of 1/2: every value several times, among them the k-th largest and the largest.
    tied = torch.round(torch.randn(VOCAB, generator=generator) * 2) / 2
    tied[[5, 70]] = tied.max() + 1
    return {"spread": spread, "peaked": peaked, "tied": tied}


def make_histories() -> dict[str, tuple[list[int], list[int]]]:
    generator = torch.Generator().manual_seed(SEED + 1)
    prompt = torch.randint(0, VOCAB, (24,), generator=generator).tolist()
    output = torch.randint(0, VOCAB, (9,), generator=generator).tolist()
    few = torch.randint(0, 5, (40,), generator=generator).tolist()
    return {"mixed": (prompt, output), "first": (prompt, []), "repetitive": (few[:20], few[20:]),
            "short": ([7], [])}


# row, history, then the parameters that differ from "off".
CASES = [
    ("spread", "mixed", {}),
    ("spread", "mixed", {"temperature": 0.7}),
    ("spread", "mixed", {"temperature": 1.9}),
    ("spread", "mixed", {"temperature": 0.05}),
    ("spread", "mixed", {"top_k": 1}),
    ("spread", "mixed", {"top_k": 50}),
    ("spread", "mixed", {"top_k": 500}),
    ("spread", "mixed", {"top_p": 0.9}),
    ("spread", "mixed", {"top_p": 0.35}),
    ("spread", "mixed", {"top_p": 1e-6}),
    ("spread", "mixed", {"top_p": 0.999999}),
    ("spread", "mixed", {"temperature": 0.7, "top_k": 50, "top_p": 0.9}),
    ("spread", "mixed", {"temperature": 0.8, "top_k": 5, "top_p": 0.95}),
    ("spread", "mixed", {"repetition_penalty": 1.1}),
    ("spread", "mixed", {"repetition_penalty": 0.8}),
    ("spread", "mixed", {"no_repeat_ngram_size": 1}),
    ("spread", "first", {"min_new_tokens": 4}),
    ("spread", "mixed", {"min_new_tokens": 9}),
    ("spread", "mixed", {"min_new_tokens": 10}),
    ("spread", "repetitive", {"no_repeat_ngram_size": 2}),
    ("spread", "repetitive", {"no_repeat_ngram_size": 3}),
    ("spread", "repetitive", {"no_repeat_ngram_size": 4}),
    ("spread", "short", {"no_repeat_ngram_size": 2}),
    ("spread", "short", {"no_repeat_ngram_size": 3}),
    ("spread", "repetitive", {"repetition_penalty": 1.1, "no_repeat_ngram_size": 3,
                              "min_new_tokens": 30, "temperature": 0.7, "top_k": 50,
                              "top_p": 0.9}),
    ("peaked", "mixed", {"top_p": 0.9}),
    ("peaked", "mixed", {"temperature": 3.0, "top_k": 20, "top_p": 0.95}),
    ("peaked", "repetitive", {"repetition_penalty": 1.3, "temperature": 2.0}),
    ("tied", "mixed", {}),
    ("tied", "mixed", {"top_k": 1}),
    ("tied", "mixed", {"top_k": 9}),
    ("tied", "mixed", {"top_k": 30, "temperature": 0.6}),
    ("tied", "mixed", {"repetition_penalty": 1.1, "top_k": 12}),
    ("spread", "mixed", {"temperature": 0}),
    ("tied", "mixed", {"temperature": 0}),
    ("tied", "repetitive", {"temperature": 0, "no_repeat_ngram_size": 2}),
    ("peaked", "mixed", {"temperature": 0, "repetition_penalty": 5.0}),
    ("tied", "first", {"temperature": 0, "min_new_tokens": 1, "repetition_penalty": 1.5}),
]


def first_group(params: dict, num_prompt: int) -> list:
    chain = []
    if "repetition_penalty" in params:
        chain.append(hf.RepetitionPenaltyLogitsProcessor(params["repetition_penalty"]))
    if "no_repeat_ngram_size" in params:
        chain.append(hf.NoRepeatNGramLogitsProcessor(params["no_repeat_ngram_size"]))
    if "min_new_tokens" in params:
        chain.append(hf.MinNewTokensLengthLogitsProcessor(num_prompt, params["min_new_tokens"],
                                                          torch.tensor(STOP_IDS)))
    return chain


def second_group(params: dict) -> list:
    chain = []
    if "temperature" in params:
        chain.append(hf.TemperatureLogitsWarper(params["temperature"]))
    if "top_k" in params:
        chain.append(hf.TopKLogitsWarper(params["top_k"]))
    if "top_p" in params:
        chain.append(hf.TopPLogitsWarper(params["top_p"]))
    return chain


def run_case(row: torch.Tensor, history: tuple[list[int], list[int]], params: dict) -> dict:
    ids = torch.tensor([history[0] + history[1]])
    scores = row.clone()[None]
    for processor in first_group(params, len(history[0])):
        scores = processor(ids, scores)
    if params.get("temperature") == 0:
        return {"kept": [int(scores.argmax())], "log_probs": [0.0]}
    for warper in second_group(params):
        before, scores = scores, warper(ids, scores)
        if isinstance(warper, hf.TopPLogitsWarper):
            kept, removed = before[~scores.isinf()], before[scores.isinf()]
            assert removed.numel() == 0 or kept.min() > removed.max(), "top_p splits a tie"
    log_probs = torch.log_softmax(scores[0].double(), dim=-1)
    kept = torch.nonzero(~scores[0].isinf()).flatten()
    return {"kept": kept.tolist(), "log_probs": [round(x, 10) for x in log_probs[kept].tolist()]}


def main() -> None:
    rows, histories = make_rows(), make_histories()
    cases = []
    for row, history, params in CASES:
        name = " ".join([row, history] + [f"{key}={value}" for key, value in params.items()])
        cases.append({"name": name, "row": row, "history": history, "params": params}
                     | run_case(rows[row], histories[history], params))
    golden = {
        "made_by": f"scripts/make_goldens_sampling.py, transformers {transformers.__version__}, "
                   f"torch {torch.__version__}, seed {SEED}",
        "stop_ids": STOP_IDS,
        "rows": {name: row.tolist() for name, row in rows.items()},
        "histories": {name: {"prompt": prompt, "output": output}
                      for name, (prompt, output) in histories.items()},
        "cases": cases,
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(golden, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n",
                   encoding="utf-8")
    print(f"{OUT}: {len(cases)} cases, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
