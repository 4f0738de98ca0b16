#!/usr/bin/env python3
"""Makes tests/golden/gguf_models: small models as GGUF files, and the checkpoints they stand for.

For each case: text.gguf, for captioners also mmproj.gguf, and expected.json with
  config   keys of the checkpoint's config.json, from the configuration classes of transformers
  tensors  by name in the checkpoint: shape, and the SHA-256 of the values, f32

The names of the tensors in the files are those of gguf-py's TensorNameMap, with the changes that
llama.cpp's converter makes before it (names of Qwen's mergers, kernels cut by frame, projections of q, k
and v cut apart, permuted rows of the architecture llama). Matrices are rounded to Q8_0, vectors are f32.

Run: /path/to/venv/bin/python scripts/make_goldens_gguf_models.py   (gguf, numpy, transformers)
"""
import hashlib
import importlib.metadata
import json
import pathlib
import shutil

import gguf
import numpy as np
import transformers
from gguf import GGMLQuantizationType as Type
from gguf import MODEL_ARCH as Arch

SEED = 23
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "gguf_models"
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER, VOCAB, LAYERS = 32, 2, 1, 16, 64, 24, 2
TOWER, TOWER_INNER, TOWER_HEADS, DEPTH, PATCH = 32, 64, 2, 3, 2


class Model:
    """A checkpoint's tensors by name, and the files that hold them."""

    def __init__(self, rng, folder):
        self.rng, self.folder, self.tensors = rng, folder, {}
        folder.mkdir(parents=True)

    def draw(self, name, *shape, kind=None):
        """Adds a tensor; returns its values as the type of the file rounds them."""
        kind = kind or (Type.Q8_0 if len(shape) == 2 and shape[-1] % 32 == 0 else Type.F32)
        values = self.rng.normal(0, 0.02, shape).astype(np.float32)
        values = gguf.quants.dequantize(gguf.quants.quantize(values, kind), kind).reshape(shape)
        self.tensors[name] = (values, kind)
        return values

    def hashes(self):
        return {name: {"shape": list(values.shape), "sha256": hashlib.sha256(
            np.ascontiguousarray(values, "<f4").tobytes()).hexdigest()}
            for name, (values, _) in sorted(self.tensors.items())}


def add(writer, name, values, kind):
    values = np.ascontiguousarray(values)
    if kind in (Type.F32, Type.F16):
        writer.add_tensor(name, values.astype(np.float32 if kind == Type.F32 else np.float16))
    else:
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)


def mapped(names, name):
    found = names.get_name(name, try_suffixes=(".weight", ".bias"))
    assert found is not None, name
    return found


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def draw_text(model, prefix, *, qk_norm=False, qkv_bias=False, tied=False, kind=None):
    model.draw(prefix + "embed_tokens.weight", VOCAB, HIDDEN, kind=kind)
    for i in range(LAYERS):
        layer = f"{prefix}layers.{i}."
        for name, rows in [("q", HEADS * HEAD_DIM), ("k", KV_HEADS * HEAD_DIM), ("v", KV_HEADS * HEAD_DIM)]:
            model.draw(layer + f"self_attn.{name}_proj.weight", rows, HIDDEN, kind=kind)
            if qkv_bias:
                model.draw(layer + f"self_attn.{name}_proj.bias", rows)
        if qk_norm:
            for name in "qk":
                model.draw(layer + f"self_attn.{name}_norm.weight", HEAD_DIM)
        model.draw(layer + "self_attn.o_proj.weight", HIDDEN, HEADS * HEAD_DIM, kind=kind)
        for name in ["gate", "up"]:
            model.draw(layer + f"mlp.{name}_proj.weight", INNER, HIDDEN, kind=kind)
        model.draw(layer + "mlp.down_proj.weight", HIDDEN, INNER, kind=kind)
        for name in ["input_layernorm", "post_attention_layernorm"]:
            model.draw(layer + name + ".weight", HIDDEN)
    model.draw(prefix + "norm.weight", HIDDEN)
    if not tied:
        model.draw("lm_head.weight", VOCAB, HIDDEN, kind=kind)


