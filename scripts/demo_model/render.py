"""Draws a scene at any size and instant, and says where its things are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from backdrop import HORIZON, Backdrop, mood_of
from canvas import Canvas, Color, OutlinePen, Pen, View, lit
from scene import AFLOAT, FLYING, Group, Scene
from things import DRAW, OUTLINE, RGB, WIDTH, outline_of

# Of the square root of the picture's area, so that a thing covers as many pixels of the model's 112 x 112 at any aspect.
THING_SIZE = 0.155
PAN, TILT, ZOOM = 0.13, 0.11, 0.21  # how far the camera goes to either side of the clip's middle
_FLIGHT_V = 0.33
_ROAD_V = {"city": 0.965, "bridge": 0.502, "river": 0.965, "field": 0.965, "forest": 0.965, "hanok": 0.97}
# Above the road by a thing's height, so that what passes does not cover what stands.
_STILL_V = {"sea": 0.88, "mountain": 0.84, "river": 0.80, "field": 0.77, "forest": 0.78, "city": 0.80, "bridge": 0.885,
            "hanok": 0.79}
_WATER_V = {"sea": 0.76, "river": 0.72, "bridge": 0.77}
_FAR_WATER_V = {"sea": 0.55, "river": 0.60}
_SIDE_U = {"left": 0.24, "middle": 0.5, "right": 0.76}
_STEP = 1.18  # between the centres of neighbours, in widths of the thing
_STAGGER = 0.28  # how much lower every second thing of a standing group has its foot, in parts of its size
_STILL_HALF = 0.27  # of the picture's width: half of the widest standing group, so that its side can be told


@dataclass(frozen=True)
class Spot:
    """One thing's centre on the picture, in parts of its width and height."""

    group: Group
    x: float
    y: float


def view_at(scene: Scene, progress: float, width: int, height: int) -> View:
    """The camera at `progress` in [0, 1] of the clip; every move is centred on the middle of the clip."""
    swing = 2.0 * progress - 1.0
    pan = {"pan_left": -PAN, "pan_right": PAN}.get(scene.camera, 0.0) * swing
    tilt = {"tilt_up": -TILT, "tilt_down": TILT}.get(scene.camera, 0.0) * swing
    zoom = {"zoom_in": ZOOM, "zoom_out": -ZOOM}.get(scene.camera, 0.0) * swing
    return View(pan, tilt, 1.06 + zoom, width, height)


def _still_v(scene: Scene) -> float:
    kind = scene.still.kind
    if kind == "lantern":
        return 0.62
    return _WATER_V[scene.place] if kind in AFLOAT else _STILL_V[scene.place]


def _row(count: int, step: float) -> list[float]:
    return [(i - (count - 1) / 2) * step for i in range(count)]


def _size_px(group: Group, view: View) -> float:
    """The size of one thing of the group; wide kinds are drawn smaller, so that all take about the same room."""
    size = THING_SIZE * math.sqrt(view.width * view.height) * view.zoom
    return size if group.kind == "train" else size / math.sqrt(max(1.0, WIDTH[group.kind]))


def _half_width(group: Group, size: float, step: float = _STEP) -> float:
    """Half of the row's width in pixels."""
    return size * WIDTH[group.kind] * (0.5 + 0.5 * (group.count - 1) * step)


def _within(middle: float, half: float, low: float, high: float) -> float:
    """`middle`, moved as far as a row of +-`half` needs to lie between `low` and `high`."""
    return min(max(middle, low + half), high - half) if 2 * half < high - low else (low + high) / 2


def _draw_still(canvas: Canvas, scene: Scene, view: View, t: float) -> list[Spot]:
    group, size = scene.still, _size_px(scene.still, view)
    # In a narrow picture the row closes up and its things stand before and behind one another.
    wide = size / view.zoom * WIDTH[group.kind] / view.width
    step = min(_STEP, 2 * (_STILL_HALF / wide - 0.5) / max(1, group.count - 1))
    stagger = _STAGGER if step > 0.95 else 0.62
    half = _half_width(group, size / view.zoom, step) / view.width
    x, y = view.at(_within(_SIDE_U[scene.side], half, 0.03, 0.97), _still_v(scene))
    color = lit(RGB[group.color], mood_of(scene).lamp)
    places = []
    for i, dx in enumerate(_row(group.count, size * WIDTH[group.kind] * step)):
        bob = 0.02 * size * math.sin(1.5 * t + 2 * i) if group.kind in AFLOAT else 0.0
        places.append((x + dx, y + bob + (i % 2) * stagger * size))
    return _draw_row(canvas, scene, view, group, size, color, places, 0.0 if group.kind == "person" else t, 1)


