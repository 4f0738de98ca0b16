#!/usr/bin/env python3
"""Compares the calibrated checkpoints of `caption-cli quantize` with those of GPTQModel and AutoAWQ, and with RTN.

For the demonstration model, in f32 and, with AWQ, as it is (bf16), and for a captioner with its tower and a random Qwen3
decoder with planted outlier channels: half of the sample clips calibrate, with their references as answers, and the other half measures. Both tools get the
same prompts, which caption-cli saves (--save-calibration). The tools' own classes run in f32 on the CPU
(calibration_references.py), layer by layer in the order in which the tools call them; codes and scales are then as they
are stored: scales of f16, weights rounded to f16 before AWQ's last rounding. The tools' norms are f32, and so are those of
caption-cli but for the file in bf16.

Measured: KL(model || quantised model) of the logits in f32 at every position of the measuring prompts; the ratios of
the sums, with 95 % intervals of a bootstrap over positions that keeps the pairs.

Run: PYTHONPATH=<unpacked gptqmodel 7.7.0>:<unpacked autoawq 0.2.9> /path/to/venv/bin/python \
         scripts/compare_calibration.py --cli build/auto/apps/caption-cli/caption-cli --work /tmp/compare
(torch 2.9.1, transformers 4.57.6, safetensors, numpy)
"""
import argparse
import copy
import json
import pathlib
import shutil
import subprocess

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import calibration_references as references

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEED = 20261123
GROUPS = (("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), ("self_attn.o_proj",),
          ("mlp.gate_proj", "mlp.up_proj"), ("mlp.down_proj",))


def text_tensors(tensors):
    """The decoder's tensors under the names of a language model's own checkpoint."""
    out = {}
    for name, tensor in tensors.items():
        if name.startswith("language_model."):
            out[name.removeprefix("language_model.")] = tensor
    return out


def unpack(words, order):
    words = words.to(torch.int64) & 0xFFFFFFFF
    return torch.stack([words >> (4 * i) & 15 for i in order], dim=-1)


def dequantise(tensors, method):
    """Replaces the coded matrices by their numbers, f32."""
    out = {k: v.float() for k, v in tensors.items() if v.is_floating_point() and not k.endswith(".scales")}
    for name in [k.removesuffix(".qweight") for k in tensors if k.endswith(".qweight")]:
        scales = tensors[f"{name}.scales"].float()
        if method == "gptq":  # qweight [K / 8, N]; zeros of version 1 are stored less one
            codes = unpack(tensors[f"{name}.qweight"], range(8)).permute(0, 2, 1).reshape(-1, scales.shape[1])
            zeros = unpack(tensors[f"{name}.qzeros"], range(8)).reshape(scales.shape) + 1
            of_row = tensors[f"{name}.g_idx"].long()
        else:  # qweight [K, N / 8]
            order = (0, 4, 1, 5, 2, 6, 3, 7)
            codes = unpack(tensors[f"{name}.qweight"], order).reshape(-1, scales.shape[1])
            zeros = unpack(tensors[f"{name}.qzeros"], order).reshape(scales.shape)
            of_row = torch.arange(codes.shape[0]) // (codes.shape[0] // scales.shape[0])
        out[f"{name}.weight"] = ((codes - zeros[of_row]).float() * scales[of_row]).T.contiguous()
    return out


class Prompts:
    """All prompts of a file as one sequence whose attention stays inside each prompt."""

    def __init__(self, path, embedding):
        saved = load_file(path)
        names = sorted({key.split(".")[0] for key in saved})
        rows, positions, owners = [], [], []
        for i, name in enumerate(names):
            row = embedding[saved[f"{name}.ids"].long()].float()
            row[saved[f"{name}.vision_rows"].long()] = saved[f"{name}.vision"]
            rows.append(row)
            positions.append(saved[f"{name}.positions"][0].long())
            owners.append(torch.full((len(row),), i))
        self.hidden = torch.cat(rows)[None]
        self.positions = torch.cat(positions)[None]
        owner = torch.cat(owners)
        seen = (owner[:, None] == owner[None, :]) & torch.ones(len(owner), len(owner)).tril().bool()
        self.mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)[None, None]


