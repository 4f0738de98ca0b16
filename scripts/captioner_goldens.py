"""What the goldens of captioner families have in common.

A family's script (make_goldens_llava_onevision.py, ...) describes cases: small configurations of a
model and its processor. Here a case is saved, its weights are drawn (drawn.py), and transformers
computes in float32 on the CPU with eager attention what the C++ tests must equal: pixel values,
vision tokens, prompt ids, logits and 64 greedy tokens for three clips.
"""

import json
import pathlib
import tempfile

import numpy as np
import tokenizers as tokenizers_library
import torch
import transformers
import xxhash
from safetensors.torch import load_file, save_file
from transformers import (
    AddedToken, LlamaTokenizer, LlamaTokenizerFast, Qwen2Config, Qwen2TokenizerFast, Qwen3Config)

import drawn
from golden_frames import synthetic_frame
from make_checkpoints import CORPUS, train_tokenizer

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests/golden"
TOKENIZER = GOLDEN / "captioner_tokenizer"
BYTE_TOKENIZER = GOLDEN / "captioner_byte_tokenizer"
TOKENIZER_FILES = ["added_tokens.json", "special_tokens_map.json", "tokenizer.model",
                   "tokenizer_config.json"]
ADDED = ["<video>", "<image>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>"]
VOCAB = 448
NUM_GREEDY = 64
MIN_MARGIN = 2e-3  # of the two best logits of every choice
CLIPS = [dict(height=45, width=80, seed=3, count=2, kind="waves"),
         dict(height=90, width=50, seed=20, count=3, kind="waves"),
         dict(height=37, width=37, seed=40, count=1, kind="noise")]
PROMPTS = ["이 영상을 자세히 설명해 주세요.", "What is happening in this video?", "",
           " leading and trailing ", "두  칸\n새 줄", "이모지 🎬와 한자 漢字", "user\nassistant"]


def make_tokenizer(folder=TOKENIZER, added=ADDED):
    folder.mkdir(parents=True, exist_ok=True)
    train_tokenizer(folder, added)


def make_byte_tokenizer():
    """Byte-level BPE as Qwen2 has it, with as many tokens as the embedding has rows at most."""
    plain = tokenizers_library.ByteLevelBPETokenizer(add_prefix_space=False)
    plain.train_from_iterator(CORPUS.splitlines(), vocab_size=430, min_frequency=1)
    with tempfile.TemporaryDirectory() as scratch:
        vocab, merges = plain.save_model(scratch)
        tokenizer = Qwen2TokenizerFast(vocab, merges, eos_token="<|im_end|>", pad_token=None,
                                       unk_token=None)
        tokenizer.add_tokens([AddedToken(token, special=True) for token in ADDED])
        tokenizer.save_pretrained(scratch)
        BYTE_TOKENIZER.mkdir(parents=True, exist_ok=True)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (BYTE_TOKENIZER / name).write_bytes((pathlib.Path(scratch) / name).read_bytes())


def tokenizers(folder=TOKENIZER):
    """Two implementations of a folder's tokenizer, or twice the only one."""
    if (folder / "tokenizer.json").exists():
        tokenizer = Qwen2TokenizerFast.from_pretrained(folder)
        return tokenizer, tokenizer
    return LlamaTokenizer.from_pretrained(folder), LlamaTokenizerFast.from_pretrained(folder)


def token_id(token, folder=TOKENIZER):
    return tokenizers(folder)[0].convert_tokens_to_ids(token)


def qwen3_config(**changes):
    """heads * head_dim differs from hidden_size."""
    return Qwen3Config(**(dict(
        vocab_size=VOCAB, hidden_size=48, intermediate_size=80, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=2048,
        rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=False, eos_token_id=2) | changes))


def qwen2_config(**changes):
    return Qwen2Config(**(dict(
        vocab_size=VOCAB, hidden_size=56, intermediate_size=72, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2048,
        rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=False, eos_token_id=2) | changes))