def permute(values, heads):
    """LlamaModel.permute() of the converter."""
    shape = values.shape
    return values.reshape(heads, 2, shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(shape)


def write_text(model, arch, prefix, config, *, tokens=(), sections=None, window=None):
    writer = gguf.GGUFWriter(model.folder / "text.gguf", gguf.MODEL_ARCH_NAMES[arch])
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    if sections:
        writer.add_rope_dimension_sections([*sections, 0])
    if window:
        writer.add_sliding_window(window)
    scaling = getattr(config, "rope_scaling", None) or {}
    if scaling.get("rope_type") in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(scaling["rope_type"]))
        writer.add_rope_scaling_factor(scaling["factor"])
        if scaling["rope_type"] == "yarn":
            writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    if tokens:
        writer.add_token_list(list(tokens))
    if isinstance(config.eos_token_id, int):
        writer.add_eos_token_id(config.eos_token_id)
    names = gguf.get_tensor_name_map(arch, LAYERS)
    for name, (values, kind) in model.tensors.items():
        if not name.startswith((prefix, "lm_head.")) or "visual" in name or "vision" in name or "multi" in name:
            continue
        if arch == Arch.LLAMA and ".q_proj." in name:
            values = permute(values, HEADS)
        if arch == Arch.LLAMA and ".k_proj." in name:
            values = permute(values, KV_HEADS)
        add(writer, mapped(names, name.replace(prefix, "model.", 1)), values, kind)
    finish(writer)


def clip_writer(model, projector, out, **keys):
    writer = gguf.GGUFWriter(model.folder / "mmproj.gguf", "clip")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_clip_projector_type(projector)
    writer.add_vision_projection_dim(out)
    writer.add_vision_embedding_length(TOWER)
    writer.add_vision_feed_forward_length(TOWER_INNER)
    writer.add_vision_block_count(DEPTH)
    writer.add_vision_head_count(TOWER_HEADS)
    writer.add_vision_patch_size(PATCH)
    writer.add_vision_image_size(4 * PATCH)
    for name, value in keys.items():
        getattr(writer, name)(value)
    return writer


def cut_rows(name, values, target="{}"):
    rows = len(values) // 3
    return [(name.replace("qkv", target.format(part)), values[i * rows:(i + 1) * rows])
            for i, part in enumerate("qkv")]


def write_qwen_tower(model, writer, mergers):
    """`mergers` gives the name in the file of a name that TensorNameMap does not know."""
    names = gguf.get_tensor_name_map(Arch.MMPROJ, 128)
    for full_name, (values, kind) in model.tensors.items():
        if not full_name.startswith("model.visual."):
            continue
        name = full_name.removeprefix("model.")
        if name == "visual.patch_embed.proj.weight":
            add(writer, "v.patch_embd.weight", values[:, :, 0], kind)
            add(writer, "v.patch_embd.weight.1", values[:, :, 1], kind)
            continue
        parts = [(name, values)]
        if ".qkv." in name and mergers is None:
            parts = cut_rows(name, values)
        for part_name, part in parts:
            found = mergers(part_name) if mergers else None
            add(writer, found or mapped(names, part_name), part, kind)
    finish(writer)


def draw_linear(model, name, rows, columns, kind=None):
    model.draw(name + ".weight", rows, columns, kind=kind)
    model.draw(name + ".bias", rows)


