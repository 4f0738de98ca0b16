"""Clips that the demo model cannot describe: blank pictures, noise, test patterns, slides, textures, drawings of other kinds.

A kind is a function that draws one picture; a clip shows it still, moving or flickering. About a third of the kinds is
held out of training (`HELD_OUT`), so that the answer to them shows what the model makes of a kind it never saw.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Callable

import cv2
import numpy as np

import textures
import views

Picture = np.ndarray  # [height, width, 3] uint8 RGB
MOTIONS = ("still", "pan", "zoom", "drift", "flicker")
_MARGIN = 1.3  # the drawn picture over the shown one: room for pans and zooms
_DRAWN_SIDE = 420  # pictures are drawn at most this high or wide, whichever is shorter, and enlarged


@dataclass(frozen=True)
class Unlike:
    """One clip: `kind` is a key of UNLIKE_KINDS, `motion` one of MOTIONS, everything else follows from `seed`."""

    kind: str
    seed: int
    motion: str
    duration_s: float


def _color(rng: np.random.Generator, low: int = 0, high: int = 256) -> tuple[int, int, int]:
    return tuple(int(x) for x in rng.integers(low, high, 3))  # type: ignore[return-value]


def _two_colors(rng: np.random.Generator) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """A dark and a bright colour in random order."""
    pair = (_color(rng, 0, 90), _color(rng, 160, 256))
    return pair if rng.random() < 0.5 else (pair[1], pair[0])


def _filled(w: int, h: int, color: tuple[int, int, int]) -> Picture:
    return np.full((h, w, 3), color, np.uint8)


def _palette(rng: np.random.Generator, count: int) -> list[tuple[int, int, int]]:
    return [_color(rng, 20, 250) for _ in range(count)]


# ---- blank

def black(rng: np.random.Generator, w: int, h: int) -> Picture:
    return _filled(w, h, (int(rng.integers(0, 12)),) * 3)


def white(rng: np.random.Generator, w: int, h: int) -> Picture:
    return _filled(w, h, (int(rng.integers(244, 256)),) * 3)


def plain(rng: np.random.Generator, w: int, h: int) -> Picture:
    return _filled(w, h, _color(rng))


def gray(rng: np.random.Generator, w: int, h: int) -> Picture:
    return _filled(w, h, (int(rng.integers(30, 226)),) * 3)


def gradient(rng: np.random.Generator, w: int, h: int) -> Picture:
    """From one colour to another at any angle, or from the middle outwards."""
    y, x = np.mgrid[0:1:h * 1j, 0:1:w * 1j]
    angle = rng.uniform(0, 2 * math.pi)
    share = np.hypot(x - 0.5, y - 0.5) * 1.4 if rng.random() < 0.3 else x * math.cos(angle) + y * math.sin(angle)
    share = (share - share.min()) / max(1e-6, float(np.ptp(share)))
    a, b = np.array(_color(rng)), np.array(_color(rng))
    return (a + (b - a) * share[..., None]).astype(np.uint8)


# ---- noise

def _mono(values: np.ndarray) -> Picture:
    return np.repeat(np.clip(values, 0, 255).astype(np.uint8)[..., None], 3, axis=2)


def color_noise(rng: np.random.Generator, w: int, h: int) -> Picture:
    return rng.integers(0, 256, (h, w, 3), np.uint8)


def gray_noise(rng: np.random.Generator, w: int, h: int) -> Picture:
    return _mono(rng.normal(rng.uniform(60, 190), rng.uniform(20, 70), (h, w)))


def mosaic(rng: np.random.Generator, w: int, h: int) -> Picture:
    cells = int(rng.integers(4, 40))
    small = rng.integers(0, 256, (cells, max(2, cells * w // h), 3), np.uint8)
    return cv2.resize(small, (w, h), interpolation=cv2.INTER_NEAREST)


def dots_noise(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Salt and pepper on one grey."""
    draw = rng.random((h, w))
    share = rng.uniform(0.02, 0.3)
    return _mono(np.where(draw < share, 0, np.where(draw > 1 - share, 255, rng.integers(60, 200))))


