"""Trains the demo model from nothing: `python scripts/demo_model/train.py --work build/demo_model --out samples/demo-model`.

Renders the clips, trains the tokenizer, then the model in two stages: the tower under auxiliary heads, then projector
and decoder on the frozen tower's features, as LLaVA does. Every step draws its batch from (seed, stage, step), and
checkpoints are taken every few minutes, so an interrupted run goes on with the same command. One process a core, each
with its share of the batch: on a busy machine that beats threads which wait for one another in every operation.
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
import torch.distributed as dist
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
CACHED_CLIPS = 10000  # of them, those the decoder stage sees
SAVE_EVERY_S, VALIDATE_EVERY_S = 120, 1500


@dataclass(frozen=True)
class Stage:
    name: str
    steps: int
    batch: int  # clips
    rate: float
    warmup: int = 200


STAGES = (Stage("tower", 2600, 32, 1.2e-3), Stage("decoder", 1700, 16, 1.2e-3, 100))


def log(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


class Trainer:
    def __init__(self, work: Path, out: Path, rank: int, world: int) -> None:
        self.work, self.out, self.rank, self.world = work, out, rank, world
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

    @torch.no_grad()
    def cache_features(self) -> None:
        """The frozen tower's view of every training clip, [clips, 128, VISION_DIM] half precision, kept beside the frames."""
        path, part = self.work / "features.npy", self.work / "features.part.npy"
        shape = (CACHED_CLIPS, dataset.FRAMES * TOKENS_PER_FRAME, VISION_DIM)
        if not path.exists():
            if self.rank == 0:
                np.lib.format.open_memmap(part, mode="w+", dtype=np.float16, shape=shape).flush()
            dist.barrier()
            store = np.load(part, mmap_mode="r+")
            for i in range(40 * self.rank, CACHED_CLIPS, 40 * self.world):
                with torch.autocast("cpu", torch.bfloat16):
                    seen = pooled(self.model, pixels(self.frames[i:min(i + 40, CACHED_CLIPS)]).flatten(0, 1))
                store[i:i + 40] = seen.float().reshape(-1, *shape[1:]).numpy()
            store.flush()
            dist.barrier()
            if self.rank == 0:
                part.rename(path)
            dist.barrier()
        self.features = np.load(path, mmap_mode="r")

    # ---- stages

    def parameters_of(self, stage: Stage) -> list[torch.nn.Parameter]:
        core = self.model.model
        decoder = [*core.multi_modal_projector.parameters(), *core.language_model.parameters(), *self.model.lm_head.parameters()]
        tower = [*core.vision_tower.parameters(), *self.heads.parameters()]
        return tower if stage.name == "tower" else decoder

    def run(self, stage: Stage, start: int, optimizer_state: dict | None) -> None:
        parameters = self.parameters_of(stage)
        decay = [p for p in parameters if p.ndim > 1]
        optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.05}, {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0}],
            lr=stage.rate, betas=(0.9, 0.98), fused=True)
        if optimizer_state:
            optimizer.load_state_dict(optimizer_state)
        step_of = self.tower_step if stage.name == "tower" else self.decoder_step
        if stage.name == "decoder":
            self.cache_features()
        self.model.train()
        saved, validated, total, sums = time.time(), time.time(), 0.0, {}
        for step in range(start, stage.steps):
            known = CACHED_CLIPS if stage.name == "decoder" else TRAIN_CLIPS
            clips = np.random.default_rng([SEED, STAGES.index(stage), step]).choice(known, stage.batch, replace=False)
            rng = np.random.default_rng([SEED, STAGES.index(stage), step, self.rank])
            share = step / stage.steps
            rate = stage.rate * min(1.0, (step + 1) / stage.warmup) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
            for group in optimizer.param_groups:
                group["lr"] = rate
            with torch.autocast("cpu", torch.bfloat16):
                loss, accuracy = step_of(np.sort(clips[self.rank::self.world]), rng)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.share_gradients(parameters)
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            total += float(loss.detach())
            for name, value in accuracy.items():
                sums.setdefault(name, []).append(value)
            if (step + 1) % 50 == 0 and self.rank == 0:
                marks = " ".join(f"{name} {np.nanmean(values):.2f}" for name, values in sums.items())
                log(f"{stage.name} {step + 1}/{stage.steps} loss {total / 50:.3f} {marks}")
                total, sums = 0.0, {}
            if self.rank == 0 and (time.time() - saved > SAVE_EVERY_S or step + 1 == stage.steps):
                self.save(stage, step + 1, optimizer)
                saved = time.time()
                if stage.name != "tower" and saved - validated > VALIDATE_EVERY_S:
                    export(self.model, self.tokenizer_file, self.out)
                    self.validate(32)
                    saved = validated = time.time()

    def share_gradients(self, parameters: list[torch.nn.Parameter]) -> None:
        """Averages the gradients over the processes; parameters that no loss reaches have none."""
        grads = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([g.flatten() for g in grads])
        dist.all_reduce(flat)
        flat /= self.world
        for g, part in zip(grads, flat.split([g.numel() for g in grads])):
            g.copy_(part.view_as(g))

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
            if self.rank == 0:
                log(f"resuming at {state['stage']} {step}")
        for n, stage in enumerate(STAGES):
            if n >= at:
                self.run(stage, step if n == at else 0, optimizer if n == at else None)
        if self.rank == 0:
            self.validate(VALID_CLIPS, show=8)
            export(self.model, self.tokenizer_file, self.out)

    # ---- validation

    @torch.no_grad()
    def validate(self, count: int, show: int = 3) -> None:
        """Greedy captions of clips no stage has seen, through the model's own video path."""
        self.model.eval()
        torch.set_num_threads(self.world)
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
        torch.set_num_threads(1)
        self.model.train()


def work_as(rank: int, world: int, work: Path, out: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{(work / 'rendezvous').resolve()}", rank=rank, world_size=world)
    Trainer(work, out, rank, world).train()
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/demo_model"), help="rendered frames and checkpoints")
    parser.add_argument("--out", type=Path, default=Path("samples/demo-model"), help="where the model is saved")
    parser.add_argument("--processes", type=int, default=2, help="part of the recipe: another number draws other captions")
    arguments = parser.parse_args()
    for split, count in (("valid", VALID_CLIPS), ("train", TRAIN_CLIPS)):
        dataset.build(arguments.work, split, SEED, count, arguments.processes)
    tok.train(arguments.work, SEED)
    (arguments.work / "rendezvous").unlink(missing_ok=True)
    torch.multiprocessing.spawn(work_as, (arguments.processes, arguments.work, arguments.out), nprocs=arguments.processes)


if __name__ == "__main__":
    main()
