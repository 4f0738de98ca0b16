#!/usr/bin/env python3
"""Writes the seeds of tests/fuzz/corpus that are texts of users and of models' folders: adapters, captions,
manifests, configurations, price tables, projectors, prompts.

Run: python3 tests/fuzz/make_text_corpus.py   (no packages needed)
"""
import json
import pathlib

from make_corpus import safetensors, write

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "golden"


def shapes(**tensors):
    """The bytes of a safetensors file of f16 tensors; a name has __ where the file has a dot."""
    header, end = {}, 0
    for name, shape in tensors.items():
        size = 2
        for extent in shape:
            size *= extent
        header[name.replace("__", ".")] = {"dtype": "F16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    return safetensors(header, 0) + b"\0\x3c" * (end // 2)


def adapter_seeds():
    base = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "bias": "none"}
    stem = "base_model__model__model__layers__{}__self_attn__q_proj__lora_{}__weight"
    pair = lambda layer, rank: {stem.format(layer, "A"): [rank, 6], stem.format(layer, "B"): [4, rank]}
    row = lambda config, weights: json.dumps(base | config).encode() + b"\0" + weights
    two = shapes(**pair(0, 2), **pair(1, 2))
    return {
        "good": row({}, two), "rslora": row({"use_rslora": True}, two), "dora": row({"use_dora": True}, two),
        "rank_pattern": row({"rank_pattern": {"layers\\.1\\..*": 3}, "alpha_pattern": {"^.*[01].self_attn.q_proj$": 1}},
                            shapes(**pair(0, 2), **pair(1, 3))),
        "two_patterns": row({"alpha_pattern": {"q_proj": 1, ".*q_pro.?": 2}}, two), "rank_0": row({"r": 0}, two),
        "layers": row({"layers_to_transform": [0, 1], "layers_pattern": ["layers"]}, two),
        "other_layers": row({"layers_to_transform": [5]}, two), "excluded": row({"exclude_modules": ["q_proj"]}, two),
        "no_b": row({}, shapes(**{stem.format(0, "A"): [2, 6]})), "other_rank": row({}, shapes(**pair(0, 3))),
        "unknown_key": row({"rotation": 1}, two), "pissa": row({"init_lora_weights": "pissa"}, two),
        "head": row({"target_modules": ["lm_head"]}, shapes(
            base_model__model__lm_head__lora_A__weight=[2, 6], base_model__model__lm_head__lora_B__weight=[4, 2],
            base_model__model__lm_head__base_layer__weight=[4, 6])),
        "huge_alpha": row({"lora_alpha": 1e300}, two), "cut": row({}, two[:-3]), "empty": b"", "no_weights": b"{}",
    }


