#!/usr/bin/env python3
"""What it costs to know clips by their content: `run` beside another way of the same run.

Beside `run --trust-times`, which reads no clip whole to hash it, or beside another build of
caption-cli (--against). Both caption the same clips: copies of the sample videos, each made unlike
the others by a box at its end that decoders pass over. They run in turn, A B, B A, A B, ...; the
report has the ratio of each pair and its median, in time and in CPU time. Run it on a machine that
does nothing else:

    scripts/peers/identity_cost.py --caption-cli build/auto/apps/caption-cli/caption-cli --clips 2000
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Cost:
    wall_s: float
    cpu_s: float


def mark(video: Path, number: int) -> bytes:
    """A box (MP4) or a Void element (Matroska, WebM) of 18 bytes at most that holds `number`."""
    if video.suffix == ".mp4":
        return struct.pack(">I4sQ", 16, b"free", number)
    return b"\xec\x90" + struct.pack(">QQ", number, 0)


def make_clips(folder: Path, count: int) -> None:
    samples = sorted((ROOT / "samples" / "videos").iterdir())
    folder.mkdir()
    for i in range(count):
        video = samples[i % len(samples)]
        (folder / f"{i:05d}-{video.name}").write_bytes(video.read_bytes() + mark(video, i + 1))


def measure(command: list[str], output: Path, count: int) -> Cost:
    """Runs `command -o output` and checks that every clip got its record."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([*command, "-q", "-o", str(output)], check=True)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    records = len(output.read_text(encoding="utf-8").splitlines())
    if records != count:
        raise RuntimeError(f"{records} records of {count} clips: {' '.join(command)}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--caption-cli", type=Path, default=ROOT / "build/auto/apps/caption-cli/caption-cli")
    parser.add_argument("--against", type=Path, help="another build of caption-cli, in place of --trust-times")
    parser.add_argument("--clips", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_clips(folder / "clips", arguments.clips)
        this = [str(arguments.caption_cli), "run", str(folder / "clips")]
        other = [str(arguments.against), "run", str(folder / "clips")] if arguments.against else [*this, "--trust-times"]
        what = arguments.against or "--trust-times"
        walls, cpus = [], []
        for pair in range(arguments.pairs):
            order = ("this", "other") if pair % 2 == 0 else ("other", "this")
            costs = {}
            for who in order:
                output = folder / f"{who}-{pair}.jsonl"
                costs[who] = measure(this if who == "this" else other, output, arguments.clips)
            walls.append(costs["this"].wall_s / costs["other"].wall_s)
            cpus.append(costs["this"].cpu_s / costs["other"].cpu_s)
            print(f"pair {pair + 1}: {costs['this'].wall_s:.1f} s beside {costs['other'].wall_s:.1f} s with {what}: "
                  f"{walls[-1]:.3f} of its time, {cpus[-1]:.3f} of its CPU time", flush=True)
        print(f"median of {arguments.pairs}, {arguments.clips} clips, {os.cpu_count()} cores: {statistics.median(walls):.3f} "
              f"of the time, {statistics.median(cpus):.3f} of the CPU time with {what}")


if __name__ == "__main__":
    main()
