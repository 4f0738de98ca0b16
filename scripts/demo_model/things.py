"""The things a clip mentions, each drawn in its own unit box (see `Pen`). `c` is the thing's colour, `t` seconds."""

from __future__ import annotations

import math
from typing import Callable

from canvas import Color, Pen, scale

RGB: dict[str, Color] = {
    "red": (214, 38, 38), "yellow": (250, 212, 40), "blue": (35, 90, 225), "white": (248, 248, 248),
    "green": (30, 150, 62), "purple": (146, 56, 190), "brown": (150, 96, 52),
}
_WOOD: Color = (112, 74, 44)
_DARK: Color = (44, 44, 52)
_GLASS: Color = (196, 224, 240)
_SKIN: Color = (236, 196, 164)


def sailboat(p: Pen, c: Color, t: float) -> None:
    p.poly([(-0.5, -0.2), (0.5, -0.2), (0.34, 0), (-0.34, 0)], _WOOD)
    p.line(0, -0.2, 0, -1, _DARK, 0.04)
    p.poly([(0.04, -1), (0.48, -0.26), (0.04, -0.26)], c)
    p.poly([(-0.04, -0.9), (-0.4, -0.26), (-0.04, -0.26)], scale(c, 0.82))


def ferry(p: Pen, c: Color, t: float) -> None:
    p.poly([(-0.62, -0.3), (0.62, -0.3), (0.46, 0), (-0.5, 0)], c)
    p.box(-0.44, -0.55, 0.36, -0.3, (240, 240, 236))
    for i in range(4):
        p.box(-0.38 + i * 0.18, -0.48, -0.27 + i * 0.18, -0.38, _GLASS)
    p.box(-0.14, -0.82, 0.08, -0.55, scale(c, 0.85))
    p.box(-0.14, -0.88, 0.08, -0.8, _DARK)


def rowboat(p: Pen, c: Color, t: float) -> None:
    p.poly([(-0.6, -0.34), (0.6, -0.34), (0.4, 0), (-0.4, 0)], c)
    p.poly([(-0.6, -0.34), (0.6, -0.34), (0.5, -0.26), (-0.5, -0.26)], scale(c, 0.65))
    p.box(-0.1, -0.66, 0.1, -0.34, _DARK)
    p.disc(0, -0.76, 0.11, _SKIN)
    swing = 0.12 * math.sin(t * 2.2)
    p.line(0.05, -0.52, 0.5 + swing, -0.02, _WOOD, 0.05)


def parasol(p: Pen, c: Color, t: float) -> None:
    p.line(0, 0, 0, -0.8, _WOOD, 0.06)
    top = [(0.55 * math.cos(a), -0.58 - 0.42 * math.sin(a)) for a in [i * math.pi / 12 for i in range(13)]]
    p.poly(top, c)
    p.poly([(0, -1.0), (0.2, -0.58), (-0.2, -0.58)], scale(c, 0.75))


def tent(p: Pen, c: Color, t: float) -> None:
    p.poly([(-0.58, 0), (0, -0.86), (0.58, 0)], c)
    p.poly([(-0.2, 0), (0, -0.58), (0.2, 0)], scale(c, 0.5))
    p.line(0, -0.86, 0, -0.96, _WOOD, 0.04)


def cabin(p: Pen, c: Color, t: float) -> None:
    p.box(-0.42, -0.52, 0.42, 0, (178, 134, 90))
    p.poly([(-0.58, -0.5), (0, -1), (0.58, -0.5)], c)
    p.box(-0.1, -0.34, 0.1, 0, _WOOD)
    p.box(0.18, -0.38, 0.34, -0.2, (255, 226, 140))
    p.box(-0.34, -0.38, -0.18, -0.2, (255, 226, 140))


def flag(p: Pen, c: Color, t: float) -> None:
    p.line(-0.3, 0, -0.3, -1, (220, 220, 220), 0.06)
    n, edge = 6, []
    for i in range(n + 1):
        edge.append((-0.28 + 0.72 * i / n, 0.05 * math.sin(i * 1.1 - t * 6) * i / n))
    p.poly([(x, -0.98 + w) for x, w in edge] + [(x, -0.52 + w) for x, w in reversed(edge)], c)


def bench(p: Pen, c: Color, t: float) -> None:
    for x in (-0.42, 0.42):
        p.box(x - 0.05, -0.34, x + 0.05, 0, _DARK)
    p.box(-0.55, -0.42, 0.55, -0.28, c)
    p.box(-0.55, -0.78, 0.55, -0.54, scale(c, 0.85))
    for x in (-0.42, 0.42):
        p.box(x - 0.04, -0.8, x + 0.04, -0.4, _DARK)


def windmill(p: Pen, c: Color, t: float) -> None:
    p.poly([(-0.22, 0), (-0.13, -0.72), (0.13, -0.72), (0.22, 0)], (236, 228, 212))
    p.box(-0.07, -0.2, 0.07, 0, _WOOD)
    p.poly([(-0.19, -0.7), (0, -0.95), (0.19, -0.7)], c)
    for i in range(4):
        a = t * 1.6 + i * math.pi / 2
        x, y = math.cos(a), math.sin(a)
        p.poly([(0, -0.72), (0.52 * x - 0.1 * y, -0.72 + 0.52 * y + 0.1 * x), (0.52 * x + 0.06 * y, -0.72 + 0.52 * y - 0.06 * x)], c)


