"""Trains the demo model from nothing: `python scripts/demo_model/train.py --work build/demo_model --out samples/demo-model`.

Renders the clips, trains the tokenizer, then the model in three stages: the tower under auxiliary heads; projector and
decoder on the frozen tower's features, as LLaVA does; all of it together at a small rate. Every step draws its batch from
(seed, stage, step), and checkpoints are taken every two minutes, so an interrupted run goes on with the same command. One
process a core, each with its share of the batch: on a busy machine that beats threads which wait for one another in
every operation.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

import branches
import dataset
import tokenizer as tok
from caption import PROMPTS, STYLES, UNLIKE, caption, parts
from export import export
from heads import LABELS, Heads, Probes, labels_of, targets_of
from judge import verdicts
from meteor import matched_and_shuffled
from model import TOKENS_PER_FRAME, VISION_DIM, Answers, caption_loss, create, pixels, pooled, read
from scene import split_rng, truth_of
from spoil import spoiled

SEED = 1
TRAIN_CLIPS, VALID_CLIPS = 20000, 400
MEASURED_CLIPS = 192  # of the validation clips, while training runs
SAVE_EVERY_S, MEASURE_EVERY = 120, 500  # seconds, steps
FEATURE_NOISE = 0.05
PROBE_SHARE = 0.1
LONG_SHARE = 0.25  # of the clips, those told at length as well
SPOILED_SHARE = 0.5  # of the clips to refuse
MUON = 3.5  # the rate of the matrices over that of the rest
# Tokens that state a fact outweigh the fixed words around them; most of all those that only all frames together tell.
WEIGHTS = {"": 0.5, "camera": 3.0, "heading": 3.0, "still_count": 3.0, "mover_count": 3.0, "still_kind": 1.5,
           "mover_kind": 1.5}


@dataclass(frozen=True)
class Stage:
    name: str
    steps: int
    batch: int  # clips
    rate: float
    warmup: int


STAGES = (Stage("tower", 5000, 32, 1.2e-3, 200), Stage("decoder", 2400, 32, 1.2e-3, 100), Stage("together", 500, 32, 2e-4, 50))


def log(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


def compiled(function: Callable) -> Callable:
    """The function through torch.compile where there is a C++ compiler: the same numbers, sooner."""
    return torch.compile(function, dynamic=False) if shutil.which("g++") else function


class Trainer:
    def __init__(self, work: Path, out: Path, rank: int, world: int) -> None:
        self.work, self.out, self.rank, self.world = work, out, rank, world
        self.frames, self.spots, self.views = dataset.load(work, "train")
        self.tokenizer_file = tok.train(work, SEED)
        self.tokenizer = tok.load(self.tokenizer_file)
        self.scenes = [dataset.shown("train", SEED, i) for i in range(TRAIN_CLIPS)]
        self.labels = np.array([labels_of(scene) for scene in self.scenes])
        self.described = [i for i, scene in enumerate(self.scenes) if scene is not None]
        self.model, self.heads = create(SEED), Heads()
        self.probes = torch.nn.ModuleList(Probes(self.model.config.text_config.hidden_size) for _ in range(2))
        self.features: np.ndarray | None = None
        self.prompts = {style: [self.prompt_ids(prompt) for prompt in PROMPTS[style]] for style in STYLES}
        self.lengths = {style: self.longest(style) for style in STYLES}
        self.decoder_layer, self.tower_layer = compiled(branches.layer), compiled(lambda layer, x: layer(x, None, None)[0])
        self.cpu_s = 0.0

    def prompt_ids(self, prompt: str) -> tuple[list[int], list[int]]:
        """What stands before and after the video."""
        ids = self.tokenizer(tok.PROMPT_FORMAT.format(prompt)).input_ids
        at = ids.index(self.model.config.video_token_index)
        return ids[:at], ids[at + 1:]

    def longest(self, style: str) -> int:
        """Tokens of prompt and answer that hold every caption seen among 2000: one shape for all batches."""
        rng = np.random.default_rng([SEED, 9])
        answers = [len(tok.encode(self.tokenizer, parts(dataset.scene_of("train", SEED, i), style, rng))[0]) for i in range(2000)]
        return -(-(max(answers) + max(len(mid) for _, mid in self.prompts[style])) // 8) * 8

    # ---- batches

    def frames_of(self, clips: np.ndarray) -> np.ndarray:
        """Frames [n, 8, 112, 112, 3] of training clips; of those to refuse, a share shows a spoiled scene instead."""
        frames = self.frames[clips]
        for at, clip in enumerate(clips):
            rng = np.random.default_rng([SEED, 11, clip])
            if self.scenes[clip] is None and rng.random() < SPOILED_SHARE:
                frames[at] = spoiled(self.frames[self.described[int(rng.integers(len(self.described)))]], rng)
        return frames

    def answers(self, style: str, shown: list, rng: np.random.Generator, choice: int) -> Answers:
        _, mid = self.prompts[style][choice]
        length, asked = self.lengths[style], len(mid) - 1
        ids = torch.zeros(len(shown), length, dtype=torch.long)
        targets = torch.zeros(len(shown), length - asked, dtype=torch.long)
        weights = torch.zeros(len(shown), length - asked)
        ids[:, :len(mid)] = torch.tensor(mid)
        for row, scene in enumerate(shown):
            told = [(UNLIKE, "")] if scene is None else parts(scene, style, rng)
            tokens, aspects = tok.encode(self.tokenizer, told)
            n = min(len(tokens), length - asked)
            targets[row, :n] = torch.tensor(tokens[:n])
            weights[row, :n] = torch.tensor([WEIGHTS.get(aspect, 1.0) for aspect in aspects[:n]])
            ids[row, len(mid):len(mid) + n - 1] = targets[row, :n - 1]
        return Answers(ids, targets, weights, asked)

    def loss_of_answers(self, features: Tensor, clips: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        answers = []
        for style in STYLES:
            n = max(1, round(LONG_SHARE * len(clips))) if style == "long" else len(clips)
            choice = 0 if rng.random() < 0.5 else int(rng.integers(len(self.prompts[style])))
            answers.append(self.answers(style, [self.scenes[i] for i in clips[:n]], rng, choice))
        seen = read(self.model, features, torch.tensor(self.prompts["full"][0][0]), answers, self.decoder_layer)
        loss = caption_loss(seen.logits, answers)
        accuracy = {"captions": float(loss.detach())}
        labels = torch.from_numpy(self.labels[clips])
        for at, hidden in enumerate(seen.probed):
            probe, name, share = (self.probes[0], "early", 1.0) if at == 0 else (self.probes[1], "late", 1 / len(answers))
            probe_loss, right = probe(hidden, labels[:len(hidden)])
            loss = loss + PROBE_SHARE * share * probe_loss
            if at < 2:
                accuracy |= {f"{name}_{label}": right[label] for label in ("camera", "heading", "still_count", "mover_count", "mover_kind")}
        return loss, accuracy

    def loss_of_heads(self, features: Tensor, clips: np.ndarray, pair: np.ndarray) -> tuple[Tensor, dict[str, float]]:
        rows = clips[:, None]
        return self.heads(features, targets_of(self.labels[clips], self.spots[rows, pair], self.views[rows, pair]))

    def tower_step(self, clips: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        pair = np.stack([rng.integers(0, 3, len(clips)), rng.integers(5, 8, len(clips))], axis=1)
        x = pixels(self.frames_of(clips)[np.arange(len(clips))[:, None], pair]).flatten(0, 1)
        features = pooled(self.model, x, self.tower_layer).unflatten(0, (len(clips), 2))
        return self.loss_of_heads(features, clips, pair)

    def decoder_step(self, clips: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        assert self.features is not None
        features = torch.from_numpy(self.features[clips].astype(np.float32))
        features = features * (1 + FEATURE_NOISE * torch.from_numpy(rng.standard_normal(features.shape, np.float32)))
        return self.loss_of_answers(features, clips, rng)

    def together_step(self, clips: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        x = pixels(self.frames_of(clips)).flatten(0, 1)
        features = pooled(self.model, x, self.tower_layer).unflatten(0, (len(clips), dataset.FRAMES))
        pair = np.tile([1, 6], (len(clips), 1))
        heads_loss, _ = self.loss_of_heads(features[:, [1, 6]], clips, pair)
        loss, accuracy = self.loss_of_answers(features.flatten(1, 2), clips, rng)
        return loss + 0.1 * heads_loss, accuracy

    @torch.no_grad()
    def features_of(self, frames: np.ndarray) -> Tensor:
        """uint8 [n, 8, 112, 112, 3] -> [n, 128, VISION_DIM]."""
        with torch.autocast("cpu", torch.bfloat16):
            seen = pooled(self.model, pixels(frames).flatten(0, 1))
        return seen.float().reshape(len(frames), -1, VISION_DIM)

    def cache_features(self) -> None:
        """The frozen tower's view of every training clip, [clips, 128, VISION_DIM] half precision, kept beside the frames."""
        path, part = self.work / "features.npy", self.work / "features.part.npy"
        shape = (TRAIN_CLIPS, dataset.FRAMES * TOKENS_PER_FRAME, VISION_DIM)
        if not path.exists():
            if self.rank == 0:
                np.lib.format.open_memmap(part, mode="w+", dtype=np.float16, shape=shape).flush()
            dist.barrier()
            store = np.load(part, mmap_mode="r+")
            for i in range(20 * self.rank, TRAIN_CLIPS, 20 * self.world):
                store[i:i + 20] = self.features_of(self.frames_of(np.arange(i, min(i + 20, TRAIN_CLIPS)))).numpy()
            store.flush()
            dist.barrier()
            if self.rank == 0:
                part.rename(path)
            dist.barrier()
        self.features = np.load(path, mmap_mode="r")

    # ---- stages

    def named_parameters(self, stage: Stage) -> list[tuple[str, torch.nn.Parameter]]:
        core = self.model.model
        tower = [core.vision_tower, self.heads]
        decoder = [core.multi_modal_projector, core.language_model, self.model.lm_head, self.probes]
        modules = {"tower": tower, "decoder": decoder, "together": tower + decoder}[stage.name]
        return [named for module in modules for named in module.named_parameters()]

    def optimizers(self, stage: Stage) -> list[torch.optim.Optimizer]:
        """Muon for the matrices inside the layers, AdamW for the rest."""
        named = self.named_parameters(stage)
        inner = [p for name, p in named if p.ndim == 2 and (".layers." in f".{name}" or name.startswith("linear_"))]
        known = {id(p) for p in inner}
        outer = [p for _, p in named if id(p) not in known]
        groups = [{"params": [p for p in outer if p.ndim > 1], "weight_decay": 0.05},
                  {"params": [p for p in outer if p.ndim <= 1], "weight_decay": 0.0}]
        return [torch.optim.Muon(inner, lr=MUON * stage.rate, weight_decay=0.05, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
                torch.optim.AdamW(groups, lr=stage.rate, betas=(0.9, 0.98), fused=True)]

    def batch(self, stage: Stage, step: int) -> np.ndarray:
        """Every clip once an epoch, in an order that the seed fixes."""
        epoch, at = divmod(step, TRAIN_CLIPS // stage.batch)
        order = np.random.default_rng([SEED, STAGES.index(stage), epoch]).permutation(TRAIN_CLIPS)
        return order[at * stage.batch:(at + 1) * stage.batch]

    def run(self, stage: Stage, start: int, states: list[dict] | None) -> None:
        used = time.process_time()
        parameters = [p for _, p in self.named_parameters(stage)]
        optimizers = self.optimizers(stage)
        for optimizer, state in zip(optimizers, states or []):
            optimizer.load_state_dict(state)
        step_of = getattr(self, f"{stage.name}_step")
        if stage.name == "decoder":
            self.cache_features()
        self.model.train()
        saved, total, sums = time.time(), 0.0, {}
        for step in range(start, stage.steps):
            clips = self.batch(stage, step)
            rng = np.random.default_rng([SEED, STAGES.index(stage), step, self.rank])
            rate = min(1.0, (step + 1) / stage.warmup) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / stage.steps)))
            for optimizer, factor in zip(optimizers, (MUON, 1.0)):
                for group in optimizer.param_groups:
                    group["lr"] = factor * stage.rate * rate
                optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16):
                loss, accuracy = step_of(clips[self.rank::self.world], rng)
            loss.backward()
            self.share_gradients(parameters)
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            for optimizer in optimizers:
                optimizer.step()
            total += float(loss.detach())
            for name, value in accuracy.items():
                sums.setdefault(name, []).append(value)
            if (step + 1) % 50 == 0 and self.rank == 0:
                self.cpu_s += self.world * (time.process_time() - used)
                used = time.process_time()
                marks = " ".join(f"{name} {np.nanmean(values):.2f}" for name, values in sums.items())
                log(f"{stage.name} {step + 1}/{stage.steps} ({self.cpu_s / 60:.1f} min of CPU) loss {total / 50:.3f} {marks}")
                total, sums = 0.0, {}
            if self.rank == 0 and ((step + 1) % MEASURE_EVERY == 0 or step + 1 == stage.steps):
                self.measure(stage)
                if stage.name != "tower":
                    export(self.model, self.tokenizer_file, self.out)
            if self.rank == 0 and (time.time() - saved > SAVE_EVERY_S or step + 1 == stage.steps):
                self.save(stage, step + 1, optimizers)
                saved = time.time()

    def share_gradients(self, parameters: list[torch.nn.Parameter]) -> None:
        """Averages the gradients over the processes; parameters that no loss reaches have none."""
        grads = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([g.flatten() for g in grads])
        dist.all_reduce(flat)
        flat /= self.world
        for g, part in zip(grads, flat.split([g.numel() for g in grads])):
            g.copy_(part.view_as(g))

    def save(self, stage: Stage, step: int, optimizers: list[torch.optim.Optimizer]) -> None:
        path = self.work / "checkpoint.pt"
        torch.save({"stage": stage.name, "step": step, "cpu_s": self.cpu_s, "model": self.model.state_dict(),
                    "heads": self.heads.state_dict(), "probes": self.probes.state_dict(),
                    "optimizers": [o.state_dict() for o in optimizers]}, path.with_suffix(".part"))
        os.replace(path.with_suffix(".part"), path)

    def train(self) -> None:
        path, at, step, optimizers = self.work / "checkpoint.pt", 0, 0, None
        if path.exists():
            state = torch.load(path)
            self.model.load_state_dict(state["model"])
            self.heads.load_state_dict(state["heads"])
            self.probes.load_state_dict(state["probes"])
            at, step, optimizers = [s.name for s in STAGES].index(state["stage"]), state["step"], state["optimizers"]
            self.cpu_s = state["cpu_s"]
            if self.rank == 0:
                log(f"resuming at {state['stage']} {step}")
        for n, stage in enumerate(STAGES):
            if n >= at:
                self.run(stage, step if n == at else 0, optimizers if n == at else None)

    # ---- validation

    @torch.no_grad()
    def measure(self, stage: Stage) -> None:
        """Logs how much of clips that no stage trains on the heads read, and how much the decoder says when led."""
        self.model.eval()
        frames, spots, views = (part[:MEASURED_CLIPS] for part in dataset.load(self.work, "valid"))
        shown = [dataset.shown("valid", SEED, i) for i in range(MEASURED_CLIPS)]
        labels = np.array([labels_of(scene) for scene in shown])
        features = torch.cat([self.features_of(frames[i:i + 24]) for i in range(0, len(frames), 24)])
        if stage.name == "tower":
            pair = [1, 6]
            few = features.unflatten(1, (dataset.FRAMES, -1))[:, pair]
            right = self.heads(few, targets_of(labels, spots[:, pair], views[:, pair]))[1]
        else:
            right = self.led(features, shown, labels)
        log("  unseen: " + " ".join(f"{name} {value:.3f}" for name, value in right.items()))
        self.model.train()

    def led(self, features: Tensor, shown: list, labels: np.ndarray) -> dict[str, float]:
        """The share of tokens guessed right after the true ones, by style and aspect, and what the probes read."""
        rng = np.random.default_rng([SEED, 10])
        answers = [self.answers(style, shown, rng, 0) for style in STYLES]
        hits: dict[str, list[float]] = {}
        with torch.autocast("cpu", torch.bfloat16):
            for i in range(0, len(features), 32):
                some = [Answers(a.ids[i:i + 32], a.targets[i:i + 32], a.weights[i:i + 32], a.asked) for a in answers]
                seen = read(self.model, features[i:i + 32], torch.tensor(self.prompts["full"][0][0]), some)
                for style, logits, answer in zip(STYLES, seen.logits, some):
                    hit = (logits.argmax(-1) == answer.targets).float()
                    if style == "full":
                        whole = ((hit == 1) | (answer.weights == 0)).all(dim=1)
                        unlike = torch.from_numpy(labels[i:i + 32, LABELS.index("unlike")] == 1)
                        hits.setdefault("refused", []).extend(whole[unlike].float().tolist())
                    for weight, name in ((3.0, "hard"), (1.5, "kind"), (1.0, "easy")):
                        hits.setdefault(f"{style}_{name}", []).extend(hit[answer.weights == weight].tolist())
                for name, hidden, probe in (("early", seen.probed[0], self.probes[0]), ("late", seen.probed[1], self.probes[1])):
                    right = probe(hidden, torch.from_numpy(labels[i:i + 32]))[1]
                    for label in LABELS:
                        hits.setdefault(f"{name}_{label}", []).append(right[label])
        return {name: float(np.nanmean(values)) for name, values in hits.items()}

    @torch.no_grad()
    def validate(self, count: int, show: int = 3) -> None:
        """Greedy captions of clips no stage has seen, in every style, through the model's own video path."""
        self.model.eval()
        torch.set_num_threads(self.world)
        frames = dataset.load(self.work, "valid")[0]
        shown = [dataset.shown("valid", SEED, i) for i in range(count)]
        for style in STYLES:
            texts = self.told(frames[:count], style)
            references = []
            for i, scene in enumerate(shown):
                rng = split_rng("valid", SEED + 1, i)
                references.append([UNLIKE] if scene is None else [caption(scene, style, rng) for _ in range(3)])
            own = [i for i, scene in enumerate(shown) if scene is not None]
            matched, shuffled = matched_and_shuffled([references[i] for i in own], [texts[i] for i in own])
            refused = [texts[i] == UNLIKE for i, scene in enumerate(shown) if scene is None]
            wrongly = sum(texts[i] == UNLIKE for i in own)
            right: dict[str, list[bool]] = {}
            for i in own:
                for aspect, is_right in verdicts(texts[i], truth_of(shown[i], 0.0), style).items():
                    right.setdefault(aspect, []).append(is_right)
            log(f"validation on {count} clips, {style}: meteor {matched:.4f}, shuffled {shuffled:.4f}, "
                f"refused {sum(refused)} of {len(refused)} unlike clips and {wrongly} of {len(own)} scenes")
            log("  right: " + " ".join(f"{aspect} {np.mean(values):.3f}" for aspect, values in right.items()))
            for i in range(show):
                log(f"  model: {texts[i]}\n           truth: {references[i][0]}")
        torch.set_num_threads(1)
        self.model.train()

    def told(self, frames: np.ndarray, style: str) -> list[str]:
        head, mid = self.prompts[style][0]
        prompt = head + [self.model.config.video_token_index] * (dataset.FRAMES * TOKENS_PER_FRAME) + mid
        texts: list[str] = []
        for i in range(0, len(frames), 32):
            x = pixels(frames[i:i + 32])
            ids = torch.tensor([prompt] * len(x))
            with torch.autocast("cpu", torch.bfloat16):
                out = self.model.generate(input_ids=ids, pixel_values_videos=x, attention_mask=torch.ones_like(ids),
                                          do_sample=False, max_new_tokens=512, eos_token_id=2, pad_token_id=0)
            texts += self.tokenizer.batch_decode(out[:, ids.shape[1]:], skip_special_tokens=True)
        return texts


