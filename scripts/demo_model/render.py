"""Draws a scene at any size and instant, and says where its things are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from backdrop import HORIZON, Backdrop, mood_of
from canvas import Canvas, Pen, View, lit
from scene import SIDES, Group, Scene
from things import DRAW, RGB

THING_SIZE = 0.19  # of the picture's shorter side
_FLYING = ("bird", "airballoon", "kite", "balloon", "cablecar")
_AFLOAT = ("sailboat", "ferry", "rowboat")
_ROAD_V = {"city": 0.955, "bridge": 0.502, "river": 0.955, "field": 0.95, "forest": 0.95, "hanok": 0.965}
_STILL_V = {"sea": 0.93, "mountain": 0.87, "river": 0.92, "field": 0.80, "forest": 0.84, "city": 0.835, "bridge": 0.97,
            "hanok": 0.87}
_WATER_V = {"sea": 0.70, "river": 0.76, "bridge": 0.80}


@dataclass(frozen=True)
class Spot:
    """One thing's centre on the picture, in parts of its width and height."""

    group: Group
    x: float
    y: float


def view_at(scene: Scene, progress: float, width: int, height: int) -> View:
    """The camera at `progress` in [0, 1] of the clip; every move is centred on the middle of the clip."""
    swing = 2.0 * progress - 1.0
    pan = {"pan_left": -0.17, "pan_right": 0.17}.get(scene.camera, 0.0) * swing
    tilt = {"tilt_up": -0.14, "tilt_down": 0.14}.get(scene.camera, 0.0) * swing
    zoom = {"zoom_in": 0.24, "zoom_out": -0.24}.get(scene.camera, 0.0) * swing
    return View(pan, tilt, 1.06 + zoom, width, height)


def _still_v(scene: Scene) -> float:
    kind = scene.still.kind
    if kind == "lantern":
        return 0.62
    return _WATER_V[scene.place] if kind in _AFLOAT else _STILL_V[scene.place]


def _row(count: int, step: float) -> list[float]:
    return [(i - (count - 1) / 2) * step for i in range(count)]


def _draw_still(canvas: Canvas, scene: Scene, view: View, t: float) -> list[Spot]:
    group, size = scene.still, THING_SIZE * view.unit_px
    u = (0.22, 0.5, 0.78)[SIDES.index(scene.side)]
    x, y = view.at(u, _still_v(scene))
    color = lit(RGB[group.color], mood_of(scene).lamp)
    spots = []
    for i, dx in enumerate(_row(group.count, size * 1.12)):
        bob = 0.02 * size * math.sin(1.5 * t + 2 * i) if group.kind in _AFLOAT else 0.0
        cy = y + bob + (i % 2) * 0.14 * size
        DRAW[group.kind](Pen(canvas, x + dx, cy, size), color, 0.0 if group.kind == "person" else t)
        spots.append(Spot(group, (x + dx) / view.width, (cy - size / 2) / view.height))
    return spots


def _draw_mover(canvas: Canvas, scene: Scene, view: View, t: float, progress: float) -> list[Spot]:
    group = scene.mover
    if group is None:
        return []
    size = THING_SIZE * view.unit_px
    horizon = HORIZON[scene.place]
    if group.kind in _FLYING:
        v = min(0.34, horizon * 0.62)
    elif group.kind in _AFLOAT:
        v = _WATER_V[scene.place] - 0.10
    else:
        v = _ROAD_V[scene.place]
    flip = -1 if scene.heading == "left" else 1
    # Screen positions: the things cross the picture whatever the camera does.
    travel = 0.16 + 0.68 * progress
    x = view.width * (0.5 if scene.heading == "up" else travel if flip > 0 else 1 - travel)
    if scene.heading == "up":
        v = 0.62 - 0.46 * progress
        x = view.width * (0.32 + 0.36 * ((scene.detail_seed >> 3) % 97) / 96)
    y = view.y(v)
    color = lit(RGB[group.color], mood_of(scene).lamp)
    step = size * (1.55 if group.kind == "bus" else 1.22)
    spots = []
    if group.kind == "cablecar":
        canvas.line(-9, y - size, view.width + 9, y - size, (60, 60, 66), size * 0.03)
    for i, dx in enumerate(_row(group.count, step)):
        cy = y + (0.2 * size * ((i % 2) - 0.5) if group.kind in _FLYING and group.kind != "cablecar" else 0.0)
        if group.kind in ("airballoon", "kite", "balloon"):
            cy += 0.05 * size * math.sin(1.3 * t + 1.7 * i)
        DRAW[group.kind](Pen(canvas, x + dx, cy, size, flip), color, t + 0.3 * i)
        spots.append(Spot(group, (x + dx) / view.width, (cy - size / 2) / view.height))
    return spots


def _draw_weather(canvas: Canvas, scene: Scene, t: float) -> None:
    w, h = canvas.width, canvas.height
    unit = min(w, h)
    rng = np.random.default_rng(scene.detail_seed + 1)
    dim = 0.75 if scene.time == "night" else 1.0
    if scene.weather == "rain":
        for x, y, k in rng.random((90, 3)):
            y = (y + t * (1.6 + 0.5 * k)) % 1.1 - 0.05
            px, py, length = (x * 1.2 - 0.1) * w, y * h, unit * (0.05 + 0.04 * k)
            canvas.line(px, py, px - length * 0.22, py + length, (206 * dim, 216 * dim, 228 * dim), unit / 200)
    elif scene.weather == "snow":
        for x, y, k in rng.random((110, 3)):
            y = (y + t * (0.12 + 0.1 * k)) % 1.06 - 0.03
            px = (x + 0.02 * math.sin(t + 9 * k)) * w
            canvas.disc(px, y * h, unit * (0.006 + 0.007 * k), (250 * dim, 250 * dim, 252 * dim))
    elif scene.weather == "fog":
        mood = mood_of(scene)
        canvas.veil(mood.haze, 0.3)


def render(scene: Scene, t: float, width: int, height: int) -> tuple[np.ndarray, list[Spot], View]:
    """The frame at `t` seconds as [height, width, 3] RGB, the places of the things, and the camera."""
    progress = min(1.0, t / scene.duration_s)
    canvas, view = Canvas(width, height), view_at(scene, progress, width, height)
    Backdrop(canvas, scene, view, t).draw()
    flying = scene.mover is not None and scene.mover.kind in _FLYING + _AFLOAT or scene.place == "bridge"
    movers = _draw_mover(canvas, scene, view, t, progress) if flying else []
    still = _draw_still(canvas, scene, view, t)
    if not flying:
        movers = _draw_mover(canvas, scene, view, t, progress)
    _draw_weather(canvas, scene, t)
    return canvas.pixels, still + movers, view
