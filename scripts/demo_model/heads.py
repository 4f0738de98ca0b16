"""Auxiliary supervision: linear and shallow readers of what a clip shows. They shape the model and are dropped at export.

`Heads` reads the tower: what is where on a frame, where the camera looks, what changes between two frames.
`Probes` reads the decoder's hidden states, where all frames have met.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from model import TOKENS_PER_FRAME, VISION_DIM
from scene import CAMERAS, HEADINGS, KINDS, PLACES, RGB_NAMES, SEASONS, SIDES, TIMES, WEATHERS, Scene

GRID = 4
_FRAME = {"unlike": 2, "place": len(PLACES), "time": len(TIMES), "season": len(SEASONS), "weather": len(WEATHERS),
          "still_kind": len(KINDS), "still_color": len(RGB_NAMES), "still_count": 3,
          "mover_kind": len(KINDS) + 1, "mover_color": len(RGB_NAMES), "mover_count": 3}
_PAIR = {"camera": len(CAMERAS), "heading": len(HEADINGS), "side": len(SIDES)}
_ALL = _FRAME | _PAIR
LABELS = tuple(_ALL)


def labels_of(scene: Scene | None) -> list[int]:
    """One class per entry of LABELS; -100 where there is nothing to name. None: a clip that is not a scene."""
    if scene is None:
        return [1] + [-100] * (len(LABELS) - 1)
    mover = scene.mover
    return [
        0, PLACES.index(scene.place), TIMES.index(scene.time), SEASONS.index(scene.season), WEATHERS.index(scene.weather),
        KINDS.index(scene.still.kind), RGB_NAMES.index(scene.still.color), scene.still.count - 1,
        KINDS.index(mover.kind) if mover else len(KINDS), RGB_NAMES.index(mover.color) if mover else -100,
        mover.count - 1 if mover else -100,
        CAMERAS.index(scene.camera), HEADINGS.index(scene.heading) if mover else -100, SIDES.index(scene.side),
    ]


@dataclass(frozen=True)
class Targets:
    """labels [b, len(LABELS)]; spots [b, 2, 6, 2] and views [b, 2, 3] of two frames a clip, NaN where there is nothing."""

    labels: Tensor
    spots: Tensor
    views: Tensor


def targets_of(labels: np.ndarray, spots: np.ndarray, views: np.ndarray) -> Targets:
    return Targets(torch.from_numpy(labels).long(), torch.from_numpy(spots.astype(np.float32)),
                   torch.from_numpy(views.astype(np.float32)))


def _hit(scores: Tensor, truth: Tensor) -> float:
    known = truth >= 0
    return float((scores.argmax(-1) == truth)[known].float().mean()) if known.any() else float("nan")


def _classes(scores: Tensor, labels: Tensor, sizes: dict[str, int]) -> tuple[Tensor, dict[str, float]]:
    """The summed cross entropies of scores [b, sum(sizes)] against labels [b, len(LABELS)], and the shares right."""
    loss, accuracy = scores.new_zeros(()), {}
    for (name, size), part in zip(sizes.items(), scores.float().split(list(sizes.values()), dim=-1)):
        truth = labels[:, LABELS.index(name)]
        if (truth >= 0).any():
            loss = loss + functional.cross_entropy(part, truth, ignore_index=-100)
        accuracy[name] = _hit(part, truth)
    return loss, accuracy


class Probes(nn.Module):
    """A linear reader of every label from hidden states [b, width] of the decoder."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.read = nn.Linear(width, sum(_ALL.values()))

    def forward(self, hidden: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, float]]:
        return _classes(self.read(self.norm(hidden)), labels, _ALL)


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(VISION_DIM)
        self.cells = nn.Linear(VISION_DIM, len(KINDS) + len(RGB_NAMES) + 2)
        self.squeeze = nn.Linear(VISION_DIM, 48)
        frame = sum(_FRAME.values()) + 4
        self.frame = nn.Sequential(nn.Linear(48 * TOKENS_PER_FRAME + VISION_DIM, 384), nn.GELU(), nn.Linear(384, frame))
        # What these two read lies open in the features: the decoder needs no more than a sum or a difference to use it.
        self.plain = nn.Linear(VISION_DIM, sum(_FRAME.values()))
        self.whereabouts = nn.Linear(VISION_DIM, 3 + 4)
        self.pair = nn.Sequential(nn.Linear(96 * TOKENS_PER_FRAME, 384), nn.GELU(), nn.Linear(384, sum(_PAIR.values())))

    def forward(self, features: Tensor, targets: Targets) -> tuple[Tensor, dict[str, float]]:
        """features [b, 2, 16, VISION_DIM]: an early and a late frame of each clip. Returns the loss and the accuracies."""
        b = features.shape[0]
        x = self.norm(features)
        flat = self.squeeze(x).reshape(b, 2, -1)
        mean = x.mean(dim=2)
        frame = self.frame(torch.cat([flat, mean], dim=-1)).float()
        twice = targets.labels.repeat_interleave(2, dim=0)
        scores, places = frame.flatten(0, 1).split([sum(_FRAME.values()), 4], dim=-1)
        loss, accuracy = _classes(scores, twice, _FRAME)
        plain, plain_accuracy = _classes(self.plain(mean).flatten(0, 1), twice, _FRAME)
        pair, pair_accuracy = _classes(self.pair(flat.reshape(b, -1)), targets.labels, _PAIR)
        accuracy |= pair_accuracy | {f"plain_{name}": plain_accuracy[name] for name in ("still_count", "mover_count")}
        centres = targets.spots.unflatten(2, (2, 3)).nanmean(dim=3).flatten(2)
        loss = loss + 0.5 * plain + pair + 4.0 * _distance(places.unflatten(0, (b, 2)), centres)
        whereabouts = self.whereabouts(x).float()
        truth = torch.cat([targets.views, 2 * centres - 1], dim=-1)
        loss = loss + 4.0 * _distance(whereabouts, truth[:, :, None].expand_as(whereabouts))
        return loss + 8.0 * self._cell_loss(self.cells(x).float(), targets), accuracy

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


def _distance(guess: Tensor, truth: Tensor) -> Tensor:
    """The mean distance of what is known; NaN marks what is not."""
    known = ~truth.isnan()
    return functional.smooth_l1_loss(guess[known], truth[known], beta=0.05) if known.any() else guess.new_zeros(())
