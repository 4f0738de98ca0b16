"""Which works are measured, of whom and against which goal: a new row is a line here.

Goals are those set for this project's CPU speed: G1 to G8, G12 and G13.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from measuring import Prompts, Setting, Work, WorkKind

LLAMA = "llama.cpp"
OPENVINO = "OpenVINO GenAI"
LEVELS = ("quick", "standard", "full")


@dataclass(frozen=True)
class Goal:
    name: str
    ratio: float  # at least, to the best peer


@dataclass(frozen=True)
class OurEntry:
    setting: Setting
    goal: Goal | None = None
    shared_goal: Goal | None = None  # of the prompt that all sequences share
    rival_bits: int | None = None  # compared with peers of as many bits per weight only


@dataclass(frozen=True)
class Peer:
    name: str
    setting: Setting
    prompts: Prompts | None = None  # in place of the work's

    def adapt(self, work: Work) -> Work:
        return work if self.prompts is None else replace(work, prompts=self.prompts)


@dataclass(frozen=True)
class Case:
    work: Work
    ours: tuple[OurEntry, ...]
    peers: tuple[Peer, ...]
    rounds: tuple[int, int, int]  # in each of LEVELS

    def rounds_at(self, level: str) -> int:
        return self.rounds[LEVELS.index(level)]


@dataclass(frozen=True)
class SlopeGoal:
    """Milliseconds per further sequence, between two batch sizes of one KV format."""

    kv: str
    from_seqs: int
    to_seqs: int
    goal: str
    at_most_ms: float


# caption-cli's names of --dtype. w8a8 also rounds activations to 8 bits, as llama.cpp's Q8_0 and
# OpenVINO's int8 do; int8 and int4 leave them in bf16.
BF16 = Setting("bf16", 16)
W8A8 = Setting("w8a8", 8)
INT8 = Setting("int8", 8)
INT4 = Setting("int4", 4)

# The best flags found: flash attention pays in prefill and costs in batched decoding. A quantised
# V cache needs it.
FLASH = ("-fa", "on")
PLAIN = ("-fa", "off")


def llama(weights: str, weight_bits: int, flags: tuple[str, ...]) -> Peer:
    return Peer(LLAMA, Setting(weights, weight_bits, flags))


OPENVINO_INT8 = Peer(OPENVINO, Setting("int8", 8))
OPENVINO_INT4 = Peer(OPENVINO, Setting("int4", 4))
PREFILL_PEERS = (llama("Q8_0", 8, FLASH), llama("Q4_0", 4, FLASH), OPENVINO_INT8)
DECODE_PEERS = (llama("Q8_0", 8, PLAIN), OPENVINO_INT8)
INT8_KV_PEERS = (llama("Q8_0", 8, FLASH), OPENVINO_INT8)


def prefill(tokens: int) -> Work:
    return Work(WorkKind.PREFILL, tokens)


def decode(num_seqs: int, kv: str = "16-bit", prompts: Prompts = Prompts.DISTINCT) -> Work:
    return Work(WorkKind.DECODE, 512, num_seqs, kv, prompts=prompts)


def memory(num_seqs: int) -> Work:
    return Work(WorkKind.MEMORY, 512, num_seqs)


CASES = (
    Case(prefill(512),
         (OurEntry(BF16, Goal("G1", 5)), OurEntry(W8A8, Goal("G2", 8))),
         PREFILL_PEERS, (1, 3, 5)),
    # 16 bits are llama.cpp's slowest, as is flash attention left out: to see that they are.
    Case(prefill(512), (OurEntry(BF16, Goal("G1", 5)),),
         (llama("BF16", 16, FLASH), llama("Q8_0", 8, PLAIN)), (0, 0, 3)),
    Case(prefill(2048),
         (OurEntry(BF16, Goal("G3", 6)), OurEntry(W8A8)), PREFILL_PEERS, (0, 1, 3)),
    Case(decode(1),
         (OurEntry(INT8, Goal("G4", 1.25), rival_bits=8), OurEntry(W8A8, rival_bits=8),
          OurEntry(INT4, Goal("G4", 1.7), rival_bits=4)),
         (*DECODE_PEERS, llama("Q4_0", 4, PLAIN), OPENVINO_INT4), (1, 3, 5)),
    Case(decode(4), (OurEntry(W8A8),), DECODE_PEERS, (0, 1, 3)),
    Case(decode(8), (OurEntry(W8A8),), DECODE_PEERS, (0, 0, 3)),
    Case(decode(16), (OurEntry(W8A8, Goal("G5", 2.2)),),
         (*DECODE_PEERS, llama("Q4_0", 4, PLAIN)), (0, 1, 3)),
    Case(decode(32), (OurEntry(W8A8),), DECODE_PEERS, (0, 0, 1)),
    Case(decode(64), (OurEntry(W8A8),), DECODE_PEERS, (0, 0, 1)),
    Case(decode(16, "int8", Prompts.BOTH),
         (OurEntry(W8A8, Goal("G6", 3), Goal("G8", 3.5)),), INT8_KV_PEERS, (1, 1, 3)),
    Case(decode(16, "int8"), (OurEntry(INT4, Goal("G6", 3.8)),),
         (llama("Q8_0", 8, FLASH), llama("Q4_0", 4, FLASH)), (0, 1, 3)),
    # OpenVINO cannot copy a context: 64 distinct ones take it minutes, so they run in `full` only.
    Case(decode(64, "int8", Prompts.BOTH),
         (OurEntry(W8A8, Goal("G7", 3.5), Goal("G8", 4.5)),),
         (llama("Q8_0", 8, FLASH), Peer(OPENVINO, Setting("int8", 8), Prompts.SHARED)),
         (0, 1, 1)),
    Case(decode(64, "int8"), (OurEntry(W8A8, Goal("G7", 3.5)),), (OPENVINO_INT8,), (0, 0, 1)),
    Case(memory(1), (OurEntry(W8A8),), DECODE_PEERS, (0, 1, 1)),
    Case(memory(16), (OurEntry(W8A8),), DECODE_PEERS[:1], (0, 1, 0)),
    Case(memory(16), (OurEntry(W8A8),), DECODE_PEERS, (0, 0, 1)),
)

SLOPE_GOALS = (
    SlopeGoal("16-bit", 4, 16, "G13", 2.6),
    SlopeGoal("int8", 16, 64, "G13", 1.5),
)

# G12: beyond weights and the pages in use.
MEMORY_SLACK_BYTES = 64 << 20