def spread(name, shape):
    """As drawn.default_spread(), with layer scales and norms of every name around 1."""
    is_scale = name.rsplit(".", 1)[-1] in ("lambda_1", "lambda_2", "ls1", "ls2")
    if len(shape) == 1 and (is_scale or name == "mlp1.0.weight"):
        return 1, 0
    return drawn.default_spread(name, shape)


def rename(folder, names):
    """Gives the tensors of a folder with one file the names that names(old) returns."""
    tensors = load_file(folder / "model.safetensors")
    save_file({names(name): tensor for name, tensor in tensors.items()},
              folder / "model.safetensors", metadata={"format": "pt"})


NEW_PREFIXES = [("language_model.model.", "model.language_model."),
                ("vision_tower.", "model.vision_tower."),
                ("multi_modal_projector.", "model.multi_modal_projector."),
                ("image_newline", "model.image_newline"),
                ("vision_resampler.", "model.vision_resampler."),
                ("language_model.lm_head", "lm_head")]


def new_name(name):
    """The names of the modules since transformers 4.52, which save_pretrained() turns back."""
    for old, new in NEW_PREFIXES:
        if name.startswith(old):
            return new + name[len(old):]
    return name


class ComposedFamily:
    """A composed model: the vision tokens of self.features(pixels) take the place of self.video_id
    in the embeddings of self.llm. A class that inherits it also sets self.processor."""

    name = "composed"
    prompts = PROMPTS[:1]

    def __init__(self):
        self.tokenizer = tokenizers()[1]
        self.video_id = token_id("<video>")
        self.model = self

    def inputs(self, question, frames):
        video = torch.from_numpy(frames).permute(0, 3, 1, 2)
        pixels = dict(self.processor(videos=[video], return_tensors="pt"))
        # Template "{video}{prompt}": <s>, the vision tokens, then the text on its own.
        bos, *text = self.tokenizer(question).input_ids
        return [bos] + [self.video_id] * len(self.features(pixels)) + text, pixels

    def __call__(self, input_ids, pixel_values_videos=None, **more):
        embeddings = self.llm.get_input_embeddings()(input_ids)
        if pixel_values_videos is not None:
            embeddings[input_ids == self.video_id] = self.features(
                {"pixel_values_videos": pixel_values_videos})
        return self.llm(inputs_embeds=embeddings, **more)


def save_llm(llm, folder):
    """Writes the language model of a composed model with its tokenizer."""
    llm.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    for name in TOKENIZER_FILES:
        (folder / name).write_bytes((TOKENIZER / name).read_bytes())


def average_pool(rows, stride):
    """Pools the patches [frames, patches, columns] of square grids."""
    edge = int(rows.shape[1] ** 0.5)
    grid = rows.transpose(1, 2).unflatten(2, (edge, edge))
    return torch.nn.functional.avg_pool2d(grid, stride).flatten(2).transpose(1, 2)


def numbers(tensor):
    """Shortest decimals that read back as the same float32."""
    return [float(str(v)) for v in tensor.detach().flatten().numpy().astype(np.float32)]


