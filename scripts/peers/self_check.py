"""`compare.py --self-check`: how recorded outputs are read, and how figures become a table."""

from __future__ import annotations

import json
import math
import tempfile
from dataclasses import asdict
from pathlib import Path

import part_report
import report
from comparison import CaseResult, replace_figures
from kept_runs import KeptRun, KeptRuns
from llama_peer import Rates, parse_json_rows, parse_table
from measuring import (Calibration, Figures, Finished, Product, Prompts, RunFailed, Setting, Tower,
                       Work, WorkKind)
from ours import parse_figures
from plan import (CASES, IK, LLAMA, PART_CASES, PART_PEERS, TEXT_PEERS, TORCH, Case, Goal,
                  OurEntry, Peer, RateGoal)
from shapes import SHAPES, TOWERS
from torch_peer import find_implementation

# As llama-batched-bench (v0.5.0) printed it, shortened to the fields that are read.
LLAMA_OUTPUT = """
llama_memory: graph splits = 1
{"n_kv_max": 16384, "flash_attn": 0, "pp": 512, "tg": 16, "pl": 4, "speed_pp": 95.5, "speed_tg": 37.1}

"""

# As ik_llama.cpp's (8337e4c) did, on stderr.
IK_ERRORS = """
main: n_kv_max = 1024, n_batch = 2048, n_ubatch = 512, flash_attn = 1, is_pp_shared = 1

|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   512 |     24 |    1 |    536 |    1.471 |   347.95 |    0.640 |    37.50 |    2.112 |   253.85 |

"""

# As PyTorch 2.15's first call did, shortened.
TORCH_OUTPUT = """
onednn_verbose,v1,info,cpu,isa:Intel AVX-512 with Intel DL Boost and bfloat16 support
onednn_verbose,v1,primitive,create_nested:cache_miss,cpu,matmul,brg_matmul:avx512_core,undef
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32 dst:bf16,,,512x1024,0.1
onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,undef,src:bf16,,,512x1024
{"seconds": [0.01]}
"""


def our_report(seconds: float, first_token_p99_ms: float, cut_short: int = 0) -> dict:
    run = {"seconds": seconds, "cut_short": cut_short, "peak_bytes": 700 << 20,
           "needed_bytes": 650 << 20,
           "first_token_ms": {"p50": 1000.0, "p99": first_token_p99_ms}}
    machine = {"read_bytes_per_s": 40e9, "flops_per_s": 500e9, "arithmetic": "bf16"}
    return {"machine_before": machine, "machine_after": machine,
            "variants": [{"runs": [run], "median_run": 0}] * 2}


def finished(stdout: str, stderr: str = "") -> Finished:
    return Finished(stdout, stderr, peak_bytes=0)


def check_llama() -> None:
    assert parse_json_rows(finished(LLAMA_OUTPUT)) == Rates(95.5, 37.1)
    assert parse_table(finished("", IK_ERRORS)) == Rates(347.95, 37.5)
    header_only = IK_ERRORS.rpartition("|   512")[0]
    for parse, output in ((parse_json_rows, finished("\nno row\n")),
                          (parse_table, finished("no row", header_only))):
        try:
            parse(output)
        except RunFailed:
            continue
        raise AssertionError("an output without rows was read")


def check_torch() -> None:
    assert find_implementation(finished(TORCH_OUTPUT)) == "avx512_core_bf16"
    try:
        find_implementation(finished('{"seconds": [0.01]}'))
    except RunFailed:
        return
    raise AssertionError("a product that was not oneDNN's was read")


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
    result = CaseResult(
        Case(work, (eight_bits,), tuple(peers), (1, 1, 1)),
        {eight_bits: [Figures(decode=50, calibrations=[calibration])]}, peers, [])
    (row,) = report.make_rows(result, SHAPES["qwen3-0.6b"])
    assert row.peers_tok_s == {LLAMA: (25, "Q8_0")} and row.ratio == 2
    step_bytes = 595_984_384 + (512 + 12) * 114_688
    assert math.isclose(row.share_of_machine, step_bytes * 50 / 40e9)
    text = report.to_markdown({"date": "today"}, [result], SHAPES["qwen3-0.6b"])
    assert "| 2.00× | G4 ≥ 1.25× |" in text
    assert IK not in text  # a peer that was not there has no column
    json.dumps(asdict(row))