def line_noise(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Rows of their own brightness, as a torn analogue signal has."""
    rows = rng.normal(110, 60, (h, 1)) + rng.normal(0, 25, (h, w))
    return _mono(rows)


# ---- test patterns

_BARS = ((191, 191, 191), (191, 191, 0), (0, 191, 191), (0, 191, 0), (191, 0, 191), (191, 0, 0), (0, 0, 191))


def bars(rng: np.random.Generator, w: int, h: int) -> Picture:
    picture = _filled(w, h, (0, 0, 0))
    top = int(h * rng.uniform(0.62, 1.0))
    for i, color in enumerate(_BARS):
        x0, x1 = i * w // 7, (i + 1) * w // 7
        picture[:top, x0:x1] = color
        picture[top:top + h // 12, x0:x1] = _BARS[6 - i] if i % 2 == 0 else (19, 19, 19)
    for i, level in enumerate((16, 235, 16, 60, 16, 90, 16, 120)):
        picture[top + h // 12:, i * w // 8:(i + 1) * w // 8] = level
    return picture


def checker(rng: np.random.Generator, w: int, h: int) -> Picture:
    side = max(4, int(min(w, h) / rng.uniform(3, 24)))
    y, x = np.mgrid[0:h, 0:w]
    a, b = _two_colors(rng)
    return np.where(((x // side + y // side) % 2 == 0)[..., None], a, b).astype(np.uint8)


def stripes(rng: np.random.Generator, w: int, h: int) -> Picture:
    y, x = np.mgrid[0:h, 0:w]
    angle = rng.choice([0.0, math.pi / 2, math.pi / 4, rng.uniform(0, math.pi)])
    period = min(w, h) / rng.uniform(3, 30)
    wave = 0.5 + 0.5 * np.sin((x * math.cos(angle) + y * math.sin(angle)) * 2 * math.pi / period)
    share = (wave > 0.5).astype(float) if rng.random() < 0.6 else wave
    a, b = (np.array(c, float) for c in _two_colors(rng))
    return (a + (b - a) * share[..., None]).astype(np.uint8)


def ramps(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Bands of grey and primary colour ramps."""
    picture = _filled(w, h, (0, 0, 0))
    bands = int(rng.integers(3, 9))
    for i in range(bands):
        ramp = np.linspace(0, 255, w)
        if rng.random() < 0.5:
            ramp = np.floor(ramp / 32) * 32
        color = np.array(((1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1))[int(rng.integers(4))])
        picture[i * h // bands:(i + 1) * h // bands] = (ramp[None, :, None] * color).astype(np.uint8)
    return picture


def test_card(rng: np.random.Generator, w: int, h: int) -> Picture:
    """A grid with a circle, crossed lines and grey steps."""
    ground, ink = _two_colors(rng)
    picture = _filled(w, h, ground)
    step = max(6, int(min(w, h) / rng.uniform(7, 14)))
    for x in range(step // 2, w, step):
        cv2.line(picture, (x, 0), (x, h), ink, 1)
    for y in range(step // 2, h, step):
        cv2.line(picture, (0, y), (w, y), ink, 1)
    r = int(min(w, h) * 0.34)
    cv2.circle(picture, (w // 2, h // 2), r, ink, max(1, h // 110), cv2.LINE_AA)
    for i, level in enumerate(np.linspace(0, 255, 6)):
        x = w // 2 - r // 2 + i * r // 6
        cv2.rectangle(picture, (x, h // 2 - r // 6), (x + r // 6, h // 2 + r // 6), (int(level),) * 3, -1)
    return picture


# ---- slides

_WORDS = ("Report 2026", "Chapter 3", "Thank you", "Q3 results", "Agenda", "Introduction", "END", "COMING SOON", "The method",
          "Results", "No signal", "Please wait", "12:45", "www.example.org", "Contents", "Part II", "Summary", "PAUSE")
_FONTS = (cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_DUPLEX, cv2.FONT_HERSHEY_TRIPLEX, cv2.FONT_HERSHEY_COMPLEX)


def _write(picture: Picture, text: str, x: int, y: int, size_px: float, color: tuple[int, int, int], font: int) -> None:
    cv2.putText(picture, text, (x, y), font, size_px / 22, color, max(1, round(size_px / 14)), cv2.LINE_AA)


def _glyph(picture: Picture, rng: np.random.Generator, x: float, y: float, s: float, color: tuple[int, int, int]) -> None:
    """A syllable block of strokes: a consonant, a vowel and, often, a final consonant, as Hangul is built."""
    thick = max(1, round(s / 11))

    def strokes(points: list[tuple[float, float]], closed: bool = False) -> None:
        pts = np.array([(x + px * s, y + py * s) for px, py in points])
        cv2.polylines(picture, [np.round(pts).astype(np.int32)], closed, color, thick, cv2.LINE_AA)

    def consonant(x0: float, y0: float, x1: float, y1: float) -> None:
        m = (x0 + x1) / 2
        shapes = ([(x0, y0), (x1, y0), (x1, y1)], [(x0, y0), (x0, y1), (x1, y1)], [(x1, y0), (x0, y0), (x0, y1), (x1, y1)],
                  [(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)], [(m, y0), (x0, y1), (m, y0), (x1, y1)])
        if rng.random() < 0.2:
            radius = max(1, int((y1 - y0) * s / 2))
            cv2.circle(picture, (int(x + m * s), int(y + (y0 + y1) / 2 * s)), radius, color, thick, cv2.LINE_AA)
        else:
            strokes(shapes[int(rng.integers(len(shapes)))])

    bottom = 0.52 if rng.random() < 0.5 else 0.92
    if rng.random() < 0.6:
        consonant(0.06, 0.1, 0.5, bottom - 0.06)
        strokes([(0.74, 0.04), (0.74, bottom)])
        strokes([(0.74, bottom / 2), (0.92 if rng.random() < 0.5 else 0.58, bottom / 2)])
    else:
        consonant(0.2, 0.06, 0.8, bottom * 0.5)
        strokes([(0.04, bottom * 0.86), (0.96, bottom * 0.86)])
        strokes([(0.5, bottom * 0.62), (0.5, bottom * 0.86)])
    if bottom < 0.6:
        consonant(0.2, 0.64, 0.8, 0.94)


def _hangul_line(picture: Picture, rng: np.random.Generator, x: float, y: float, s: float, color: tuple[int, int, int],
                 length: int) -> None:
    for i in range(length):
        if i == 0 or rng.random() > 0.2:
            _glyph(picture, rng, x + i * s * 1.08, y, s, color)


def text_slide(rng: np.random.Generator, w: int, h: int) -> Picture:
    """A Latin title over lines of text."""
    ground, ink = _two_colors(rng)
    picture = _filled(w, h, ground)
    font, size = int(rng.choice(_FONTS)), min(w, h) * rng.uniform(0.06, 0.1)
    x = int(w * rng.uniform(0.14, 0.24))
    _write(picture, str(rng.choice(_WORDS)), x, int(h * 0.26), size * 1.4, ink, font)
    for i in range(int(rng.integers(0, 6))):
        words = " ".join(str(v) for v in rng.choice(_WORDS, 3))
        _write(picture, words[:int(w * 0.7 / size * 1.8)], x, int(h * 0.26 + (i + 1.6) * size * 1.5), size * 0.8, ink, font)
    return picture


def hangul_slide(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Lines of drawn syllable blocks, a larger one on top."""
    ground, ink = _two_colors(rng)
    picture = _filled(w, h, ground)
    size, x = min(w, h) * rng.uniform(0.07, 0.12), w * rng.uniform(0.14, 0.22)
    fits = max(3, int(w * 0.66 / (size * 1.08)))
    _hangul_line(picture, rng, x, h * 0.18, size * 1.3, ink, max(2, int(fits * rng.uniform(0.4, 0.75))))
    for i in range(int(rng.integers(0, 6))):
        _hangul_line(picture, rng, x, h * 0.18 + (i + 1.8) * size * 1.5, size * 0.85, ink, int(fits * rng.uniform(0.5, 1.2)))
    return picture


def title_card(rng: np.random.Generator, w: int, h: int) -> Picture:
    """One word in the middle of a gradient, sometimes framed."""
    picture = gradient(rng, w, h)
    ink = (250, 250, 250) if picture.mean() < 128 else (16, 16, 24)
    if rng.random() < 0.5:
        cv2.rectangle(picture, (w // 5, h // 3), (w * 4 // 5, h * 2 // 3), ink, max(1, h // 120))
    if rng.random() < 0.5:
        size = w * 0.09
        _hangul_line(picture, rng, w * 0.5 - 2.1 * size, h * 0.5 - size / 2, size, ink, 4)
    else:
        word = str(rng.choice(_WORDS))
        size = w * 0.9 / max(6, len(word))
        _write(picture, word, int(w * 0.5 - len(word) * size * 0.42), int(h * 0.5 + size / 3), size, ink, int(rng.choice(_FONTS)))
    return picture


def code_screen(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Coloured runs of characters on a dark screen."""
    picture = _filled(w, h, _color(rng, 8, 44))
    tints, size = _palette(rng, 4), max(8, min(w, h) // 22)
    for row in range(int(h * 0.1 / size), int(h * 0.92 / size)):
        x = int(w * 0.12 + size * 1.4 * int(rng.integers(0, 4)))
        for _ in range(int(rng.integers(0, 6))):
            run = "".join(chr(int(c)) for c in rng.integers(97, 123, int(rng.integers(2, 8))))
            _write(picture, run, x, row * size, size * 0.62, tints[int(rng.integers(4))], _FONTS[0])
            x += int((len(run) + 1) * size * 0.55)
    return picture


# ---- drawings of other kinds

def bar_chart(rng: np.random.Generator, w: int, h: int) -> Picture:
    picture = _filled(w, h, _color(rng, 225, 256))
    count, tints = int(rng.integers(3, 10)), _palette(rng, 3)
    x0, y0, width = w * 0.18, h * 0.82, w * 0.64
    for i, v in enumerate(rng.uniform(0.1, 0.62, count)):
        a = (int(x0 + width * (i + 0.15) / count), int(y0 - v * h))
        cv2.rectangle(picture, a, (int(x0 + width * (i + 0.85) / count), int(y0)), tints[i % len(tints)], -1)
    cv2.line(picture, (int(x0), int(y0)), (int(x0 + width), int(y0)), (40, 40, 40), 2)
    cv2.line(picture, (int(x0), int(y0)), (int(x0), int(h * 0.16)), (40, 40, 40), 2)
    return picture


def line_chart(rng: np.random.Generator, w: int, h: int) -> Picture:
    ground, ink = _two_colors(rng)
    picture = _filled(w, h, ground)
    for k in range(5):
        y = int(h * (0.2 + 0.15 * k))
        cv2.line(picture, (int(w * 0.15), y), (int(w * 0.86), y), ink, 1)
    xs = np.linspace(0.16, 0.85, 40) * w
    for tint in _palette(rng, int(rng.integers(1, 5))):
        ys = h * (0.5 + 0.06 * np.cumsum(rng.normal(0, 0.6, 40)).clip(-4.4, 4.4))
        cv2.polylines(picture, [np.stack([xs, ys], axis=1).astype(np.int32)], False, tint, max(2, h // 120), cv2.LINE_AA)
    return picture


def pie_chart(rng: np.random.Generator, w: int, h: int) -> Picture:
    picture = _filled(w, h, _color(rng, 215, 256) if rng.random() < 0.7 else _color(rng, 10, 60))
    at, r = rng.uniform(0, 360), int(min(w, h) * rng.uniform(0.22, 0.36))
    shares = rng.dirichlet(np.full(int(rng.integers(3, 8)), 2.0)) * 360
    for tint, share in zip(_palette(rng, len(shares)), shares):
        cv2.ellipse(picture, (w // 2, h // 2), (r, r), 0, at, at + share, tint, -1, cv2.LINE_AA)
        at += share
    return picture


def rectangles(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Black-edged fields of colour that halve each other."""
    picture, thick = _filled(w, h, (244, 242, 236)), max(2, min(w, h) // 60)
    tints = [(206, 30, 36), (24, 66, 156), (246, 206, 30), (244, 242, 236), (244, 242, 236)]
    tints = tints if rng.random() < 0.5 else _palette(rng, 5)

    def split(x0: int, y0: int, x1: int, y1: int, depth: int) -> None:
        if depth == 0 or min(x1 - x0, y1 - y0) < min(w, h) // 8:
            cv2.rectangle(picture, (x0, y0), (x1, y1), tints[int(rng.integers(5))], -1)
            cv2.rectangle(picture, (x0, y0), (x1, y1), (16, 16, 18), thick)
            return
        share = rng.uniform(0.25, 0.75)
        if rng.random() < (x1 - x0) / (x1 - x0 + y1 - y0):
            x = int(x0 + (x1 - x0) * share)
            split(x0, y0, x, y1, depth - 1)
            split(x, y0, x1, y1, depth - 1)
        else:
            y = int(y0 + (y1 - y0) * share)
            split(x0, y0, x1, y, depth - 1)
            split(x0, y, x1, y1, depth - 1)

    split(0, 0, w, h, int(rng.integers(3, 6)))
    return picture


def shapes(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Overlapping circles, triangles and bars of any colour."""
    picture = _filled(w, h, _color(rng))
    for tint in _palette(rng, int(rng.integers(6, 26))):
        x, y, r = rng.uniform(0, w), rng.uniform(0, h), min(w, h) * rng.uniform(0.04, 0.24)
        angles = rng.uniform(0, 2 * math.pi) + np.arange(3 + int(rng.integers(0, 3))) * 2 * math.pi / 3
        if rng.random() < 0.5:
            cv2.circle(picture, (int(x), int(y)), int(r), tint, -1 if rng.random() < 0.7 else max(1, int(r / 6)), cv2.LINE_AA)
        else:
            points = np.stack([x + r * np.cos(angles), y + r * np.sin(angles)], axis=1)
            cv2.fillPoly(picture, [points.astype(np.int32)], tint, cv2.LINE_AA)
    return picture


def rings(rng: np.random.Generator, w: int, h: int) -> Picture:
    y, x = np.mgrid[0:h, 0:w]
    r = np.hypot(x - w * rng.uniform(0.3, 0.7), y - h * rng.uniform(0.3, 0.7))
    turn = rng.integers(0, 5) * np.arctan2(y - h / 2, x - w / 2)
    a, b = (np.array(c, float) for c in _two_colors(rng))
    share = (np.sin(r * 2 * math.pi / (min(w, h) / rng.uniform(4, 16)) + turn) > 0)[..., None]
    return (a + (b - a) * share).astype(np.uint8)


def maze(rng: np.random.Generator, w: int, h: int) -> Picture:
    """A perfect maze by depth-first search."""
    rows = int(rng.integers(7, 18))
    columns = max(5, rows * w // h)
    open_cells = np.zeros((2 * rows + 1, 2 * columns + 1), np.uint8)
    stack = [(0, 0)]
    open_cells[1, 1] = 1
    while stack:
        r, c = stack[-1]
        ways = [(r + dr, c + dc) for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0))
                if 0 <= r + dr < rows and 0 <= c + dc < columns and not open_cells[2 * (r + dr) + 1, 2 * (c + dc) + 1]]
        if not ways:
            stack.pop()
            continue
        nr, nc = ways[int(rng.integers(len(ways)))]
        open_cells[r + nr + 1, c + nc + 1] = open_cells[2 * nr + 1, 2 * nc + 1] = 1
        stack.append((nr, nc))
    a, b = _two_colors(rng)
    picture = np.where(open_cells[..., None] == 1, np.array(a), np.array(b)).astype(np.uint8)
    return cv2.resize(picture, (w, h), interpolation=cv2.INTER_NEAREST)


def fractal(rng: np.random.Generator, w: int, h: int) -> Picture:
    """A Julia set in a cyclic palette."""
    angle = rng.uniform(0, 2 * math.pi)
    c = 0.7885 * complex(math.cos(angle), math.sin(angle))
    sw, sh = min(w, 320), max(2, h * min(w, 320) // w)
    y, x = np.mgrid[-1.2:1.2:sh * 1j, -1.6:1.6:sw * 1j]
    z, steps = x + 1j * y, np.zeros((sh, sw))
    for i in range(36):
        inside = np.abs(z) < 4
        z = np.where(inside, z * z + c, z)
        steps += inside
    phase = rng.uniform(0, 6.28, 3)
    picture = 127 + 127 * np.sin(steps[..., None] * rng.uniform(0.15, 0.5) + phase)
    return cv2.resize(picture.astype(np.uint8), (w, h), interpolation=cv2.INTER_LINEAR)


def face(rng: np.random.Generator, w: int, h: int) -> Picture:
    """A cartoon face on one colour."""
    picture = _filled(w, h, _color(rng, 40, 256))
    r, x, y = int(min(w, h) * rng.uniform(0.24, 0.36)), w // 2, h // 2
    ink, skin = (30, 26, 30), ((250, 220, 90), (240, 204, 172), (150, 100, 70), (120, 200, 120))[int(rng.integers(4))]
    cv2.circle(picture, (x, y), r, skin, -1, cv2.LINE_AA)
    cv2.circle(picture, (x, y), r, ink, max(2, r // 18), cv2.LINE_AA)
    for side in (-1, 1):
        cv2.circle(picture, (x + side * r * 2 // 5, y - r // 4), r // 6, (255, 255, 255), -1, cv2.LINE_AA)
        cv2.circle(picture, (x + side * r * 2 // 5 + r // 20, y - r // 4), r // 12, ink, -1, cv2.LINE_AA)
    mouth = (0, 20, 160) if rng.random() < 0.6 else (0, 200, 340)
    cv2.ellipse(picture, (x, y + r // 4), (r // 2, r // 3), *mouth, ink, max(2, r // 16), cv2.LINE_AA)
    return picture


def doodle(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Wandering pen lines on paper."""
    picture = _filled(w, h, _color(rng, 220, 256))
    for _ in range(int(rng.integers(3, 12))):
        turns = np.cumsum(rng.normal(0, 0.5, 60))
        step = min(w, h) * 0.03
        points = np.stack([np.cumsum(np.cos(turns)), np.cumsum(np.sin(turns))], axis=1) * step
        points += rng.uniform((0, 0), (w, h))
        cv2.polylines(picture, [points.astype(np.int32)], False, _color(rng, 0, 130), max(1, h // 160), cv2.LINE_AA)
    return picture


def voronoi(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Cells of colour around random points."""
    count = int(rng.integers(8, 60))
    sw, sh = w // 2 + 1, h // 2 + 1
    y, x = np.mgrid[0:sh, 0:sw].astype(np.float32)
    points = rng.uniform((0, 0), (sw, sh), (count, 2)).astype(np.float32)
    nearest, best = np.zeros((sh, sw), np.int32), np.full((sh, sw), np.inf, np.float32)
    for i, (px, py) in enumerate(points):
        distance = (x - px) ** 2 + (y - py) ** 2
        closer = distance < best
        nearest[closer], best[closer] = i, distance[closer]
    return cv2.resize(np.array(_palette(rng, count), np.uint8)[nearest], (w, h), interpolation=cv2.INTER_NEAREST)


def table(rng: np.random.Generator, w: int, h: int) -> Picture:
    """A spreadsheet: ruled cells, a coloured head, figures."""
    picture = _filled(w, h, (252, 252, 252))
    rows, columns = int(rng.integers(5, 14)), int(rng.integers(3, 7))
    rh, cw = h // rows, w // columns
    cv2.rectangle(picture, (0, 0), (w, rh), _color(rng, 60, 220), -1)
    for i in range(rows):
        cv2.line(picture, (0, i * rh), (w, i * rh), (176, 176, 180), 1)
        for j in range(columns):
            value = str(int(rng.integers(1, 9999)))
            _write(picture, value, j * cw + cw // 8, i * rh + rh * 3 // 4, rh * 0.5, (40, 40, 44), _FONTS[0])
    for j in range(columns):
        cv2.line(picture, (j * cw, 0), (j * cw, h), (176, 176, 180), 1)
    return picture


def pixel_code(rng: np.random.Generator, w: int, h: int) -> Picture:
    """A square two-dimensional bar code with its three corner marks."""
    n = int(rng.choice([21, 25, 29]))
    cells = (rng.random((n, n)) < 0.5).astype(np.uint8) * 255
    for r, c in ((0, 0), (0, n - 7), (n - 7, 0)):
        cells[r:r + 7, c:c + 7], cells[r + 1:r + 6, c + 1:c + 6], cells[r + 2:r + 5, c + 2:c + 5] = 0, 255, 0
    side = int(min(w, h) * rng.uniform(0.45, 0.7))
    picture = _filled(w, h, (255, 255, 255) if rng.random() < 0.7 else _color(rng, 150, 256))
    x, y = (w - side) // 2, (h - side) // 2
    picture[y:y + side, x:x + side] = cv2.resize(cells, (side, side), interpolation=cv2.INTER_NEAREST)[..., None]
    return picture


def room(rng: np.random.Generator, w: int, h: int) -> Picture:
    """The inside of a box in perspective: floor, ceiling, three walls, a frame on the far one."""
    x0, x1 = int(w * rng.uniform(0.25, 0.35)), int(w * rng.uniform(0.65, 0.75))
    y0, y1 = int(h * rng.uniform(0.25, 0.35)), int(h * rng.uniform(0.6, 0.7))
    base = np.array(_color(rng, 90, 230), float)
    faces = (((0, 0), (w, 0), (x1, y0), (x0, y0), 1.1), ((0, h), (w, h), (x1, y1), (x0, y1), 0.6),
             ((0, 0), (x0, y0), (x0, y1), (0, h), 0.8), ((w, 0), (x1, y0), (x1, y1), (w, h), 0.9),
             ((x0, y0), (x1, y0), (x1, y1), (x0, y1), 1.0))
    picture = _filled(w, h, (0, 0, 0))
    for *corners, shade in faces:
        cv2.fillPoly(picture, [np.array(corners, np.int32)], tuple(np.clip(base * shade, 0, 255)), cv2.LINE_AA)
    a, b = (x0 + (x1 - x0) // 4, y0 + (y1 - y0) // 5), (x0 + (x1 - x0) * 3 // 4, y0 + (y1 - y0) * 3 // 5)
    cv2.rectangle(picture, a, b, _color(rng), -1)
    cv2.rectangle(picture, a, b, (60, 44, 34), max(2, h // 90))
    return picture


def map_sheet(rng: np.random.Generator, w: int, h: int) -> Picture:
    """Fields, blocks, roads and a river seen from above, as a street map shows them."""
    picture = _filled(w, h, (238, 234, 224))
    for _ in range(int(rng.integers(4, 12))):
        x, y = int(rng.uniform(0, w)), int(rng.uniform(0, h))
        size = (x + int(w * rng.uniform(0.05, 0.2)), y + int(h * rng.uniform(0.05, 0.2)))
        cv2.rectangle(picture, (x, y), size, ((206, 230, 190), (222, 216, 206))[int(rng.integers(2))], -1)
    for tint, count, width in (((170, 208, 232), 1, 14), ((255, 255, 255), 12, 5), ((250, 214, 120), 3, 8)):
        for _ in range(count):
            bend = rng.uniform((-0.1, -0.1), (1.1, 1.1), (3, 2)) * (w, h)
            cv2.polylines(picture, [bend.astype(np.int32)], False, tint, max(2, width * min(w, h) // 300), cv2.LINE_AA)
    return picture


_DRAWN: tuple[Callable[[np.random.Generator, int, int], Picture], ...] = (
    black, white, plain, gray, gradient, color_noise, gray_noise, mosaic, dots_noise, line_noise, bars, checker, stripes, ramps,
    test_card, text_slide, hangul_slide, title_card, code_screen, bar_chart, line_chart, pie_chart, rectangles, shapes, rings,
    maze, fractal, face, doodle, voronoi, table, pixel_code, room, map_sheet,
)
UNLIKE_KINDS = {draw.__name__: draw for draw in _DRAWN} | textures.KINDS | views.KINDS
HELD_OUT = ("white", "gray_noise", "line_noise", "checker", "ramps", "title_card", "code_screen", "line_chart", "rectangles",
            "maze", "face", "pixel_code", "bokeh", "terrain", "bark", "foam", "valley", "shore", "street")
TRAINED = tuple(kind for kind in UNLIKE_KINDS if kind not in HELD_OUT)
_BOILING = ("color_noise", "gray_noise", "dots_noise", "line_noise")  # drawn anew for every frame unless they stand still
_FLAT = ("black", "white", "plain", "gray")  # a move would not show


def sample_unlike(rng: np.random.Generator, held_out: bool) -> Unlike:
    """A clip of a kind that training sees, or of one that it never sees."""
    kinds = HELD_OUT if held_out else TRAINED
    kind = kinds[int(rng.integers(len(kinds)))]
    motion = MOTIONS[int(rng.choice(len(MOTIONS), p=(0.35, 0.2, 0.15, 0.15, 0.15)))]
    return Unlike(kind, int(rng.integers(2**31)), motion, round(float(rng.uniform(5.0, 12.0)), 2))


@functools.lru_cache(maxsize=8)
def _drawn(kind: str, seed: int, width: int, height: int) -> Picture:
    """The whole picture, larger than what is shown by _MARGIN."""
    shrink = min(1.0, _DRAWN_SIDE / min(width, height))
    w, h = (max(16, round(side * shrink * _MARGIN)) for side in (width, height))
    return UNLIKE_KINDS[kind](np.random.default_rng(seed), w, h)


def render_unlike(unlike: Unlike, t: float, width: int, height: int) -> Picture:
    """The frame at `t` seconds, [height, width, 3] uint8 RGB."""
    rng = np.random.default_rng([unlike.seed, 5])
    motion = "flicker" if unlike.kind in _FLAT and unlike.motion != "still" else unlike.motion
    if unlike.kind in _BOILING and motion != "still":
        picture = UNLIKE_KINDS[unlike.kind](np.random.default_rng([unlike.seed, round(t * 1000)]), width // 2, height // 2)
        return cv2.resize(picture, (width, height), interpolation=cv2.INTER_NEAREST)
    picture = _drawn(unlike.kind, unlike.seed, width, height)
    swing = 2 * min(1.0, t / unlike.duration_s) - 1
    direction, speed = rng.uniform(0, 2 * math.pi), rng.uniform(0.5, 1.0)
    dx = dy = 0.0
    zoom = 1.0
    if motion == "pan":
        dx, dy = 0.13 * speed * swing * math.cos(direction), 0.13 * speed * swing * math.sin(direction)
    elif motion == "drift":
        dx, dy = 0.06 * math.sin(speed * t + direction), 0.06 * math.cos(0.7 * speed * t)
    elif motion == "zoom":
        zoom = 1.0 + 0.2 * speed * swing * (1 if direction < math.pi else -1)
    scale = width * _MARGIN / picture.shape[1] * zoom
    h, w = picture.shape[:2]
    matrix = np.float32([[scale, 0, width * (0.5 + dx) - scale * w / 2], [0, scale, height * (0.5 + dy) - scale * h / 2]])
    shown = cv2.warpAffine(picture, matrix, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    if motion == "flicker":
        gain = 1.0 + 0.12 * speed * math.sin(9 * t + direction)
        shown = cv2.convertScaleAbs(shown, alpha=gain, beta=4 * math.sin(5 * t))
    return shown
