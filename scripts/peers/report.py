"""The figures of a language model's comparison as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from comparison import (CaseResult, OURS, compare, describe_calibration, describe_failures,
                        describe_header, make_table)
from measuring import Calibration, Figures, Work, WorkKind
from plan import MEMORY_SLACK_BYTES, SLOPE_GOALS, TEXT_PEERS, Goal, OurEntry, RateGoal, SlopeGoal
from shapes import TextShape

MIB = 1 << 20


@dataclass(frozen=True)
class Row:
    """Of the table of rates."""

    work: str
    ours: str
    ours_tok_s: float
    peers_tok_s: dict[str, tuple[float, str]]  # by peer: its best rate, and with which setting
    ratio: float | None
    goal: str
    share_of_machine: float
    bound: str
    runs: dict[str, list[float]]  # by contender and setting


def make_rows(result: CaseResult, shape: TextShape) -> list[Row]:
    work = text_work(result)
    if work.kind is WorkKind.MEMORY:
        return []
    rows = []
    for entry in result.ours:
        if work.kind is WorkKind.PREFILL:
            rows.append(_make_row(result, entry, shape, entry.goal, "", lambda f: f.prefill))
        else:
            rows.append(_make_row(result, entry, shape, entry.goal, "", lambda f: f.decode))
            if work.prompts.has_shared:
                rows.append(_make_row(result, entry, shape, entry.shared_goal,
                                      ", one prompt shared", lambda f: f.shared_decode))
    return [row for row in rows if row is not None]


def text_work(result: CaseResult) -> Work:
    assert isinstance(result.case.work, Work)
    return result.case.work


def _make_row(result: CaseResult, entry: OurEntry, shape: TextShape, goal: Goal | RateGoal | None,
              suffix: str, rate_of: Callable[[Figures], float]) -> Row | None:
    found = compare(result, entry, rate_of)
    if found is None:
        return None
    work = text_work(result)
    share, bound = _share_of_machine(work, bool(suffix), entry, shape, found.rate,
                                     found.calibration)
    return Row(work=work.describe() + suffix, ours=entry.setting.describe(),
               ours_tok_s=found.rate, peers_tok_s=found.peers, ratio=found.ratio,
               goal=goal.describe() if goal else "", share_of_machine=share, bound=bound,
               runs=found.runs)


def _share_of_machine(work: Work, is_shared: bool, entry: OurEntry, shape: TextShape, rate: float,
                      calibration: Calibration) -> tuple[float, str]:
    if work.kind is WorkKind.PREFILL:
        flops = shape.prefill_flops(work.context_tokens) * rate / work.context_tokens
        return flops / calibration.flops_per_s, f"{calibration.arithmetic} arithmetic"
    generated = work.num_seqs * work.decode_steps / 2  # that far on the mean step
    contexts = work.context_tokens * (1 if is_shared else work.num_seqs)
    step_bytes = shape.decode_step_bytes(entry.setting.weight_bits, work.kv, contexts + generated)
    return step_bytes * rate / work.num_seqs / calibration.read_bytes_per_s, "bandwidth"


def to_markdown(header: dict[str, str], results: list[CaseResult], shape: TextShape) -> str:
    rows = [row for result in results for row in make_rows(result, shape)]
    parts = [describe_header(header), describe_calibration(results), _rate_table(rows),
             _slope_table(results), _memory_table(results), describe_failures(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _rate_table(rows: list[Row]) -> str:
    names = [name for name in TEXT_PEERS if any(name in row.peers_tok_s for row in rows)]
    columns = ["work", OURS, "tok/s", *names, "ratio to the best", "goal", "share of the machine"]
    return make_table(columns, 2, [
        [row.work, row.ours, f"{row.ours_tok_s:.1f}",
         *(_peer_cell(row.peers_tok_s.get(name)) for name in names),
         "" if row.ratio is None else f"{row.ratio:.2f}×", row.goal,
         f"{row.share_of_machine:.0%} {row.bound}"] for row in rows])


def _peer_cell(best: tuple[float, str] | None) -> str:
    return f"{best[0]:.1f} ({best[1]})" if best else ""


def _slope_table(results: list[CaseResult]) -> str:
    found = [(wanted, _find_slopes(results, wanted)) for wanted in SLOPE_GOALS]
    found = [(wanted, slopes) for wanted, slopes in found if OURS in slopes]
    names = [name for name in TEXT_PEERS if any(name in slopes for _, slopes in found)]
    return make_table(["ms per further sequence", OURS, *names, "goal"], 1, [
        [f"{wanted.kv} KV, B={wanted.from_seqs} to {wanted.to_seqs}",
         *(f"{slopes[name]:.2f}" if name in slopes else "" for name in (OURS, *names)),
         f"{wanted.goal} ≤ {wanted.at_most_ms:g}"] for wanted, slopes in found])


def _find_slopes(results: list[CaseResult], wanted: SlopeGoal) -> dict[str, float]:
    """By contender, from the first setting that both batch sizes have in common."""
    step_ms: dict[tuple[str, str], dict[int, float]] = {}
    for result in results:
        work = text_work(result)
        if work.kind is not WorkKind.DECODE or work.kv != wanted.kv:
            continue
        contenders = [(OURS, e.setting, f) for e, f in result.ours.items()]
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
    found = []
    for result in results:
        if text_work(result).kind is not WorkKind.MEMORY:
            continue
        peaks = {peer.name: f"{figures[0].peak_bytes / MIB:.0f} ({peer.setting.describe()})"
                 for peer, figures in result.peers.items() if figures}
        found += [(text_work(result), entry, figures[0], peaks)
                  for entry, figures in result.ours.items() if figures]
    names = [name for name in TEXT_PEERS if any(name in peaks for *_, peaks in found)]
    return make_table(["MiB", OURS, "peak", *names, "G12: weights + pages + 64"], 2, [
        [work.describe(), entry.setting.describe(), f"{figures.peak_bytes / MIB:.0f}",
         *(peaks.get(name, "") for name in names),
         f"≤ {(figures.needed_bytes + MEMORY_SLACK_BYTES) / MIB:.0f}"]
        for work, entry, figures, peaks in found])