def work_as(rank: int, world: int, work: Path, out: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{(work / 'rendezvous').resolve()}", rank=rank, world_size=world,
                            timeout=timedelta(hours=3))  # a busy machine may leave one process far behind
    trainer = Trainer(work, out, rank, world)
    trainer.train()
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        export(trainer.model, trainer.tokenizer_file, out)
        trainer.validate(VALID_CLIPS, show=3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/demo_model"), help="rendered frames and checkpoints")
    parser.add_argument("--out", type=Path, default=Path("samples/demo-model"), help="where the model is saved")
    parser.add_argument("--processes", type=int, default=2, help="part of the recipe: another number draws other captions")
    parser.add_argument("--self-check", action="store_true", help="only prove that answers which share a video do not see each other")
    arguments = parser.parse_args()
    branches.self_check(create(SEED).model.language_model)
    if arguments.self_check:
        return log("each answer equals its own sequence and sees no other")
    began, used = time.time(), os.times()
    for split, count in (("valid", VALID_CLIPS), ("train", TRAIN_CLIPS)):
        dataset.build(arguments.work, split, SEED, count, arguments.processes)
    tok.train(arguments.work, SEED)
    spent = os.times()
    cpu_s = spent.user + spent.system + spent.children_user + spent.children_system - sum(used[:4])
    log(f"clips and tokenizer are there after {(time.time() - began) / 60:.1f} min, {cpu_s / 60:.1f} min of CPU")
    (arguments.work / "rendezvous").unlink(missing_ok=True)
    torch.multiprocessing.spawn(work_as, (arguments.processes, arguments.work, arguments.out), nprocs=arguments.processes)


if __name__ == "__main__":
    main()
