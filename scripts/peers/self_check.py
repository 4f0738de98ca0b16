"""`compare.py --self-check`: how recorded outputs are read, and how figures become a table."""

from __future__ import annotations

import json
import math

import report
from llama_peer import parse_rows
from measuring import Calibration, Figures, Prompts, RunFailed, Setting, Work, WorkKind
from ours import parse_figures
from plan import LLAMA, Case, Goal, OurEntry, Peer
from shapes import SHAPES

# As llama-batched-bench (v0.5.0) printed it, shortened to the fields that are read.
LLAMA_OUTPUT = """
llama_memory: graph splits = 1
{"n_kv_max": 16384, "flash_attn": 0, "pp": 512, "tg": 16, "pl": 4, "speed_tg": 37.1}

"""


def our_report(seconds: float, first_token_p99_ms: float, cut_short: int = 0) -> dict:
    run = {"seconds": seconds, "cut_short": cut_short, "peak_bytes": 700 << 20,
           "needed_bytes": 650 << 20,
           "first_token_ms": {"p50": 1000.0, "p99": first_token_p99_ms}}
    machine = {"read_bytes_per_s": 40e9, "flops_per_s": 500e9, "arithmetic": "bf16"}
    return {"machine_before": machine, "machine_after": machine,
            "variants": [{"runs": [run], "median_run": 0}] * 2}


def check_llama() -> None:
    rows = parse_rows(LLAMA_OUTPUT)
    assert [(row["pl"], row["speed_tg"]) for row in rows] == [(4, 37.1)]
    try:
        parse_rows("\nno row\n")
    except RunFailed:
        return
    raise AssertionError("an output without rows was read")


def check_ours() -> None:
    prefill = parse_figures(our_report(1.0, 1000.0), Work(WorkKind.PREFILL, 512))
    assert prefill.prefill == 512 and prefill.decode == 0 and len(prefill.calibrations) == 2
    # 16 sequences in one group: all 24 further tokens of each come after the last prompt.
    one_group = Work(WorkKind.DECODE, 512, num_seqs=16, decode_steps=24)
    assert parse_figures(our_report(6.0, 4000.0), one_group).decode == 16 * 24 / 2
    # 64 in four groups of 16: the first three give 48, 32 and 16 tokens before that.
    four_groups = Work(WorkKind.DECODE, 512, num_seqs=64, decode_steps=24, prompts=Prompts.BOTH)
    figures = parse_figures(our_report(6.0, 4000.0), four_groups)
    assert figures.decode == (64 * 24 - 96) / 2 and figures.shared_decode == (64 * 24 - 1) / 2
    try:
        parse_figures(our_report(6.0, 4000.0, cut_short=1), one_group)
    except RunFailed:
        return
    raise AssertionError("a run that was cut short was read")


def check_shapes() -> None:
    shape = SHAPES["qwen3-0.6b"]
    # The model's own count, less its norms: 596,049,920 - 65,536.
    assert shape.layer_weights + shape.head_weights == 595_984_384
    assert (shape.kv_token_bytes("16-bit"), shape.kv_token_bytes("int8")) == (114_688, 58_240)


def check_rows() -> None:
    eight_bits = OurEntry(Setting("int8", 8), Goal("G4", 1.25), rival_bits=8)
    work = Work(WorkKind.DECODE, 512)
    calibration = Calibration(40e9, 500e9, "bf16")
    peers = {Peer(LLAMA, Setting("Q8_0", 8)): [Figures(decode=rate) for rate in (30, 20, 25)],
             Peer(LLAMA, Setting("Q4_0", 4)): [Figures(decode=99)]}
    result = report.CaseResult(
        Case(work, (eight_bits,), tuple(peers), (1, 1, 1)),
        {eight_bits: [Figures(decode=50, calibrations=[calibration])]}, peers, [])
    (row,) = report.make_rows(result, SHAPES["qwen3-0.6b"])
    assert row.peers_tok_s == {LLAMA: (25, "Q8_0")} and row.ratio == 2
    step_bytes = 595_984_384 + (512 + 12) * 114_688
    assert math.isclose(row.share_of_machine, step_bytes * 50 / 40e9)
    text = report.to_markdown({"date": "today"}, [result], SHAPES["qwen3-0.6b"])
    assert "| 2.00× | G4 ≥ 1.25× |" in text
    json.dumps(report.to_json({"date": "today"}, [result], SHAPES["qwen3-0.6b"]))


def check_document() -> None:
    marked = "a\n<!-- x: begin -->\n{}<!-- x: end -->\nb\n"
    assert report.replace_figures(marked.format("old\n"), "x", "new\n") == marked.format("new\n")
    for broken in ("", "<!-- x: begin -->\n", "<!-- y: begin --><!-- y: end -->\n"):
        try:
            report.replace_figures(broken, "x", "new\n")
        except SystemExit:
            continue
        raise AssertionError(f"no marks were found in {broken!r}")


def main() -> int:
    checks = (check_llama, check_ours, check_shapes, check_rows, check_document)
    for check in checks:
        check()
    print(f"{len(checks)} passed, 0 failed")
    return 0