def wheel(p: Pen, x: float, r: float) -> None:
    p.disc(x, -r, r, _DARK)
    p.disc(x, -r, r * 0.45, (180, 180, 186))


def tractor(p: Pen, c: Color, t: float) -> None:
    p.box(-0.42, -0.62, 0.5, -0.26, c)
    p.box(-0.42, -0.98, 0.04, -0.56, scale(c, 0.8))
    p.box(-0.34, -0.9, -0.04, -0.62, _GLASS)
    p.line(0.32, -0.6, 0.32, -0.88, _DARK, 0.06)
    wheel(p, -0.28, 0.27)
    wheel(p, 0.36, 0.17)


def car(p: Pen, c: Color, t: float) -> None:
    p.poly([(-0.62, -0.16), (-0.6, -0.4), (-0.34, -0.44), (-0.2, -0.7), (0.2, -0.7), (0.38, -0.44), (0.62, -0.38), (0.64, -0.16)], c)
    p.poly([(-0.27, -0.44), (-0.16, -0.64), (0.0, -0.64), (0.0, -0.44)], _GLASS)
    p.poly([(0.05, -0.44), (0.05, -0.64), (0.17, -0.64), (0.3, -0.44)], _GLASS)
    p.disc(0.6, -0.3, 0.05, (255, 240, 170))
    wheel(p, -0.36, 0.16)
    wheel(p, 0.36, 0.16)


def bus(p: Pen, c: Color, t: float) -> None:
    p.box(-0.72, -0.86, 0.72, -0.14, c)
    for i in range(5):
        p.box(-0.64 + i * 0.27, -0.74, -0.44 + i * 0.27, -0.48, _GLASS)
    p.box(-0.72, -0.34, 0.72, -0.27, scale(c, 0.7))
    wheel(p, -0.42, 0.15)
    wheel(p, 0.42, 0.15)


def train(p: Pen, c: Color, t: float) -> None:
    for i in range(3):
        x = -1.75 + i * 1.2
        nose = 0.3 if i == 2 else 0.0
        p.poly([(x, -0.74), (x + 1.14 - nose * 0.4, -0.74), (x + 1.14 + nose, -0.12), (x, -0.12)], c)
        for j in range(4):
            p.box(x + 0.1 + j * 0.26, -0.62, x + 0.28 + j * 0.26, -0.4, _GLASS)
        p.box(x, -0.12, x + 1.14, -0.04, _DARK)


def bike(p: Pen, c: Color, t: float) -> None:
    for x in (-0.34, 0.34):
        p.disc(x, -0.22, 0.22, _DARK)
        p.disc(x, -0.22, 0.14, (206, 206, 206))
    p.poly([(-0.36, -0.24), (0.0, -0.16), (0.36, -0.24), (0.24, -0.5), (-0.16, -0.5)], c)
    pedal = math.sin(t * 7)
    p.line(-0.1, -0.48, 0.02 + 0.08 * pedal, -0.14, _DARK, 0.08)
    p.poly([(-0.26, -0.5), (0.04, -0.46), (0.2, -0.8), (-0.1, -0.86)], c)
    p.line(0.06, -0.74, 0.28, -0.5, _SKIN, 0.07)
    p.disc(0.08, -0.92, 0.11, _SKIN)


def person(p: Pen, c: Color, t: float) -> None:
    step = 0.12 * math.sin(t * 5)
    p.line(-0.07, -0.32, -0.09 + step, 0, _DARK, 0.13)
    p.line(0.07, -0.32, 0.09 - step, 0, _DARK, 0.13)
    p.poly([(-0.2, -0.78), (0.2, -0.78), (0.29, -0.26), (-0.29, -0.26)], c)
    p.line(-0.2, -0.72, -0.31 - step, -0.42, c, 0.11)
    p.line(0.2, -0.72, 0.31 - step, -0.42, c, 0.11)
    p.disc(0, -0.88, 0.12, _SKIN)
    p.disc(0, -0.93, 0.11, _DARK, 0.07)


def jar(p: Pen, c: Color, t: float) -> None:
    p.disc(0, -0.38, 0.4, c, 0.38)
    p.box(-0.24, -0.84, 0.24, -0.66, scale(c, 0.8))
    p.disc(0, -0.86, 0.28, scale(c, 0.6), 0.08)
    p.disc(-0.14, -0.48, 0.08, scale(c, 1.25), 0.14)


def lantern(p: Pen, c: Color, t: float) -> None:
    p.line(0, -1.3, 0, -0.86, _DARK, 0.03)
    p.disc(0, -0.46, 0.38, c, 0.4)
    p.disc(0, -0.46, 0.16, scale(c, 1.3), 0.34)
    p.box(-0.2, -0.92, 0.2, -0.82, _DARK)
    p.box(-0.2, -0.1, 0.2, -0.02, _DARK)
    p.line(0, -0.02, 0, 0.2, scale(c, 0.8), 0.06)


