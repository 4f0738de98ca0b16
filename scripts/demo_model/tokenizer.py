"""The tokenizer: SentencePiece BPE with byte fallback, trained on captions of the training scenes."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import sentencepiece
from transformers import AddedToken, LlamaTokenizer, LlamaTokenizerFast

from caption import PROMPTS, caption
from dataset import scene_of

PIECES = 1022
CORPUS_SCENES = 20000
PROMPT_FORMAT = "USER: <video>\n{} ASSISTANT:"


def _corpus(seed: int) -> list[str]:
    rng = np.random.default_rng([seed, 7])
    lines = [caption(scene_of("train", seed, i), rng) for i in range(CORPUS_SCENES)]
    return lines + [f"USER: {prompt} ASSISTANT:" for prompt in PROMPTS] * 2000


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


def save(tokenizer: LlamaTokenizer, folder: Path) -> None:
    """Writes the slow files and the fast `tokenizer.json`."""
    tokenizer.save_pretrained(folder)
    LlamaTokenizerFast.from_pretrained(folder, from_slow=True, legacy=False).save_pretrained(folder)
