#!/usr/bin/env python3
"""Writes tests/golden/quantised_captioners: small Qwen3-VL checkpoints whose decoder is quantised, and what
transformers computes in f32 with the numbers that the codes stand for.

The codes, zeros and scales are drawn (drawn.py), so tensors.json describes all of them; the libraries' own functions
dequantise them (make_goldens_quantised.py and
make_goldens_compressed_tensors.py say which). The product of a matrix of codes rounds its input to bf16,
which the reference does not: "logit_tolerance" is what that may change, and the best logit of every choice leads
by as much.

Run: /path/to/venv/bin/python scripts/make_goldens_quantised_captioners.py [CASE...]
(torch, safetensors, transformers 4.57.6, bitsandbytes, compressed-tensors 0.12.2)
"""

import json
import math
import pathlib
import shutil
import sys
import tempfile

import bitsandbytes
import torch
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import load_file

import captioner_goldens as goldens
import drawn
import make_goldens_compressed_tensors as compressed
import make_goldens_quantised as formats
import qwen_vl_goldens as qwen
from make_goldens_qwen3_vl import CLIPS, Qwen3Vl, spread, text_config, vision_config

OUT = goldens.GOLDEN / "quantised_captioners"
NUM_GREEDY = 12
# bf16 rounds an input by at most 2^-9 of itself. Of two layers of four products in a row that makes 8 * 2^-9 if all err
# at their largest in one direction, and less at random. Relative to the largest logit.
TOLERANCE = 6 * 2**-9
GROUP = 16
NF4 = bitsandbytes.functional.get_4bit_type("nf4", device="cpu").tolist()


def row(name, dtype, shape, **more):
    return {"name": name, "dtype": dtype, "shape": list(shape)} | more


def positive(name, shape, power, dtype="F16"):
    """Numbers in [0.5, 1.5) * 2^power."""
    return row(name, dtype, shape, center=1, scale=0, power=power)


