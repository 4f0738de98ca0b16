#!/usr/bin/env python3
"""Writes what transformers computes (float32, eager attention) for the C++ tests to equal.

  make_goldens_model.py                     tests/golden/model/<case>.json, from the checkpoints of
                                            make_checkpoints.py and the frames of golden_frames.py
  make_goldens_model.py --demo --cli BIN    tests/golden/demo/<clip>.json for samples/demo-model on
                                            every clip of samples/videos; the frames are those that
                                            `BIN inspect --dump-frames DIR VIDEO` wrote, so both
                                            sides start from the same RGB
Needs torch, torchvision, transformers, sentencepiece, numpy, xxhash; versions are stored.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import torch
import transformers
import xxhash
from safetensors.torch import load_file
from transformers import (
    CLIPVisionModel, GenerationConfig, LlamaTokenizer, LlamaTokenizerFast,
    LlavaNextVideoForConditionalGeneration, LlavaNextVideoVideoProcessor, Qwen3ForCausalLM)

from golden_frames import synthetic_frame
from make_goldens_sampling import Margins

ROOT = pathlib.Path(__file__).resolve().parent.parent
NUM_GREEDY = 24
NUM_FRAMES = 3
KOREAN = "이 영상을 자세히 설명해 주세요."
# What users type: joint tokenisation with the template must come out as the reference's.
PROMPTS = [
    KOREAN, "What is happening in this video?", "", " leading and trailing ", "두  칸\n새 줄",
    "이모지 🎬와 한자 漢字", "USER: again ASSISTANT:", "a < b > c <vide o>",
]


def versions(**more):
    return {"script": "scripts/make_goldens_model.py", "torch": torch.__version__,
            "transformers": transformers.__version__, "dtype": "float32",
            "attention": "eager"} | more


def numbers(tensor):
    """Shortest decimals that read back as the same float32."""
    return [float(str(v)) for v in tensor.detach().flatten().numpy().astype(np.float32)]


def xxh(array):
    return xxhash.xxh3_128_hexdigest(np.ascontiguousarray(array).tobytes())


class Llava:
    """A LLaVA-NeXT-Video checkpoint as transformers runs it."""

    def __init__(self, folder):
        self.model = LlavaNextVideoForConditionalGeneration.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager").eval()
        self.processor = LlavaNextVideoVideoProcessor.from_pretrained(folder)
        self.tokenizer = LlamaTokenizer.from_pretrained(folder)
        self.fast_tokenizer = LlamaTokenizerFast.from_pretrained(folder)
        self.video_id = self.model.config.video_token_index
        self.eos_id = self.tokenizer.eos_token_id

    def pixel_values(self, frames):
        video = torch.from_numpy(frames).permute(0, 3, 1, 2)
        return self.processor(videos=[video], return_tensors="pt").pixel_values_videos

    def features(self, pixel_values):
        config = self.model.config
        (features,) = self.model.get_video_features(
            pixel_values, vision_feature_layer=config.vision_feature_layer,
            vision_feature_select_strategy=config.vision_feature_select_strategy)
        return features.reshape(-1, features.shape[-1])

    def prompt_ids(self, question, num_tokens):
        text = "USER: " + "<video>" * num_tokens + f"\n{question} ASSISTANT:"
        ids = self.tokenizer(text).input_ids
        assert ids == self.fast_tokenizer(text).input_ids, question
        return ids

    def start(self, ids, pixel_values, features):
        """The logits of all of a prompt's tokens, and the cache to go on from."""
        output = self.model(input_ids=torch.tensor([ids]), use_cache=True,
                            pixel_values_videos=pixel_values)
        return output.logits[0], output.past_key_values

    def advance(self, token, cache):
        """The logits after one more token; the cache grows in place."""
        return self.model(input_ids=torch.tensor([[token]]), use_cache=True,
                          past_key_values=cache).logits[0, -1]

    def search(self, ids, pixel_values, features, config):
        """What generate() finds, and the smallest margin of a decision on the way."""
        with Margins(self.model, len(ids)) as margins:
            found = self.model.generate(torch.tensor([ids]), pixel_values_videos=pixel_values,
                                        generation_config=config)
        return found, margins.smallest


