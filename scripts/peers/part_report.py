"""Products and vision towers beside their peers, as Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from comparison import (CaseResult, OURS, compare, describe_calibration, describe_failures,
                        describe_header, make_table)
from measuring import Product, Work
from plan import PART_PEERS, OurEntry

MARK = "vision-and-products"


@dataclass(frozen=True)
class PartRow:
    work: str
    ours: str
    unit: str
    rate: float  # in units, as are the peers'
    peers: dict[str, tuple[float, str]]  # by peer: its best rate, and with which setting
    ratio: float | None
    goal: str
    share_of_machine: float
    bound: str
    runs: dict[str, list[float]]  # by contender and setting


def make_rows(result: CaseResult) -> list[PartRow]:
    rows = [_make_row(result, entry) for entry in result.ours]
    return [row for row in rows if row is not None]


def _make_row(result: CaseResult, entry: OurEntry) -> PartRow | None:
    work = result.case.work
    assert not isinstance(work, Work)
    unit, scale = ("GFLOP/s", 1e9) if isinstance(work, Product) else ("frames/s", 1.0)
    found = compare(result, entry, lambda figures: figures.part_rate / scale)
    if found is None:
        return None
    flops = 1e9 if isinstance(work, Product) else result.ours[entry][0].flops_per_frame
    return PartRow(work=work.describe(), ours=entry.setting.describe(), unit=unit,
                   rate=found.rate, peers=found.peers, ratio=found.ratio,
                   goal=entry.goal.describe() if entry.goal else "",
                   share_of_machine=found.rate * flops / found.calibration.flops_per_s,
                   bound=f"{found.calibration.arithmetic} arithmetic", runs=found.runs)


def to_markdown(header: dict[str, str], results: list[CaseResult]) -> str:
    rows = [row for result in results for row in make_rows(result)]
    columns = ["work", OURS, "rate", *PART_PEERS, "ratio to the best", "goal",
               "share of the machine"]
    lines = [[row.work, row.ours, f"{_number(row.rate)} {row.unit}",
              *(_peer_cell(row.peers.get(name)) for name in PART_PEERS),
              "" if row.ratio is None else f"{row.ratio:.2f}×", row.goal,
              f"{row.share_of_machine:.0%} {row.bound}"] for row in rows]
    parts = [describe_header(header), describe_calibration(results),
             make_table(columns, 2, lines), describe_failures(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _peer_cell(best: tuple[float, str] | None) -> str:
    return f"{_number(best[0])} ({best[1]})" if best else ""


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"
