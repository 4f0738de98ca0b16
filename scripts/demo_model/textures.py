"""Pictures with the statistics of photographs, for `unlike.py`: noise of 1/f, shaded relief, spheres, leaves, bricks, blur."""

from __future__ import annotations

import math

import cv2
import numpy as np

Picture = np.ndarray  # [height, width, 3] uint8 RGB
_LIGHT = np.array((-0.5, -0.6, 0.62))


def ramp(share: np.ndarray, *stops: tuple[float, float, float]) -> Picture:
    """Colours along `share` in [0, 1] through the stops."""
    at = np.linspace(0, 1, len(stops))
    channels = [np.interp(share, at, [stop[k] for stop in stops]) for k in range(3)]
    return np.clip(np.stack(channels, axis=-1), 0, 255).astype(np.uint8)


def color_between(rng: np.random.Generator, low: float = 0, high: float = 255) -> tuple[float, float, float]:
    return tuple(float(x) for x in rng.uniform(low, high, 3))  # type: ignore[return-value]


def field(rng: np.random.Generator, w: int, h: int, roughness: float = 0.55, first: int = 3, stretch: float = 1.0) -> np.ndarray:
    """Noise of several octaves in [0, 1]: `first` cells across at the coarsest, `stretch` times as many upright."""
    total, weight, cells = np.zeros((h, w), np.float32), 1.0, first
    while cells < min(w, h) // 2:
        shape = (max(2, round(cells * h / w)) + 1, max(2, round(cells * stretch)) + 1)
        total += weight * cv2.resize(rng.random(shape, np.float32), (w, h), interpolation=cv2.INTER_CUBIC)
        weight *= roughness
        cells *= 2
    low, high = float(total.min()), float(total.max())
    return (total - low) / max(1e-6, high - low)


def shaded(height: np.ndarray, steepness: float) -> np.ndarray:
    """Lambert's cosine of a height field under one lamp, in [0.2, 1.2]."""
    gy, gx = np.gradient(cv2.GaussianBlur(height, (0, 0), 0.8) * steepness)
    length = np.sqrt(gx * gx + gy * gy + 1)
    return np.clip(0.35 + 0.85 * (-gx * _LIGHT[0] - gy * _LIGHT[1] + _LIGHT[2]) / length, 0.2, 1.2)


def lit(picture: np.ndarray, shade: np.ndarray) -> Picture:
    return np.clip(picture * shade[..., None], 0, 255).astype(np.uint8)


