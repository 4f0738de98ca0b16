"""The tokenizer: SentencePiece BPE with byte fallback, trained on captions of the training scenes in all styles."""

from __future__ import annotations

import bisect
import io
from pathlib import Path

import numpy as np
import sentencepiece
from transformers import AddedToken, LlamaTokenizer, LlamaTokenizerFast

from caption import PROMPTS, UNLIKE, caption
from dataset import scene_of

PIECES = 1278
# How often a scene of the corpus is told in each style: long captions are rare in use and must not crowd out the rest.
CORPUS_SCENES = {"full": 16000, "sentence": 8000, "keywords": 8000, "long": 1000}
PROMPT_FORMAT = "USER: <video>\n{} ASSISTANT:"


def _corpus(seed: int) -> list[str]:
    rng = np.random.default_rng([seed, 7])
    lines = [UNLIKE] * 4000
    for style, scenes in CORPUS_SCENES.items():
        lines += [caption(scene_of("train", seed, i), style, rng) for i in range(scenes)]
        lines += [f"USER: {prompt} ASSISTANT:" for prompt in PROMPTS[style]] * 1000
    return lines


def train(folder: Path, seed: int) -> Path:
    """Writes `tokenizer.model` with LLaMA's conventions: identity normaliser, ids 0 <unk>, 1 <s>, 2 </s>."""
    path = folder / "tokenizer.model"
    if not path.exists():
        model = io.BytesIO()  # a file would hold its own path
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(_corpus(seed)), model_writer=model, model_type="bpe",
            vocab_size=PIECES, byte_fallback=True, character_coverage=1.0, normalization_rule_name="identity",
            add_dummy_prefix=True, remove_extra_whitespaces=False, split_digits=True,
            unk_id=0, bos_id=1, eos_id=2, pad_id=-1, num_threads=1, minloglevel=2)
        path.write_bytes(model.getvalue())
    return path


def load(model_file: Path) -> LlamaTokenizer:
    tokenizer = LlamaTokenizer(str(model_file), legacy=False, add_bos_token=True, add_eos_token=False,
                               pad_token="<unk>", clean_up_tokenization_spaces=False, model_max_length=1024)
    extra = [AddedToken(name, special=True, normalized=False) for name in ("<video>", "<image>")]
    tokenizer.add_special_tokens({"additional_special_tokens": extra})
    return tokenizer


def encode(tokenizer: LlamaTokenizer, parts: list[tuple[str, str]]) -> tuple[list[int], list[str]]:
    """The tokens of a caption told in parts, ended by </s>, and the aspect of the part in which each token ends."""
    ends, aspects, at = [], [], 0
    for text, aspect in parts:
        at += len(text.encode())
        ends.append(at)
        aspects.append(aspect)
    pieces = tokenizer.sp_model.encode("".join(text for text, _ in parts), return_type="proto").pieces
    told = [aspects[min(bisect.bisect_left(ends, piece.end), len(ends) - 1)] for piece in pieces]
    return [piece.id for piece in pieces] + [2], told + [""]


def save(tokenizer: LlamaTokenizer, folder: Path) -> None:
    """Writes the slow files and the fast `tokenizer.json`."""
    tokenizer.save_pretrained(folder)
    LlamaTokenizerFast.from_pretrained(folder, from_slow=True, legacy=False).save_pretrained(folder)
