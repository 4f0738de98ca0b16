"""One of our entries beside its rivals in one case: medians, and the ratio to the best."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from measuring import Calibration, Figures
from plan import Case, OurEntry, Peer

OURS = "caption-cli"


@dataclass
class CaseResult:
    case: Case
    ours: dict[OurEntry, list[Figures]]
    peers: dict[Peer, list[Figures]]
    failures: list[str]


@dataclass(frozen=True)
class Comparison:
    rate: float  # ours
    peers: dict[str, tuple[float, str]]  # by peer: its best rate, and with which setting
    ratio: float | None  # to the best of them
    runs: dict[str, list[float]]  # by contender and setting
    calibration: Calibration


def compare(result: CaseResult, entry: OurEntry,
            rate_of: Callable[[Figures], float]) -> Comparison | None:
    figures = result.ours[entry]
    if not figures:
        return None
    rate = statistics.median(rate_of(f) for f in figures)
    runs = {f"{OURS} {entry.setting.describe()}": [rate_of(f) for f in figures]}
    best: dict[str, tuple[float, str]] = {}
    for peer, peer_figures in result.peers.items():
        is_rival = entry.rival_bits in (None, peer.setting.weight_bits)
        rates = [rate_of(f) for f in peer_figures if rate_of(f) > 0]
        if not rates or not is_rival:
            continue
        what = ", ".join(filter(None, (peer.setting.describe(), peer_figures[0].implementation)))
        runs[f"{peer.name} {what}"] = rates
        found = (statistics.median(rates), what)
        best[peer.name] = max(best.get(peer.name, found), found)
    ratio = rate / max(best.values())[0] if best else None
    calibration = median_calibration([c for f in figures for c in f.calibrations])
    return Comparison(rate, best, ratio, runs, calibration)


def median_calibration(calibrations: list[Calibration]) -> Calibration:
    return Calibration(statistics.median(c.read_bytes_per_s for c in calibrations),
                       statistics.median(c.flops_per_s for c in calibrations),
                       calibrations[0].arithmetic)


def all_calibrations(results: list[CaseResult]) -> list[Calibration]:
    return [c for result in results for figures in result.ours.values() for f in figures
            for c in f.calibrations]


def describe_calibration(results: list[CaseResult]) -> str:
    found = all_calibrations(results)
    if not found:
        return ""
    reads = sorted(c.read_bytes_per_s / 1e9 for c in found)
    flops = sorted(c.flops_per_s / 1e9 for c in found)
    return (f"Calibration, {len(found)} times between the runs, lowest to highest (median): "
            f"memory read {reads[0]:.1f} to {reads[-1]:.1f} ({statistics.median(reads):.1f}) GB/s, "
            f"{found[0].arithmetic} arithmetic {flops[0]:.0f} to {flops[-1]:.0f} "
            f"({statistics.median(flops):.0f}) GFLOP/s.")


def describe_failures(results: list[CaseResult]) -> str:
    failures = dict.fromkeys(failure for result in results for failure in result.failures)
    if not failures:
        return ""
    return "Not measured:\n" + "\n".join(f"- {failure}" for failure in failures)


def describe_header(header: dict[str, str]) -> str:
    return "\n".join(f"- {name}: {text}" for name, text in header.items())


def make_table(columns: list[str], num_text_columns: int, lines: list[list[str]]) -> str:
    """Markdown; empty without lines."""
    if not lines:
        return ""
    rule = "|" + "---|" * num_text_columns + "--:|" * (len(columns) - num_text_columns)
    return "\n".join([_table_line(columns), rule, *(_table_line(line) for line in lines)])


def _table_line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def replace_figures(document: str, mark: str, markdown: str) -> str:
    """The document with new text between its lines <!-- mark: begin --> and <!-- mark: end -->."""
    begin, end = (f"<!-- {mark}: {where} -->" for where in ("begin", "end"))
    before, _, rest = document.partition(begin)
    _, _, after = rest.partition(end)
    if not after:
        raise SystemExit(f"the document has no lines {begin} and {end}, in this order")
    return f"{before}{begin}\n{markdown}{end}{after}"