class Decoder:
    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text())
        text = dict(config["text_config"])
        text.pop("dtype", None)
        config = transformers.AutoConfig.for_model(text.pop("model_type"), **text)
        self.model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
        self.load({k: v.float() for k, v in text_tensors(load_file(folder / "model.safetensors")).items()})

    def load(self, tensors):
        missing, unexpected = self.model.load_state_dict(tensors, strict=False)
        assert not unexpected and all(name == "lm_head.weight" for name in missing), (missing, unexpected)

    def changed(self, tensors=None):
        other = copy.copy(self)
        other.model = copy.deepcopy(self.model)
        if tensors is not None:
            other.load(tensors)
        return other

    @property
    def layers(self):
        return self.model.model.layers

    def arguments(self, prompts):
        rotary = self.model.model.rotary_emb(prompts.hidden, prompts.positions)
        return {"attention_mask": prompts.mask, "position_embeddings": rotary}

    def run_layer(self, layer, hidden, arguments):
        out = layer(hidden, **arguments)
        return out[0] if isinstance(out, tuple) else out

    def log_probabilities(self, prompts):
        hidden, arguments = prompts.hidden, self.arguments(prompts)
        for layer in self.layers:
            hidden = self.run_layer(layer, hidden, arguments)
        return torch.log_softmax(self.model.lm_head(self.model.model.norm(hidden))[0].double(), -1)


def inputs_of(decoder, layer, hidden, arguments, names):
    """The inputs of these matrices in a pass over the layer."""
    found, hooks = {}, []
    for name in names:
        hooks.append(layer.get_submodule(name).register_forward_hook(
            lambda _, inputs, __, name=name: found.__setitem__(name, inputs[0].clone())))
    output = decoder.run_layer(layer, hidden, arguments)
    for hook in hooks:
        hook.remove()
    return found, output


def as_stored(made):
    """GPTQ's numbers with the scales of f16 that files hold."""
    of_column = made.g_idx.long()
    scales = made.scales.half().float()[:, of_column]
    return scales * (made.codes.float() - made.zeros[:, of_column])


def reference_gptq(decoder, prompts, group, act_order):
    """GPTQModel: q, k, v; o; gate, up; down, each with the inputs behind the earlier ones as they were rounded."""
    made = decoder.changed()
    hidden, arguments = prompts.hidden, made.arguments(prompts)
    for layer in made.layers:
        for names in GROUPS:
            inputs, _ = inputs_of(made, layer, hidden, arguments, names)
            for name in names:
                linear = layer.get_submodule(name)
                solved = references.gptq(linear.weight.data, inputs[name], group,
                                         order="activation" if act_order else "groups")
                linear.weight.data = as_stored(solved)
        hidden = made.run_layer(layer, hidden, arguments)
    return made


def fold(previous, layers, scales, inputs):
    """apply_scale of AutoAWQ: scale_ln_fcs and scale_fc_fc."""
    if isinstance(previous, torch.nn.Linear):
        previous.weight.data[-len(scales):] /= scales[:, None]
    else:
        previous.weight.data /= scales
    if getattr(previous, "bias", None) is not None:
        previous.bias.data /= scales
    for layer in layers:
        layer.weight.data *= scales
    for one in inputs:
        one /= scales


def restorable(module):
    """AutoAWQ keeps the weights with Tensor.cpu(), which is a copy on a GPU and none on a CPU: here it is one, too."""
    state = type(module).state_dict
    module.state_dict = lambda: {key: value.clone() for key, value in state(module).items()}
    return module


