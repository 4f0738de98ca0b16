#!/usr/bin/env python3
"""Times transformers with sdpa on random weights of the shape that caption_gpu_bench_on_gpu takes.

Prefill of 4,608 tokens, and decoding of 1, 32 and 64 sequences after 1,152 tokens, as generate() does
it: a line of JSON each, with tokens per second. The weights are drawn on the device; nothing is
downloaded. --small is for a test on a machine without a GPU. Exits with 77 where torch, transformers
or a GPU is missing.
"""

import argparse
import json
import sys
import time

SHAPES = {
    "qwen3-8b": {"hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
                 "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                 "vocab_size": 151936, "tie_word_embeddings": False},
    "qwen3-1.7b": {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28,
                   "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
                   "vocab_size": 151936, "tie_word_embeddings": True},
    "small": {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
              "vocab_size": 300, "tie_word_embeddings": False},
}
LARGE_BYTES = 36 << 30  # of memory, from which a GPU takes qwen3-8b: tests/gpu/gpu_bench.cpp


def make_model(torch, transformers, shape: str, device: str):
    config = transformers.Qwen3Config(max_position_embeddings=40960, **SHAPES[shape])
    default = torch.get_default_dtype()
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    finally:
        torch.set_default_dtype(default)
    return model.to(device, dtype).eval()


def time_generate(torch, model, ids, new_tokens: int) -> float:
    def synchronize():
        if ids.is_cuda:
            torch.cuda.synchronize()

    synchronize()
    begin = time.perf_counter()
    made = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                          min_new_tokens=new_tokens, max_new_tokens=new_tokens, pad_token_id=0)
    synchronize()
    assert made.shape[1] == ids.shape[1] + new_tokens
    return time.perf_counter() - begin


def say(**result) -> None:
    print(json.dumps({"result": "transformers", **result}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    try:
        import torch
        import transformers
    except ImportError as error:
        print(f"transformers_bench: {error}", file=sys.stderr)
        return 77
    if not small and not torch.cuda.is_available():
        print("transformers_bench: torch sees no GPU", file=sys.stderr)
        return 77
    device = "cpu" if small else "cuda"
    shape = "small"
    if not small:
        memory = torch.cuda.get_device_properties(0).total_memory
        shape = "qwen3-8b" if memory >= LARGE_BYTES else "qwen3-1.7b"
    model = make_model(torch, transformers, shape, device)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "model": shape}
    prefill, prompt, outputs = (20, 8, 3) if small else (4608, 1152, 65)
    with torch.inference_mode():
        generator = torch.Generator(device).manual_seed(20)

        def draw(batch: int, tokens: int):
            return torch.randint(10, model.config.vocab_size, (batch, tokens), generator=generator,
                                 device=device)

        ids = draw(1, prefill)
        time_generate(torch, model, ids, 1)
        seconds = min(time_generate(torch, model, ids, 1) for _ in range(3))
        say(case=f"prefill of {prefill} tokens", seconds=seconds, prompt_tokens_per_s=prefill / seconds,
            **versions)
        for batch in (1, 32, 64):
            try:
                ids = draw(batch, prompt)
                time_generate(torch, model, ids, 2)
                first = min(time_generate(torch, model, ids, 1) for _ in range(2))
                whole = min(time_generate(torch, model, ids, outputs) for _ in range(2))
            except torch.OutOfMemoryError as error:
                say(case=f"decoding of {batch}", error=str(error).splitlines()[0], **versions)
                continue
            step = (whole - first) / (outputs - 1)
            say(case=f"decoding of {batch} after {prompt} tokens", step_s=step,
                output_tokens_per_s=batch / step, with_prefill_tokens_per_s=batch * outputs / whole,
                **versions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