def projector_seeds():
    layer = "layers__0__0__"
    block = {"conv1__conv__weight": [2, 8, 1, 1], "conv1__bn__weight": [2], "conv1__bn__bias": [2],
             "conv2__conv__weight": [2, 1, 3, 3], "conv2__bn__weight": [2], "conv2__bn__bias": [2],
             "se__fc1__weight": [1, 2, 1, 1], "se__fc1__bias": [1], "se__fc2__weight": [2, 1, 1, 1], "se__fc2__bias": [2],
             "conv3__conv__weight": [4, 2, 1, 1], "conv3__bn__weight": [4], "conv3__bn__bias": [4],
             "downsample__conv__weight": [4, 8, 1, 1], "downsample__bn__weight": [4], "downsample__bn__bias": [4]}
    second = {name: [4 if extent == 8 else extent for extent in shape] for name, shape in block.items()
              if not name.startswith("downsample")}
    stage = lambda i, of: {f"net__{i}__b1__{name}": shape for name, shape in of.items()}
    flamingo = {"latents": [2, 8], layer + "to_q__weight": [64, 8], layer + "to_kv__weight": [128, 8],
                layer + "to_out__weight": [8, 64], layer + "norm_media__weight": [8], layer + "norm_media__bias": [8],
                layer + "norm_latents__weight": [8], layer + "norm_latents__bias": [8], "layers__0__1__0__weight": [8],
                "layers__0__1__0__bias": [8], "layers__0__1__1__weight": [4, 8], "layers__0__1__3__weight": [8, 4],
                "norm__weight": [8], "norm__bias": [8]}
    return {
        "one_layer": shapes(weight=[16, 8], bias=[16]), "mlp": shapes(**{"0__weight": [4, 8], "0__bias": [4], "2__weight": [16, 4]}),
        "many_layers": shapes(**{f"a__{i}__weight": [8, 8] for i in (1, 2, 10)}), "bias_alone": shapes(**{"0__bias": [4]}),
        "three_axes": shapes(**{"0__weight": [2, 2, 2]}), "zero": shapes(**{"0__weight": [0, 8]}), "none": shapes(),
        "flamingo": shapes(**flamingo), "no_q": shapes(**{k: v for k, v in flamingo.items() if "to_q" not in k}),
        "odd_heads": shapes(**(flamingo | {layer + "to_kv__weight": [127, 8]})),
        "c_abstractor": shapes(**stage(0, block), **stage(2, second), **{"readout__0__weight": [16, 4], "readout__0__bias": [16]}),
        "c_abstractor_positions": shapes(pos_emb=[1, 16, 8], **stage(0, block), **stage(2, second)),
        "empty": b"", "cut": shapes(weight=[16, 8])[:40],
    }


def model_config_seeds():
    """The configurations of small goldens of every family."""
    seeds = {"empty": b"", "object": b"{}\0{}\0{}"}
    for name in ["internvl/byte_level_qwen3", "llava_next_video/qwen3_conv_3", "llava_next_video/vicuna_conv_f32",
                 "llava_onevision/qwen2_tied", "model/llama_old", "own_model/clip", "own_model/qwen3"]:
        seeds[name.replace("/", "_")] = folder_seed(GOLDEN / name)
    for family in ["qwen2_5_vl", "qwen3_vl"]:
        folder = sorted(path.parent for path in (GOLDEN / family).glob("*/config.json"))[0]
        seeds[family] = folder_seed(folder)
    generation = {"do_sample": True, "temperature": 0.5, "top_p": 0.9, "top_k": None, "eos_token_id": [1, 2],
                  "early_stopping": "never", "num_beams": 2, "min_p": 0.1, "no_repeat_ngram_size": 3}
    return seeds | {"generation": b"{}\0{}\0" + json.dumps(generation).encode()}


def folder_seed(folder):
    read = lambda name: (folder / name).read_bytes() if (folder / name).exists() else b"{}"
    return b"\0".join(json.dumps(json.loads(read(name))).encode() for name in
                      ("config.json", "preprocessor_config.json", "generation_config.json"))


def price_table_seeds():
    row = {"format": "bf16", "mean_kl": 1e-7, "p99_kl": 2e-6, "top1_agreement": 1, "equal_captions": 0.99,
           "weight_bytes": 1000, "decode_tokens_per_s": 12.5}
    scored = row | {"format": "int8", "meteor_ko": 0.98, "meteor_ko_difference": {"value": -0.1, "low": -0.2, "high": 0}}
    good = {"price_table": 1, "model_hash": "0f" * 32, "arithmetic": "avx2", "positions": 2000, "clips": 16,
            "made_by": "caption-cli 0.2.0", "formats": [row, scored]}
    variants = {
        "good": {}, "base": {"base_hash": "ab" * 32}, "layout": {"price_table": 2}, "hash": {"model_hash": "0g"},
        "no_formats": {"formats": []}, "twice": {"formats": [row, row]}, "unknown_key": {"rotation": 1},
        "interval": {"formats": [scored | {"meteor_ko_difference": {"value": 0, "low": 1, "high": -1}}]},
        "range": {"formats": [row | {"mean_kl": -1}]}, "positions": {"positions": 0}, "long": {"made_by": "x" * 65},
        "big": {"formats": [row | {"weight_bytes": 2**63 - 1, "decode_tokens_per_s": 1e18}]},
    }
    return {name: json.dumps(good | change) for name, change in variants.items()} | {"empty": "", "list": "[]"}


