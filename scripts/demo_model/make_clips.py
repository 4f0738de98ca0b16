"""Makes an archive of fresh clips no model has seen: `python make_clips.py --seed 7 --count 16 --out DIR`.

Writes the videos, `references.jsonl` (its `captions` are those of the full style, `prompts` those of the others), the
same of one style as `references-STYLE.jsonl` for `caption-cli eval`, `prompts.txt` for `caption-cli run --prompts`, and
`truth.jsonl` for judge.py. Scenes come from the `test` split of `scene.SPLITS`, whose seeds share no first word with the
training split, so no seed here can repeat a training scene.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
from dataclasses import dataclass
from pathlib import Path

import cv2

from archive import Film, film_of, kinds_of, label_file, truth_line
from caption import PROMPTS, STYLES
from dataset import FRAMES


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
SHARES = {"static": "where nothing moves", "near_duplicate": "that show another clip's scene again",
          "long": "of several scenes with hard cuts", "unlike": "that the model cannot describe"}
LAYOUTS = ("plain", "folders", "aihub")
# What AI-Hub's set holds: H.264 in MP4, 720p and 1080p, 30 frames per second; one clip in five is of the validation part.
AIHUB_CODEC, AIHUB_FPS, AIHUB_SIZES = CODECS[0], 30, {"full": ((1280, 720), (1920, 1080)), "small": ((480, 270), (426, 240))}


@dataclass(frozen=True)
class Order:
    """What is asked for."""

    seed: int
    kinds: list[str]  # of every clip
    out: Path
    layout: str
    sizes: str
    limit_bytes: int  # a scene
    label_style: str


@dataclass(frozen=True)
class Form:
    """How a clip is encoded, and where it lies in the archive."""

    path: Path  # relative to the archive
    codec: Codec
    size: tuple[int, int]
    fps: int


def form_of(order: Order, film: Film) -> Form:
    """Codec, size and rate by the index; the sizes advance by one more each round, so that every codec meets every size."""
    i = film.index
    if order.layout == "aihub":
        folder = Path("val" if i % 5 == 4 else "train") / "videos"
        sizes = AIHUB_SIZES[order.sizes]
        return Form(folder / f"{film.label}_{i:05d}.mp4", AIHUB_CODEC, sizes[i % len(sizes)], AIHUB_FPS)
    codec, sizes, rates = CODECS[i % len(CODECS)], SIZES[order.sizes], FPS[order.sizes]
    folder = Path("videos") / film.category if order.layout == "folders" else Path("videos")
    return Form(folder / f"{film.label}-{i:03d}-{codec.name}.{codec.suffix}", codec, sizes[(i + i // len(CODECS)) % len(sizes)],
                rates[i % len(rates)])


def encode(film: Film, path: Path, form: Form, crf: int, counts: list[int]) -> None:
    (width, height), fps = form.size, form.fps
    command = ["ffmpeg", "-y", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps),
               "-i", "-", *COLOUR, *form.codec.options, "-crf", str(crf), "-g", str(4 * fps), "-pix_fmt", "yuv420p",
               "-threads", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact", "-map_metadata", "-1", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        for scene, count in enumerate(counts):
            for i in range(count):
                process.stdin.write(film.frame(scene, i / fps, width, height).tobytes())
        process.stdin.close()
    if process.returncode:
        raise RuntimeError(f"ffmpeg failed with {process.returncode}: {' '.join(command)}")


def make_clip(order: Order, index: int) -> tuple[dict, dict]:
    """Encodes clip `index`, coarser until it is below the limit; returns its lines of references and truth."""
    cv2.setNumThreads(1)
    film = film_of(order.seed, index, order.kinds)
    form = form_of(order, film)
    path = order.out / form.path
    path.parent.mkdir(parents=True, exist_ok=True)
    counts = film.frame_counts(form.fps, FRAMES)
    # A near-duplicate is never the same file, even where codec and size agree.
    for crf in range(form.codec.crf + (3 if film.kind == "near_duplicate" else 0), 60, 4):
        encode(film, path, form, crf, counts)
        if path.stat().st_size < order.limit_bytes * len(counts):
            break
    original = None if film.copy_of is None else form_of(order, film_of(order.seed, film.copy_of, order.kinds)).path.name
    truth = truth_line(film, path.name, counts, form.fps, original)
    if order.layout == "aihub":
        label = path.parent.parent / "labels" / f"{path.stem}.json"
        label.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(label_file(film, path, truth, form.size, form.fps, order.label_style), ensure_ascii=False, indent=2)
        label.write_text(text + "\n", encoding="utf-8")
    others = {style: film.references[style] for style in STYLES if style != "full"}
    return {"video": path.name, "captions": film.references["full"], "prompts": others}, truth


def write_lines(path: Path, lines: list[dict]) -> None:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def write_tables(out: Path, references: list[dict], truths: list[dict]) -> None:
    write_lines(out / "references.jsonl", references)
    write_lines(out / "truth.jsonl", truths)
    for style in STYLES[1:]:
        lines = [{"video": line["video"], "captions": line["prompts"][style]} for line in references]
        write_lines(out / f"references-{style}.jsonl", lines)
    (out / "prompts.txt").write_text("".join(f"{style}\t{PROMPTS[style][0]}\n" for style in STYLES), encoding="utf-8")


def share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share; give a number from 0 to 1")
    return value


def parser_of_arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True, help="of clips")
    parser.add_argument("--out", type=Path, required=True, help="the archive's folder")
    parser.add_argument("--sizes", choices=sorted(SIZES), default="full",
                        help="small: about a fifth of the pixels and half of the rate")
    parser.add_argument("--limit-kb", type=int, default=390, help="re-encode clips above this size; of long ones, a scene's")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--layout", choices=LAYOUTS, default="plain",
                        help="folders: a folder for each category; aihub: {train,val}/videos/*.mp4, {train,val}/labels/*.json")
    parser.add_argument("--label-style", choices=STYLES, default="full", help="the reference in label files")
    for kind, what in SHARES.items():
        name = "near-duplicates" if kind == "near_duplicate" else kind
        parser.add_argument(f"--{name}", dest=kind, metavar="SHARE", type=share, default=0.0, help=f"of clips {what}, 0 to 1")
    return parser


def main() -> None:
    parser = parser_of_arguments()
    arguments = parser.parse_args()
    shares = {kind: getattr(arguments, kind) for kind in SHARES}
    if sum(shares.values()) > 1 + 1e-9:
        parser.error("the shares add up to more than 1")
    kinds = kinds_of(arguments.seed, arguments.count, shares)
    if "near_duplicate" in kinds and "scene" not in kinds:
        parser.error("near-duplicates need single scenes to repeat; lower the shares")
    order = Order(arguments.seed, kinds, arguments.out, arguments.layout, arguments.sizes, arguments.limit_kb * 1000,
                  arguments.label_style)
    with multiprocessing.Pool(arguments.jobs) as pool:
        lines = pool.starmap(make_clip, [(order, i) for i in range(arguments.count)], chunksize=1)
    write_tables(arguments.out, [references for references, _ in lines], [truth for _, truth in lines])


if __name__ == "__main__":
    main()