def reference_awq(decoder, prompts, group):
    """AutoAWQ: AwqQuantizer.quantize() with the scaling groups that it has for Llama and Qwen3."""
    made = decoder.changed()
    quantizer = references.awq_quantizer(group)
    hidden, arguments = prompts.hidden, made.arguments(prompts)
    names = [name for names in GROUPS for name in names]
    for layer in made.layers:
        inputs, output = inputs_of(made, layer, hidden, arguments, names)
        attention, mlp = layer.self_attn, layer.mlp
        sets = [(layer.input_layernorm, GROUPS[0], attention, arguments)]
        if attention.v_proj.weight.shape == attention.o_proj.weight.shape:
            sets.append((attention.v_proj, GROUPS[1], None, {}))
        sets.append((layer.post_attention_layernorm, GROUPS[2], mlp, {}))
        sets.append((mlp.up_proj, GROUPS[3], None, {}))
        found = []
        for previous, members, inspected, kwargs in sets:
            linears = [layer.get_submodule(name) for name in members]
            _, _, scales = quantizer._search_best_scale(layer, previous, linears, inputs[members[0]].clone(),
                                                        restorable(inspected or linears[0]), dict(kwargs))
            found.append((previous, members, linears, scales.view(-1)))
        for previous, members, linears, scales in found:
            fold(previous, linears, scales, [inputs[name] for name in members])
        for name in names:
            weight = layer.get_submodule(name).weight
            if not any(part in name for part in ("q_", "k_")):
                limits = quantizer._compute_best_clip(weight.data, inputs[name])
                blocks = weight.data.reshape(*limits.shape[:2], -1)
                weight.data = torch.clamp(blocks, -limits, limits).reshape(weight.shape)
            rounded, scales, zeros = quantizer.pseudo_quantize_tensor(weight.data.half())
            codes = torch.round(rounded.float() / expand(scales.float(), group)) + expand(zeros.float(), group)
            weight.data = (codes - expand(zeros.float(), group)) * expand(scales.float(), group)
        hidden = output
    return made


def expand(groups, size):
    return groups.repeat_interleave(size, dim=1)


def make_qwen3(folder):
    """The demonstration model with a random Qwen3 as its decoder, some of whose channels are far larger than others."""
    source = ROOT / "samples" / "demo-model"
    shutil.copytree(source, folder)
    config = json.loads((folder / "config.json").read_text())
    demo = config["text_config"]
    sizes = {"hidden_size": demo["hidden_size"], "intermediate_size": 768, "num_hidden_layers": 6,
             "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": demo["vocab_size"],
             "max_position_embeddings": demo["max_position_embeddings"], "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
             "tie_word_embeddings": False, "attention_bias": True, "pad_token_id": demo["pad_token_id"]}
    config["text_config"] = {"model_type": "qwen3", **sizes}
    for key in ("caption_cli_demonstration", "caption_cli_unlike"):
        config.pop(key)
    (folder / "config.json").write_text(json.dumps(config, ensure_ascii=False, indent=2))
    torch.manual_seed(SEED)
    model = transformers.AutoModelForCausalLM.from_config(transformers.Qwen3Config(**sizes)).float()
    generator = torch.Generator().manual_seed(SEED)
    tensors = {k: v for k, v in load_file(source / "model.safetensors").items() if not k.startswith("language_model.")}
    for name, tensor in model.state_dict().items():
        if tensor.ndim == 2:
            value = torch.randn(tensor.shape, generator=generator) * tensor.shape[1] ** -0.5
            if name.endswith("up_proj.weight"):
                value[7::97] *= 8  # outliers in the inputs of down
            if "embed_tokens" in name:
                value *= 8
        elif name.endswith("bias"):
            value = 0.1 * torch.randn(tensor.shape, generator=generator)
        else:
            value = 1 + 0.1 * torch.randn(tensor.shape, generator=generator)
            if name.endswith("layernorm.weight"):
                value[5::61] *= 16  # outliers in the inputs of q, k, v, gate and up
        tensors["language_model." + name] = value
    save_file({key: value.float() for key, value in tensors.items()}, folder / "model.safetensors", metadata={"format": "pt"})


def make_demo(folder):
    """The demonstration model in f32."""
    shutil.copytree(ROOT / "samples" / "demo-model", folder)
    tensors = load_file(folder / "model.safetensors")
    save_file({key: value.float() for key, value in tensors.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})