def sample(tensor, count):
    """Every n-th element, n odd, so that all columns occur."""
    flat = tensor.detach().flatten()
    stride = max(1, len(flat) // count) | 1
    return {"size": len(flat), "stride": stride, "values": numbers(flat[::stride])}


def xxh(array):
    return xxhash.xxh3_128_hexdigest(np.ascontiguousarray(array).tobytes())


def frames_of(clip):
    return np.stack([synthetic_frame(clip["height"], clip["width"], clip["seed"] + i, clip["kind"])
                     for i in range(clip["count"])])


def open_reference(model_class, folder):
    return model_class.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()


def run_processors(processors, question, frames, **more):
    """A user's message with a video, as each of the processors makes inputs of it, all with the
    same ids: the ids and the inputs."""
    message = [{"role": "user", "content": [{"type": "video"},
                                            {"type": "text", "text": question}]}]
    video = torch.from_numpy(frames).permute(0, 3, 1, 2)
    found = []
    for processor in processors:
        text = processor.apply_chat_template(message, add_generation_prompt=True)
        found.append(processor(text=text, videos=[video], return_tensors="pt", **more))
    assert all(torch.equal(found[0].input_ids, other.input_ids) for other in found), question
    return found[0].input_ids[0].tolist(), found[0]


def inputs_of(family, question, clip):
    """A family whose prompts tell the frames' times takes the clip's description."""
    takes_clip = getattr(family, "takes_clip", False)
    return family.inputs(question, clip if takes_clip else frames_of(clip))


@torch.no_grad()
def greedy(model, ids, pixels):
    output = model(input_ids=torch.tensor([ids]), use_cache=True, **pixels)
    first, cache, tokens, margin = output.logits[0, -1], output.past_key_values, [], float("inf")
    row = first
    while True:
        best = torch.topk(row, 2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        tokens.append(int(best.indices[0]))
        if len(tokens) == NUM_GREEDY:
            return tokens, first, row, margin
        row = model(input_ids=torch.tensor([[tokens[-1]]]), use_cache=True, past_key_values=cache,
                    cache_position=torch.tensor([len(ids) + len(tokens) - 1])).logits[0, -1]


@torch.no_grad()
def expect(family, clips):
    """What transformers computes for three clips, or None if a greedy choice was close."""
    results = []
    for clip in clips:
        ids, pixels = inputs_of(family, PROMPTS[0], clip)
        features = family.features(pixels)
        tokens, first, last, margin = greedy(family.model, ids, pixels)
        if margin < MIN_MARGIN or len(set(tokens)) < 4 or 2 in tokens:
            return None
        values = next(iter(pixels.values()))
        results.append({
            "frames": clip, "pixel_values_hash": xxh(values.numpy()),
            "num_vision_tokens": len(features), "features": sample(features, 400),
            "ids": ids, "logits": sample(first, 150), "greedy": tokens,
            "last_logits": sample(last, 150), "margin": float(f"{margin:.3g}")})
    return results


def write_expected(path, family, clips, results, **more):
    prompts = [{"text": text, "ids": inputs_of(family, text, clips[0])[0]}
               for text in family.prompts]
    made_by = {"torch": torch.__version__, "transformers": transformers.__version__}
    head = {"made_by": made_by, "family": family.name} | more
    lines = [f' "{key}": {json.dumps(value)}' for key, value in head.items()]
    for key, rows in (("prompts", prompts), ("clips", results)):
        lines.append(f' "{key}": [\n' + ",\n".join(
            "  " + json.dumps(row, ensure_ascii=False) for row in rows) + "\n ]")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def make_case(case, save, load, clips=CLIPS, tokenizer=TOKENIZER, spread=spread):
    """save(folder) writes a checkpoint; load(folder) opens it as a family with the drawn weights.

    Seeds are tried until no greedy choice is close.
    """
    for seed in range(1, 200):
        with tempfile.TemporaryDirectory() as scratch:
            saved = pathlib.Path(scratch) / "model"
            saved.mkdir()
            save(saved)
            (saved / "generation_config.json").unlink(missing_ok=True)
            files = sorted(path.name for path in tokenizer.iterdir())
            shared = [f"../../{tokenizer.name}/{name}" for name in files]
            drawn.save_case(saved, case, seed, spread, shared)
            for name in files:
                (saved / name).write_bytes((tokenizer / name).read_bytes())
            family = load(saved)
            results = expect(family, clips)
            if results is None:
                continue
            write_expected(case / "expected.json", family, clips, results)
            print(case.parent.name, case.name, "seed", seed,
                  "margins", [result["margin"] for result in results],
                  "bytes", sum(file.stat().st_size for file in case.iterdir()))
            return
    raise AssertionError(f"{case}: no seed without close choices")
