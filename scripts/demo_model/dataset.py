"""Renders the training clips once into a memory-mapped array: eight 112 x 112 frames a clip, as the program samples them."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from render import render
from scene import Scene, sample_scene, split_rng

FRAMES = 8
SIDE = 112
MAX_SPOTS = 6  # three of the standing group, three of the moving one
_ASPECTS = ((16, 9), (16, 9), (4, 3), (1, 1), (9, 16))
_FPS = (12, 15, 24, 25, 30)


def frame_indices(total: int) -> np.ndarray:
    """Which of `total` decoded frames the model sees: the `arange` strategy of LLaVA-NeXT-Video."""
    return np.arange(0, total, total / FRAMES).astype(int)[:FRAMES]


def scene_of(split: str, seed: int, index: int) -> Scene:
    return sample_scene(split_rng(split, seed, index))


def _worn(frame: np.ndarray, quality: int, gain: np.ndarray) -> np.ndarray:
    """The frame as a lossy codec would leave it: block artefacts, a small shift of colour."""
    frame = np.clip(frame.astype(np.float32) * gain, 0, 255).astype(np.uint8)
    _, packed = cv2.imencode(".jpg", frame[..., ::-1], (cv2.IMWRITE_JPEG_QUALITY, quality))
    return cv2.imdecode(packed, cv2.IMREAD_COLOR)[..., ::-1]


def render_clip(split: str, seed: int, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Frames [8, 112, 112, 3] uint8 and the centres of the things [8, 6, 2] (NaN: no such thing)."""
    rng = split_rng(split, seed, index)
    scene = sample_scene(rng)
    aspect = _ASPECTS[int(rng.integers(len(_ASPECTS)))]
    short = int(rng.integers(168, 300))
    width, height = (round(short * a / min(aspect)) for a in aspect)
    fps = _FPS[int(rng.integers(len(_FPS)))]
    quality, gain = int(rng.integers(35, 95)), rng.uniform(0.96, 1.04, 3).astype(np.float32)
    frames = np.zeros((FRAMES, SIDE, SIDE, 3), np.uint8)
    spots = np.full((FRAMES, MAX_SPOTS, 2), np.nan, np.float16)
    for k, i in enumerate(frame_indices(max(FRAMES, round(scene.duration_s * fps)))):
        picture, seen, _ = render(scene, i / fps, width, height)
        small = Image.fromarray(_worn(picture, quality, gain)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        frames[k] = np.asarray(small)
        for n, spot in enumerate(seen):
            # `seen` lists the standing group first; the moving one starts at slot 3.
            slot = n if n < scene.still.count else 3 + n - scene.still.count
            spots[k, slot] = spot.x, spot.y
    return frames, spots


_state: dict[str, object] = {}


def _open(split: str, seed: int, folder: str) -> None:
    cv2.setNumThreads(1)
    _state.update(split=split, seed=seed,
                  frames=np.load(f"{folder}/{split}_frames.npy", mmap_mode="r+"),
                  spots=np.load(f"{folder}/{split}_spots.npy", mmap_mode="r+"))


def _fill(index: int) -> int:
    frames, spots = render_clip(_state["split"], _state["seed"], index)  # type: ignore[arg-type]
    _state["frames"][index], _state["spots"][index] = frames, spots  # type: ignore[index]
    return index


def build(folder: Path, split: str, seed: int, count: int, workers: int = 2) -> None:
    """Renders what is missing; an interrupted run goes on where it stopped."""
    mark = folder / f"{split}_done.json"
    if mark.exists() and json.loads(mark.read_text()).get("count") == count:
        return
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{split}_frames.npy", folder / f"{split}_spots.npy"
    shapes = ((count, FRAMES, SIDE, SIDE, 3), np.uint8), ((count, FRAMES, MAX_SPOTS, 2), np.float16)
    progress = folder / f"{split}_progress.txt"
    start = int(progress.read_text()) if progress.exists() and all(p.exists() for p in paths) else 0
    if start == 0:
        for path, (shape, dtype) in zip(paths, shapes):
            np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape).flush()
    with multiprocessing.Pool(workers, _open, (split, seed, str(folder))) as pool:
        for n, _ in enumerate(pool.imap(_fill, range(start, count), chunksize=32), start + 1):
            if n % 512 == 0:
                progress.write_text(str(n))
                print(f"{split}: {n} of {count} clips rendered", flush=True)
    mark.write_text(json.dumps({"count": count, "seed": seed}))


def load(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    return np.load(folder / f"{split}_frames.npy", mmap_mode="r"), np.load(folder / f"{split}_spots.npy", mmap_mode="r")
