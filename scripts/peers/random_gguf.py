"""A GGUF file of a known shape with random weights, for llama.cpp and what reads its format.

Every matrix is held in the one format asked for, the (tied) embedding included: the fastest form
that llama.cpp has. Norms are ones. The vocabulary has the right size and says nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from shapes import SHAPES, TextShape

# Weights have a deviation of 0.02, as caption-cli's random decoder.
DEVIATION = 0.02
SEED = 20


def write_random_gguf(path: Path, shape: TextShape, weight_format: str) -> None:
    """Needs the packages gguf and numpy. `weight_format` is a GGML name: BF16, Q8_0, Q4_0."""
    import gguf
    import numpy as np
    from gguf import quants

    random = np.random.default_rng(SEED)
    kind = gguf.GGMLQuantizationType[weight_format]
    writer = gguf.GGUFWriter(path, "qwen3")
    _write_header(writer, shape, gguf.LlamaFileType[f"MOSTLY_{weight_format}"])

    def matrix(name: str, rows: int, columns: int) -> None:
        values = random.standard_normal((rows, columns), dtype=np.float32) * np.float32(DEVIATION)
        writer.add_tensor(name, quants.quantize(values, kind), raw_dtype=kind)

    def norm(name: str, dim: int) -> None:
        writer.add_tensor(name, np.ones(dim, dtype=np.float32))

    matrix("token_embd.weight", shape.vocab, shape.hidden)
    norm("output_norm.weight", shape.hidden)
    for layer in range(shape.num_layers):
        block = f"blk.{layer}."
        norm(block + "attn_norm.weight", shape.hidden)
        norm(block + "ffn_norm.weight", shape.hidden)
        norm(block + "attn_q_norm.weight", shape.head_dim)
        norm(block + "attn_k_norm.weight", shape.head_dim)
        matrix(block + "attn_q.weight", shape.query_dim, shape.hidden)
        matrix(block + "attn_k.weight", shape.kv_dim, shape.hidden)
        matrix(block + "attn_v.weight", shape.kv_dim, shape.hidden)
        matrix(block + "attn_output.weight", shape.hidden, shape.query_dim)
        matrix(block + "ffn_gate.weight", shape.intermediate, shape.hidden)
        matrix(block + "ffn_up.weight", shape.intermediate, shape.hidden)
        matrix(block + "ffn_down.weight", shape.hidden, shape.intermediate)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_header(writer, shape: TextShape, file_type: int) -> None:
    writer.add_name("random weights")
    writer.add_file_type(file_type)
    writer.add_block_count(shape.num_layers)
    writer.add_context_length(shape.max_positions)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.intermediate)
    writer.add_head_count(shape.num_heads)
    writer.add_head_count_kv(shape.num_kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_layer_norm_rms_eps(shape.norm_eps)
    writer.add_vocab_size(shape.vocab)
    writer.add_tokenizer_model("none")


if __name__ == "__main__":
    shape_name, weight_format, target = sys.argv[1:]
    write_random_gguf(Path(target), SHAPES[shape_name], weight_format)