def draw_qwen_blocks(model, gated):
    for i in range(DEPTH):
        block = f"model.visual.blocks.{i}."
        for norm in ["norm1", "norm2"]:
            model.draw(block + norm + ".weight", TOWER)
            if not gated:
                model.draw(block + norm + ".bias", TOWER)
        draw_linear(model, block + "attn.qkv", 3 * TOWER, TOWER)
        draw_linear(model, block + "attn.proj", TOWER, TOWER)
        up, down = ("mlp.up_proj", "mlp.down_proj") if gated else ("mlp.linear_fc1", "mlp.linear_fc2")
        draw_linear(model, block + up, TOWER_INNER, TOWER)
        draw_linear(model, block + down, TOWER, TOWER_INNER)
        if gated:
            draw_linear(model, block + "mlp.gate_proj", TOWER_INNER, TOWER)


SIZES = {"hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS, "head_dim": HEAD_DIM,
         "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": VOCAB,
         "max_position_embeddings": 512}
QWEN_TOKENS = [f"t{i}" for i in range(VOCAB - 4)] + ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
                                                    "<|video_pad|>"]
QWEN_IDS = {"vision_start_token_id": VOCAB - 4, "vision_end_token_id": VOCAB - 3, "image_token_id": VOCAB - 2,
            "video_token_id": VOCAB - 1}


def pick(config, *more):
    keys = ["model_type", "rms_norm_eps", "rope_theta", "tie_word_embeddings", *SIZES, *more]
    values = config.to_dict()
    return {key: values[key] for key in keys if key in values}


def text_cases(case):
    config = transformers.LlamaConfig(**SIZES, rms_norm_eps=1e-5, rope_theta=10000.0, eos_token_id=2,
                                      rope_scaling={"rope_type": "linear", "factor": 4.0})
    model = case("llama")
    draw_text(model, "model.")
    write_text(model, Arch.LLAMA, "model.", config)
    yield model, pick(config, "rope_scaling", "attention_bias", "mlp_bias", "eos_token_id")

    config = transformers.MistralConfig(**SIZES, sliding_window=128, rms_norm_eps=1e-5)
    model = case("mistral")
    draw_text(model, "model.", kind=Type.F16)
    write_text(model, Arch.LLAMA, "model.", config, window=128)
    yield model, pick(config, "sliding_window")

    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
    config = transformers.Qwen2Config(**SIZES, tie_word_embeddings=True, rope_theta=1e6, rope_scaling=yarn)
    model = case("qwen2")
    draw_text(model, "model.", qkv_bias=True, tied=True, kind=Type.BF16)
    write_text(model, Arch.QWEN2, "model.", config)
    yield model, pick(config, "rope_scaling")

    config = transformers.Qwen3Config(**SIZES, rope_theta=1e6)
    model = case("qwen3")
    draw_text(model, "model.", qk_norm=True)
    write_text(model, Arch.QWEN3, "model.", config)
    yield model, pick(config, "attention_bias")


