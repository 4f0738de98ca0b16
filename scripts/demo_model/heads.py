"""Auxiliary supervision of the tower: what is where on a frame and what changes between two. Dropped at export."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from model import TOKENS_PER_FRAME, VISION_DIM
from scene import CAMERAS, HEADINGS, KINDS, PLACES, RGB_NAMES, SEASONS, SIDES, TIMES, WEATHERS, Scene

GRID = 4
_FRAME = {"place": len(PLACES), "time": len(TIMES), "season": len(SEASONS), "weather": len(WEATHERS),
          "still_kind": len(KINDS), "still_color": len(RGB_NAMES), "still_count": 3,
          "mover_kind": len(KINDS) + 1, "mover_color": len(RGB_NAMES), "mover_count": 3}
_PAIR = {"camera": len(CAMERAS), "heading": len(HEADINGS), "side": len(SIDES)}
LABELS = (*_FRAME, *_PAIR)


def labels_of(scene: Scene) -> list[int]:
    """One class per entry of LABELS; -100 where the scene has no moving thing."""
    mover = scene.mover
    return [
        PLACES.index(scene.place), TIMES.index(scene.time), SEASONS.index(scene.season), WEATHERS.index(scene.weather),
        KINDS.index(scene.still.kind), RGB_NAMES.index(scene.still.color), scene.still.count - 1,
        KINDS.index(mover.kind) if mover else len(KINDS), RGB_NAMES.index(mover.color) if mover else -100,
        mover.count - 1 if mover else -100,
        CAMERAS.index(scene.camera), HEADINGS.index(scene.heading) if mover else -100, SIDES.index(scene.side),
    ]


@dataclass(frozen=True)
class Targets:
    """labels [b, len(LABELS)]; spots [b, 2, 6, 2] for two frames a clip, NaN where there is no thing."""

    labels: Tensor
    spots: Tensor


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(VISION_DIM)
        self.cells = nn.Linear(VISION_DIM, len(KINDS) + len(RGB_NAMES) + 2)
        self.squeeze = nn.Linear(VISION_DIM, 48)
        self.frame = nn.Sequential(nn.Linear(48 * TOKENS_PER_FRAME + VISION_DIM, 384), nn.GELU(), nn.Linear(384, sum(_FRAME.values()) + 4))
        self.pair = nn.Sequential(nn.Linear(96 * TOKENS_PER_FRAME, 384), nn.GELU(), nn.Linear(384, sum(_PAIR.values())))

    def forward(self, features: Tensor, targets: Targets) -> tuple[Tensor, dict[str, float]]:
        """features [b, 2, 16, VISION_DIM]: an early and a late frame of each clip. Returns the loss and the accuracies."""
        b = features.shape[0]
        x = self.norm(features)
        flat = self.squeeze(x).reshape(b, 2, -1)
        frame = self.frame(torch.cat([flat, x.mean(dim=2)], dim=-1)).float()
        pair = self.pair(flat.reshape(b, -1)).float()
        loss, accuracy = torch.zeros(()), {}
        at = 0
        for i, (name, size) in enumerate(_FRAME.items()):
            truth = targets.labels[:, i]
            scores = frame[..., at:at + size]
            loss = loss + functional.cross_entropy(scores.flatten(0, 1), truth.repeat_interleave(2), ignore_index=-100)
            accuracy[name] = _hit(scores[:, 0], truth)
            at += size
        loss = loss + 4.0 * self._place_loss(frame[..., at:], targets.spots)
        at = 0
        for i, (name, size) in enumerate(_PAIR.items(), len(_FRAME)):
            scores = pair[:, at:at + size]
            loss = loss + functional.cross_entropy(scores, targets.labels[:, i], ignore_index=-100)
            accuracy[name] = _hit(scores, targets.labels[:, i])
            at += size
        return loss + 8.0 * self._cell_loss(self.cells(x).float(), targets), accuracy

    @staticmethod
    def _place_loss(guess: Tensor, spots: Tensor) -> Tensor:
        """The centres of the two groups; a missing one costs nothing."""
        centre = spots.unflatten(2, (2, 3)).nanmean(dim=3).flatten(2)
        known = ~centre.isnan()
        return functional.smooth_l1_loss(guess[known], centre[known], beta=0.05)

    @staticmethod
    def _cell_loss(scores: Tensor, targets: Targets) -> Tensor:
        """Which kinds, which colours and whose things have their centre in each of the 4 x 4 cells."""
        truth = torch.zeros_like(scores)
        spots, labels = targets.spots, targets.labels
        inside = ((spots >= 0) & (spots < 1)).all(dim=-1)
        cell = (spots.nan_to_num(0).clamp(0, 0.999) * GRID).long()
        cell = cell[..., 1] * GRID + cell[..., 0]
        for group, (kind, color) in enumerate((("still_kind", "still_color"), ("mover_kind", "mover_color"))):
            kinds, colors = labels[:, LABELS.index(kind)], labels[:, LABELS.index(color)]
            for slot in range(3 * group, 3 * group + 3):
                clip, frame = inside[:, :, slot].nonzero(as_tuple=True)
                where = cell[clip, frame, slot]
                truth[clip, frame, where, kinds[clip]] = 1
                truth[clip, frame, where, len(KINDS) + colors[clip]] = 1
                truth[clip, frame, where, len(KINDS) + len(RGB_NAMES) + group] = 1
        return functional.binary_cross_entropy_with_logits(scores, truth)


def _hit(scores: Tensor, truth: Tensor) -> float:
    known = truth >= 0
    return float((scores.argmax(-1) == truth)[known].float().mean()) if known.any() else float("nan")


def targets_of(labels: np.ndarray, spots: np.ndarray) -> Targets:
    return Targets(torch.from_numpy(labels).long(), torch.from_numpy(spots.astype(np.float32)))