def bird(p: Pen, c: Color, t: float) -> None:
    flap = 0.26 * math.sin(t * 6 + p.x * 0.01)
    p.poly([(0.1, -0.44), (-0.14, -0.46), (-0.5, -0.62 - flap), (-0.24, -0.5)], scale(c, 0.86))
    p.disc(0, -0.44, 0.3, c, 0.1)
    p.poly([(0.12, -0.44), (-0.12, -0.44), (-0.02, -0.86 - flap), (-0.16, -0.9 - flap)], c)
    p.disc(0.28, -0.5, 0.1, c)
    p.poly([(0.36, -0.53), (0.5, -0.48), (0.36, -0.46)], (240, 160, 40))
    p.poly([(-0.26, -0.46), (-0.48, -0.54), (-0.46, -0.38)], scale(c, 0.6))


def deer(p: Pen, c: Color, t: float) -> None:
    step = 0.07 * math.sin(t * 5)
    for x, s in ((-0.3, step), (-0.2, -step), (0.18, step), (0.28, -step)):
        p.line(x, -0.4, x + s, 0, scale(c, 0.8), 0.07)
    p.disc(0, -0.48, 0.38, c, 0.17)
    p.poly([(0.22, -0.52), (0.36, -0.56), (0.5, -0.86), (0.38, -0.88)], c)
    p.disc(0.48, -0.86, 0.13, c, 0.09)
    p.line(0.44, -0.92, 0.38, -1.12, _WOOD, 0.04)
    p.line(0.5, -0.92, 0.56, -1.12, _WOOD, 0.04)
    p.disc(-0.38, -0.54, 0.07, (250, 244, 236))


def airballoon(p: Pen, c: Color, t: float) -> None:
    p.poly([(-0.4, -0.66), (0.4, -0.66), (0.12, -0.26), (-0.12, -0.26)], scale(c, 0.85))
    p.disc(0, -0.72, 0.42, c, 0.4)
    p.disc(0, -0.72, 0.16, scale(c, 0.7), 0.4)
    for x in (-0.1, 0.1):
        p.line(x, -0.28, x * 0.8, -0.12, _DARK, 0.025)
    p.box(-0.11, -0.14, 0.11, 0, _WOOD)


def balloon(p: Pen, c: Color, t: float) -> None:
    p.line(0, -0.3, 0.06 * math.sin(t * 2), 0.1, (230, 230, 230), 0.03)
    p.disc(0, -0.64, 0.33, c, 0.38)
    p.poly([(-0.06, -0.22), (0.06, -0.22), (0, -0.3)], c)
    p.disc(-0.11, -0.76, 0.07, (255, 255, 255), 0.1)


def kite(p: Pen, c: Color, t: float) -> None:
    sway = 0.1 * math.sin(t * 3)
    p.poly([(-0.42, -0.98), (0.42, -0.98), (0.42, -0.3), (-0.42, -0.3)], c)
    p.disc(0, -0.64, 0.15, (250, 250, 250))
    p.line(-0.42, -0.98, 0.42, -0.3, scale(c, 0.6), 0.04)
    p.line(0.42, -0.98, -0.42, -0.3, scale(c, 0.6), 0.04)
    for x in (-0.3, 0.3):
        p.line(x, -0.3, x + sway, 0.12, c, 0.06)


def cablecar(p: Pen, c: Color, t: float) -> None:
    p.line(0, -1.05, 0, -0.7, _DARK, 0.05)
    p.box(-0.42, -0.72, 0.42, -0.08, c)
    p.box(-0.35, -0.64, -0.04, -0.36, _GLASS)
    p.box(0.04, -0.64, 0.35, -0.36, _GLASS)


DRAW: dict[str, Callable[[Pen, Color, float], None]] = {
    f.__name__: f
    for f in (sailboat, ferry, rowboat, parasol, tent, cabin, flag, bench, windmill, tractor, car, bus, train, bike,
              person, jar, lantern, bird, deer, airballoon, balloon, kite, cablecar)
}

# How wide a kind is in its unit box; the kinds that are missing here are one unit wide.
WIDTH: dict[str, float] = dict.fromkeys(DRAW, 1.0) | {
    "ferry": 1.24, "rowboat": 1.2, "parasol": 1.1, "tent": 1.16, "cabin": 1.16, "flag": 0.92, "bench": 1.1, "tractor": 1.0,
    "car": 1.28, "bus": 1.44, "train": 3.9, "bike": 1.12, "person": 0.84, "jar": 0.8, "lantern": 0.8, "deer": 1.05,
    "airballoon": 0.88, "balloon": 0.72, "kite": 0.88, "cablecar": 0.88,
}
OUTLINE = 0.035  # width of the outline in parts of a thing's size


def outline_of(color: str, at_night: bool) -> Color:
    """The outline that sets a thing off from any ground: dark, but light at night around what is not bright itself."""
    return (206, 212, 226) if at_night and color not in ("white", "yellow") else (26, 28, 36)