def check_part_rows() -> None:
    calibration = Calibration(40e9, 500e9, "bf16")
    sixteen_bits = OurEntry(Setting("bf16", 16), Goal("G10", 1.2), rival_bits=16)
    peers = {Peer(TORCH, Setting("bf16", 16)): [
                 Figures(part_rate=300e9, implementation="avx512_core_bf16")],
             Peer(TORCH, Setting("int8", 8)): [Figures(part_rate=900e9)]}
    product = CaseResult(
        Case(Product(512, 1024, 3072), (sixteen_bits,), tuple(peers), (1, 1, 1)),
        {sixteen_bits: [Figures(part_rate=450e9, calibrations=[calibration])]}, peers, [])
    tower_entry = OurEntry(Setting("bf16", 16), RateGoal("G9", 4.5))
    tower = CaseResult(
        Case(Tower("clip-l-336"), (tower_entry,), (), (1, 1, 1)),
        {tower_entry: [Figures(part_rate=1.25, flops_per_frame=200e9,
                               calibrations=[calibration])]}, {}, ["OpenVINO: not there"])
    (row,) = part_report.make_rows(product)
    assert row.peers == {TORCH: (300, "bf16, avx512_core_bf16")} and row.ratio == 1.5
    assert math.isclose(row.share_of_machine, 0.9)
    text = part_report.to_markdown({}, [product, tower])
    assert "| 450 GFLOP/s | 300 (bf16, avx512_core_bf16) |  | 1.50× | G10 ≥ 1.2× |" in text
    assert "| 1.25 frames/s |  |  |  | G9 ≥ 4.5 frames/s | 50% bf16 arithmetic |" in text
    assert text.endswith("Not measured:\n- OpenVINO: not there\n")


def check_plan() -> None:
    for case in CASES:
        assert isinstance(case.work, Work) and {p.name for p in case.peers} <= set(TEXT_PEERS)
    for case in PART_CASES:
        assert not isinstance(case.work, Work) and {p.name for p in case.peers} <= set(PART_PEERS)
        assert not isinstance(case.work, Tower) or case.work.shape_name in TOWERS


def check_document() -> None:
    marked = "a\n<!-- x: begin -->\n{}<!-- x: end -->\nb\n"
    assert replace_figures(marked.format("old\n"), "x", "new\n") == marked.format("new\n")
    for broken in ("", "<!-- x: begin -->\n", "<!-- y: begin --><!-- y: end -->\n"):
        try:
            replace_figures(broken, "x", "new\n")
        except SystemExit:
            continue
        raise AssertionError(f"no marks were found in {broken!r}")


def check_kept_runs() -> None:
    run = KeptRun(Figures(decode=5, calibrations=[Calibration(40e9, 500e9, "bf16")]),
                  others_share=0.25, seconds=3, date="2026-01-01 10:00")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs"
        assert KeptRuns(path).find_or_make("a", lambda: run) == run
        assert KeptRuns(path).find_or_make("a", _refuse) == run
        for kept, name in ((KeptRuns(path), "b"), (KeptRuns(None), "a")):
            try:
                kept.find_or_make(name, _refuse)
            except RunFailed:
                continue
            raise AssertionError(f"a run {name} was found that was not kept")


def _refuse() -> KeptRun:
    raise RunFailed("this run is not wanted")


def main() -> int:
    checks = (check_llama, check_torch, check_ours, check_shapes, check_rows, check_part_rows,
              check_plan, check_kept_runs, check_document)
    for check in checks:
        check()
    print(f"{len(checks)} passed, 0 failed")
    return 0
