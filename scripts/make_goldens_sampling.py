#!/usr/bin/env python3
"""Writes what transformers chooses, for the C++ tests of lib/sampling to equal.

    /path/to/venv/bin/python scripts/make_goldens_sampling.py

tests/golden/sampling/chain.json: what the logits processors leave. Each case holds parameters and,
from the float32 chain of transformers' own processors, the ids that are left with the log-softmax
(float64) of their scores; greedy cases hold the raw scores' argmax. Cases where top_p would split a
group of equal scores are refused: torch's sort leaves their order open.

tests/golden/sampling/beams.json: what generate() with num_beams finds on a model of two tables,
    logits = last[ids[-1]] + second[ids[-2]]      (float32)
Each case holds the best output, its score, how often the model was asked, and the smallest distance
between two numbers that a decision compared; cases where that is within rounding are refused.
"""

import itertools
import json
from pathlib import Path

import torch
import transformers
from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.generation import logits_process as hf
from transformers.modeling_outputs import CausalLMOutput

SEED = 20251121
VOCAB = 96
STOP_IDS = [3, 17]
OUT = Path(__file__).resolve().parent.parent / "tests" / "golden" / "sampling"


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


# Beam search.
BEAM_VOCAB = 28
# Two scores that a decision compares lie further apart than float rounding of 24 steps can move
# them: 24 sums of about 50 with half an ulp (2e-6) each.
MIN_MARGIN = 1e-4
PROMPTS = [[5, 9, 5, 12], [1, 20], [7, 7, 25, 13, 2], [8, 0]]
MAX_NEW_TOKENS = 16  # where a case does not say


class TableConfig(PretrainedConfig):
    model_type = "table"


class TableModel(PreTrainedModel, GenerationMixin):
    """logits = last[ids[-1]] + second[ids[-2]]; counts its calls."""

    config_class = TableConfig

    def __init__(self, last: torch.Tensor, second: torch.Tensor):
        super().__init__(TableConfig(vocab_size=len(last), num_hidden_layers=1))
        self.anchor = torch.nn.Parameter(torch.zeros(1))  # generate() asks for a device
        self.last, self.second = last, second
        self.num_calls = 0

    def forward(self, input_ids, **_):
        self.num_calls += 1
        logits = self.last[input_ids[:, -1]] + self.second[input_ids[:, -2]]
        return CausalLMOutput(logits=logits[:, None])

    def prepare_inputs_for_generation(self, input_ids, **_):
        return {"input_ids": input_ids}


