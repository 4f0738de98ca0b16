"""Trains the demo model from nothing: `python scripts/demo_model/train.py --work build/demo_model --out samples/demo-model`.

Renders the clips, trains the tokenizer, then three stages: the tower under auxiliary heads, the decoder on the frozen
tower's features, all together on captions. Every step draws its batch from (seed, stage, step), and checkpoints are
taken every few minutes, so an interrupted run resumes with the same command and ends in the same place.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import dataset
import tokenizer as tok
from caption import PROMPTS, caption
from export import export
from heads import Heads, labels_of, targets_of
from meteor import matched_and_shuffled
from model import TOKENS_PER_FRAME, VISION_DIM, caption_loss, create, pixels, pooled
from scene import split_rng

SEED = 1
TRAIN_CLIPS, VALID_CLIPS = 20000, 400
SAVE_EVERY_S = 180


@dataclass(frozen=True)
class Stage:
    name: str
    steps: int
    batch: int  # clips
    rate: float
    warmup: int = 200


STAGES = (Stage("tower", 2600, 32, 1.2e-3), Stage("decoder", 2000, 32, 1.5e-3), Stage("joint", 400, 32, 4e-4, 50))


def log(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


class Trainer:
    def __init__(self, work: Path, out: Path) -> None:
        self.work, self.out = work, out
        self.frames, self.spots = dataset.load(work, "train")
        self.tokenizer_file = tok.train(work, SEED)
        self.tokenizer = tok.load(self.tokenizer_file)
        self.scenes = [dataset.scene_of("train", SEED, i) for i in range(TRAIN_CLIPS)]
        self.labels = np.array([labels_of(scene) for scene in self.scenes])
        self.model, self.heads = create(SEED), Heads()
        self.features: np.ndarray | None = None
        self.prompts = [self._prompt_ids(prompt) for prompt in PROMPTS]

    def _prompt_ids(self, prompt: str) -> tuple[list[int], list[int]]:
        ids = self.tokenizer(tok.PROMPT_FORMAT.format(prompt)).input_ids
        at = ids.index(self.model.config.video_token_index)
        return ids[:at], ids[at + 1:]

    # ---- batches

    def caption_ids(self, clips: np.ndarray, rng: np.random.Generator) -> Tensor:
        encode = self.tokenizer.sp_model.encode
        rows = [encode(caption(self.scenes[i], rng)) + [2] for i in clips]
        ids = torch.full((len(rows), max(map(len, rows))), -100)
        for row, tokens in zip(ids, rows):
            row[:len(tokens)] = torch.tensor(tokens)
        return ids

    def loss_on_captions(self, features: Tensor, clips: np.ndarray, rng: np.random.Generator) -> Tensor:
        choice = 0 if rng.random() < 0.8 else int(rng.integers(len(self.prompts)))
        head, mid = (torch.tensor([ids] * len(clips)) for ids in self.prompts[choice])
        return caption_loss(self.model, features, head, mid, self.caption_ids(clips, rng))

    def loss_of_heads(self, features: Tensor, clips: np.ndarray, pair: np.ndarray) -> tuple[Tensor, dict[str, float]]:
        return self.heads(features, targets_of(self.labels[clips], self.spots[clips[:, None], pair]))

    def tower_step(self, clips: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        pair = np.stack([rng.integers(0, 3, len(clips)), rng.integers(5, 8, len(clips))], axis=1)
        x = pixels(self.frames[clips[:, None], pair]).flatten(0, 1)
        features = pooled(self.model, x).unflatten(0, (len(clips), 2))
        return self.loss_of_heads(features, clips, pair)

    def decoder_step(self, clips: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        assert self.features is not None
        features = torch.from_numpy(self.features[clips].astype(np.float32))
        features = features * (1 + 0.05 * torch.from_numpy(rng.standard_normal(features.shape, np.float32)))
        return self.loss_on_captions(features, clips, rng), {}

    def joint_step(self, clips: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        features = pooled(self.model, pixels(self.frames[clips]).flatten(0, 1)).unflatten(0, (len(clips), dataset.FRAMES))
        pair = np.stack([rng.integers(0, 3, len(clips)), rng.integers(5, 8, len(clips))], axis=1)
        rows = torch.arange(len(clips))[:, None]
        aux, accuracy = self.loss_of_heads(features[rows, torch.from_numpy(pair)], clips, pair)
        return self.loss_on_captions(features.flatten(1, 2), clips, rng) + 0.03 * aux, accuracy

    @torch.no_grad()
    def cache_features(self) -> None:
        """The frozen tower's view of every training clip, [clips, 128, VISION_DIM] half precision, kept beside the frames."""
        path = self.work / "features.npy"
        shape = (TRAIN_CLIPS, dataset.FRAMES * TOKENS_PER_FRAME, VISION_DIM)
        if not path.exists():
            part = path.with_suffix(".part.npy")
            store = np.lib.format.open_memmap(part, mode="w+", dtype=np.float16, shape=shape)
            for i in range(0, TRAIN_CLIPS, 40):
                with torch.autocast("cpu", torch.bfloat16):
                    seen = pooled(self.model, pixels(self.frames[i:i + 40]).flatten(0, 1))
                store[i:i + 40] = seen.float().reshape(-1, *shape[1:]).numpy()
            store.flush()
            part.rename(path)
        self.features = np.load(path, mmap_mode="r")

    # ---- stages

    def parameters_of(self, stage: Stage) -> list[torch.nn.Parameter]:
        core = self.model.model
        decoder = [*core.multi_modal_projector.parameters(), *core.language_model.parameters(), *self.model.lm_head.parameters()]
        tower = [*core.vision_tower.parameters(), *self.heads.parameters()]
        return {"tower": tower, "decoder": decoder, "joint": tower + decoder}[stage.name]

    def run(self, stage: Stage, start: int, optimizer_state: dict | None) -> None:
        parameters = self.parameters_of(stage)
        decay = [p for p in parameters if p.ndim > 1]
        optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.05}, {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0}],
            lr=stage.rate, betas=(0.9, 0.98), fused=True)
        if optimizer_state:
            optimizer.load_state_dict(optimizer_state)
        step_of = {"tower": self.tower_step, "decoder": self.decoder_step, "joint": self.joint_step}[stage.name]
        if stage.name == "decoder":
            self.cache_features()
        self.model.train()
        saved, total, sums = time.time(), 0.0, {}
        for step in range(start, stage.steps):
            rng = np.random.default_rng([SEED, STAGES.index(stage), step])
            clips = np.sort(rng.choice(TRAIN_CLIPS, stage.batch, replace=False))
            share = step / stage.steps
            rate = stage.rate * min(1.0, (step + 1) / stage.warmup) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
            for group in optimizer.param_groups:
                group["lr"] = rate
            with torch.autocast("cpu", torch.bfloat16):
                loss, accuracy = step_of(clips, rng)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            total += float(loss.detach())
            for name, value in accuracy.items():
                sums.setdefault(name, []).append(value)
            if (step + 1) % 50 == 0:
                marks = " ".join(f"{name} {np.nanmean(values):.2f}" for name, values in sums.items())
                log(f"{stage.name} {step + 1}/{stage.steps} loss {total / 50:.3f} {marks}")
                total, sums = 0.0, {}
            if time.time() - saved > SAVE_EVERY_S or step + 1 == stage.steps:
                self.save(stage, step + 1, optimizer)
                saved = time.time()
                if stage.name != "tower":
                    self.validate(64)
                    export(self.model, self.tokenizer_file, self.out)

    def save(self, stage: Stage, step: int, optimizer: torch.optim.Optimizer) -> None:
        path = self.work / "checkpoint.pt"
        torch.save({"stage": stage.name, "step": step, "model": self.model.state_dict(), "heads": self.heads.state_dict(),
                    "optimizer": optimizer.state_dict()}, path.with_suffix(".part"))
        os.replace(path.with_suffix(".part"), path)

    def train(self) -> None:
        path, at, step, optimizer = self.work / "checkpoint.pt", 0, 0, None
        if path.exists():
            state = torch.load(path)
            self.model.load_state_dict(state["model"])
            self.heads.load_state_dict(state["heads"])
            at, step, optimizer = [s.name for s in STAGES].index(state["stage"]), state["step"], state["optimizer"]
            log(f"resuming at {state['stage']} {step}")
        for n, stage in enumerate(STAGES):
            if n >= at:
                self.run(stage, step if n == at else 0, optimizer if n == at else None)
        self.validate(VALID_CLIPS, show=8)
        export(self.model, self.tokenizer_file, self.out)

    # ---- validation

    @torch.no_grad()
    def validate(self, count: int, show: int = 3) -> None:
        """Greedy captions of clips no stage has seen, through the model's own video path."""
        self.model.eval()
        frames, _ = dataset.load(self.work, "valid")
        head, mid = self.prompts[0]
        prompt = head + [self.model.config.video_token_index] * (dataset.FRAMES * TOKENS_PER_FRAME) + mid
        texts: list[str] = []
        for i in range(0, count, 32):
            x = pixels(frames[i:min(i + 32, count)])
            ids = torch.tensor([prompt] * len(x))
            with torch.autocast("cpu", torch.bfloat16):
                out = self.model.generate(input_ids=ids, pixel_values_videos=x, attention_mask=torch.ones_like(ids),
                                          do_sample=False, max_new_tokens=100, eos_token_id=2, pad_token_id=0)
            texts += self.tokenizer.batch_decode(out[:, ids.shape[1]:], skip_special_tokens=True)
        references = []
        for i in range(count):
            scene, rng = dataset.scene_of("valid", SEED, i), split_rng("valid", SEED + 1, i)
            references.append([caption(scene, rng) for _ in range(3)])
        matched, shuffled = matched_and_shuffled(references, texts)
        log(f"validation on {count} clips: meteor {matched:.4f}, shuffled {shuffled:.4f}")
        for i in range(show):
            log(f"  model: {texts[i]}\n           truth: {references[i][0]}")
        self.model.train()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/demo_model"), help="rendered frames and checkpoints")
    parser.add_argument("--out", type=Path, default=Path("samples/demo-model"), help="where the model is saved")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for split, count in (("valid", VALID_CLIPS), ("train", TRAIN_CLIPS)):
        dataset.build(arguments.work, split, SEED, count, arguments.threads)
    Trainer(arguments.work, arguments.out).train()


if __name__ == "__main__":
    main()