def _draw_row(canvas: Canvas, scene: Scene, view: View, group: Group, size: float, color: Color,
              places: list[tuple[float, float]], t: float, flip: int) -> list[Spot]:
    """Draws the group's things at their feet in pixels, each with an outline, the lower in front of the higher."""
    edge = outline_of(group.color, scene.time == "night")
    for i, (x, y) in sorted(enumerate(places), key=lambda place: place[1][1]):
        beat = t + 0.3 * i
        DRAW[group.kind](OutlinePen(canvas, x, y, size, flip, edge, max(0.7, OUTLINE * size)), color, beat)
        DRAW[group.kind](Pen(canvas, x, y, size, flip), color, beat)
    return [Spot(group, x / view.width, (y - size / 2) / view.height) for x, y in places]


def _mover_v(scene: Scene, kind: str) -> float:
    if kind in FLYING:
        return min(_FLIGHT_V, HORIZON[scene.place] * 0.66)
    return _FAR_WATER_V[scene.place] if kind in AFLOAT else _ROAD_V[scene.place]


def _mover_place(scene: Scene, group: Group, view: View, size: float, progress: float) -> tuple[float, float]:
    """The middle of the moving row. Screen positions: the things cross the picture whatever the camera does."""
    half = _half_width(group, size / view.zoom) / view.width
    if scene.heading == "up":
        middle = 0.32 + 0.36 * ((scene.detail_seed >> 3) % 97) / 96
        return view.width * _within(middle, half, 0.02, 0.98), view.y(0.64 - 0.42 * progress)
    start = min(max(0.16, half), 0.32)
    travel = start + (1 - 2 * start) * progress
    y = view.y(_mover_v(scene, group.kind))
    # A tilt or a zoom does not push what drives along the lower edge out of the picture.
    return view.width * (1 - travel if scene.heading == "left" else travel), min(y, 0.985 * view.height)


def _draw_mover(canvas: Canvas, scene: Scene, view: View, t: float, progress: float) -> list[Spot]:
    group = scene.mover
    if group is None:
        return []
    size = _size_px(group, view)
    x, y = _mover_place(scene, group, view, size, progress)
    color = lit(RGB[group.color], mood_of(scene).lamp)
    if group.kind == "cablecar":
        canvas.line(-9, y - size, view.width + 9, y - size, (60, 60, 66), size * 0.03)
    places = []
    for i, dx in enumerate(_row(group.count, size * WIDTH[group.kind] * _STEP)):
        dy = 0.3 * size * ((i % 2) - 0.5) if group.kind in FLYING and group.kind != "cablecar" else 0.0
        if group.kind in ("airballoon", "kite", "balloon"):
            dy += 0.05 * size * math.sin(1.3 * t + 1.7 * i)
        places.append((x + dx, y + dy))
    return _draw_row(canvas, scene, view, group, size, color, places, t, -1 if scene.heading == "left" else 1)


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
    t = 0.0 if scene.frozen else t
    progress = min(1.0, t / scene.duration_s)
    canvas, view = Canvas(width, height), view_at(scene, progress, width, height)
    Backdrop(canvas, scene, view, t).draw()
    flying = scene.mover is not None and scene.mover.kind in FLYING + AFLOAT or scene.place == "bridge"
    movers = _draw_mover(canvas, scene, view, t, progress) if flying else []
    still = _draw_still(canvas, scene, view, t)
    if not flying:
        movers = _draw_mover(canvas, scene, view, t, progress)
    _draw_weather(canvas, scene, t)
    return canvas.pixels, still + movers, view