def captions_seeds():
    record = {"video": "a.mp4", "caption": "영상", "status": "ok", "file": {"path": "/x/a.mp4"}, "id": "00"}
    line = lambda **change: json.dumps(record | change, ensure_ascii=False) + "\n"
    both = lambda **value: json.dumps({"video": "a/b.mp4"} | value, ensure_ascii=False) + "\n"
    return {
        "records": line() + line(video="b.mp4", file={}) + line(moved_from="/y/c.mp4", prompt="p", adapter="x"),
        "superseded": line() + line(caption="다시") + line(status="failed", error={"code": "not_found"}),
        "references": both(captions=["가", "나"]) + both(caption="가") + both(prompts={"p": ["가"], "q": ["나", "다"]}),
        "two_keys": both(caption="가", captions=["나"]), "blank": both(captions=[" \t"]), "none": both(captions=[]),
        "no_prompt": both(prompts={"p": []}), "status": line(status="fine"), "no_video": '{"caption": "x"}\n',
        "torn": line() + line()[:30], "crlf": line().replace("\n", "\r\n") * 2, "bom": "\ufeff" + line(), "csv": "video,id\na,b\n",
        "label": json.dumps({"annotation": {"description_kr": "영상"}}), "label_list": '{"annotation": [1]}',
        "invalid_utf8": b'{"video": "\xff", "caption": "\xed\xa0\x80"}\n', "long": line(caption="가" * 11000), "blank_lines": "\n \n",
        "empty": "", "nul": line().replace("a.mp4", "a\0.mp4"), "odd_id": line(id=3, file=[1], moved_from={}),
    }


def prompts_seeds():
    return {
        "tabs": "short\t한 문장으로.\n# comment\nlong\t길게.\r\n", "numbered": "한 문장으로.\n길게.\n", "bom": "\ufeffa\tb\n",
        "json": '{"name": "a", "prompt": "b", "adapter": "c"}\n {"prompt": "{\\"x"}\n', "unknown_key": '{"nope": 1}\n',
        "same_name": "a\tb\na\tc\n", "no_name": "\tb\n", "no_text": "a\t \n", "control": "a\x01b\tc\n", "empty": "", "list": "[1]\n",
        "examples": '{"video": "a.mp4", "prompt": "p", "caption": "c"}\n{"caption": "d"}\n', "blank_caption": '{"caption": " "}\n',
        "paths": "a.mp4\n./{\"b\n/c/\r\n\n", "entries": '{"video": "a.mp4", "adapter": "x"}\nb.mp4\n{}\n', "nul": "a.mp4\0b.mp4\0\0c",
        "invalid_utf8": b"\xff\t\xed\xa0\x80\n", "open": '{"prompt": "a', "p1": "p2\ta\nb\n",
    }


def manifest_seeds():
    good = {"model": "0f" * 32, "prompt": "영상을 \"설명\"해\n주세요.", "seed": "42", "empty": ""}
    return {"good": json.dumps(good, ensure_ascii=False), "object": "{}", "number": '{"seed": 42}', "list": "[]", "empty": "",
            "cut": json.dumps(good)[:40], "nul": '{"a\\u0000": "b\\u0000"}', "same_key": '{"a": "1", "a": "2"}',
            "invalid_utf8": b'{"a": "\xff"}'}


if __name__ == "__main__":
    write("adapter", adapter_seeds())
    write("captions", captions_seeds())
    write("manifest", manifest_seeds())
    write("model_config", model_config_seeds())
    write("price_table", price_table_seeds())
    write("projector", projector_seeds())
    write("prompts", prompts_seeds())
