"""The figures of a comparison as Markdown and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass

from measuring import Calibration, Figures, Work, WorkKind
from plan import (LLAMA, MEMORY_SLACK_BYTES, OPENVINO, SLOPE_GOALS, Case, Goal, OurEntry, Peer,
                  SlopeGoal)
from shapes import TextShape

MIB = 1 << 20


@dataclass
class CaseResult:
    case: Case
    ours: dict[OurEntry, list[Figures]]
    peers: dict[Peer, list[Figures]]
    failures: list[str]


@dataclass(frozen=True)
class Row:
    """Of the table of rates."""

    work: str
    ours: str
    ours_tok_s: float
    peers_tok_s: dict[str, tuple[float, str]]  # by peer: its best rate, and with which setting
    ratio: float | None
    goal: str
    wanted_ratio: float | None
    share_of_machine: float
    bound: str
    runs: dict[str, list[float]]  # by contender and setting


def make_rows(result: CaseResult, shape: TextShape) -> list[Row]:
    work = result.case.work
    if work.kind is WorkKind.MEMORY:
        return []
    rows = []
    for entry, figures in result.ours.items():
        if work.kind is WorkKind.PREFILL:
            rows.append(_make_row(result, entry, shape, entry.goal, "", lambda f: f.prefill))
        else:
            rows.append(_make_row(result, entry, shape, entry.goal, "", lambda f: f.decode))
            if work.prompts.has_shared:
                rows.append(_make_row(result, entry, shape, entry.shared_goal,
                                      ", one prompt shared", lambda f: f.shared_decode))
    return [row for row in rows if row is not None]


def _make_row(result: CaseResult, entry: OurEntry, shape: TextShape, goal: Goal | None,
              suffix: str, rate_of: Callable[[Figures], float]) -> Row | None:
    figures = result.ours[entry]
    if not figures:
        return None
    rate = statistics.median(rate_of(f) for f in figures)
    runs = {f"caption-cli {entry.setting.describe()}": [rate_of(f) for f in figures]}
    best: dict[str, tuple[float, str]] = {}
    for peer, peer_figures in result.peers.items():
        is_rival = entry.rival_bits in (None, peer.setting.weight_bits)
        rates = [rate_of(f) for f in peer_figures if rate_of(f) > 0]
        if not rates or not is_rival:
            continue
        runs[f"{peer.name} {peer.setting.describe()}"] = rates
        found = (statistics.median(rates), peer.setting.describe())
        best[peer.name] = max(best.get(peer.name, found), found)
    ratio = rate / max(best.values())[0] if best else None
    calibration = median_calibration([c for f in figures for c in f.calibrations])
    share, bound = _share_of_machine(result.case.work, bool(suffix), entry, shape, rate,
                                     calibration)
    return Row(work=result.case.work.describe() + suffix, ours=entry.setting.describe(),
               ours_tok_s=rate, peers_tok_s=best, ratio=ratio,
               goal=goal.name if goal else "", wanted_ratio=goal.ratio if goal else None,
               share_of_machine=share, bound=bound, runs=runs)


def _share_of_machine(work: Work, is_shared: bool, entry: OurEntry, shape: TextShape, rate: float,
                      calibration: Calibration) -> tuple[float, str]:
    if work.kind is WorkKind.PREFILL:
        flops = shape.prefill_flops(work.context_tokens) * rate / work.context_tokens
        return flops / calibration.flops_per_s, f"{calibration.arithmetic} arithmetic"
    generated = work.num_seqs * work.decode_steps / 2  # that far on the mean step
    contexts = work.context_tokens * (1 if is_shared else work.num_seqs)
    step_bytes = shape.decode_step_bytes(entry.setting.weight_bits, work.kv, contexts + generated)
    return step_bytes * rate / work.num_seqs / calibration.read_bytes_per_s, "bandwidth"


def median_calibration(calibrations: list[Calibration]) -> Calibration:
    return Calibration(statistics.median(c.read_bytes_per_s for c in calibrations),
                       statistics.median(c.flops_per_s for c in calibrations),
                       calibrations[0].arithmetic)


def to_markdown(header: dict[str, str], results: list[CaseResult], shape: TextShape) -> str:
    rows = [row for result in results for row in make_rows(result, shape)]
    parts = ["\n".join(f"- {name}: {text}" for name, text in header.items()),
             describe_calibration(results), _rate_table(rows), _slope_table(results),
             _memory_table(results)]
    failures = dict.fromkeys(failure for result in results for failure in result.failures)
    if failures:
        parts.append("Not measured:\n" + "\n".join(f"- {failure}" for failure in failures))
    return "\n\n".join(part for part in parts if part) + "\n"


def to_json(header: dict[str, str], results: list[CaseResult], shape: TextShape) -> dict:
    rows = [asdict(row) for result in results for row in make_rows(result, shape)]
    calibrations = [asdict(c) for c in all_calibrations(results)]
    failures = [failure for result in results for failure in result.failures]
    return {"header": header, "calibrations": calibrations, "rows": rows, "not_measured": failures}


def replace_figures(document: str, shape_name: str, markdown: str) -> str:
    """The document with new text between its marks for this shape."""
    begin, end = (f"<!-- {shape_name}: {where} -->" for where in ("begin", "end"))
    before, _, rest = document.partition(begin)
    _, _, after = rest.partition(end)
    if not after:
        raise SystemExit(f"the document has no lines {begin} and {end}, in this order")
    return f"{before}{begin}\n{markdown}{end}{after}"


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


def _rate_table(rows: list[Row]) -> str:
    lines = ["| work | caption-cli | tok/s | llama.cpp | OpenVINO GenAI | ratio to the best | goal "
             "| share of the machine |", "|---|---|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        cells = [_peer_cell(row.peers_tok_s.get(name)) for name in (LLAMA, OPENVINO)]
        goal = f"{row.goal} ≥ {row.wanted_ratio:g}×" if row.wanted_ratio else ""
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}×"
        share = f"{row.share_of_machine:.0%} {row.bound}"
        lines.append(f"| {row.work} | {row.ours} | {row.ours_tok_s:.1f} | {cells[0]} | "
                     f"{cells[1]} | {ratio} | {goal} | {share} |")
    return "\n".join(lines) if rows else ""


def _peer_cell(best: tuple[float, str] | None) -> str:
    return f"{best[0]:.1f} ({best[1]})" if best else ""


def _slope_table(results: list[CaseResult]) -> str:
    lines = []
    for wanted in SLOPE_GOALS:
        slopes = _find_slopes(results, wanted)
        if "caption-cli" not in slopes:
            continue
        peers = [f"{slopes[name]:.2f}" if name in slopes else "" for name in (LLAMA, OPENVINO)]
        lines.append(f"| {wanted.kv} KV, B={wanted.from_seqs} to {wanted.to_seqs} | "
                     f"{slopes['caption-cli']:.2f} | {peers[0]} | {peers[1]} | "
                     f"{wanted.goal} ≤ {wanted.at_most_ms:g} |")
    if not lines:
        return ""
    head = ["| ms per further sequence | caption-cli | llama.cpp | OpenVINO GenAI | goal |",
            "|---|--:|--:|--:|--:|"]
    return "\n".join(head + lines)


def _find_slopes(results: list[CaseResult], wanted: SlopeGoal) -> dict[str, float]:
    """By contender, from the first setting that both batch sizes have in common."""
    step_ms: dict[tuple[str, str], dict[int, float]] = {}
    for result in results:
        work = result.case.work
        if work.kind is not WorkKind.DECODE or work.kv != wanted.kv:
            continue
        contenders = [("caption-cli", e.setting, f) for e, f in result.ours.items()]
        contenders += [(p.name, p.setting, f) for p, f in result.peers.items()]
        for name, setting, figures in contenders:
            rates = [f.decode for f in figures if f.decode > 0]
            if rates:
                rate = statistics.median(rates)
                by_seqs = step_ms.setdefault((name, setting.describe()), {})
                by_seqs.setdefault(work.num_seqs, 1e3 * work.num_seqs / rate)
    slopes: dict[str, float] = {}
    for (name, _), by_seqs in step_ms.items():
        if wanted.from_seqs in by_seqs and wanted.to_seqs in by_seqs:
            further = wanted.to_seqs - wanted.from_seqs
            slopes.setdefault(name, (by_seqs[wanted.to_seqs] - by_seqs[wanted.from_seqs]) / further)
    return slopes


def _memory_table(results: list[CaseResult]) -> str:
    lines = []
    for result in results:
        if result.case.work.kind is not WorkKind.MEMORY:
            continue
        peaks = {peer.name: f"{figures[0].peak_bytes / MIB:.0f} ({peer.setting.describe()})"
                 for peer, figures in result.peers.items() if figures}
        for entry, figures in result.ours.items():
            if not figures:
                continue
            most_bytes = figures[0].needed_bytes + MEMORY_SLACK_BYTES
            lines.append(f"| {result.case.work.describe()} | {entry.setting.describe()} | "
                         f"{figures[0].peak_bytes / MIB:.0f} | {peaks.get(LLAMA, '')} | "
                         f"{peaks.get(OPENVINO, '')} | "
                         f"≤ {most_bytes / MIB:.0f} |")
    if not lines:
        return ""
    head = ["| MiB | caption-cli | peak | llama.cpp | OpenVINO GenAI | G12: weights + pages + 64 |",
            "|---|---|--:|--:|--:|--:|"]
    return "\n".join(head + lines)
