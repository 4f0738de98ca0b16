"""Renders the training clips once into memory-mapped arrays: eight 112 x 112 frames a clip, as the program samples them.

Most clips show a scene; the rest show what the model must refuse to describe (`unlike.py`).
"""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from render import PAN, TILT, ZOOM, render
from scene import SPLITS, Scene, sample_scene, split_rng
from unlike import render_unlike, sample_unlike

FRAMES = 8
SIDE = 112
MAX_SPOTS = 6  # three of the standing group, three of the moving one
UNLIKE_SHARE = 0.08
_UNLIKE_STREAM = 8  # tells the random numbers of clips without a scene from those of scenes
_ASPECTS = ((16, 9), (16, 9), (4, 3), (1, 1), (9, 16))
_FPS = (12, 15, 24, 25, 30)
_ARRAYS = (("frames", (FRAMES, SIDE, SIDE, 3), np.uint8, 0), ("spots", (FRAMES, MAX_SPOTS, 2), np.float16, np.nan),
           ("views", (FRAMES, 3), np.float16, np.nan))


def frame_indices(total: int) -> np.ndarray:
    """Which of `total` decoded frames the model sees: the `arange` strategy of LLaVA-NeXT-Video."""
    return np.arange(0, total, total / FRAMES).astype(int)[:FRAMES]


def scene_of(split: str, seed: int, index: int) -> Scene:
    return sample_scene(split_rng(split, seed, index))


def _unlike_rng(split: str, seed: int, index: int) -> np.random.Generator | None:
    rng = np.random.default_rng([SPLITS[split], seed, index, _UNLIKE_STREAM])
    return rng if rng.random() < UNLIKE_SHARE else None


def shown(split: str, seed: int, index: int) -> Scene | None:
    """The scene of a clip; None: the clip is unlike any scene."""
    return scene_of(split, seed, index) if _unlike_rng(split, seed, index) is None else None


def _worn(frame: np.ndarray, quality: int, gain: np.ndarray) -> np.ndarray:
    """The frame as a lossy codec would leave it: block artefacts, a small shift of colour."""
    frame = np.clip(frame.astype(np.float32) * gain, 0, 255).astype(np.uint8)
    _, packed = cv2.imencode(".jpg", frame[..., ::-1], (cv2.IMWRITE_JPEG_QUALITY, quality))
    return cv2.imdecode(packed, cv2.IMREAD_COLOR)[..., ::-1]


@dataclass(frozen=True)
class Clip:
    """One row of each array; NaN where a clip has no such thing."""

    frames: np.ndarray  # [8, 112, 112, 3] uint8
    spots: np.ndarray  # [8, 6, 2] centres of the things, in parts of the picture
    views: np.ndarray  # [8, 3] the camera's pan, tilt and zoom, each from -1 to 1


def render_clip(split: str, seed: int, index: int) -> Clip:
    rng = split_rng(split, seed, index)
    scene = sample_scene(rng)
    unlike_rng = _unlike_rng(split, seed, index)
    unlike = sample_unlike(unlike_rng, held_out=split != "train") if unlike_rng is not None else None
    aspect = _ASPECTS[int(rng.integers(len(_ASPECTS)))]
    short = int(rng.integers(168, 300))
    width, height = (round(short * a / min(aspect)) for a in aspect)
    fps = _FPS[int(rng.integers(len(_FPS)))]
    quality, gain = int(rng.integers(35, 95)), rng.uniform(0.96, 1.04, 3).astype(np.float32)
    clip = Clip(*(np.full(shape, fill, dtype) for _, shape, dtype, fill in _ARRAYS))
    duration_s = scene.duration_s if unlike is None else unlike.duration_s
    for k, i in enumerate(frame_indices(max(FRAMES, round(duration_s * fps)))):
        if unlike is not None:
            picture = render_unlike(unlike, i / fps, width, height)
        else:
            picture, seen, view = render(scene, i / fps, width, height)
            clip.views[k] = view.pan / PAN, view.tilt / TILT, (view.zoom - 1.06) / ZOOM
            for n, spot in enumerate(seen):
                # `seen` lists the standing group first; the moving one starts at slot 3.
                slot = n if n < scene.still.count else 3 + n - scene.still.count
                clip.spots[k, slot] = spot.x, spot.y
        small = Image.fromarray(_worn(picture, quality, gain)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        clip.frames[k] = np.asarray(small)
    return clip


_state: dict[str, object] = {}


def _paths(folder: Path, split: str) -> list[Path]:
    return [folder / f"{split}_{name}.npy" for name, *_ in _ARRAYS]


def _open(split: str, seed: int, folder: Path) -> None:
    cv2.setNumThreads(1)
    _state.update(split=split, seed=seed, arrays=[np.load(path, mmap_mode="r+") for path in _paths(folder, split)])


def _fill(index: int) -> int:
    clip = render_clip(_state["split"], _state["seed"], index)  # type: ignore[arg-type]
    for array, row in zip(_state["arrays"], (clip.frames, clip.spots, clip.views)):  # type: ignore[call-overload]
        array[index] = row
    return index


def build(folder: Path, split: str, seed: int, count: int, workers: int = 2) -> None:
    """Renders what is missing; an interrupted run goes on where it stopped."""
    mark = folder / f"{split}_done.json"
    if mark.exists() and json.loads(mark.read_text()).get("count") == count:
        return
    folder.mkdir(parents=True, exist_ok=True)
    paths = _paths(folder, split)
    progress = folder / f"{split}_progress.txt"
    start = int(progress.read_text()) if progress.exists() and all(p.exists() for p in paths) else 0
    if start == 0:
        for path, (_, shape, dtype, _) in zip(paths, _ARRAYS):
            np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(count, *shape)).flush()
    with multiprocessing.Pool(workers, _open, (split, seed, folder)) as pool:
        for n, _ in enumerate(pool.imap(_fill, range(start, count), chunksize=32), start + 1):
            if n % 512 == 0:
                progress.write_text(str(n))
                print(f"{split}: {n} of {count} clips rendered", flush=True)
    mark.write_text(json.dumps({"count": count, "seed": seed}))


def load(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arrays of Clip, each with the clips as its first dimension."""
    frames, spots, views = (np.load(path, mmap_mode="r") for path in _paths(folder, split))
    return frames, spots, views
