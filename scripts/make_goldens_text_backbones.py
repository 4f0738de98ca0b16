#!/usr/bin/env python3
"""Writes what transformers computes (float32, eager attention) for the language models that run in
captioners: tests/golden/families/<model_type>/<case>/, each a configuration, the description of
drawn weights (drawn.py) and expected.json; and tests/golden/rope/frequencies.json.

  make_goldens_text_backbones.py [model_type[/case] ...]      all, or those named
Needs torch and transformers; their versions are stored.
"""

import json
import pathlib
import random
import sys
import tempfile

import numpy as np
import torch
import transformers
from transformers import (
    LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
    Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from drawn import save_case

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests/golden"
NUM_GREEDY = 64
# Logits of two correct implementations differ by less than 1e-4; a choice must be clearer.
LEAST_MARGIN = 1e-3
FAMILIES = {"llama": (LlamaConfig, LlamaForCausalLM), "mistral": (MistralConfig, MistralForCausalLM),
            "qwen2": (Qwen2Config, Qwen2ForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}
SMALL = dict(vocab_size=160, hidden_size=48, intermediate_size=72, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
             rms_norm_eps=1e-5, rope_theta=10000.0, bos_token_id=None, eos_token_id=None)
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}


class Case:
    """`edit` changes the config.json that is committed into another spelling of the same model."""

    def __init__(self, dtype=torch.float32, prompt=40, shard=None, edit=None, **config):
        self.dtype, self.prompt, self.shard, self.edit = dtype, prompt, shard, edit
        self.config = config


def without(*keys):
    def edit(config):
        for key in keys:
            config.pop(key)
    return edit


def old_rope_type(config):
    config["rope_scaling"]["type"] = config["rope_scaling"].pop("rope_type")


def to_rope_parameters(config):
    """The spelling of transformers 5."""
    config["rope_parameters"] = config.pop("rope_scaling") | {"rope_theta": config.pop("rope_theta")}


BF16, F16 = torch.bfloat16, torch.float16
CASES = {
    "llama": {
        "grouped_bf16": Case(BF16),
        "llama3_tied": Case(prompt=100, rope_scaling=dict(LLAMA3), tie_word_embeddings=True),
        "llama3_parameters_bf16": Case(
            BF16, prompt=70, edit=to_rope_parameters, rope_theta=500000.0,
            rope_scaling=LLAMA3 | {"factor": 32.0}),
        "biased_wide_heads_f16": Case(
            F16, shard="15KB", head_dim=24, hidden_size=40, attention_bias=True, mlp_bias=True),
        # Past the original length of 64, with the older name of the key.
        "linear_long": Case(prompt=80, max_position_embeddings=64, edit=old_rope_type,
                            rope_scaling={"rope_type": "linear", "factor": 2.5}),
        "yarn_long_bf16": Case(BF16, prompt=50, max_position_embeddings=128,
                               rope_scaling=dict(YARN)),
        "yarn_mscale": Case(
            prompt=60, num_key_value_heads=4, num_hidden_layers=3,
            rope_scaling=YARN | {"type": "yarn", "factor": 6.0, "mscale": 0.8,
                                 "mscale_all_dim": 0.5, "beta_fast": 8.0, "beta_slow": 2.0,
                                 "truncate": False}),
        "dynamic_f16": Case(F16, prompt=60, max_position_embeddings=128, edit=without("head_dim"),
                            rope_scaling={"rope_type": "dynamic", "factor": 3.0}),
    },
    "mistral": {
        "window_bf16": Case(BF16, prompt=50, sliding_window=16),
        "window_crossed_tied": Case(prompt=20, sliding_window=40, tie_word_embeddings=True),
        "no_window_f16": Case(F16, shard="15KB", sliding_window=None, head_dim=20),
        # Windows that begin and end in different blocks of 128 keys.
        "window_of_blocks": Case(prompt=300, sliding_window=150, hidden_size=32),
        "window_linear": Case(prompt=50, sliding_window=24, num_key_value_heads=1,
                              max_position_embeddings=60,
                              rope_scaling={"rope_type": "linear", "factor": 4.0}),
        "window_yarn_bf16": Case(BF16, prompt=50, sliding_window=33, num_key_value_heads=4,
                                 head_dim=16, max_position_embeddings=128,
                                 rope_scaling=YARN | {"attention_factor": 1.3}),
        # The class default of the window, 4096, is wider than the sequence.
        "default_window": Case(prompt=30, num_hidden_layers=3, edit=without("sliding_window")),
        "window_of_two": Case(prompt=30, sliding_window=2),
    },
    "qwen2": {
        "tied_bf16": Case(BF16, tie_word_embeddings=True, rope_theta=1e6),
        "untied_f16": Case(F16, shard="15KB", num_hidden_layers=3),
        "window_upper_layers": Case(
            prompt=50, num_hidden_layers=3, use_sliding_window=True, sliding_window=16,
            max_window_layers=1, edit=without("layer_types")),
        "window_layer_types": Case(
            prompt=60, num_hidden_layers=4, use_sliding_window=True, sliding_window=20,
            layer_types=["sliding_attention", "full_attention"] * 2),
        "window_all_dynamic_bf16": Case(
            BF16, prompt=60, use_sliding_window=True, sliding_window=31, max_window_layers=0,
            max_position_embeddings=128, rope_scaling={"rope_type": "dynamic", "factor": 2.0}),
        "yarn_long": Case(prompt=60, max_position_embeddings=128, rope_scaling=dict(YARN)),
        "wide_heads_linear": Case(prompt=70, head_dim=24, max_position_embeddings=64,
                                  rope_scaling={"rope_type": "linear", "factor": 2.5}),
        "llama3_tied_f16": Case(F16, prompt=90, rope_scaling=dict(LLAMA3),
                                tie_word_embeddings=True, num_key_value_heads=4),
    },
    "qwen3": {
        "tied_bf16": Case(BF16, head_dim=16, tie_word_embeddings=True, rope_theta=1e6),
        "biased_f16": Case(F16, shard="15KB", head_dim=12, attention_bias=True),
        "window_upper_layers_bf16": Case(
            BF16, prompt=50, head_dim=16, num_hidden_layers=3, use_sliding_window=True,
            sliding_window=16, max_window_layers=2, edit=without("layer_types")),
        "window_layer_types": Case(
            prompt=60, head_dim=20, num_hidden_layers=3, use_sliding_window=True,
            sliding_window=25, layer_types=["full_attention"] + ["sliding_attention"] * 2),
        "yarn_long": Case(prompt=60, head_dim=16, max_position_embeddings=64,
                          rope_scaling={"rope_type": "yarn", "factor": 4.0}),
        "linear_long_tied": Case(prompt=80, head_dim=16, max_position_embeddings=64,
                                 tie_word_embeddings=True,
                                 rope_scaling={"rope_type": "linear", "factor": 2.5}),
        "dynamic": Case(prompt=50, head_dim=16, max_position_embeddings=128,
                        rope_scaling={"rope_type": "dynamic", "factor": 5.5}),
        "llama3": Case(prompt=90, head_dim=16, num_key_value_heads=1,
                       rope_scaling=dict(LLAMA3)),
    },
}


def versions():
    return {"script": "scripts/make_goldens_text_backbones.py", "torch": torch.__version__,
            "transformers": transformers.__version__, "dtype": "float32", "attention": "eager"}


def numbers(tensor):
    """Shortest decimals that read back as the same float32."""
    return [float(str(v)) for v in tensor.detach().flatten().numpy().astype(np.float32)]


@torch.no_grad()
def continue_greedily(model, prompt):
    """Greedy ids, the logits of the prompt and of the last choice, and the smallest margin.

    Every step computes the whole sequence.
    """
    ids, margin, prompt_logits = list(prompt), float("inf"), None
    for _ in range(NUM_GREEDY):
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
        if prompt_logits is None:
            prompt_logits = logits
        best = torch.topk(logits[-1], 2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        ids.append(int(best.indices[0]))
    return ids[len(prompt):], prompt_logits, logits[-1], margin


def check_cached_run(model, prompt, greedy):
    ids = torch.tensor([prompt])
    cached = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NUM_GREEDY,
                            do_sample=False, pad_token_id=0)
    assert cached[0, len(prompt):].tolist() == greedy, "the run with a cache chooses other tokens"


def make_case(family, name, case, seed):
    config_class, model_class = FAMILIES[family]
    config = config_class(**(SMALL | case.config))
    folder = GOLDEN / "families" / family / name
    with tempfile.TemporaryDirectory() as scratch:
        saved = pathlib.Path(scratch)
        model_class(config).to(case.dtype).save_pretrained(
            saved, max_shard_size=case.shard or "1GB")
        save_case(saved, folder, seed, leave_out=("generation_config.json",))
        model = model_class.from_pretrained(saved, dtype=torch.float32,
                                            attn_implementation="eager").eval()
        draw = random.Random(seed)
        prompt = [draw.randrange(config.vocab_size) for _ in range(case.prompt)]
        greedy, prompt_logits, last_logits, margin = continue_greedily(model, prompt)
        if margin < LEAST_MARGIN or len(set(greedy)) < 8:
            return False
        check_cached_run(model, prompt, greedy)
    if case.edit is not None:
        path = folder / "config.json"
        spelled = json.loads(path.read_text())
        case.edit(spelled)
        path.write_text(json.dumps(spelled, indent=2) + "\n")
    rows = [0, len(prompt) // 2, len(prompt) - 1]
    expected = {"made_by": versions(), "prompt": prompt, "logit_rows": rows,
                "logits": numbers(prompt_logits[rows]), "greedy": greedy,
                "greedy_margin": float(f"{margin:.3g}"), "last_logits": numbers(last_logits)}
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}"
                       for key, value in expected.items())
    (folder / "expected.json").write_text("{\n" + lines + "\n}\n")
    print(f"{family}/{name}: seed {seed}, margin {margin:.3g}, {len(set(greedy))} tokens, "
          f"max |logit| {float(prompt_logits.abs().max()):.3g}")
    return True


