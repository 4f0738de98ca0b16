#!/usr/bin/env python3
"""Writes tests/golden/own_model: a model as users put it together, and what their Python says.

The model: a CLIP tower shaped like ViT-L/14, a projector Linear-GELU-Linear, Qwen3 with its
byte-level tokenizer, and a LoRA adapter of PEFT; all of them small, with drawn weights (drawn.py).
The Python: frames np.linspace(0, T - 1, 8) of a video; the last hidden state of the tower without
the class token; the projector; generate() of Qwen3 with inputs_embeds, the vision tokens before
those of the prompt. The frames are PyAV's by number; their pixels are those that
`BIN inspect --dump-frames` wrote, so both sides start from the same RGB. expected.json holds the
captions of some samples/videos, references.jsonl labels of them, and expected.json how well both
match: METEOR as Hugging Face `evaluate` computes it, and meteor-ko as make_goldens_eval.py does.

  make_goldens_own_model.py --cli BIN

Needs peft, accelerate and av besides the packages of captioner_goldens.py and make_goldens_eval.py.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import av
import numpy as np
import torch
import transformers
from peft import PeftModel, __version__ as peft_version
from safetensors.torch import load_file, save_file
from transformers import (
    CLIPImageProcessorFast, CLIPVisionConfig, CLIPVisionModel, Qwen2TokenizerFast, Qwen3ForCausalLM)

import captioner_goldens as goldens
import drawn
from make_goldens_eval import Stems, hf_pair, ko_single
from make_goldens_lora import save_adapter, spread as lora_spread
from make_goldens_model import read_ppm

CASE = goldens.GOLDEN / "own_model"
SAMPLES = goldens.GOLDEN.parent.parent / "samples"
VIDEOS = ["city-000-h264.mp4", "mountain-007-hevc.mp4", "sea-003-av1.mkv"]
PROMPT = "이 영상을 자세히 설명해주세요."
NUM_FRAMES, IMAGE_PX, VISION_DIM, TEXT_DIM = 8, 56, 64, 48
LORA = dict(r=16, lora_alpha=32, target_modules=[
    "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
GENERATION = dict(max_new_tokens=64, do_sample=False, repetition_penalty=1.2)
MIN_MARGIN = 1e-3  # of the two best scores of every choice


def save(folder):
    CLIPVisionModel(CLIPVisionConfig(
        hidden_size=VISION_DIM, intermediate_size=4 * VISION_DIM, num_hidden_layers=3,
        num_attention_heads=4, image_size=IMAGE_PX, patch_size=14,
        projection_dim=48)).to(torch.bfloat16).save_pretrained(folder / "clip")
    CLIPImageProcessorFast(
        size={"shortest_edge": IMAGE_PX},
        crop_size={"height": IMAGE_PX, "width": IMAGE_PX}).save_pretrained(folder / "clip")
    llm = Qwen3ForCausalLM(goldens.qwen3_config(hidden_size=TEXT_DIM)).to(torch.bfloat16)
    llm.save_pretrained(folder / "qwen3")
    (folder / "qwen3/generation_config.json").unlink(missing_ok=True)
    for path in goldens.BYTE_TOKENIZER.iterdir():
        (folder / "qwen3" / path.name).write_bytes(path.read_bytes())
    (folder / "lora").mkdir()
    save_adapter(llm, "qwen3", LORA, folder / "lora")
    projector = torch.nn.Sequential(torch.nn.Linear(VISION_DIM, TEXT_DIM), torch.nn.GELU(),
                                    torch.nn.Linear(TEXT_DIM, TEXT_DIM))
    save_file(projector.state_dict(), folder / "projector.safetensors")


def spread(name, shape):
    return lora_spread(name, shape) if ".lora_" in name else drawn.default_spread(name, shape)


def sampled_frames(cli, video):
    """The frames that caption-cli samples, which must be those of np.linspace."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        subprocess.run([cli, "inspect", video, "--frames", str(NUM_FRAMES), "--sampling",
                        "linspace", "--dump-frames", folder, "-o", folder / "sheet.png"],
                       check=True, stdout=subprocess.DEVNULL)
        sampled = [read_ppm(path).astype(np.int16) for path in sorted(folder.glob("*.ppm"))]
    with av.open(str(video)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    for i, frame in zip(np.linspace(0, len(frames) - 1, NUM_FRAMES).astype(int), sampled):
        distances = [np.abs(frame - other).mean() for other in frames]
        assert distances[i] == min(distances), (video, i, int(np.argmin(distances)))
    return [frame.astype(np.uint8) for frame in sampled]


class OwnModel:
    """A user's Python."""

    def __init__(self, folder):
        self.vision = CLIPVisionModel.from_pretrained(
            folder / "clip", dtype=torch.float32, attn_implementation="eager").eval()
        self.processor = CLIPImageProcessorFast.from_pretrained(folder / "clip")
        self.projector = torch.nn.Sequential(torch.nn.Linear(VISION_DIM, TEXT_DIM), torch.nn.GELU(),
                                             torch.nn.Linear(TEXT_DIM, TEXT_DIM))
        self.projector.load_state_dict(load_file(folder / "projector.safetensors"))
        self.tokenizer = Qwen2TokenizerFast.from_pretrained(folder / "qwen3")
        llm = Qwen3ForCausalLM.from_pretrained(
            folder / "qwen3", dtype=torch.float32, attn_implementation="eager")
        self.llm = PeftModel.from_pretrained(llm, folder / "lora").eval()

    def caption(self, frames):
        """Token ids, text, and the smallest margin of a choice."""
        pixels = self.processor(images=frames, return_tensors="pt").pixel_values
        seen = self.projector(self.vision(pixels).last_hidden_state[:, 1:]).flatten(0, 1)
        words = torch.tensor(self.tokenizer(PROMPT).input_ids)
        embeddings = torch.cat([seen, self.llm.get_input_embeddings()(words)])[None]
        found = self.llm.generate(
            inputs_embeds=embeddings, attention_mask=torch.ones(embeddings.shape[:2]),
            pad_token_id=0, return_dict_in_generate=True, output_scores=True, **GENERATION)
        best = torch.stack([torch.topk(scores[0], 2).values for scores in found.scores])
        ids = found.sequences[0].tolist()
        return ids, self.tokenizer.decode(ids, skip_special_tokens=True), float(
            (best[:, 0] - best[:, 1]).min())


def captions_of(folder, videos):
    model = OwnModel(folder)
    clips = []
    for video, frames in videos.items():
        ids, text, margin = model.caption(frames)
        is_dull = len(ids) < GENERATION["max_new_tokens"] or len(set(ids)) < 20
        if margin < MIN_MARGIN or is_dull:
            return None
        clips.append({"video": video, "ids": ids, "caption": text.strip(),
                      "margin": float(f"{margin:.3g}")})
    return clips if len({clip["caption"] for clip in clips}) == len(clips) else None


def label_of(caption):
    """Three quarters of the caption's words, and some that it does not have."""
    words = caption.split()
    return " ".join([word for i, word in enumerate(words) if i % 4 != 1] + ["화면", "중앙에", "."])


def scores_of(clips, labels):
    stems = Stems()
    hf = [hf_pair(label, clip["caption"])["score"] for clip, label in zip(clips, labels)]
    ko = [ko_single(stems, label, clip["caption"])["score"] for clip, label in zip(clips, labels)]
    return {"meteor-hf": sum(hf) / len(hf), "meteor-ko": sum(ko) / len(ko)}


def make_case(seed, videos):
    """Whether no choice was close with the weights of this seed."""
    with tempfile.TemporaryDirectory() as scratch:
        saved = pathlib.Path(scratch) / "model"
        saved.mkdir()
        save(saved)
        drawn.save_case(saved, CASE, seed, spread, leave_out=["tokenizer.json"])
        clips = captions_of(saved, videos)
    if clips is None:
        return False
    labels = [label_of(clip["caption"]) for clip in clips]
    made_by = {"torch": torch.__version__, "transformers": transformers.__version__,
               "peft": peft_version, "av": av.__version__}
    expected = {"made_by": made_by, "prompt": PROMPT, "scores": scores_of(clips, labels),
                "clips": clips}
    (CASE / "expected.json").write_text(
        json.dumps(expected, ensure_ascii=False, indent=1) + "\n")
    (CASE / "references.jsonl").write_text("".join(
        json.dumps({"video": clip["video"], "caption": label}, ensure_ascii=False) + "\n"
        for clip, label in zip(clips, labels)))
    print("seed", seed, json.dumps(expected, ensure_ascii=False, indent=1))
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cli", required=True, help="the caption-cli that samples the frames")
    arguments = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    videos = {video: sampled_frames(arguments.cli, SAMPLES / "videos" / video)
              for video in VIDEOS}
    with torch.no_grad():
        if not any(make_case(seed, videos) for seed in range(1, 100)):
            raise SystemExit("no seed without close choices")


if __name__ == "__main__":
    main()