class Composed:
    """CLIP, a projector and Qwen3, put together by hand as the users do (field.md 0)."""

    def __init__(self, folder, layer, drop_cls, pool_stride, projector):
        self.vision = CLIPVisionModel.from_pretrained(
            folder / "vision", dtype=torch.float32, attn_implementation="eager").eval()
        self.llm = Qwen3ForCausalLM.from_pretrained(
            folder / "llm", dtype=torch.float32, attn_implementation="eager").eval()
        self.processor = LlavaNextVideoVideoProcessor.from_pretrained(folder / "vision")
        # The fast one is what AutoTokenizer gives; the two differ on a leading space.
        self.tokenizer = LlamaTokenizerFast.from_pretrained(folder / "llm")
        self.eos_id = self.tokenizer.eos_token_id
        self.video_id = self.tokenizer.convert_tokens_to_ids("<video>")
        self.weights = {k: v.float() for k, v in load_file(folder / projector).items()}
        self.layer, self.drop_cls, self.pool_stride = layer, drop_cls, pool_stride

    pixel_values = Llava.pixel_values

    def features(self, pixel_values):
        hidden = self.vision(pixel_values[0], output_hidden_states=True).hidden_states[self.layer]
        if self.drop_cls:
            hidden = hidden[:, 1:]
        if self.pool_stride > 1:
            side = int(hidden.shape[1] ** 0.5)
            grid = hidden.permute(0, 2, 1).reshape(len(hidden), -1, side, side)
            grid = torch.nn.functional.avg_pool2d(grid, self.pool_stride)
            hidden = grid.flatten(2).permute(0, 2, 1)
        linear = torch.nn.functional.linear
        if "weight" in self.weights:
            hidden = linear(hidden, self.weights["weight"], self.weights["bias"])
        else:
            hidden = linear(hidden, self.weights["0.weight"], self.weights["0.bias"])
            hidden = linear(torch.nn.functional.gelu(hidden), self.weights["2.weight"],
                            self.weights["2.bias"])
        return hidden.reshape(-1, hidden.shape[-1])

    def prompt_ids(self, question, num_tokens):
        # Template "{video}{prompt}": <s>, the vision tokens, then the text on its own.
        bos, *text = self.tokenizer(question).input_ids
        return [bos] + [self.video_id] * num_tokens + text

    def start(self, ids, pixel_values, features):
        embeddings = self.llm.get_input_embeddings()(torch.tensor(ids))
        embeddings[torch.tensor(ids) == self.video_id] = features
        output = self.llm(inputs_embeds=embeddings[None], use_cache=True)
        return output.logits[0], output.past_key_values

    def advance(self, token, cache):
        return self.llm(input_ids=torch.tensor([[token]]), use_cache=True,
                        past_key_values=cache).logits[0, -1]

    def search(self, ids, pixel_values, features, config):
        embeddings = self.llm.get_input_embeddings()(torch.tensor(ids))
        embeddings[torch.tensor(ids) == self.video_id] = features
        with Margins(self.llm, len(ids)) as margins:
            found = self.llm.generate(torch.tensor([ids]), inputs_embeds=embeddings[None],
                                      generation_config=config)
        return found, margins.smallest


@torch.no_grad()
def greedy(model, prompt, pixel_values, features, count):
    """Greedy ids, the prompt's logits, those of every choice, and the smallest margin of one."""
    prompt_logits, cache = model.start(prompt, pixel_values, features)
    rows, tokens, margin = [prompt_logits[-1]], [], float("inf")
    while True:
        best = torch.topk(rows[-1], 2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        tokens.append(int(best.indices[0]))
        if tokens[-1] == model.eos_id or len(tokens) == count:
            return tokens, prompt_logits, rows, margin
        rows.append(model.advance(tokens[-1], cache))


@torch.no_grad()
def search_beams(model, prompt, pixel_values, features, stop_ids):
    cases = []
    for num_beams, early_stopping in itertools.product((3, 4), (True, False)):
        config = GenerationConfig(
            do_sample=False, num_beams=num_beams, length_penalty=1.2,
            early_stopping=early_stopping, max_new_tokens=NUM_GREEDY, eos_token_id=stop_ids,
            pad_token_id=0, return_dict_in_generate=True, output_scores=True)
        found, margin = model.search(prompt, pixel_values, features, config)
        cases.append({
            "num_beams": num_beams, "length_penalty": 1.2,
            "early_stopping": "yes" if early_stopping else "no", "max_new_tokens": NUM_GREEDY,
            "stop_ids": stop_ids, "output": found.sequences[0, len(prompt):].tolist(),
            "score": numbers(found.sequences_scores)[0], "margin": float(f"{margin:.3g}")})
    return cases


def make_beams(model, prompt, pixel_values, features, greedy_tokens):
    """Random weights hardly ever choose </s>. So a second stop id is looked for among the greedy
    tokens, such that some outputs end with it, early_stopping matters, and no decision was close
    (scores of 24 steps differ by about 1e-5 between two correct implementations)."""
    for token in dict.fromkeys(greedy_tokens[4:]):
        cases = search_beams(model, prompt, pixel_values, features, [model.eos_id, token])
        if (min(case["margin"] for case in cases) > 1e-4
                and len({tuple(case["output"]) for case in cases}) >= 3
                and any(case["output"][-1] == token for case in cases)):
            return cases
    raise AssertionError("no second stop id makes good cases")


@torch.no_grad()
def make_case(name, model, seed):
    frames = np.stack([synthetic_frame(45, 80, seed + i, "waves") for i in range(NUM_FRAMES)])
    pixel_values = model.pixel_values(frames)
    features = model.features(pixel_values)
    prompt = model.prompt_ids(KOREAN, len(features))
    tokens, prompt_logits, rows, margin = greedy(model, prompt, pixel_values, features, NUM_GREEDY)
    assert len(set(tokens)) >= 4 and margin > 1e-3, (name, tokens, margin)
    beams = make_beams(model, prompt, pixel_values, features, tokens)
    golden = {
        "made_by": versions(frames="scripts/golden_frames.py"),
        "frames": {"height": 45, "width": 80, "seed": seed, "count": NUM_FRAMES, "kind": "waves"},
        "pixel_values_hash": xxh(pixel_values.numpy()),
        "num_vision_tokens": len(features),
        "features": numbers(features),
        "prompts": [{"text": text, "ids": model.prompt_ids(text, len(features))}
                    for text in PROMPTS],
        # Rows of the prompt's logits: the first, one inside the video, the last.
        "logit_rows": [0, 4, len(prompt) - 1],
        "logits": numbers(prompt_logits[[0, 4, len(prompt) - 1]]),
        "greedy": tokens, "greedy_margin": margin,
        "beams": beams,
        "last_logits": numbers(rows[-1]),
    }
    path = ROOT / f"tests/golden/model/{name}.json"
    lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}"
                       for k, v in golden.items())
    path.write_text("{\n" + lines + "\n}\n")
    print(name, "tokens", tokens, f"margin {margin:.3g}",
          f"max |logit| {float(prompt_logits.abs().max()):.3g}")
    for case in beams:
        print("  beams", case)


