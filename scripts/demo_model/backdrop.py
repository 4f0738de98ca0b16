"""The place itself: sky, land and water of a scene, by time of day, season and weather."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from canvas import Canvas, Color, View, lit, mix, scale
from scene import Scene

HORIZON = {"sea": 0.46, "mountain": 0.62, "river": 0.52, "field": 0.50, "forest": 0.66, "city": 0.70, "bridge": 0.54,
           "hanok": 0.70}


@dataclass(frozen=True)
class Mood:
    """Colours of the hour and the weather. `light` multiplies the land, `lamp` the things (never so dark)."""

    sky_top: Color
    sky_low: Color
    light: Color
    lamp: Color
    haze: Color
    haze_far: float


_SKY = {
    "dawn": ((96, 110, 178), (246, 196, 200), (0.74, 0.72, 0.90)),
    "day": ((52, 128, 222), (188, 226, 248), (1.0, 1.0, 1.0)),
    "dusk": ((112, 58, 118), (255, 138, 46), (1.0, 0.70, 0.50)),
    "night": ((8, 12, 38), (34, 46, 96), (0.38, 0.43, 0.62)),
}
_GRAY = {"dawn": (150, 148, 172), "day": (176, 184, 192), "dusk": (176, 140, 128), "night": (40, 44, 62)}
_OVERCAST = {"clear": 0.0, "cloudy": 0.75, "rain": 0.9, "snow": 0.7, "fog": 0.75}


def mood_of(scene: Scene) -> Mood:
    top, low, light = _SKY[scene.time]
    gray, share = _GRAY[scene.time], _OVERCAST[scene.weather]
    dim = {"rain": 0.74, "cloudy": 0.9}.get(scene.weather, 1.0)
    haze = scale(mix(gray, low, 0.12), 1.16)
    return Mood(
        sky_top=scale(mix(top, gray, share), dim),
        sky_low=scale(mix(low, gray, share * 0.8), dim),
        light=tuple(x * dim for x in light),  # type: ignore[arg-type]
        lamp=tuple(0.5 + 0.5 * x for x in light),  # type: ignore[arg-type]
        haze=haze,
        haze_far={"fog": 0.62, "rain": 0.2, "snow": 0.22}.get(scene.weather, 0.06),
    )


GRASS = {"spring": (150, 200, 92), "summer": (72, 146, 56), "autumn": (196, 154, 72), "winter": (234, 240, 246)}
LEAF = {"spring": (250, 170, 200), "summer": (36, 118, 48), "autumn": (222, 92, 28), "winter": (226, 234, 242)}
HILL = {"spring": (124, 172, 104), "summer": (48, 112, 66), "autumn": (188, 104, 48), "winter": (206, 216, 228)}


class Backdrop:
    """Draws the layers of one frame; everything random comes from the scene's detail seed, so frames agree."""

    def __init__(self, canvas: Canvas, scene: Scene, view: View, t: float) -> None:
        self.canvas, self.scene, self.view, self.t = canvas, scene, view, t
        self.mood = mood_of(scene)
        self.rng = np.random.default_rng(scene.detail_seed)
        self.horizon = HORIZON[scene.place]

    def draw(self) -> None:
        self.sky()
        getattr(self, self.scene.place)()

    def land(self, color: Color, haze: float = 0.0) -> Color:
        m = self.mood
        return mix(lit(color, m.light), m.haze, min(1.0, m.haze_far * haze))

    # ---- sky

    def sky(self) -> None:
        m, v, s = self.mood, self.view, self.scene
        self.canvas.gradient(min(-1, v.y(-0.4)), v.y(self.horizon), m.sky_top, m.sky_low)
        if s.weather == "clear":
            if s.time == "night":
                for x, y in self.rng.uniform((-0.3, -0.3), (1.3, self.horizon * 0.9), (50, 2)):
                    self.canvas.disc(*v.at(x, y, 0.2), v.unit_px * 0.003, (236, 236, 220))
            self.orb()
        self.clouds()

    def orb(self) -> None:
        v, time = self.view, self.scene.time
        u = float(self.rng.uniform(0.2, 0.8))
        height, radius, color = {
            "dawn": (0.86, 0.055, (255, 236, 214)), "day": (0.22, 0.06, (255, 250, 214)),
            "dusk": (0.84, 0.085, (255, 226, 120)), "night": (0.26, 0.06, (250, 246, 214)),
        }[time]
        # A low sun stays above the roofs and ridges of the places whose horizon is low in the picture.
        x, y = v.at(u, min(0.36, self.horizon * height) if time in ("dawn", "dusk") else height, 0.3)
        r = v.unit_px * radius
        halo = mix(mix(self.mood.sky_top, self.mood.sky_low, 0.5 if time in ("day", "night") else 0.9), color, 0.3)
        self.canvas.disc(x, y, r * 1.5, halo)
        self.canvas.disc(x, y, r, color)
        if time == "night":
            self.canvas.disc(x + r * 0.5, y - r * 0.2, r * 0.85, halo)

    def clouds(self) -> None:
        v, s, m = self.view, self.scene, self.mood
        count = {"clear": 3, "cloudy": 9, "rain": 10, "snow": 7, "fog": 0}[s.weather]
        base = (255, 255, 255) if s.weather in ("clear", "snow") else (206, 210, 216)
        color = mix(lit(base, tuple(0.25 + 0.75 * x for x in m.light)), m.sky_low, 0.3)  # type: ignore[arg-type]
        if s.weather == "rain":
            color = scale(color, 0.66)
        for u, h, w in self.rng.uniform((-0.3, 0.03, 0.07), (1.3, 0.5, 0.13), (count, 3)):
            x, y = v.at(u + 0.006 * self.t, h * self.horizon, 0.3)
            r = v.unit_px * w
            for k, (dx, dy, q) in enumerate(((-1.1, 0.1, 0.5), (0, -0.12, 0.72), (1.0, 0.08, 0.55))):
                self.canvas.disc(x + dx * r, y + dy * r, r * q * 1.5, scale(color, 1 - 0.03 * k), r * q * 0.75)

    # ---- shared pieces

    def ridge(self, v_base: float, height: float, color: Color, depth: float, roughness: int = 9) -> None:
        us = np.linspace(-0.6, 1.6, 3 * roughness)
        tops = np.interp(us, np.linspace(-0.6, 1.6, roughness), self.rng.uniform(0.25, 1.0, roughness))
        points = [self.view.at(u, v_base - height * h, depth) for u, h in zip(us, tops)]
        self.canvas.poly(points + [self.view.at(1.6, 1.6, depth), self.view.at(-0.6, 1.6, depth)], color)

    def ground(self, v_top: float, color: Color) -> None:
        low = self.view.y(1.6)
        self.canvas.gradient(self.view.y(v_top), max(low, self.canvas.height + 1), color, scale(color, 0.72))

    def tree(self, u: float, v: float, size: float, depth: float = 1.0, conifer: bool = False, haze: float = 0.0) -> None:
        x, y = self.view.at(u, v, depth)
        s = size * self.view.unit_px
        season = self.scene.season
        trunk = self.land((104, 72, 48), haze)
        c = self.canvas
        c.poly([(x - s * 0.05, y), (x + s * 0.05, y), (x + s * 0.03, y - s * 0.6), (x - s * 0.03, y - s * 0.6)], trunk)
        if conifer:
            leaf = self.land(mix((28, 92, 62), LEAF[season], 0.62 if season == "winter" else 0.15), haze)
            for k in range(3):
                w, b = s * (0.32 - 0.07 * k), y - s * (0.2 + 0.24 * k)
                c.poly([(x - w, b), (x + w, b), (x, b - s * 0.4)], scale(leaf, 1 + 0.08 * k))
            return
        if season == "winter":
            for a in (-0.9, -0.45, 0.0, 0.45, 0.9):
                x1, y1 = x + s * 0.36 * math.sin(a), y - s * (0.5 + 0.4 * math.cos(a))
                c.line(x, y - s * 0.45, x1, y1, trunk, s * 0.035)
                c.disc(x1, y1, s * 0.06, self.land(LEAF[season], haze))
            return
        leaf = self.land(LEAF[season], haze)
        for dx, dy, r, k in ((-0.2, -0.58, 0.22, 0.86), (0.2, -0.6, 0.22, 0.92), (0, -0.78, 0.26, 1.0), (-0.05, -0.66, 0.16, 1.1)):
            c.disc(x + dx * s, y + dy * s, r * s, scale(leaf, k))

    def tree_row(self, count: int, v: float, size: float, depth: float, haze: float, conifer: bool = False) -> None:
        for u, k, dv in self.rng.uniform((-0.45, 0.75, -0.01), (1.45, 1.25, 0.01), (count, 3)):
            self.tree(u, v + dv, size * k, depth, conifer, haze)

    def water(self, v_top: float, v_low: float, color: Color) -> None:
        m, view = self.mood, self.view
        near = self.land(color)
        self.canvas.gradient(view.y(v_top), view.y(v_low), mix(near, m.sky_low, 0.6), mix(near, m.sky_top, 0.15))
        shine = mix(near, mix(m.sky_low, (255, 255, 255), 0.3), 0.55)
        for u, h, w, ph in self.rng.uniform((-0.4, 0.04, 0.02, 0), (1.4, 1.0, 0.09, 6.28), (34, 4)):
            v = v_top + (v_low - v_top) * h
            x, y = view.at(u + 0.012 * math.sin(self.t * 1.4 + ph), v)
            half = w * (0.3 + h) * view.unit_px * (1 + 0.3 * math.sin(self.t * 2 + ph))
            self.canvas.disc(x, y, half, shine, view.unit_px * 0.0035 * (0.5 + h))

    # ---- places

    def sea(self) -> None:
        self.ridge(self.horizon + 0.01, 0.13, self.land(HILL[self.scene.season], 1.0), 0.5, 5)
        self.water(self.horizon, 0.84, (24, 96, 158))
        sand = self.land((238, 216, 164) if self.scene.season != "winter" else (236, 236, 236))
        us = np.linspace(-0.4, 1.4, 19)
        wave = [0.84 + 0.012 * math.sin(9 * u + 0.9 * self.t) for u in us]
        low = [self.view.at(1.4, 1.7), self.view.at(-0.4, 1.7)]
        self.canvas.poly([self.view.at(u, w - 0.018) for u, w in zip(us, wave)] + low, self.land((250, 250, 250)))
        self.canvas.poly([self.view.at(u, w) for u, w in zip(us, wave)] + low, sand)
        self.tree(0.03, 0.97, 0.42)
        self.tree(0.97, 0.97, 0.42)

    def mountain(self) -> None:
        view, season = self.view, self.scene.season
        for k, u in enumerate(self.rng.uniform((-0.1, 0.3, 0.7), (0.2, 0.7, 1.1))):
            peak, half = 0.16 + 0.1 * float(self.rng.random()), 0.42
            rock = self.land(mix((98, 104, 128), HILL[season], 0.25), 1.2)
            self.canvas.poly([view.at(u - half, 0.7, 0.6), view.at(u, peak, 0.6), view.at(u + half, 0.7, 0.6)], scale(rock, 1 - 0.06 * k))
            cap = 0.26 if season != "winter" else 0.5
            q = half * cap
            top = peak + (0.7 - peak) * cap
            snow = ((-1, 0), (0, peak - top), (1, 0), (0.3, -0.03), (0, 0.02), (-0.4, -0.03))
            self.canvas.poly([view.at(u + q * x, top + y, 0.6) for x, y in snow], self.land((246, 248, 252), 0.8))
        self.ridge(0.72, 0.2, self.land(HILL[season], 0.7), 0.8)
        self.tree_row(9, 0.76, 0.15, 0.9, 0.5, conifer=True)
        self.ground(0.74, self.land(GRASS[season]))
        self.tree_row(4, 0.79, 0.2, 0.95, 0.2)

    def river(self) -> None:
        season = self.scene.season
        self.ridge(self.horizon, 0.22, self.land(HILL[season], 1.0), 0.6)
        self.ground(self.horizon, self.land(GRASS[season], 0.5))
        self.tree_row(13, self.horizon + 0.05, 0.19, 0.8, 0.6)
        self.water(self.horizon + 0.06, 0.75, (46, 128, 140))
        self.ground(0.75, self.land(GRASS[season]))
        reed = self.land((196, 176, 96))
        for u, h in self.rng.uniform((-0.4, 0.05), (1.4, 0.11), (26, 2)):
            x, y = self.view.at(u, 0.765)
            lean = 0.012 * math.sin(self.t * 1.5 + 9 * u) * self.view.unit_px
            self.canvas.line(x, y, x + lean, y - h * self.view.unit_px, reed, self.view.unit_px * 0.008)

    def field(self) -> None:
        view, season = self.view, self.scene.season
        self.ridge(self.horizon + 0.01, 0.1, self.land(HILL[season], 1.0), 0.6, 6)
        self.ground(self.horizon, self.land(GRASS[season]))
        crop = {"spring": (250, 214, 60), "summer": (40, 120, 44), "autumn": (236, 190, 70), "winter": (200, 208, 218)}
        row = self.land(crop[season])
        for i in range(-9, 10):
            u0, u1 = 0.5 + i * 0.055, 0.5 + i * 0.26
            self.canvas.poly([view.at(u0, self.horizon + 0.02, 0.8), view.at(u0 + 0.02, self.horizon + 0.02, 0.8),
                              view.at(u1 + 0.13, 1.5), view.at(u1, 1.5)], row)
        self.tree_row(5, self.horizon + 0.03, 0.14, 0.7, 0.7)

    def forest(self) -> None:
        view, season = self.view, self.scene.season
        self.ridge(0.66, 0.16, self.land(scale(HILL[season], 0.8), 1.0), 0.5)
        self.tree_row(16, 0.66, 0.42, 0.7, 0.9, conifer=True)
        self.ground(0.66, self.land(scale(GRASS[season], 0.86)))
        path = self.land((196, 164, 118) if season != "winter" else (214, 214, 218))
        self.canvas.poly([view.at(0.46, 0.67), view.at(0.54, 0.67), view.at(0.8, 1.5), view.at(0.2, 1.5)], path)
        self.tree_row(8, 0.72, 0.5, 0.85, 0.4)
        for u in (-0.3, -0.08, 1.08, 1.3):
            self.tree(u, 0.93, 0.9)

    def building(self, x0: float, y0: float, x1: float, y1: float, wall: Color, rows: int, seed: float) -> None:
        """A wall of 3 x `rows` windows in pixels; some are lit in the evening."""
        evening = self.scene.time in ("night", "dusk")
        unlit, glow = self.land((150, 190, 220)), lit((255, 222, 130), self.mood.lamp)
        self.canvas.box(x0, y0, x1, y1, wall)
        w, h = (x1 - x0) / 3, (y1 - y0) / rows
        for i in range(3):
            for j in range(rows):
                on = evening and math.sin(97 * seed + 7.3 * i + 3.1 * j) > -0.2
                x, y = x0 + w * (i + 0.22), y0 + h * (j + 0.25)
                self.canvas.box(x, y, x + w * 0.56, y + h * 0.5, glow if on else scale(unlit, 0.9))

    def city(self) -> None:
        view = self.view
        tones = ((148, 152, 166), (186, 160, 140))
        for row, (depth, base, lo, hi) in enumerate(((0.6, 0.7, 0.36, 0.58), (0.85, 0.74, 0.2, 0.46))):
            u = -0.5
            while u < 1.5:
                w, h, tone, seed = (float(x) for x in self.rng.uniform((0.1, lo, 0.7, 0), (0.17, hi, 1.1, 1)))
                wall = self.land(scale(tones[row], tone), 0.8 - 0.5 * row)
                corners = *view.at(u, base - h, depth), *view.at(u + w, base, depth)
                self.building(*corners, wall, max(2, int(h / 0.07)), seed)
                u += w + 0.012
        pavement = self.land((196, 192, 186) if self.scene.season != "winter" else (236, 238, 242))
        self.ground(0.74, pavement)
        for i in range(6):
            self.tree(-0.3 + 0.32 * i, 0.765, 0.24, 0.95)
        self.canvas.gradient(view.y(0.85), view.y(1.6), self.land((84, 86, 94)), self.land((58, 60, 66)))
        for i in range(-4, 14):
            self.canvas.box(*view.at(i * 0.14, 0.975), *view.at(i * 0.14 + 0.07, 0.987), self.land((240, 236, 210)))

    def bridge(self) -> None:
        view, season = self.view, self.scene.season
        self.ridge(self.horizon + 0.02, 0.16, self.land(HILL[season], 1.0), 0.5, 7)
        self.tree_row(10, self.horizon + 0.03, 0.12, 0.6, 0.8)
        self.water(self.horizon + 0.02, 0.84, (40, 98, 138))
        steel, deck = self.land((186, 66, 52)), self.land((92, 94, 104))
        px = view.unit_px
        for u in (0.12, 0.88):
            self.canvas.box(*view.at(u - 0.018, 0.1), *view.at(u + 0.018, 0.7), steel)
        us = np.linspace(-0.62, 1.62, 57)
        # Parabolas that hang from the towers, 0.76 apart, and touch the deck half way.
        sag = [0.46 - 0.34 * (((u - 0.12) % 0.76 - 0.38) / 0.38) ** 2 for u in us]
        points = [view.at(u, s) for u, s in zip(us, sag)]
        for (ax, ay), (bx, by) in zip(points, points[1:]):
            self.canvas.line(ax, ay, bx, by, steel, px * 0.012)
        for ax, ay in points[::2]:
            self.canvas.line(ax, ay, ax, view.y(0.5), steel, px * 0.004)
        self.canvas.box(*view.at(-0.8, 0.5), *view.at(1.8, 0.545), deck)
        self.ground(0.84, self.land(GRASS[season]))

    def house(self, u: float, w: float, base: float) -> None:
        """A hanok: walls between wooden posts under a curved tiled roof."""
        view, season, evening = self.view, self.scene.season, self.scene.time in ("night", "dusk")
        tile = self.land((62, 66, 78) if season != "winter" else (206, 212, 222))
        wall, wood = self.land((240, 230, 208)), self.land((124, 70, 40))
        paper = lit((255, 216, 130), self.mood.lamp) if evening else self.land((226, 214, 184))
        (x0, y0), (x1, y1) = view.at(u - w * 0.4, base - 0.2, 0.9), view.at(u + w * 0.4, base, 0.9)
        self.canvas.box(x0, y0, x1, y1, wall)
        for i in range(5):
            x = x0 + (x1 - x0) * i / 4
            self.canvas.line(x, y0, x, y1, wood, view.unit_px * 0.016)
        for i in range(4):
            door = x0 + (x1 - x0) * (i + 0.24) / 4, y0 + (y1 - y0) * 0.35, x0 + (x1 - x0) * (i + 0.76) / 4, y0 + (y1 - y0) * 0.85
            self.canvas.box(*door, paper)
        eaves = ((-0.56, -0.24), (-0.3, -0.2), (0, -0.19), (0.3, -0.2), (0.56, -0.24), (0.36, -0.31), (0.26, -0.37),
                 (0, -0.355), (-0.26, -0.37), (-0.36, -0.31))
        crest = ((-0.27, -0.375), (0.27, -0.375), (0.25, -0.35), (0, -0.335), (-0.25, -0.35))
        for shape, shade in ((eaves, 0.8 + 0.5 * (base - 0.7) / 0.04), (crest, 0.55)):
            self.canvas.poly([view.at(u + w * x, base + y, 0.9) for x, y in shape], scale(tile, shade))

    def hanok(self) -> None:
        view, season = self.view, self.scene.season
        self.ridge(0.6, 0.26, self.land(HILL[season], 1.0), 0.5, 7)
        self.tree_row(6, 0.68, 0.36, 0.75, 0.5)
        self.ground(0.68, self.land((214, 190, 150) if season != "winter" else (234, 238, 244)))
        for u, w, base in ((-0.05, 0.44, 0.7), (1.02, 0.5, 0.71), (0.48, 0.56, 0.74)):
            self.house(u, w * float(self.rng.uniform(0.92, 1.08)), base)
        self.canvas.box(*view.at(-0.6, 0.74), *view.at(1.6, 0.775), self.land((168, 160, 150)))
