#!/usr/bin/env python3
"""Makes tests/golden/gguf_tokenizers: tokenizers of other goldens as the metadata of GGUF files.

The lists are those that llama.cpp's converter writes: the added tokens of tokenizer.json are of the type
control if they are special and user-defined if not; ids that no token has are "[PAD<id>]" of the type
unused, of which four are put behind the last token. Expected ids are in the folders of the tokenizers,
tests/golden/text_pipelines and tests/golden/text.

Run: /path/to/venv/bin/python scripts/make_goldens_gguf_tokenizers.py   (gguf, sentencepiece)
"""
import importlib.metadata
import json
import pathlib
import shutil

import gguf
from gguf import TokenType
from sentencepiece import SentencePieceProcessor

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
OUT = GOLDEN / "gguf_tokenizers"
NUM_PADS = 4


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_byte_level(writer, document, pre, count=None):
    """Adds the keys of a tokenizer.json; `count` tokens with unused ones. Returns the ids by token."""
    vocab = {token: (id, TokenType.NORMAL) for token, id in document["model"]["vocab"].items()}
    for token in document["added_tokens"]:
        kind = TokenType.CONTROL if token["special"] else TokenType.USER_DEFINED
        vocab[token["content"]] = (token["id"], kind)
    count = count or max(id for id, _ in vocab.values()) + 1 + NUM_PADS
    rows = [(f"[PAD{id}]", TokenType.UNUSED) for id in range(count)]
    for token, (id, kind) in vocab.items():
        rows[id] = (token, kind)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([token for token, _ in rows])
    writer.add_token_types([kind for _, kind in rows])
    merges = document["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    return {token: id for token, (id, _) in vocab.items()}


def write_byte_level(name, pre, bos=None):
    document = json.loads((GOLDEN / "text_pipelines" / name / "tokenizer.json").read_text())
    writer = gguf.GGUFWriter(OUT / f"{name}.gguf", "llama")
    ids = add_byte_level(writer, document, pre)
    if bos:
        writer.add_bos_token_id(ids[bos])
    writer.add_eos_token_id(ids[document["added_tokens"][0]["content"]])
    writer.add_chat_template("{{ messages }}")
    finish(writer)


def add_sentencepiece(writer, folder, count=None):
    """Adds the keys of a folder's tokenizer.model and its added tokens; `count` tokens with unused ones."""
    model = SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    added = {int(id): token for id, token in config["added_tokens_decoder"].items()}
    count = count or max(model.vocab_size(), max(added) + 1) + NUM_PADS
    rows = [(f"[PAD{id}]", -10000.0, TokenType.UNUSED) for id in range(count)]
    for id in range(model.vocab_size()):
        kind = TokenType.NORMAL
        for check, other in [(model.is_unknown, TokenType.UNKNOWN), (model.is_control, TokenType.CONTROL),
                             (model.is_unused, TokenType.UNUSED), (model.is_byte, TokenType.BYTE)]:
            kind = other if check(id) else kind
        rows[id] = (model.id_to_piece(id), model.get_score(id), kind)
    for id, token in added.items():
        if id >= model.vocab_size():
            kind = TokenType.CONTROL if token["special"] else TokenType.USER_DEFINED
            rows[id] = (token["content"], -1000.0, kind)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([token for token, _, _ in rows])
    writer.add_token_scores([score for _, score, _ in rows])
    writer.add_token_types([kind for _, _, kind in rows])
    writer.add_bos_token_id(model.bos_id())
    writer.add_eos_token_id(model.eos_id())
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)


def write_sentencepiece(name):
    writer = gguf.GGUFWriter(OUT / f"{name}.gguf", "llama")
    add_sentencepiece(writer, GOLDEN / "text" / name)
    finish(writer)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    write_byte_level("qwen2", "qwen2")
    write_byte_level("llama3", "llama-bpe", bos="<|begin_of_text|>")
    write_byte_level("gpt2", "gpt-2")
    write_sentencepiece("legacy")
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_gguf_tokenizers.py", "gguf": importlib.metadata.version("gguf"),
        "sentencepiece": importlib.metadata.version("sentencepiece")}, indent=1) + "\n")


if __name__ == "__main__":
    main()
