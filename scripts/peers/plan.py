"""Which works are measured, of whom and against which goal: a new row is a line here.

Goals are those set for this project's CPU speed: G1 to G10, G12 and G13.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from measuring import Part, Product, Prompts, Setting, Tower, Work, WorkKind

LLAMA = "llama.cpp"
IK = "ik_llama.cpp"
OPENVINO = "OpenVINO GenAI"
TEXT_PEERS = (LLAMA, IK, OPENVINO)
TORCH = "oneDNN (PyTorch)"
OPENVINO_TOWER = "OpenVINO"
PART_PEERS = (TORCH, OPENVINO_TOWER)
LEVELS = ("quick", "standard", "full")


@dataclass(frozen=True)
class Goal:
    name: str
    ratio: float  # at least, to the best peer

    def describe(self) -> str:
        return f"{self.name} ≥ {self.ratio:g}×"


@dataclass(frozen=True)
class RateGoal:
    name: str
    frames_per_s: float  # at least

    def describe(self) -> str:
        return f"{self.name} ≥ {self.frames_per_s:g} frames/s"


@dataclass(frozen=True)
class OurEntry:
    setting: Setting
    goal: Goal | RateGoal | None = None
    shared_goal: Goal | None = None  # of the prompt that all sequences share
    rival_bits: int | None = None  # compared with peers of as many bits per weight only


@dataclass(frozen=True)
class Peer:
    name: str
    setting: Setting
    prompts: Prompts | None = None  # in place of the work's

    def adapt(self, work: Work | Part) -> Work | Part:
        if self.prompts is None or not isinstance(work, Work):
            return work
        return replace(work, prompts=self.prompts)


@dataclass(frozen=True)
class Case:
    work: Work | Part
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
# With an LM head of 4 bits, as the peers' 4-bit models have one. w4a8 rounds activations to 8 bits,
# as llama.cpp's Q4_0 does.
INT4_HEAD4 = Setting("int4-head4", 4)
W4A8_HEAD4 = Setting("w4a8-head4", 4)
W4A8 = Setting("w4a8", 4)

# The best flags found: flash attention pays in prefill and costs in batched decoding. A quantised
# V cache needs it.
FLASH = ("-fa", "on")
PLAIN = ("-fa", "off")


def llama(weights: str, weight_bits: int, flags: tuple[str, ...]) -> Peer:
    return Peer(LLAMA, Setting(weights, weight_bits, flags))


# ik_llama.cpp is fastest with flash attention and weights repacked at load, everywhere. All its
# sequences share one KV buffer, so of several it is asked for a shared prompt only.
IK_Q8_0 = Peer(IK, Setting("Q8_0", 8, ("-fa", "on", "-rtr")), Prompts.SHARED)
IK_Q4_0 = Peer(IK, Setting("Q4_0", 4, ("-fa", "on", "-rtr")), Prompts.SHARED)
IK_ONE_Q8_0 = replace(IK_Q8_0, prompts=None)
IK_ONE_Q4_0 = replace(IK_Q4_0, prompts=None)

OPENVINO_INT8 = Peer(OPENVINO, Setting("int8", 8))
OPENVINO_INT4 = Peer(OPENVINO, Setting("int4", 4))
PREFILL_PEERS = (llama("Q8_0", 8, FLASH), llama("Q4_0", 4, FLASH), OPENVINO_INT8, IK_ONE_Q8_0)
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
          OurEntry(INT4, Goal("G4", 1.7), rival_bits=4), OurEntry(INT4_HEAD4, rival_bits=4),
          OurEntry(W4A8, rival_bits=4), OurEntry(W4A8_HEAD4, rival_bits=4)),
         (*DECODE_PEERS, llama("Q4_0", 4, PLAIN), OPENVINO_INT4, IK_ONE_Q8_0, IK_ONE_Q4_0),
         (1, 3, 5)),
    Case(decode(4), (OurEntry(W8A8),), DECODE_PEERS, (0, 1, 3)),
    Case(decode(8), (OurEntry(W8A8),), DECODE_PEERS, (0, 0, 3)),
    Case(decode(16),
         (OurEntry(W8A8, Goal("G5", 2.2)), OurEntry(INT4), OurEntry(W4A8), OurEntry(W4A8_HEAD4)),
         (*DECODE_PEERS, llama("Q4_0", 4, PLAIN)), (0, 1, 3)),
    Case(decode(32), (OurEntry(W8A8),), DECODE_PEERS, (0, 0, 1)),
    Case(decode(64), (OurEntry(W8A8),), DECODE_PEERS, (0, 0, 1)),
    Case(decode(16, "int8", Prompts.BOTH),
         (OurEntry(W8A8, Goal("G6", 3), Goal("G8", 3.5)),), (*INT8_KV_PEERS, IK_Q8_0, IK_Q4_0),
         (1, 1, 3)),
    Case(decode(16, "int8"), (OurEntry(INT4, Goal("G6", 3.8)), OurEntry(W4A8_HEAD4)),
         (*INT8_KV_PEERS, llama("Q4_0", 4, FLASH)), (0, 1, 3)),
    # OpenVINO cannot copy a context: 64 distinct ones take it minutes, so they run in `full` only.
    Case(decode(64, "int8", Prompts.BOTH),
         (OurEntry(W8A8, Goal("G7", 3.5), Goal("G8", 4.5)),),
         (llama("Q8_0", 8, FLASH), Peer(OPENVINO, Setting("int8", 8), Prompts.SHARED), IK_Q8_0,
          IK_Q4_0), (0, 1, 1)),
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

# Parts by themselves. Products of 16 bits are compared with 16, of 8 with 8.
TORCH_BF16 = Peer(TORCH, Setting("bf16", 16))
TORCH_PACKED = Peer(TORCH, Setting("bf16 packed", 16))
TORCH_INT8 = Peer(TORCH, Setting("int8", 8))
PART_ROUNDS = (0, 2, 5)


def product_case(columns: int, features: int, goal: Goal) -> Case:
    return Case(Product(512, columns, features),
                (OurEntry(BF16, goal, rival_bits=16), OurEntry(W8A8, goal, rival_bits=8)),
                (TORCH_BF16, TORCH_PACKED, TORCH_INT8), PART_ROUNDS)


PART_CASES = (
    product_case(1024, 3072, Goal("G10", 1.2)),
    product_case(4096, 4096, Goal("G10", 1.7)),
    Case(Tower("clip-l-336"),
         (OurEntry(BF16, RateGoal("G9", 4.5), rival_bits=16),
          OurEntry(W8A8, RateGoal("G9", 8), rival_bits=8)),
         (TORCH_BF16, Peer(OPENVINO_TOWER, Setting("bf16", 16)),
          Peer(OPENVINO_TOWER, Setting("int8", 8))), (0, 1, 3)),
)
