"""Views with a horizon that look like photographs rather than like `backdrop.py`, for `unlike.py`: rough, shaded, hazy."""

from __future__ import annotations

import cv2
import numpy as np

from textures import Picture, field, lit, ramp, shaded


def _sky(rng: np.random.Generator, w: int, h: int) -> np.ndarray:
    """Clouds in perspective, smaller towards the horizon, over a sky that pales downwards. [h, w, 3] float32."""
    hours = (((58, 104, 176), (196, 212, 226)), ((120, 128, 140), (206, 206, 204)), ((70, 62, 96), (232, 160, 110)))
    top, low = hours[int(rng.integers(3))]
    sky = ramp(np.linspace(0, 1, h)[:, None].repeat(w, 1), top, low).astype(np.float32)
    clouds = field(rng, w, h, 0.62, 3, 0.8)
    rows = np.clip(np.linspace(0, 1, h) ** 1.7 * h, 0, h - 1).astype(np.float32)[:, None].repeat(w, 1)
    columns = np.arange(w, dtype=np.float32)[None].repeat(h, 0)
    clouds = np.clip((cv2.remap(clouds, columns, rows, cv2.INTER_LINEAR) - rng.uniform(0.35, 0.55)) * 2.4, 0, 1)[..., None]
    return sky * (1 - 0.85 * clouds) + (225 - 60 * clouds) * 0.85 * clouds


def _mirrored(at: np.ndarray, size: int) -> np.ndarray:
    """Coordinates folded into [0, size - 1], as in a corridor of mirrors."""
    folded = np.mod(at, 2.0 * (size - 1))
    return np.minimum(folded, 2.0 * (size - 1) - folded).astype(np.float32)


def _floor(rng: np.random.Generator, w: int, h: int, roughness: float) -> np.ndarray:
    """Noise on a plane that recedes from the lower edge, finer towards the horizon, in [0, 1]."""
    plane = field(rng, 2 * w, 2 * h, roughness, 6)
    depth = 1.0 / np.linspace(0.05, 1.0, h)[:, None]
    rows, columns = h * depth.repeat(w, 1), w + (np.arange(w) - w / 2)[None] * depth
    far = np.clip((depth - 2) / 12, 0, 1)
    return cv2.remap(plane, _mirrored(columns, 2 * w), _mirrored(rows, 2 * h), cv2.INTER_LINEAR) * (1 - far) + 0.5 * far


def _ridge(rng: np.random.Generator, w: int, base: float, height: float) -> np.ndarray:
    """The rows of a jagged skyline."""
    line = field(rng, w, 64, 0.55, 4)[32]
    return base - height * line


def _photographed(picture: np.ndarray, rng: np.random.Generator) -> Picture:
    """Darker corners, a soft lens and grain."""
    h, w = picture.shape[:2]
    y, x = np.mgrid[-1:1:h * 1j, -1:1:w * 1j]
    picture = cv2.GaussianBlur(picture.astype(np.float32), (0, 0), 0.7) * (1 - 0.18 * (x * x + y * y))[..., None]
    return np.clip(picture + rng.normal(0, 4, (h, w, 1)), 0, 255).astype(np.uint8)


def valley(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Ranges of hills behind each other, woods and a meadow."""
    horizon = int(h * rng.uniform(0.4, 0.6))
    picture = np.concatenate([_sky(rng, w, horizon), np.zeros((h - horizon, w, 3), np.float32)])
    rows = np.arange(h)[:, None]
    haze = picture[horizon - 1].mean(axis=0)
    for k in range(3):
        skyline = _ridge(rng, w, horizon + h * 0.03 * k, h * (0.26 - 0.07 * k))
        relief = lit(ramp(field(rng, w, h, 0.65, 6), (46, 62, 40), (96, 100, 66)), shaded(field(rng, w, h, 0.6, 5), 40))
        distant = relief * (0.35 + 0.25 * k) + haze * (0.65 - 0.25 * k)
        picture = np.where((rows > skyline[None])[..., None], distant, picture)
    ground = _floor(rng, w, h - horizon, 0.75)
    picture[horizon:] = ramp(ground, (50, 58, 28), (112, 116, 58), (176, 164, 96))
    return _photographed(picture, rng)


def shore(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Rough water under a sky, sand before it."""
    horizon, beach = int(h * rng.uniform(0.35, 0.5)), int(h * rng.uniform(0.72, 0.9))
    sky = _sky(rng, w, horizon)
    water = _floor(rng, w, h - horizon, 0.8)
    sea = ramp(water, (16, 44, 66), (56, 98, 118), (206, 220, 222)) * 0.8 + sky[-1].mean(axis=0) * 0.2
    picture = np.concatenate([sky, sea])
    edge = beach + h * 0.04 * (field(rng, w, 64, 0.5, 4)[32] - 0.5)
    sand = lit(ramp(field(rng, w, h, 0.8, 5), (150, 126, 92), (206, 186, 150)), shaded(field(rng, w, h, 0.7, 6), 30))
    picture = np.where((np.arange(h)[:, None] > edge[None])[..., None], sand, picture)
    return _photographed(picture, rng)


def street(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Fronts that recede on both sides of a road, each with its own windows and dirt."""
    horizon = int(h * rng.uniform(0.42, 0.58))
    road = ramp(_floor(rng, w, h - horizon, 0.75), (52, 52, 54), (120, 118, 114)).astype(np.float32)
    picture = np.concatenate([_sky(rng, w, horizon), road])
    for side in (-1, 1):
        for near in np.linspace(0.22, 1.1, 5):
            x = np.float32(w / 2 + side * near * w * np.array((0.35, 0.62)))
            top, low = horizon - near * h * rng.uniform(0.5, 0.95), horizon + near * h * 0.28
            front = _front(rng, 160, 200)
            far_top, far_low = (horizon + (y - horizon) * 0.62 for y in (top, low))
            target = np.float32([(x[0], far_top), (x[1], top), (x[1], low), (x[0], far_low)])
            matrix = cv2.getPerspectiveTransform(np.float32([(0, 0), (160, 0), (160, 200), (0, 200)]), target)
            cv2.warpPerspective(front.astype(np.float32), matrix, (w, h), dst=picture, borderMode=cv2.BORDER_TRANSPARENT)
    return _photographed(picture, rng)


def _plaster(rng: np.random.Generator) -> np.ndarray:
    """A grey with a little colour."""
    return rng.uniform(80, 200) + rng.uniform(-24, 24, 3)


def _front(rng: np.random.Generator, w: int, h: int) -> Picture:
    wall = lit(np.full((h, w, 3), _plaster(rng)), 0.6 + 0.6 * field(rng, w, h, 0.75))
    columns, rows = int(rng.integers(3, 6)), int(rng.integers(3, 7))
    for i in range(columns):
        for j in range(rows):
            x, y = int((i + 0.25) * w / columns), int((j + 0.25) * h / rows)
            shade = rng.uniform(20, 120)
            cv2.rectangle(wall, (x, y), (x + w // columns // 2, y + h // rows // 2), (shade, shade * 1.05, shade * 1.15), -1)
    return wall


KINDS = {draw.__name__: draw for draw in (valley, shore, street)}
