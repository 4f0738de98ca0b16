"""Turns a scene's frames into what is no scene: clips to refuse that lie close to those to describe, for training only."""

from __future__ import annotations

import cv2
import numpy as np

from textures import field

Frames = np.ndarray  # [frames, side, side, 3] uint8 RGB


def _rough(frames: Frames, rng: np.random.Generator) -> Frames:
    """Without the drawn edges, with grain and uneven light: what is left of a picture's layout in a photograph."""
    side = frames.shape[1]
    roughness, blur = rng.uniform(0.45, 0.8), rng.uniform(1.2, 5.0)
    light = 0.5 + field(rng, side, side, roughness)[..., None] * rng.uniform(0.5, 1.1)
    tint = 1 + rng.uniform(0.0, 0.3) * (field(rng, side, side, roughness)[..., None] - 0.5) * rng.uniform(-1, 1, 3)
    soft = np.stack([cv2.GaussianBlur(frame, (0, 0), blur) for frame in frames]).astype(np.float32)
    grain = rng.normal(0, rng.uniform(0, 9), frames.shape).astype(np.float32)
    return np.clip(soft * light * tint + grain, 0, 255).astype(np.uint8)


def _turned(frames: Frames, rng: np.random.Generator) -> Frames:
    return np.ascontiguousarray(np.rot90(frames, 1 + int(rng.integers(3)), (1, 2)))


def _shuffled(frames: Frames, rng: np.random.Generator) -> Frames:
    """The tiles of a grid in another order, the same in every frame."""
    n = (2, 4, 7)[int(rng.integers(3))]
    count, side, _, _ = frames.shape
    tiles = frames.reshape(count, n, side // n, n, side // n, 3).swapaxes(2, 3).reshape(count, n * n, side // n, side // n, 3)
    tiles = tiles[:, rng.permutation(n * n)].reshape(count, n, n, side // n, side // n, 3)
    return tiles.swapaxes(2, 3).reshape(frames.shape)


def _negative(frames: Frames, rng: np.random.Generator) -> Frames:
    return 255 - frames


WAYS = (_rough, _turned, _shuffled, _negative)


def spoiled(frames: Frames, rng: np.random.Generator) -> Frames:
    return WAYS[int(rng.choice(len(WAYS), p=(0.7, 0.1, 0.1, 0.1)))](frames, rng)
