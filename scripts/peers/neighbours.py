"""How much of the machine others took while a contender ran: what makes a rate wrong."""

from __future__ import annotations

import os
import resource
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NUM_COUNTED = 8  # user nice system idle iowait irq softirq steal: guests are within user
IDLE_FIELDS = (3, 4)


@dataclass
class Others:
    share: float = 0.0  # of all CPU time


@contextmanager
def watch_others() -> Iterator[Others]:
    """What it yields holds the share once the block has ended."""
    others = Others()
    total, busy = _machine_seconds()
    children = _children_seconds()
    yield others
    total_after, busy_after = _machine_seconds()
    seconds = busy_after - busy - (_children_seconds() - children)
    others.share = max(0.0, seconds) / max(total_after - total, 1e-9)


def describe_shares(shares: list[float]) -> str:
    if not shares:
        return "nothing ran"
    return (f"other processes and the host took {statistics.median(shares):.0%} of the "
            f"CPU time (median of the runs), {max(shares):.0%} at worst")


def _machine_seconds() -> tuple[float, float]:
    """All and busy, stolen time included, over all cores."""
    ticks = [int(text) for text in Path("/proc/stat").read_text().split()[1:1 + NUM_COUNTED]]
    idle = sum(ticks[field] for field in IDLE_FIELDS)
    hertz = os.sysconf("SC_CLK_TCK")
    return sum(ticks) / hertz, (sum(ticks) - idle) / hertz


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