def read_ppm(path):
    magic, size, depth, pixels = path.read_bytes().split(b"\n", 3)
    assert magic == b"P6" and depth == b"255", path
    width, height = map(int, size.split())
    return np.frombuffer(pixels, np.uint8).reshape(height, width, 3)


@torch.no_grad()
def make_demo(cli, folder, videos, count):
    weights = xxh(np.frombuffer((folder / "model.safetensors").read_bytes(), np.uint8))
    model = Llava(folder)
    out = ROOT / "tests/golden/demo"
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.json"):
        old.unlink()
    for video in sorted(p for p in videos.iterdir() if p.is_file()):
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run([cli, "inspect", video, "--dump-frames", scratch,
                            "-o", pathlib.Path(scratch) / "sheet.png"], check=True,
                           stdout=subprocess.DEVNULL)
            frames = np.stack([read_ppm(p) for p in sorted(pathlib.Path(scratch).glob("*.ppm"))])
        pixel_values = model.pixel_values(frames)
        features = model.features(pixel_values)
        prompt = model.prompt_ids(KOREAN, len(features))
        tokens, _, rows, margin = greedy(model, prompt, pixel_values, features, count)
        top = torch.topk(rows[0], 16)
        golden = {
            "made_by": versions(model=folder.name),
            "weights": weights,
            "video": f"samples/videos/{video.name}",
            "frames": len(frames), "frames_hash": xxh(frames), "prompt": KOREAN,
            "pixel_values_hash": xxh(pixel_values.numpy()),
            "num_vision_tokens": len(features), "prompt_tokens": len(prompt),
            # The first 8 values of every 17th vision token.
            "features_stride": 17, "features": numbers(features[::17, :8]),
            "first_logits_ids": top.indices.tolist(), "first_logits": numbers(top.values),
            "greedy": tokens, "greedy_margin": margin,
            "caption": model.tokenizer.decode(tokens, skip_special_tokens=True),
        }
        (out / f"{video.stem}.json").write_text(
            json.dumps(golden, ensure_ascii=False, indent=1) + "\n")
        print(video.name, len(tokens), f"margin {margin:.3g}", golden["caption"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--cli", help="the caption-cli that dumps the frames (with --demo)")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "samples/demo-model")
    parser.add_argument("--videos", type=pathlib.Path, default=ROOT / "samples/videos")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    arguments = parser.parse_args()
    if arguments.demo:
        if not arguments.cli:
            parser.error("--demo needs --cli")
        make_demo(arguments.cli, arguments.model.resolve(), arguments.videos.resolve(),
                  arguments.max_new_tokens)
        return
    goldens = ROOT / "tests/golden/model"
    for seed, name in enumerate(("llama_bf16", "qwen3_shards", "llama_old")):
        make_case(name, Llava(goldens / name), 10 * seed)
    make_case("composed_mlp", Composed(goldens / "composed", -1, True, 1,
                                       "projector_mlp.safetensors"), 40)
    make_case("composed_linear", Composed(goldens / "composed", -2, False, 1,
                                          "projector_linear.safetensors"), 50)
    make_case("composed_pooled", Composed(goldens / "composed", 1, True, 2,
                                          "projector_mlp.safetensors"), 60)


if __name__ == "__main__":
    main()