def make_frequencies():
    """The inverse frequencies of each kind of rotary embedding."""
    kinds = [
        (64, 10000.0, 2048, None), (128, 1e6, 40960, None),
        (128, 10000.0, 4096, {"rope_type": "linear", "factor": 2.5}),
        (96, 10000.0, 4096, {"rope_type": "dynamic", "factor": 2.7}),
        (128, 500000.0, 131072, LLAMA3 | {"original_max_position_embeddings": 8192}),
        (64, 500000.0, 131072, LLAMA3 | {"factor": 32.0,
                                         "original_max_position_embeddings": 8192}),
        (128, 1e6, 40960, YARN | {"original_max_position_embeddings": 32768}),
        (80, 10000.0, 4096, {"rope_type": "yarn", "factor": 16.0}),
        (64, 150000.0, 4096, {"rope_type": "yarn", "factor": 32.0, "truncate": False,
                              "beta_fast": 20.0, "beta_slow": 3.0}),
        (64, 10000.0, 4096, {"rope_type": "yarn", "factor": 40.0, "mscale": 0.707,
                             "mscale_all_dim": 1.1}),
        (64, 10000.0, 4096, {"rope_type": "yarn", "factor": 1.0, "attention_factor": 0.9}),
        # The whole range is interpolated, or none of it.
        (32, 10000.0, 16, {"rope_type": "yarn", "factor": 2.0, "beta_fast": 1.0}),
    ]
    cases = []
    for head_dim, theta, max_positions, scaling in kinds:
        written = {"hidden_size": 2 * head_dim, "num_attention_heads": 2, "rope_theta": theta,
                   "max_position_embeddings": max_positions, "rope_scaling": scaling}
        config = LlamaConfig(**json.loads(json.dumps(written)))
        kind = "default" if scaling is None else scaling["rope_type"]
        inv_freq, attention_scaling = ROPE_INIT_FUNCTIONS[kind](config, device="cpu")
        cases.append({"config": written, "inv_freq": numbers(inv_freq),
                      "attention_scaling": attention_scaling})
    folder = GOLDEN / "rope"
    folder.mkdir(exist_ok=True)
    rows = ",\n".join("  " + json.dumps(case) for case in cases)
    (folder / "frequencies.json").write_text(
        f' {{"made_by": {json.dumps(versions())},\n "cases": [\n{rows}\n ]\n}}\n'.lstrip())


def main():
    wanted = sys.argv[1:]
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    if not wanted:
        make_frequencies()
    for number, (family, cases) in enumerate(CASES.items()):
        for index, (name, case) in enumerate(cases.items()):
            if wanted and family not in wanted and f"{family}/{name}" not in wanted:
                continue
            first = 1000 * (10 * number + index)
            made = any(make_case(family, name, case, first + attempt) for attempt in range(50))
            assert made, f"{family}/{name}: no seed gives clear choices"


if __name__ == "__main__":
    main()
