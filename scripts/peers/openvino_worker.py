"""One work of OpenVINO GenAI, in a process of its own: prints the seconds of each step as JSON.

Run by openvino_peer.py with a JSON object as the only argument. Needs openvino-genai and numpy.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import openvino
import openvino_genai

VOCAB = 151_936
SEED = 20
CACHE_GIB = 8
OWN_TOKENS = 16  # of prompts that share the rest
WARM_UP_TOKENS = 16


def main() -> None:
    spec = json.loads(sys.argv[1])
    pipeline = open_pipeline(spec)
    random = np.random.default_rng(SEED)

    def draw(num_tokens: int) -> np.ndarray:
        return random.integers(0, VOCAB, (1, num_tokens), dtype=np.int64)

    run(pipeline, [draw(WARM_UP_TOKENS)], output_tokens=2)
    context_tokens = spec["context_tokens"]
    prompts = [draw(context_tokens) for _ in range(spec["num_seqs"])]
    if spec["shares_prefix"]:
        shared_tokens = context_tokens - OWN_TOKENS
        for prompt in prompts[1:]:
            prompt[:, :shared_tokens] = prompts[0][:, :shared_tokens]
        run(pipeline, [prompts[0]], output_tokens=2)  # leaves its blocks in the prefix cache
    print(json.dumps({"steps_s": run(pipeline, prompts, spec["output_tokens"])}))


def open_pipeline(spec: dict) -> openvino_genai.ContinuousBatchingPipeline:
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = CACHE_GIB
    scheduler.max_num_seqs = spec["num_seqs"]
    scheduler.max_num_batched_tokens = spec["step_tokens"]
    scheduler.enable_prefix_caching = spec["shares_prefix"]
    return openvino_genai.ContinuousBatchingPipeline(
        spec["model"], scheduler, "CPU",
        {"KV_CACHE_PRECISION": spec["kv_precision"], "INFERENCE_NUM_THREADS": spec["threads"]})


def run(pipeline: openvino_genai.ContinuousBatchingPipeline, prompts: list[np.ndarray],
        output_tokens: int) -> list[float]:
    config = openvino_genai.GenerationConfig()
    config.min_new_tokens = config.max_new_tokens = output_tokens
    config.do_sample = False
    config.ignore_eos = True
    config.set_eos_token_id(0)  # GenAI wants one even where it is ignored
    handles = [pipeline.add_request(i, openvino.Tensor(prompt), config)
               for i, prompt in enumerate(prompts)]
    steps_s = []
    while pipeline.has_non_finished_requests():
        begin = time.perf_counter()
        pipeline.step()
        steps_s.append(time.perf_counter() - begin)
    del handles  # a request whose handle is gone is dropped
    return steps_s


if __name__ == "__main__":
    main()
