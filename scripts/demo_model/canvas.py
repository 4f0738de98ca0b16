"""Antialiased drawing on an RGB picture: whole-frame shapes (`Canvas`) and things in their own unit box (`Pen`)."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

Color = tuple[float, float, float]
_SHIFT = 4
_ONE = 1 << _SHIFT


def mix(a: Color, b: Color, share_of_b: float) -> Color:
    return tuple(x + (y - x) * share_of_b for x, y in zip(a, b))  # type: ignore[return-value]


def scale(a: Color, factor: float) -> Color:
    return tuple(min(255.0, x * factor) for x in a)  # type: ignore[return-value]


def lit(a: Color, light: Color) -> Color:
    return tuple(min(255.0, x * y) for x, y in zip(a, light))  # type: ignore[return-value]


class Canvas:
    """`pixels` [height, width, 3] uint8 RGB; all coordinates in pixels, fractions allowed."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.pixels = np.zeros((height, width, 3), np.uint8)

    def poly(self, points: object, color: Color) -> None:
        pts = np.round(np.clip(np.asarray(points, np.float64), -20000, 20000) * _ONE).astype(np.int32)
        cv2.fillPoly(self.pixels, [pts], color, cv2.LINE_AA, _SHIFT)

    def box(self, x0: float, y0: float, x1: float, y1: float, color: Color) -> None:
        self.poly([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], color)

    def disc(self, x: float, y: float, rx: float, color: Color, ry: float | None = None) -> None:
        axes = (max(1, int(rx * _ONE)), max(1, int((rx if ry is None else ry) * _ONE)))
        center = (int(x * _ONE), int(y * _ONE))
        cv2.ellipse(self.pixels, center, axes, 0, 0, 360, color, -1, cv2.LINE_AA, _SHIFT)

    def line(self, x0: float, y0: float, x1: float, y1: float, color: Color, thickness: float) -> None:
        a, b = (int(x0 * _ONE), int(y0 * _ONE)), (int(x1 * _ONE), int(y1 * _ONE))
        cv2.line(self.pixels, a, b, color, max(1, round(thickness)), cv2.LINE_AA, _SHIFT)

    def gradient(self, y0: float, y1: float, top: Color, bottom: Color) -> None:
        """Fills the rows y0..y1 over the whole width; rows outside the picture are skipped."""
        first, last = max(0, int(y0)), min(self.height, int(y1) + 1)
        if last <= first:
            return
        share = np.clip((np.arange(first, last) - y0) / max(1.0, y1 - y0), 0, 1)[:, None]
        self.pixels[first:last] = (np.array(top) * (1 - share) + np.array(bottom) * share).astype(np.uint8)[:, None]

    def veil(self, color: Color, share: float) -> None:
        cover = np.empty_like(self.pixels)
        cover[:] = np.array(color, np.float64).astype(np.uint8)
        cv2.addWeighted(self.pixels, 1 - share, cover, share, 0, dst=self.pixels)


@dataclass(frozen=True)
class View:
    """The camera at one instant: pan and tilt in parts of the picture, zoom about its centre."""

    pan: float
    tilt: float
    zoom: float
    width: int
    height: int

    @property
    def unit_px(self) -> float:
        return min(self.width, self.height) * self.zoom

    def x(self, u: float, depth: float = 1.0) -> float:
        """`depth` is how strongly a layer answers to panning: 0 at infinity, 1 where the things stand."""
        return self.width * (0.5 + (u - 0.5 - self.pan * depth) * self.zoom)

    def y(self, v: float) -> float:
        return self.height * (0.5 + (v - 0.5 - self.tilt) * self.zoom)

    def at(self, u: float, v: float, depth: float = 1.0) -> tuple[float, float]:
        return self.x(u, depth), self.y(v)


@dataclass(frozen=True)
class Pen:
    """Draws in a thing's own box: x in [-0.5, 0.5], y in [-1, 0] upwards from its foot."""

    canvas: Canvas
    x: float
    y: float
    size_px: float
    flip: int = 1

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return self.x + x * self.flip * self.size_px, self.y + y * self.size_px

    def poly(self, points: list[tuple[float, float]], color: Color) -> None:
        self.canvas.poly([self._at(x, y) for x, y in points], color)

    def box(self, x0: float, y0: float, x1: float, y1: float, color: Color) -> None:
        self.poly([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], color)

    def disc(self, x: float, y: float, r: float, color: Color, ry: float | None = None) -> None:
        px, py = self._at(x, y)
        self.canvas.disc(px, py, r * self.size_px, color, None if ry is None else ry * self.size_px)

    def line(self, x0: float, y0: float, x1: float, y1: float, color: Color, width: float) -> None:
        self.canvas.line(*self._at(x0, y0), *self._at(x1, y1), color, width * self.size_px)


@dataclass(frozen=True)
class OutlinePen(Pen):
    """Draws every shape in one colour and `grown` pixels larger: drawn first, it shows as an edge around the thing."""

    edge: Color = (0.0, 0.0, 0.0)
    grown: float = 1.0

    def poly(self, points: list[tuple[float, float]], color: Color) -> None:
        placed = [self._at(x, y) for x, y in points]
        for a, b in zip(placed, placed[1:] + placed[:1]):
            self.canvas.line(*a, *b, self.edge, 2 * self.grown)

    def disc(self, x: float, y: float, r: float, color: Color, ry: float | None = None) -> None:
        px, py = self._at(x, y)
        self.canvas.disc(px, py, r * self.size_px + self.grown, self.edge, (r if ry is None else ry) * self.size_px + self.grown)

    def line(self, x0: float, y0: float, x1: float, y1: float, color: Color, width: float) -> None:
        self.canvas.line(*self._at(x0, y0), *self._at(x1, y1), self.edge, width * self.size_px + 2 * self.grown)