def make_tables() -> dict[str, dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(SEED + 2)
    tables = {}
    # How likely the stop ids are: outputs end early, late, or mostly at the limit.
    for name, scale, stop_bias in (("short", 1.5, 1.5), ("long", 1.2, -1.0), ("open", 2.0, -4.0)):
        last = torch.randn(BEAM_VOCAB, BEAM_VOCAB, generator=generator) * scale
        second = torch.randn(BEAM_VOCAB, BEAM_VOCAB, generator=generator) * scale
        last[:, STOP_IDS] += stop_bias
        # Three decimals: a short file, and the same floats when it is read.
        tables[name] = {"last": last.round(decimals=3), "second": second.round(decimals=3)}
    return tables


def make_beam_params() -> list[tuple[str, dict]]:
    """(table, parameters): every length_penalty and early_stopping, then each processor."""
    endings = list(itertools.product([-1.0, 0.0, 0.6, 1.0, 1.2, 2.0], [False, True, "never"]))
    cases = []
    for table, num_beams in itertools.product(("short", "long"), (2, 3, 4, 8)):
        cases += [(table, {"num_beams": num_beams, "length_penalty": penalty,
                           "early_stopping": early}) for penalty, early in endings]
    processors = [
        {"min_new_tokens": 6}, {"repetition_penalty": 1.3}, {"repetition_penalty": 0.8},
        {"no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 1}, {"stop_ids": STOP_IDS[:1]},
        {"stop_ids": [3, 17, 21, 26]}, {"stop_ids": []}, {"max_new_tokens": 1},
        {"max_new_tokens": 24, "min_new_tokens": 24},
        {"min_new_tokens": 4, "repetition_penalty": 1.1, "no_repeat_ngram_size": 3},
    ]
    for more, (table, num_beams) in itertools.product(
            processors, (("short", 3), ("long", 4), ("open", 3))):
        for penalty, early in ((1.2, True), (1.0, False), (0.6, "never")):
            cases.append((table, {"num_beams": num_beams, "length_penalty": penalty,
                                  "early_stopping": early} | more))
    return cases


class Margins:
    """Watches what a beam search compares, for the smallest distance that decided anything."""

    def __init__(self, model: TableModel, num_prompt: int):
        self.smallest = float("inf")
        self.model, self.num_prompt = model, num_prompt

    def __enter__(self):
        self.topk = torch.topk
        torch.topk = self.watch_topk
        self.model._check_early_stop_heuristic = self.watch_end
        return self

    def __exit__(self, *_):
        torch.topk = self.topk
        del self.model._check_early_stop_heuristic

    def watch_topk(self, scores, k):
        # Marks of -1e9 and -inf may tie: they stand for "not there".
        values = self.topk(scores, min(k + 1, scores.shape[-1])).values.flatten()
        values = values[values > -1e8]
        if len(values) > 1:
            self.smallest = min(self.smallest, float((values[:-1] - values[1:]).min()))
        return self.topk(scores, k)

    def watch_end(self, **state):
        if bool(state["is_sent_finished"].all()):
            penalty = state["length_penalty"]
            favours_long = state["early_stopping"] == "never" and penalty > 0
            end = state["max_length"] if favours_long else state["cur_len"]
            best = state["running_beam_scores"][0, 0] / (end - self.num_prompt) ** penalty
            worst = state["beam_scores"].min()
            self.smallest = min(self.smallest, float((best - worst).abs()))
        return type(self.model)._check_early_stop_heuristic(**state)


def run_beams(model: TableModel, prompt: list[int], params: dict) -> dict:
    stop_ids = params.get("stop_ids", STOP_IDS)
    more = {"max_new_tokens": MAX_NEW_TOKENS}
    more |= {key: value for key, value in params.items() if key != "stop_ids"}
    config = GenerationConfig(do_sample=False, use_cache=False, pad_token_id=0,
                              eos_token_id=stop_ids or None, **more)
    model.num_calls = 0
    with Margins(model, len(prompt)) as margins, torch.no_grad():
        found = model.generate(torch.tensor([prompt]), generation_config=config,
                               return_dict_in_generate=True, output_scores=True)
    output = found.sequences[0, len(prompt):].tolist()
    return {"output": output, "score": float(str(found.sequences_scores[0].numpy())),
            "calls": model.num_calls, "margin": float(f"{margins.smallest:.3g}")}


def make_beams() -> None:
    tables = make_tables()
    models = {name: TableModel(**table) for name, table in tables.items()}
    cases, num_refused = [], 0
    for i, (table, params) in enumerate(make_beam_params()):
        prompt = PROMPTS[i // 3 % len(PROMPTS)]  # all of early_stopping on one prompt
        name = " ".join([table] + [f"{key}={value}" for key, value in params.items()])
        found = run_beams(models[table], prompt, params)
        if found["margin"] < MIN_MARGIN:
            num_refused += 1
            continue
        params["early_stopping"] = {False: "no", True: "yes"}.get(params["early_stopping"], "never")
        cases.append({"name": name, "table": table, "prompt": prompt, "params": params}
                     | found)
    write("beams.json", {
        "made_by": made_by(SEED + 2), "vocab": BEAM_VOCAB, "stop_ids": STOP_IDS,
        "max_new_tokens": MAX_NEW_TOKENS,
        "tables": {name: {key: [float(str(x)) for x in rows.flatten().numpy()]
                          for key, rows in table.items()} for name, table in tables.items()},
        "cases": cases})
    print(f"{num_refused} cases refused for their margin")


def made_by(seed: int) -> str:
    return (f"scripts/make_goldens_sampling.py, transformers {transformers.__version__}, "
            f"torch {torch.__version__}, seed {seed}")


def write(name: str, golden: dict) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / name
    path.write_text(
        json.dumps(golden, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n",
        encoding="utf-8")
    print(f"{path}: {len(golden['cases'])} cases, {path.stat().st_size} bytes")


def make_chain() -> None:
    rows, histories = make_rows(), make_histories()
    cases = []
    for row, history, params in CASES:
        name = " ".join([row, history] + [f"{key}={value}" for key, value in params.items()])
        cases.append({"name": name, "row": row, "history": history, "params": params}
                     | run_case(rows[row], histories[history], params))
    write("chain.json", {
        "made_by": made_by(SEED),
        "stop_ids": STOP_IDS,
        "rows": {name: row.tolist() for name, row in rows.items()},
        "histories": {name: {"prompt": prompt, "output": output}
                      for name, (prompt, output) in histories.items()},
        "cases": cases,
    })


def main() -> None:
    make_chain()
    make_beams()


if __name__ == "__main__":
    main()
