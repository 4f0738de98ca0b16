"""The decoder shapes that are compared, and what a step of them must move and compute.

They are those of lib/plan/known_models.cpp; the costs are those of lib/plan/step_cost.h.
"""

from __future__ import annotations

from dataclasses import dataclass

KV_BITS = {"16-bit": 16, "int8": 8}


@dataclass(frozen=True)
class TextShape:
    num_layers: int
    hidden: int
    intermediate: int
    num_heads: int
    num_kv_heads: int = 8
    head_dim: int = 128
    vocab: int = 151_936
    max_positions: int = 40_960
    rope_theta: float = 1e6
    norm_eps: float = 1e-6

    @property
    def query_dim(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_dim(self) -> int:
        return self.num_kv_heads * self.head_dim

    @property
    def layer_weights(self) -> int:
        """Of the matrices of all layers."""
        attention = self.hidden * 2 * (self.query_dim + self.kv_dim)
        return self.num_layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def head_weights(self) -> int:
        """Of the LM head, which is the embedding."""
        return self.vocab * self.hidden

    def weight_bytes(self, weight_bits: int) -> float:
        """Of all matrices, scales left out."""
        return (self.layer_weights + self.head_weights) * weight_bits / 8

    def kv_token_bytes(self, kv: str) -> int:
        """K and V of a token over all layers; int8 with a 16-bit scale per token and head."""
        scale_bytes = 2 if kv == "int8" else 0
        per_head = self.head_dim * KV_BITS[kv] // 8 + scale_bytes
        return 2 * self.num_layers * self.num_kv_heads * per_head

    def decode_step_bytes(self, weight_bits: int, kv: str, context_tokens: float) -> float:
        """Weights once, and K and V of `context_tokens`, summed over the sequences."""
        return self.weight_bytes(weight_bits) + context_tokens * self.kv_token_bytes(kv)

    def prefill_flops(self, num_tokens: int) -> float:
        """Of one prompt; each token attends to those before it, the last one gives logits."""
        attended = num_tokens * (num_tokens + 1) / 2
        attention = 4 * self.num_layers * self.query_dim * attended
        return 2 * num_tokens * self.layer_weights + attention + 2 * self.head_weights


# Embeddings are tied in all of them.
SHAPES = {
    "qwen3-0.6b": TextShape(num_layers=28, hidden=1024, intermediate=3072, num_heads=16),
    "qwen3-1.7b": TextShape(num_layers=28, hidden=2048, intermediate=6144, num_heads=16),
}


@dataclass(frozen=True)
class TowerShape:
    num_layers: int
    hidden: int
    intermediate: int
    num_heads: int
    image_px: int
    patch_px: int


TOWERS = {
    "clip-l-336": TowerShape(num_layers=24, hidden=1024, intermediate=4096, num_heads=16,
                             image_px=336, patch_px=14),
}
