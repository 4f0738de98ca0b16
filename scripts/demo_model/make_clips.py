"""Makes fresh clips no model has seen, with references: `python make_clips.py --seed 7 --count 16 --out DIR`.

Writes DIR/videos/*.{mp4,mkv,webm} and DIR/references.jsonl. Scenes come from the `test` split of `scene.SPLITS`, whose
seeds share no first word with the training split, so no seed here can repeat a training scene.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
from dataclasses import dataclass
from pathlib import Path

import cv2

from caption import caption
from dataset import FRAMES
from render import render
from scene import Scene, sample_scene, split_rng


@dataclass(frozen=True)
class Codec:
    name: str
    suffix: str
    crf: int
    options: tuple[str, ...]


CODECS = (
    Codec("h264", "mp4", 26, ("-c:v", "libx264", "-preset", "medium", "-movflags", "+faststart")),
    Codec("hevc", "mp4", 28, ("-c:v", "libx265", "-preset", "fast", "-tag:v", "hvc1", "-x265-params", "log-level=error:pools=1")),
    Codec("vp9", "webm", 36, ("-c:v", "libvpx-vp9", "-b:v", "0", "-deadline", "good", "-cpu-used", "5", "-row-mt", "0")),
    Codec("av1", "mkv", 40, ("-c:v", "libsvtav1", "-preset", "9", "-svtav1-params", "lp=1")),
    Codec("h264", "mkv", 27, ("-c:v", "libx264", "-preset", "medium", "-profile:v", "main")),
    Codec("av1", "mp4", 40, ("-c:v", "libsvtav1", "-preset", "9", "-svtav1-params", "lp=1")),
)
# BT.601, limited range: ffmpeg's default for RGB at every size, written into the files so that no reader has to guess.
COLOUR = ("-vf", "scale=out_color_matrix=bt601:out_range=tv", "-colorspace", "smpte170m", "-color_range", "tv")
SIZES = {
    "full": ((640, 360), (854, 480), (480, 480), (360, 640), (1280, 720), (640, 480)),
    "small": ((320, 180), (426, 240), (240, 240), (180, 320), (480, 270), (320, 240)),
}
FPS = {"full": (25, 30, 24), "small": (12, 15)}


def encode(scene: Scene, path: Path, codec: Codec, crf: int, size: tuple[int, int], fps: int) -> None:
    width, height = size
    command = ["ffmpeg", "-y", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-",
               *COLOUR, *codec.options, "-crf", str(crf), "-g", str(4 * fps), "-pix_fmt", "yuv420p", "-threads", "1",
               "-fflags", "+bitexact", "-flags:v", "+bitexact", "-map_metadata", "-1", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        for i in range(max(FRAMES, round(scene.duration_s * fps))):
            process.stdin.write(render(scene, i / fps, width, height)[0].tobytes())
        process.stdin.close()
    if process.returncode:
        raise RuntimeError(f"ffmpeg failed with {process.returncode}: {' '.join(command)}")


def make_clip(seed: int, index: int, folder: Path, sizes: str, limit_bytes: int) -> dict:
    """Encodes clip `index`, coarser until it is below the limit, and returns its line of references."""
    cv2.setNumThreads(1)
    rng = split_rng("test", seed, index)
    scene = sample_scene(rng)
    references = [caption(scene, "full", rng) for _ in range(3)]
    codec = CODECS[index % len(CODECS)]
    # The sizes advance by one more each round, so that every codec meets every size.
    size = SIZES[sizes][(index + index // len(CODECS)) % len(SIZES[sizes])]
    fps = FPS[sizes][index % len(FPS[sizes])]
    path = folder / f"{scene.place}-{index:03d}-{codec.name}.{codec.suffix}"
    for crf in range(codec.crf, 60, 4):
        encode(scene, path, codec, crf, size, fps)
        if path.stat().st_size < limit_bytes:
            break
    return {"video": path.name, "captions": references}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", choices=sorted(SIZES), default="full", help="small: about a fifth of the pixels and half of the rate")
    parser.add_argument("--limit-kb", type=int, default=390, help="re-encode clips above this size")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    folder = arguments.out / "videos"
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [(arguments.seed, i, folder, arguments.sizes, arguments.limit_kb * 1000) for i in range(arguments.count)]
    with multiprocessing.Pool(arguments.jobs) as pool:
        lines = pool.starmap(make_clip, tasks, chunksize=1)
    with (arguments.out / "references.jsonl").open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