def qwen2_5_vl(case):
    sections = [2, 3, 3]
    text = transformers.Qwen2Config(**SIZES, rope_theta=1e6)
    vision = {"depth": DEPTH, "hidden_size": TOWER, "intermediate_size": TOWER_INNER, "num_heads": TOWER_HEADS,
              "patch_size": PATCH, "out_hidden_size": HIDDEN, "fullatt_block_indexes": [1], "hidden_act": "silu",
              "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 112}
    model = case("qwen2_5_vl")
    draw_text(model, "model.language_model.", qkv_bias=True)
    write_text(model, Arch.QWEN2VL, "model.language_model.", text, tokens=QWEN_TOKENS, sections=sections)
    model.draw("model.visual.patch_embed.proj.weight", TOWER, 3, 2, PATCH, PATCH, kind=Type.F16)
    draw_qwen_blocks(model, gated=True)
    model.draw("model.visual.merger.ln_q.weight", TOWER)
    draw_linear(model, "model.visual.merger.mlp.0", 4 * TOWER, 4 * TOWER)
    draw_linear(model, "model.visual.merger.mlp.2", HIDDEN, 4 * TOWER)
    write_qwen_tower(model, clip_writer(model, "qwen2.5vl_merger", HIDDEN, add_vision_n_wa_pattern=2,
                                        add_vision_use_silu=True), None)
    text_config = pick(text) | {"model_type": "qwen2_5_vl_text",
                                "rope_scaling": {"rope_type": "default", "mrope_section": sections}}
    return model, {"model_type": "qwen2_5_vl", "text_config": text_config, "vision_config": vision} | QWEN_IDS


def qwen3_vl(case):
    sections = [4, 2, 2]
    text = transformers.Qwen3Config(**SIZES, rope_theta=5e6)
    vision = {"depth": DEPTH, "hidden_size": TOWER, "intermediate_size": TOWER_INNER, "num_heads": TOWER_HEADS,
              "patch_size": PATCH, "out_hidden_size": HIDDEN, "deepstack_visual_indexes": [0, 2],
              "num_position_embeddings": 16, "hidden_act": "gelu_pytorch_tanh", "spatial_merge_size": 2,
              "temporal_patch_size": 2}
    model = case("qwen3_vl")
    draw_text(model, "model.language_model.", qk_norm=True)
    write_text(model, Arch.QWEN3VL, "model.language_model.", text, tokens=QWEN_TOKENS, sections=sections)
    model.draw("model.visual.patch_embed.proj.weight", TOWER, 3, 2, PATCH, PATCH)
    model.draw("model.visual.patch_embed.proj.bias", TOWER)
    model.draw("model.visual.pos_embed.weight", 16, TOWER, kind=Type.F32)
    draw_qwen_blocks(model, gated=False)
    mergers = [("merger", TOWER)] + [(f"deepstack_merger_list.{k}", 4 * TOWER) for k in range(2)]
    for name, norm in mergers:
        stem = f"model.visual.{name}."
        model.draw(stem + "norm.weight", norm)
        model.draw(stem + "norm.bias", norm)
        draw_linear(model, stem + "linear_fc1", 4 * TOWER, 4 * TOWER)
        draw_linear(model, stem + "linear_fc2", HIDDEN, 4 * TOWER)

    def rename(name):
        name, suffix = name.rsplit(".", 1)
        layers = vision["deepstack_visual_indexes"]
        for k in range(2):
            stem = f"visual.deepstack_merger_list.{k}."
            if name.startswith(stem):
                part = {"norm": "norm", "linear_fc1": "fc1", "linear_fc2": "fc2"}[name.removeprefix(stem)]
                return f"v.deepstack.{layers[k]}.{part}.{suffix}"
        known = {"visual.merger.norm": "v.post_ln", "visual.merger.linear_fc1": "mm.0",
                 "visual.merger.linear_fc2": "mm.2", "visual.patch_embed.proj": "v.patch_embd"}
        return f"{known[name]}.{suffix}" if name in known else None

    write_qwen_tower(model, clip_writer(model, "qwen3vl_merger", HIDDEN, add_vision_spatial_merge_size=2,
                                        add_vision_is_deepstack_layers=[True, False, True]), rename)
    text_config = pick(text) | {"model_type": "qwen3_vl_text", "rope_scaling": {
        "rope_type": "default", "mrope_section": sections, "mrope_interleaved": True}}
    return model, {"model_type": "qwen3_vl", "text_config": text_config, "vision_config": vision} | QWEN_IDS


def internvl(case):
    """The files of a checkpoint in the original layout; the names are those of its form in transformers."""
    text = transformers.Qwen2Config(**SIZES, rope_theta=1e6)
    vision = {"hidden_size": TOWER, "intermediate_size": TOWER_INNER, "num_hidden_layers": DEPTH,
              "num_attention_heads": TOWER_HEADS, "image_size": 4 * PATCH, "patch_size": PATCH,
              "layer_norm_eps": float(np.float32(1e-6)), "norm_type": "layer_norm", "attention_bias": True,
              "use_qk_norm": False, "hidden_act": "gelu"}
    model = case("internvl")
    draw_text(model, "model.language_model.", qkv_bias=True)
    write_text(model, Arch.QWEN2, "model.language_model.", text, tokens=[f"t{i}" for i in range(VOCAB - 1)] + ["<IMG_CONTEXT>"])
    tower = "model.vision_tower."
    source = {}  # name in the original layout, without suffix, to the name in transformers

    def put(original, name, *shape, kind=None):
        model.draw(name, *shape, kind=kind)
        source[name] = original

    put("vision_tower.vision_model.embeddings.class_embedding", tower + "embeddings.cls_token", 1, 1, TOWER)
    stem = tower + "embeddings.patch_embeddings.projection."
    put("vision_tower.vision_model.embeddings.patch_embedding.weight", stem + "weight", TOWER, 3, PATCH, PATCH)
    put("vision_tower.vision_model.embeddings.patch_embedding.bias", stem + "bias", TOWER)
    put("vision_tower.vision_model.embeddings.position_embedding.weight", tower + "embeddings.position_embeddings",
        1, 17, TOWER, kind=Type.F32)
    for i in range(DEPTH):
        old, new = f"vision_tower.vision_model.encoder.layers.{i}.", f"{tower}encoder.layer.{i}."
        for a, b, rows, columns in [("self_attn.q_proj", "attention.q_proj", TOWER, TOWER),
                                    ("self_attn.k_proj", "attention.k_proj", TOWER, TOWER),
                                    ("self_attn.v_proj", "attention.v_proj", TOWER, TOWER),
                                    ("attn.proj", "attention.projection_layer", TOWER, TOWER),
                                    ("mlp.fc1", "mlp.fc1", TOWER_INNER, TOWER), ("mlp.fc2", "mlp.fc2", TOWER, TOWER_INNER)]:
            put(f"{old}{a}.weight", f"{new}{b}.weight", rows, columns)
            put(f"{old}{a}.bias", f"{new}{b}.bias", rows)
        for a, b in [("norm1", "layernorm_before"), ("norm2", "layernorm_after")]:
            put(f"{old}{a}.weight", f"{new}{b}.weight", TOWER)
            put(f"{old}{a}.bias", f"{new}{b}.bias", TOWER)
        put(f"{old}ls1.weight", f"{new}lambda_1", TOWER)
        put(f"{old}ls2.weight", f"{new}lambda_2", TOWER)
    for number, name, shape in [(0, "layer_norm", [4 * TOWER]), (1, "linear_1", [HIDDEN, 4 * TOWER]),
                                (3, "linear_2", [HIDDEN, HIDDEN])]:
        put(f"mlp1.{number}.weight", f"model.multi_modal_projector.{name}.weight", *shape)
        put(f"mlp1.{number}.bias", f"model.multi_modal_projector.{name}.bias", shape[0])
    writer = clip_writer(model, "internvl", HIDDEN, add_vision_use_gelu=True, add_vision_projector_scale_factor=2,
                         add_vision_attention_layernorm_eps=1e-6)
    names = gguf.get_tensor_name_map(Arch.MMPROJ, 128)
    for name, original in source.items():
        values, kind = model.tensors[name]
        if name.endswith(("cls_token", "position_embeddings")):
            values = values[0]
        add(writer, mapped(names, original), values.reshape(-1) if name.endswith("cls_token") else values, kind)
    finish(writer)
    return model, {"model_type": "internvl", "text_config": pick(text), "vision_config": vision,
                   "downsample_ratio": 0.5, "image_token_id": VOCAB - 1}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    rng = np.random.default_rng(SEED)
    case = lambda name: Model(rng, OUT / name)
    for model, config in [*text_cases(case), qwen2_5_vl(case), qwen3_vl(case), internvl(case)]:
        expected = {"config": config, "tensors": model.hashes()}
        (model.folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_gguf_models.py", "seed": SEED, "gguf": importlib.metadata.version("gguf"),
        "numpy": np.__version__, "transformers": transformers.__version__}, indent=1) + "\n")


if __name__ == "__main__":
    main()