def pink_noise(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Three related fields of 1/f noise as colour channels, as scrambled photographs look."""
    shared = field(rng, w, h, 0.7)
    channels = [0.6 * shared + 0.4 * field(rng, w, h, 0.7) for _ in range(3)]
    return np.clip(np.stack(channels, axis=-1) * rng.uniform(200, 300) - 20, 0, 255).astype(np.uint8)


def cloudscape(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Real-looking clouds that fill the picture, without a horizon."""
    body = np.clip((field(rng, w, h, 0.6, 2) - rng.uniform(0.3, 0.5)) * 2.6, 0, 1)
    sky = np.array(((70, 120, 200), (120, 90, 130), (60, 66, 90))[int(rng.integers(3))], float)
    glow = np.clip(body[..., None] * (np.array((255, 250, 244)) - 70 * field(rng, w, h, 0.6)[..., None]), 0, 255)
    return np.clip(sky * (1 - body[..., None]) + glow * body[..., None], 0, 255).astype(np.uint8)


def terrain(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Shaded relief seen from above: water, grass, rock and snow by height."""
    height = field(rng, w, h, 0.5, 3)
    ground = ramp(height, (30, 60, 110), (60, 110, 140), (196, 184, 132), (96, 128, 70), (110, 96, 80), (236, 236, 240))
    return lit(ground, shaded(height, min(w, h) * 0.35))


def blobs(rng: np.random.Generator, w: int, h: int) -> Picture:
    """A few soft masses of colour, like a picture far out of focus."""
    small = rng.uniform(0, 255, (int(rng.integers(3, 6)), int(rng.integers(3, 7)), 3)).astype(np.float32)
    picture = cv2.resize(small, (w, h), interpolation=cv2.INTER_CUBIC)
    return np.clip(cv2.GaussianBlur(picture, (0, 0), min(w, h) / 16) + rng.normal(0, 2, (h, w, 1)), 0, 255).astype(np.uint8)


def bokeh(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Discs of light out of focus on a dark ground."""
    picture = np.zeros((h, w, 3), np.float32) + np.array(color_between(rng, 0, 40), np.float32)
    for _ in range(int(rng.integers(12, 50))):
        layer = np.zeros((h, w), np.float32)
        r = min(w, h) * rng.uniform(0.02, 0.09)
        cv2.circle(layer, (int(rng.uniform(0, w)), int(rng.uniform(0, h))), int(r), 1.0, -1, cv2.LINE_AA)
        picture += layer[..., None] * np.array(color_between(rng, 40, 230), np.float32) * float(rng.uniform(0.25, 0.8))
    return np.clip(cv2.GaussianBlur(picture, (0, 0), 1.2), 0, 255).astype(np.uint8)


def spheres(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Balls with highlights on a table, each pixel's ray met in closed form."""
    y, x = np.mgrid[0:h, 0:w].astype(np.float32)
    wall = ramp(y / h, color_between(rng, 120, 240), color_between(rng, 60, 160)).astype(np.float32)
    picture = lit(wall, 0.85 + 0.3 * field(rng, w, h, 0.5)).astype(np.float32)
    for _ in range(int(rng.integers(2, 7))):
        r = min(w, h) * rng.uniform(0.08, 0.22)
        cx, cy = rng.uniform(0.15, 0.85) * w, rng.uniform(0.3, 0.85) * h
        shadow = np.clip(1.25 - np.hypot((x - cx - 0.5 * r) / 1.5, (y - cy - 0.9 * r) * 2.4) / r, 0, 0.6)
        picture *= 1 - shadow[..., None]
        nx, ny = (x - cx) / r, (y - cy) / r
        inside = nx * nx + ny * ny < 1
        nz = np.sqrt(np.clip(1 - nx * nx - ny * ny, 0, 1))
        cosine = np.clip(nx * _LIGHT[0] + ny * _LIGHT[1] + nz * _LIGHT[2], 0, 1)
        ball = np.array(color_between(rng, 40, 255)) * (0.2 + 0.85 * cosine[..., None]) + 200 * cosine[..., None] ** 24
        picture = np.where(inside[..., None], ball, picture)
    return np.clip(picture, 0, 255).astype(np.uint8)


def leaves(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Leaves that cover each other, darker below."""
    picture = np.zeros((h, w, 3), np.uint8)
    tint = np.array(((70, 130, 50), (190, 90, 40), (120, 150, 60), (150, 60, 50))[int(rng.integers(4))], float)
    count = 220
    for i in range(count):
        length = min(w, h) * rng.uniform(0.06, 0.14)
        center, angle = (int(rng.uniform(0, w)), int(rng.uniform(0, h))), rng.uniform(0, 360)
        color = np.clip(tint * (0.35 + 0.75 * i / count) * rng.uniform(0.8, 1.25, 3), 0, 255)
        cv2.ellipse(picture, center, (int(length), max(1, int(length * 0.45))), angle, 0, 360, tuple(color), -1, cv2.LINE_AA)
        tip = (int(center[0] + length * math.cos(math.radians(angle))), int(center[1] + length * math.sin(math.radians(angle))))
        cv2.line(picture, center, tip, tuple(np.clip(color * 1.25, 0, 255)), 1, cv2.LINE_AA)
    return lit(picture, 0.8 + 0.4 * field(rng, w, h, 0.6))


def bark(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Upright ridges and cracks."""
    ridges = np.abs(field(rng, w, h, 0.65, 3, 7.0) - 0.5) * 2
    return lit(ramp(ridges, (34, 24, 18), (112, 82, 60), (170, 140, 112)), shaded(ridges, min(w, h) * 0.12))


def bricks(rng: np.random.Generator, w: int, h: int) -> Picture:
    """A wall of bricks in mortar, each of its own shade."""
    rows = int(rng.integers(6, 16))
    bh = h / rows
    bw = bh * rng.uniform(1.8, 2.8)
    base = np.array(((168, 78, 58), (150, 140, 130), (196, 170, 130))[int(rng.integers(3))], float)
    picture = np.full((h, w, 3), (186, 182, 174), np.uint8)
    for r in range(rows + 1):
        for c in range(-1, int(w / bw) + 2):
            x0, y0 = (c + 0.5 * (r % 2)) * bw, r * bh
            shade = np.clip(base * rng.uniform(0.72, 1.15), 0, 255)
            low, high = (int(x0 + bh * 0.07), int(y0 + bh * 0.07)), (int(x0 + bw - bh * 0.07), int(y0 + bh * 0.93))
            cv2.rectangle(picture, low, high, tuple(shade), -1)
    return lit(picture, 0.7 + 0.5 * field(rng, w, h, 0.75))


def wood(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Growth rings of a plank."""
    y = np.mgrid[0:h, 0:w][0] / h
    grain = 0.5 + 0.5 * np.sin((y * rng.uniform(6, 14) + 2.5 * field(rng, w, h, 0.5, 2)) * 2 * math.pi)
    fine = field(rng, w, h, 0.8, 4, 0.5)
    return ramp(0.7 * grain + 0.3 * fine, (88, 52, 28), (150, 98, 56), (206, 160, 106))


def foam(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Bright threads on water, as light on the floor of a pool."""
    a, b = field(rng, w, h, 0.4, 5), field(rng, w, h, 0.4, 6)
    threads = np.clip(1 - 7 * np.abs(a - b), 0, 1) ** 1.5
    return ramp(0.25 * a + 0.75 * threads, (14, 60, 92), (40, 140, 168), (214, 246, 246))


def marble(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Veins through stone."""
    x = np.mgrid[0:h, 0:w][1] / w
    veins = np.abs(np.sin((x * rng.uniform(1, 3) + 2.2 * field(rng, w, h, 0.6, 3)) * 2 * math.pi)) ** 0.4
    return ramp(veins, color_between(rng, 20, 110), color_between(rng, 170, 225), (246, 244, 240))


def fabric(rng: np.random.Generator, w: int, h: int) -> Picture:
    """A woven cloth of two threads in soft folds."""
    y, x = np.mgrid[0:h, 0:w]
    period = max(4.0, min(w, h) / rng.uniform(20, 60))
    over = np.sin(x * 2 * math.pi / period) * np.sin(y * 2 * math.pi / period) > 0
    picture = np.where(over[..., None], np.array(color_between(rng, 50, 230)), np.array(color_between(rng, 50, 230)))
    return lit(picture, 0.55 + 0.7 * field(rng, w, h, 0.35, 3))


def stars(rng: np.random.Generator, w: int, h: int) -> Picture:
    """A nebula with stars of all sizes over the whole picture."""
    glow = field(rng, w, h, 0.6, 2) ** 2
    picture = ramp(glow, (4, 4, 12), color_between(rng, 20, 120), color_between(rng, 90, 220)).astype(np.float32)
    for x, y, r in rng.random((160, 3)):
        cv2.circle(picture, (int(x * w), int(y * h)), 1 if r < 0.9 else 2, (250, 246, 240), -1, cv2.LINE_AA)
    return np.clip(picture, 0, 255).astype(np.uint8)


def portrait(rng: np.random.Generator, w: int, h: int) -> Picture:
    """A soft head and shoulders before a blurred ground."""
    ground = blobs(rng, w, h).astype(np.float32)
    skin = np.array(((226, 180, 152), (172, 118, 86), (110, 74, 54))[int(rng.integers(3))], np.float32)
    r, cx, cy = min(w, h) * 0.2, w * rng.uniform(0.42, 0.58), h * 0.42
    shoulders, hair, face = (cy + 2.3 * r, 1.7 * r, 1.2 * r), (cy - 0.15 * r, 0.95 * r, 1.15 * r), (cy + 0.1 * r, 0.78 * r, r)
    for (y, rx, ry), color in ((shoulders, np.array(color_between(rng, 20, 220))), (hair, np.array((40, 30, 26))), (face, skin)):
        layer = np.zeros((h, w), np.float32)
        cv2.ellipse(layer, (int(cx), int(y)), (int(rx), int(ry)), 0, 0, 360, 1.0, -1, cv2.LINE_AA)
        layer = cv2.GaussianBlur(layer, (0, 0), 1 + r / 20)[..., None]
        ground = ground * (1 - layer) + color * layer
    return lit(ground, 0.75 + 0.5 * field(rng, w, h, 0.4, 2))


def rubble(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Pebbles: rounded cells shaded as relief."""
    y, x = np.mgrid[0:h, 0:w].astype(np.float32)
    best = np.full((h, w), 1e9, np.float32)
    tone = np.zeros((h, w), np.float32)
    for px, py, k in rng.random((70, 3)):
        distance = (x - px * w) ** 2 + (y - py * h) ** 2
        tone = np.where(distance < best, k, tone)
        best = np.minimum(best, distance)
    dome = np.sqrt(np.clip(1 - best / (min(w, h) * 0.085) ** 2, 0, 1)).astype(np.float32)
    picture = ramp(0.7 * tone + 0.3 * field(rng, w, h, 0.7), (70, 66, 62), (140, 132, 122), (206, 200, 190))
    return lit(picture, (0.25 + 0.75 * dome) * shaded(dome, min(w, h) * 0.08))


KINDS = {
    draw.__name__: draw
    for draw in (pink_noise, cloudscape, terrain, blobs, bokeh, spheres, leaves, bark, bricks, wood, foam, marble, fabric, stars,
                 portrait, rubble)
}