def make_demo_bf16(folder):
    """The demonstration model as it is."""
    shutil.copytree(ROOT / "samples" / "demo-model", folder)


MAKE = {"demo": make_demo, "demo-bf16": make_demo_bf16, "qwen3": make_qwen3}


def kl(reference, log_probabilities):
    return (reference.exp() * (reference - log_probabilities)).sum(-1)


def interval(a, b):
    """The ratio of the sums of paired numbers, and its 95 % interval."""
    generator = np.random.default_rng(SEED)
    draws = generator.integers(0, len(a), (2000, len(a)))
    low, high = np.quantile(a[draws].sum(1) / b[draws].sum(1), [0.025, 0.975])
    return f"{a.sum() / b.sum():.3f} [{low:.3f}, {high:.3f}]"


class Comparison:
    def __init__(self, cli, work, folder):
        self.cli, self.work, self.folder = cli, work, folder
        clips = sorted(str(path) for path in (ROOT / "samples" / "videos").iterdir())
        self.clips = {"calibrate": clips[0::2], "measure": clips[1::2]}
        self.decoder = Decoder(folder)
        self.prompts = {name: self.save(name) for name in self.clips}
        self.expected = self.decoder.log_probabilities(self.prompts["measure"])

    def flags(self, clips):
        return ["--references", str(ROOT / "samples" / "references.jsonl"), "--calibrate", *clips]

    def quantize(self, output, *flags):
        subprocess.run([self.cli, "quantize", str(self.folder), "-o", str(output), "-q", *flags], check=True)

    def save(self, name):
        path = self.work / f"{name}.safetensors"
        self.quantize(self.work / f"prompts-{name}", "--format", "gptq", "--save-calibration", str(path),
                      *self.flags(self.clips[name]))
        return Prompts(path, self.decoder.model.model.embed_tokens.weight.data)

    def own(self, method, flags, calibrated):
        output = self.work / ("-".join([method, *flags]).replace("--", "") + ("-cal" if calibrated else "-rtn"))
        self.quantize(output, "--format", method, *flags,
                      *(self.flags(self.clips["calibrate"]) if calibrated else []))
        return self.decoder.changed(dequantise(text_tensors(load_file(output / "model.safetensors")), method))

    def measure(self, decoder):
        return kl(self.expected, decoder.log_probabilities(self.prompts["measure"])).numpy()

    def row(self, model, method, group, act_order):
        flags = ["--group-size", str(group)]
        rounded = self.measure(self.own(method, flags, False))
        if act_order:
            flags.append("--act-order")
        own = self.measure(self.own(method, flags, True))
        if method == "gptq":
            tool = reference_gptq(self.decoder, self.prompts["calibrate"], group, act_order)
        else:
            tool = reference_awq(self.decoder, self.prompts["calibrate"], group)
        reference = self.measure(tool)
        name = f"{method}, groups of {group}" + (", act-order" if act_order else "")
        print(f"| {model} | {name} | {len(own)} | {rounded.mean():.2e} | {reference.mean():.2e} | {own.mean():.2e} | "
              f"{interval(own, reference)} | {interval(own, rounded)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cli", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--methods", nargs="+", default=["gptq", "awq"])
    parser.add_argument("--models", nargs="+", default=list(MAKE), choices=list(MAKE))
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.set_num_threads(options.threads)
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    print("| model | format | positions | KL, RTN | KL, tool | KL, caption-cli | caption-cli / tool | caption-cli / RTN |\n"
          "|---|---|--:|--:|--:|--:|--:|--:|")
    for name in options.models:
        MAKE[name](options.work / name)
        (options.work / f"{name}-work").mkdir()
        comparison = Comparison(options.cli, options.work / f"{name}-work", options.work / name)
        # GPTQ changes no norm, so that it makes the same of both files of the demonstration model.
        for method in options.methods if name != "demo-bf16" else {"awq"}.intersection(options.methods):
            for group in (128, 32):
                for act_order in (False, True) if method == "gptq" else (False,):
                    comparison.row(name, method, group, act_order)


if __name__ == "__main__":
    main()
