#!/usr/bin/env python3
"""Makes tests/golden/gguf_captioners: captioners in GGUF files, without their weights.

A case stands for a checkpoint of drawn weights that another golden has (drawn.py). gguf-py writes its two
files, a language model's and a tower's, with the keys and the tensors that llama.cpp's converter writes. What
is kept of a file is
  NAME.header  its bytes before the first tensor's
  files.json   the SHA-256 of the whole file, and how each tensor's bytes are made, in their order: the tensor
               of the checkpoint, its type, and
                 heads   the rows of these heads are in llama.cpp's order
                 rows    [first, count] of the tensor's rows
                 frame   of a kernel [out, in, frames, height, width]
tests/support/drawn_gguf.cpp makes the same files. `replaced` are files of the checkpoint that stand for the
tokenizer in the files, `removed` those of its own tokenizer, and `beside` those that lie beside the GGUF files.

Run: /path/to/venv/bin/python scripts/make_goldens_gguf_captioners.py   (gguf, numpy, sentencepiece)
"""
import hashlib
import importlib.metadata
import json
import pathlib
import shutil
import tempfile

import gguf
import numpy as np
from gguf import MODEL_ARCH as Arch

from drawn import draw
from make_goldens_gguf_models import add, finish, mapped, permute
from make_goldens_gguf_tokenizers import add_byte_level, add_sentencepiece

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
OUT = GOLDEN / "gguf_captioners"
TYPES = {"F32": gguf.GGMLQuantizationType.F32, "F16": gguf.GGMLQuantizationType.F16,
         "BF16": gguf.GGMLQuantizationType.BF16, "Q8_0": gguf.GGMLQuantizationType.Q8_0}
SENTENCEPIECE_FILES = ["added_tokens.json", "special_tokens_map.json", "tokenizer.model", "tokenizer_config.json"]
# The ids of the tokens in tests/golden/qwen_vl_tokenizer.
QWEN_TOKENS = {"<video>": "<|endoftext|>", "<image>": "<|im_start|>", "<|im_start|>": "<|vision_start|>",
               "<img>": "<|vision_end|>", "</img>": "<|image_pad|>", "<IMG_CONTEXT>": "<|video_pad|>"}