class Awq:
    config = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm",
              "modules_to_not_convert": ["visual"]}

    @staticmethod
    def rows(module, n, k, _order):
        return [row(f"{module}.qweight", "I32", (k, n // 8)), row(f"{module}.qzeros", "I32", (k // GROUP, n // 8)),
                positive(f"{module}.scales", (k // GROUP, n), -6)]

    @staticmethod
    def dequantise(get, n, k):
        group = torch.arange(k) // GROUP
        zeros = formats.awq_unpack(get("qzeros"))[group]
        return ((formats.awq_unpack(get("qweight")) - zeros) * get("scales").float()[group]).T


class Gptq:
    """4 bits, v1, act-order."""
    bits, power = 4, -6
    config = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": True, "sym": False, "lm_head": False,
              "true_sequential": True, "checkpoint_format": "gptq"}

    @classmethod
    def rows(cls, module, n, k, order):
        per_word = 32 // cls.bits
        return [row(f"{module}.qweight", "I32", (k // per_word, n)),
                row(f"{module}.qzeros", "I32", (k // GROUP, n // per_word)),
                positive(f"{module}.scales", (k // GROUP, n), cls.power),
                row(f"{module}.g_idx", "I32", (k,), values=[int(i) // GROUP for i in order])]

    @classmethod
    def dequantise(cls, get, n, k):
        group = get("g_idx").long()
        zeros = formats.gptq_unpack_zeros(get("qzeros"), cls.bits, cls.config["checkpoint_format"] == "gptq")
        return (get("scales").float()[group] * (formats.gptq_unpack_codes(get("qweight"), cls.bits) - zeros[group])).T


class Gptq8(Gptq):
    bits, power = 8, -10
    config = Gptq.config | {"bits": 8, "checkpoint_format": "gptq_v2"}


class Nf4Double:
    config = formats.bnb_config(load_in_4bit=True, _load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                bnb_4bit_use_double_quant=True)

    @staticmethod
    def rows(module, n, k, _order):
        blocks = math.ceil(n * k / 64)
        state = {"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [n, k], "nested_blocksize": 256,
                 "nested_dtype": "float32", "nested_offset": 0.203125}
        text = json.dumps(state)
        weight = f"{module}.weight"
        return [row(weight, "U8", (math.ceil(n * k / 2), 1)), row(f"{weight}.absmax", "U8", (blocks,)),
                positive(f"{weight}.nested_absmax", (math.ceil(blocks / 256),), -4, "F32"),
                row(f"{weight}.nested_quant_map", "F32", (256,),
                    values=bitsandbytes.functional.create_dynamic_map().tolist()),
                row(f"{weight}.quant_map", "F32", (16,), values=NF4),
                row(f"{weight}.quant_state.bitsandbytes__nf4", "U8", (len(text),), text=text)]

    @staticmethod
    def dequantise(get, n, k):
        part = lambda name: get(f"weight.{name}")
        nested = bitsandbytes.functional.QuantState(absmax=part("nested_absmax"), code=part("nested_quant_map"),
                                                    blocksize=256, dtype=torch.float32)
        absmax = bitsandbytes.functional.dequantize_blockwise(part("absmax"), nested) + 0.203125
        return formats.dequantise_4bit(get("weight").reshape(-1), absmax, part("quant_map"), 64, (n, k), torch.float32)


class LlmInt8:
    config = formats.bnb_config(load_in_8bit=True, _load_in_8bit=True)

    @staticmethod
    def rows(module, n, k, _order):
        return [row(f"{module}.weight", "I8", (n, k)), positive(f"{module}.SCB", (n,), -2, "F32")]

    @staticmethod
    def dequantise(get, n, k):
        return bitsandbytes.functional.int8_vectorwise_dequant(get("weight"), get("SCB"))


class PackedW4:
    """compressed-tensors: 4 bits with zero points in groups."""
    args = QuantizationArgs(num_bits=4, strategy="group", group_size=GROUP, symmetric=False)
    config = compressed.config_of("pack-quantized", QuantizationScheme(targets=["Linear"], weights=args))

    @staticmethod
    def rows(module, n, k, _order):
        return [row(f"{module}.weight_packed", "I32", (n, k // 8)), row(f"{module}.weight_shape", "I32", (2,), values=[n, k]),
                row(f"{module}.weight_zero_point", "I32", (n // 8, k // GROUP)),
                positive(f"{module}.weight_scale", (n, k // GROUP), -6, "BF16")]

    @classmethod
    def dequantise(cls, get, n, k):
        codes = compressed.unpack_from_int32(get("weight_packed"), 4, torch.Size((n, k)))
        zeros = compressed.unpack_from_int32(get("weight_zero_point"), 4, torch.Size((n, k // GROUP)), packed_dim=0)
        return compressed.dequantize(x_q=codes, scale=get("weight_scale").float(), zero_point=zeros, args=cls.args)


class IntW8A8:
    """compressed-tensors: rows of 8 bits; the inputs are not rounded to 8 bits."""
    args = QuantizationArgs(num_bits=8, strategy="channel")
    config = compressed.config_of("int-quantized", QuantizationScheme(
        targets=["Linear"], weights=args, input_activations=compressed.ACTIVATIONS))

    @staticmethod
    def rows(module, n, k, _order):
        return [row(f"{module}.weight", "I8", (n, k)), positive(f"{module}.weight_scale", (n, 1), -9, "BF16")]

    @classmethod
    def dequantise(cls, get, n, k):
        return compressed.dequantize(x_q=get("weight"), scale=get("weight_scale").float(), args=cls.args)


class Fp8:
    """Numbers of 8 bits in blocks, held as bf16: products are those of f32."""
    tolerance = 0
    config = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 48]}

    @staticmethod
    def rows(module, n, k, _order):
        return [row(f"{module}.weight", "F8_E4M3", (n, k)),
                positive(f"{module}.weight_scale_inv", (-(-n // 32), -(-k // 48)), -10, "F32")]

    @staticmethod
    def dequantise(get, n, k):
        scale = get("weight_scale_inv").repeat_interleave(32, 0)[:n].repeat_interleave(48, 1)[:, :k]
        return (get("weight").float() * scale).bfloat16().float()


CASES = {"awq": Awq, "gptq_act_order": Gptq, "gptq_8_bits": Gptq8, "nf4_double": Nf4Double, "llm_int8": LlmInt8,
         "packed_w4": PackedW4, "int_w8a8": IntW8A8, "fp8_block": Fp8}


def is_quantised(name):
    return "language_model.layers." in name and name.endswith("_proj.weight")


def order_of(module, k):
    """A permutation of the columns. Matrices of one input share theirs, but for gate and up."""
    layer, last = module.split(".layers.")[1].split(".")[0], module.rsplit(".", 1)[1]
    shared = {"q_proj": 0, "k_proj": 0, "v_proj": 0, "o_proj": 1, "gate_proj": 2, "up_proj": 3, "down_proj": 4}
    return torch.randperm(k, generator=torch.Generator().manual_seed(10 * int(layer) + shared[last]))


def describe(method, plain):
    """The rows of tensors.json, and the quantised matrices by module."""
    rows, modules = [], {}
    for name in sorted(plain):
        shape = tuple(plain[name].shape)
        if not is_quantised(name):
            center, scale = spread(name, shape)
            rows.append(row(name, "F32", shape, center=center, scale=scale))
            continue
        module = name.removesuffix(".weight")
        modules[module] = shape
        rows += method.rows(module, *shape, order_of(module, shape[1]))
    return [entry | {"file": 0} for entry in rows], modules


def weights_of(method, rows, modules, seed):
    tensors = {entry["name"]: drawn.tensor_of(entry, seed) for entry in rows}
    owned = lambda name: any(name.startswith(module + ".") for module in modules)
    weights = {name: tensor for name, tensor in tensors.items() if not owned(name)}
    for module, (n, k) in modules.items():
        weight = method.dequantise(lambda suffix, m=module: tensors[f"{m}.{suffix}"], n, k)
        assert weight.shape == (n, k) and weight.dtype == torch.float32
        weights[f"{module}.weight"] = weight.contiguous()
    return weights


@torch.no_grad()
def greedy(model, ids, pixels):
    """Tokens, the first and the last logits and the smallest lead, or None where a lead is small."""
    output = model(input_ids=torch.tensor([ids]), use_cache=True, **pixels)
    first, cache, tokens = output.logits[0, -1], output.past_key_values, []
    last, margin = first, float("inf")
    while True:
        best = torch.topk(last, 2)
        lead = float(best.values[0] - best.values[1])
        if lead < TOLERANCE * float(last.abs().max()) or int(best.indices[0]) == 2:
            return None
        margin = min(margin, lead)
        tokens.append(int(best.indices[0]))
        if len(tokens) == NUM_GREEDY:
            return tokens, first, last, margin, min(TOLERANCE * float(row.abs().max()) for row in (first, last))
        last = model(input_ids=torch.tensor([[tokens[-1]]]), use_cache=True, past_key_values=cache,
                     cache_position=torch.tensor([len(ids) + len(tokens) - 1])).logits[0, -1]


def expect(family):
    results, tolerance = [], float("inf")
    for clip in CLIPS:
        ids, pixels = goldens.inputs_of(family, goldens.PROMPTS[0], clip)
        found = greedy(family.model, ids, pixels)
        if found is None or len(set(found[0])) < 3:
            return None
        tokens, first, last, margin, bound = found
        with torch.no_grad():
            features = family.features(pixels)
        tolerance = min(tolerance, bound)
        results.append({
            "frames": clip, "pixel_values_hash": goldens.xxh(next(iter(pixels.values())).numpy()),
            "num_vision_tokens": len(features), "features": goldens.sample(features, 100), "ids": ids,
            "logits": goldens.sample(first, 150), "greedy": tokens, "last_logits": goldens.sample(last, 150),
            "margin": float(f"{margin:.3g}")})
    return results, tolerance


def make(name, method):
    case = OUT / name
    shutil.rmtree(case, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        saved = pathlib.Path(scratch) / "model"
        saved.mkdir()

        class Small(Qwen3Vl):
            prompts = goldens.PROMPTS[:2]

        vision = vision_config(deepstack_visual_indexes=[], depth=1)
        ids = {token: goldens.token_id(token, qwen.TOKENIZER) for token in qwen.ADDED}
        config = Small.config_class(
            text_config=text_config(num_hidden_layers=2), vision_config=vision,
            image_token_id=ids["<|image_pad|>"], video_token_id=ids["<|video_pad|>"],
            vision_start_token_id=ids["<|vision_start|>"], vision_end_token_id=ids["<|vision_end|>"])
        Small.model_class(config).save_pretrained(saved)
        Small.video_class(size={"shortest_edge": 2000, "longest_edge": 20000}, patch_size=vision["patch_size"],
                          merge_size=vision["spatial_merge_size"],
                          temporal_patch_size=vision["temporal_patch_size"]).save_pretrained(saved)
        files = sorted(path.name for path in qwen.TOKENIZER.iterdir())
        for file in files:
            (saved / file).write_bytes((qwen.TOKENIZER / file).read_bytes())
        family = Small(saved)
        rows, modules = describe(method, load_file(saved / "model.safetensors"))
        for seed in range(1, 3000):
            family.model.load_state_dict(weights_of(method, rows, modules, seed))
            found = expect(family)
            if found is not None:
                break
        else:
            raise AssertionError(f"{name}: no seed without close choices")
        results, tolerance = found
        exact = getattr(method, "tolerance", tolerance) == 0
        case.mkdir(parents=True)
        settings = json.loads((saved / "config.json").read_text()) | {"quantization_config": method.config}
        (case / "config.json").write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n")
        shutil.copyfile(saved / "video_preprocessor_config.json", case / "video_preprocessor_config.json")
        shared = [f"../../{qwen.TOKENIZER.name}/{file}" for file in files]
        drawn.write_description({"seed": seed, "files": ["model.safetensors"], "tensors": rows}, case, shared=shared)
        goldens.write_expected(case / "expected.json", family, CLIPS, results,
                               **({} if exact else {"logit_tolerance": float(f"{tolerance:.4g}")}))
        print(name, "seed", seed, "tolerance", tolerance, "margins", [result["margin"] for result in results],
              "bytes", sum(file.stat().st_size for file in case.iterdir()))


def main():
    for name in sys.argv[1:] or CASES:
        make(name, CASES[name])


if __name__ == "__main__":
    main()