class Case:
    """The checkpoint of a golden and the files that are written of it."""

    def __init__(self, name, base, matrix_type, **more):
        self.folder = OUT / name
        self.folder.mkdir(parents=True)
        self.matrix_type = matrix_type
        self.config = json.loads((GOLDEN / base / "config.json").read_text())
        described = json.loads((GOLDEN / base / "tensors.json").read_text())
        self.seed = described["seed"]
        self.tensors = {row["name"]: row for row in described["tensors"]}
        self.description = {"base": base, "files": {}} | more

    def values(self, name):
        row = self.tensors[name]
        return draw(name, tuple(row["shape"]), self.seed, row["center"], row["scale"])

    def open(self, file, arch):
        self.file, self.pieces = file, []
        self.scratch = pathlib.Path(tempfile.mkdtemp())
        return gguf.GGUFWriter(self.scratch / file, arch)

    def put(self, writer, name, to, *, heads=0, rows=None, frame=None, shape=None):
        """Adds a tensor of the checkpoint, or a part of it, under its name in the file."""
        values = self.values(name)
        piece = {"from": name}
        if heads:
            values, piece["heads"] = permute(values, heads), heads
        if rows:
            values, piece["rows"] = values[rows[0]:rows[0] + rows[1]], rows
        if frame is not None:
            values, piece["frame"] = values[:, :, frame], frame
        values = values.reshape(shape or values.shape)
        is_matrix = values.ndim > 1 and "position" not in name and "pos_embed" not in name
        piece["type"] = self.matrix_type if is_matrix else "F32"
        if piece["type"] == "Q8_0" and (values.ndim != 2 or values.shape[1] % 32 or to.startswith(("v.", "mm."))):
            piece["type"] = "F16"
        add(writer, to, values, TYPES[piece["type"]])
        self.pieces.append(piece)

    def close(self, writer):
        finish(writer)
        path = self.scratch / self.file
        content = path.read_bytes()
        begin = gguf.GGUFReader(path).data_offset
        (self.folder / f"{self.file}.header").write_bytes(content[:begin])
        self.description["files"][self.file] = {
            "sha256": hashlib.sha256(content).hexdigest(), "pieces": self.pieces}
        shutil.rmtree(self.scratch)

    def save(self):
        files = self.description.pop("files")
        lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in self.description.items()]
        for file, described in files.items():
            pieces = ",\n".join("    " + json.dumps(piece) for piece in described["pieces"])
            lines.append(f' {json.dumps(file)}: {{\n  "sha256": "{described["sha256"]}",\n  "pieces": [\n{pieces}\n  ]\n }}')
        (self.folder / "files.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def write_text(case, arch, add_tokens, chat_template, prefix, head="lm_head."):
    """The language model; `prefix` is that of its tensors in the checkpoint."""
    config = case.config["text_config"]
    heads = config["num_attention_heads"]
    kv_heads = config["num_key_value_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer = case.open("model.gguf", gguf.MODEL_ARCH_NAMES[arch])
    writer.add_name("Small")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    if config.get("rope_scaling"):
        writer.add_rope_dimension_sections([*config["rope_scaling"]["mrope_section"], 0])
    add_tokens(writer, config["vocab_size"])
    if "eos_token_id" in config:
        writer.add_eos_token_id(config["eos_token_id"])
    writer.add_chat_template(chat_template)
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    for name in case.tensors:
        if not name.startswith((prefix, head)) or ".visual" in name:
            continue
        of_llama = "model." + name.removeprefix(prefix) if name.startswith(prefix) else "lm_head.weight"
        rotated = {".q_proj.": heads, ".k_proj.": kv_heads}
        count = next((count for part, count in rotated.items() if part in name), 0) if arch == Arch.LLAMA else 0
        case.put(writer, name, mapped(names, of_llama), heads=count)
    case.close(writer)


def open_tower(case, projector, vision, mean, std, *, depth=None):
    writer = case.open("mmproj-model.gguf", "clip")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_clip_projector_type(projector)
    writer.add_vision_projection_dim(case.config["text_config"]["hidden_size"])
    writer.add_vision_embedding_length(vision["hidden_size"])
    writer.add_vision_feed_forward_length(vision["intermediate_size"])
    writer.add_vision_block_count(depth or vision.get("depth") or vision["num_hidden_layers"])
    writer.add_vision_head_count(vision.get("num_heads") or vision["num_attention_heads"])
    patch, size = vision["patch_size"], vision.get("image_size", 560)
    writer.add_vision_patch_size(patch[0] if isinstance(patch, list) else patch)
    writer.add_vision_image_size(size[0] if isinstance(size, list) else size)
    writer.add_vision_image_mean(mean)
    writer.add_vision_image_std(std)
    return writer


def put_qwen_tower(case, writer, prefix, known, cuts):
    """`known` are names that TensorNameMap lacks; `cuts` says whether q, k and v are cut apart."""
    names = gguf.get_tensor_name_map(Arch.MMPROJ, 128)
    for name, row in case.tensors.items():
        if not name.startswith(prefix):
            continue
        rest, suffix = name.removeprefix(prefix).rsplit(".", 1)
        if rest == "patch_embed.proj" and suffix == "weight":
            case.put(writer, name, "v.patch_embd.weight", frame=0)
            case.put(writer, name, "v.patch_embd.weight.1", frame=1)
        elif rest in known:
            case.put(writer, name, f"{known[rest]}.{suffix}")
        elif ".qkv" in rest and cuts:
            third = row["shape"][0] // 3
            for i, part in enumerate("qkv"):
                to = mapped(names, f"visual.{rest}.{suffix}".replace("qkv", part))
                case.put(writer, name, to, rows=[i * third, third])
        else:
            case.put(writer, name, mapped(names, f"visual.{rest}.{suffix}"))
    case.close(writer)


QWEN = {"beside": ["video_preprocessor_config.json"], "removed": SENTENCEPIECE_FILES,
        "replaced": ["../qwen_tokenizer/tokenizer.json", "../qwen_tokenizer/tokenizer_config.json"]}
QWEN_TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message.role + '\n<|vision_start|><|video_pad|>"
                 "<|vision_end|>' + message.content + '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}")
QWEN_SYSTEM = "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}"


def byte_level(document):
    return lambda writer, count: add_byte_level(writer, document, "qwen2", count)


def make_qwen_tokenizer():
    folder = OUT / "qwen_tokenizer"
    folder.mkdir(parents=True)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        document = json.loads((GOLDEN / "captioner_byte_tokenizer" / file).read_text())
        added = document.get("added_tokens") or document["added_tokens_decoder"].values()
        for token in added:
            token["content"] = QWEN_TOKENS.get(token["content"], token["content"])
        (folder / file).write_text(json.dumps(document, ensure_ascii=False) + "\n")
    return json.loads((folder / "tokenizer.json").read_text())


def qwen3_vl(document, name, matrix_type):
    case = Case(name, "qwen3_vl/untied_f32", matrix_type, **QWEN)
    write_text(case, Arch.QWEN3VL, byte_level(document), QWEN_TEMPLATE, "model.language_model.")
    vision = case.config["vision_config"]
    layers = vision["deepstack_visual_indexes"]
    writer = open_tower(case, "qwen3vl_merger", vision, [0.5] * 3, [0.5] * 3)
    writer.add_vision_use_gelu(True)
    writer.add_vision_spatial_merge_size(vision["spatial_merge_size"])
    writer.add_vision_is_deepstack_layers([i in layers for i in range(vision["depth"])])
    known = {"merger.norm": "v.post_ln", "merger.linear_fc1": "mm.0", "merger.linear_fc2": "mm.2",
             "patch_embed.proj": "v.patch_embd"}
    for k, layer in enumerate(layers):
        for ours, theirs in [("norm", "norm"), ("linear_fc1", "fc1"), ("linear_fc2", "fc2")]:
            known[f"deepstack_merger_list.{k}.{ours}"] = f"v.deepstack.{layer}.{theirs}"
    put_qwen_tower(case, writer, "model.visual.", known, False)
    case.save()


def qwen2_5_vl(document):
    case = Case("qwen2_5_vl", "qwen2_5_vl/tied_bf16", "BF16", **QWEN)
    write_text(case, Arch.QWEN2VL, byte_level(document), QWEN_SYSTEM + QWEN_TEMPLATE, "model.")
    vision = case.config["vision_config"]
    full = vision["fullatt_block_indexes"]
    assert full == list(range(full[0], vision["depth"], full[0] + 1)), full
    writer = open_tower(case, "qwen2.5vl_merger", vision, [0.48145466, 0.4578275, 0.40821073],
                        [0.26862954, 0.26130258, 0.27577711])
    writer.add_vision_use_silu(True)
    writer.add_vision_n_wa_pattern(full[0] + 1)
    writer.add_uint32("clip.vision.window_size", vision["window_size"])
    put_qwen_tower(case, writer, "visual.", {}, True)
    case.save()


def internvl():
    case = Case("internvl", "internvl/byte_level_qwen3", "BF16")
    document = json.loads((GOLDEN / "captioner_byte_tokenizer" / "tokenizer.json").read_text())
    write_text(case, Arch.QWEN3, byte_level(document), "{{ messages }}", "language_model.model.", "language_model.lm_head.")
    vision = case.config["vision_config"]
    writer = open_tower(case, "internvl", vision, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    writer.add_vision_use_gelu(True)
    writer.add_vision_projector_scale_factor(round(1 / case.config["downsample_ratio"]))
    writer.add_vision_attention_layernorm_eps(vision["layer_norm_eps"])
    names = gguf.get_tensor_name_map(Arch.MMPROJ, 128)
    tower, old = "vision_tower.", "vision_tower.vision_model."
    layer = [("layernorm_before", "norm1"), ("layernorm_after", "norm2"), ("attention.projection_layer", "attn.proj"),
             ("attention.", "self_attn."), ("lambda_1", "ls1.weight"), ("lambda_2", "ls2.weight")]
    projector = {"layer_norm": "mlp1.0", "linear_1": "mlp1.1", "linear_2": "mlp1.3"}
    for name, row in case.tensors.items():
        shape = None
        if name == tower + "embeddings.cls_token":
            to, shape = old + "embeddings.class_embedding", [-1]
        elif name == tower + "embeddings.position_embeddings":
            to, shape = old + "embeddings.position_embedding.weight", row["shape"][1:]
        elif name.startswith(tower + "embeddings."):
            to = name.replace(tower + "embeddings.patch_embeddings.projection", old + "embeddings.patch_embedding")
        elif name.startswith(tower):
            to = name.replace(tower + "encoder.layer.", old + "encoder.layers.")
            for ours, theirs in layer:
                if ours in to:
                    to = to.replace(ours, theirs)
                    break
        elif name.startswith("multi_modal_projector."):
            part, suffix = name.removeprefix("multi_modal_projector.").rsplit(".", 1)
            to = f"{projector[part]}.{suffix}"
        else:
            continue
        case.put(writer, name, mapped(names, to), shape=shape)
    case.close(writer)
    case.save()


def llava_next_video():
    """The tower's last layer is left out: the projector gets the output of the one before it."""
    case = Case("llava_next_video", "llava_next_video/mistral_f16", "F16",
                replaced=["../llava_tokenizer/tokenizer_config.json"])
    folder = OUT / "llava_tokenizer"
    folder.mkdir()
    config = (GOLDEN / "captioner_tokenizer" / "tokenizer_config.json").read_text()
    (folder / "tokenizer_config.json").write_text(config.replace('"legacy": false', '"legacy": true'))
    write_text(case, Arch.LLAMA, lambda writer, count: add_sentencepiece(
        writer, GOLDEN / "captioner_tokenizer", count),
        "{% for message in messages %}{{ '[INST] ' + message.content + ' [/INST]' }}{% endfor %}",
        "language_model.model.", "language_model.lm_head.")
    vision = case.config["vision_config"]
    depth = vision["num_hidden_layers"] - 1
    assert case.config["vision_feature_layer"] == -2
    writer = open_tower(case, "mlp", vision, [0.48145466, 0.4578275, 0.40821073],
                        [0.26862954, 0.26130258, 0.27577711], depth=depth)
    writer.add_bool("clip.has_llava_projector", True)
    writer.add_vision_use_gelu(False)
    writer.add_vision_attention_layernorm_eps(vision["layer_norm_eps"])
    names = gguf.get_tensor_name_map(Arch.MMPROJ, 128)
    for name in case.tensors:
        if name.startswith("vision_tower.") and f".layers.{depth}." not in name:
            case.put(writer, name, mapped(names, name))
        elif name.startswith("multi_modal_projector."):
            part, suffix = name.removeprefix("multi_modal_projector.").rsplit(".", 1)
            case.put(writer, name, {"linear_1": "mm.0", "linear_2": "mm.2"}[part] + "." + suffix)
        elif name == "image_newline":
            case.put(writer, name, "model.image_newline")
    case.close(writer)
    case.save()


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    document = make_qwen_tokenizer()
    qwen3_vl(document, "qwen3_vl", "F16")
    qwen3_vl(document, "qwen3_vl_q8_0", "Q8_0")
    qwen2_5_vl(document)
    internvl()
    llava_next_video()
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_gguf_captioners.py", "gguf": importlib.metadata.version("gguf"),
        "numpy": np.__version__, "sentencepiece": importlib.metadata.version("sentencepiece")}, indent=1) + "\n")


if __name__ == "__main__":
    main()
