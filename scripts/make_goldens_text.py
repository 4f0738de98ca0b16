#!/usr/bin/env python3
"""Makes tests/golden/text: small SentencePiece models and what Hugging Face does with them.

Every case is a model folder (tokenizer.model, tokenizer_config.json, ...) plus expected.json:
  texts      [{text, ids, plain_ids, decoded}]: encode(text); encode(text) with special tokens
             spelled out (split_special_tokens); decode(ids, skip_special_tokens=True)
  sequences  [{ids, decoded}]: decode() of ids no text encodes to, broken byte runs above all
The oracle is LlamaTokenizerFast, converted from tokenizer.model (or run from tokenizer.json). It turns
every byte of a broken run of byte tokens into U+FFFD; for the run that ends the ids, which a limit on
tokens may have cut inside a character, the oracle is sentencepiece, which keeps the whole characters.

Run: /path/to/venv/bin/python scripts/make_goldens_text.py   (transformers 4.57.6, sentencepiece)
"""
import io
import itertools
import json
import logging
import os
import pathlib
import random
import shutil
import tempfile

import sentencepiece
import tokenizers
import transformers
from transformers import LlamaTokenizerFast

SEED = 20
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "text"
logging.disable(logging.WARNING)


def corpus(rng):
    who = ["남자가", "여자가", "아이가", "강아지가", "고양이가", "사람들이", "요리사가", "학생이"]
    where = ["공원에서", "부엌에서", "도로 위에서", "바닷가에서", "교실에서", "무대에서"]
    what = ["걷고 있다.", "공을 차고 있다.", "노래를 부른다.", "음식을 만든다.", "책을 읽고 있다.", "춤을 춘다."]
    english = ["a man is walking", "a woman sings", "the dog runs", "USER: <video>\nDescribe the video. ASSISTANT:",
               "two people are cooking", "hello world", "frame 12 of 345"]
    for _ in range(300):
        yield f"{rng.choice(who)} {rng.choice(where)} {rng.choice(what)}"
        yield rng.choice(english) + " " + rng.choice(["in the park", "on the road", "at 10:30", "!", "?"])


def train(folder, **options):
    rng = random.Random(SEED)
    defaults = dict(
        model_type="bpe", vocab_size=520, byte_fallback=True, character_coverage=0.98,
        normalization_rule_name="identity", remove_extra_whitespaces=False, num_threads=1,
        minloglevel=2)
    model = io.BytesIO()  # a file would hold its own path
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(list(corpus(rng))), model_writer=model, **{**defaults, **options})
    (folder / "tokenizer.model").write_bytes(model.getvalue())


def added(content, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False,
            "single_word": False, "special": True, **flags}


VIDEO = {"520": added("<video>"), "521": added("<image>")}
SPECIAL = {"0": added("<unk>"), "1": added("<s>"), "2": added("</s>")}
FLAGS = {
    **SPECIAL,
    "520": added("<video>"), "521": added("<vid", special=False), "522": added("<l>", lstrip=True),
    "523": added("<r>", rstrip=True), "524": added("<lr>", lstrip=True, rstrip=True),
    "525": added("word", single_word=True, special=False), "526": added("park", normalized=True, special=False),
    "527": added("공원", normalized=True, special=False, single_word=True), "528": added("▁x y", special=False),
}

TEXTS = [
    "", " ", "  ", "   ", "a", " a", "  a", "a ", "a  ", "a  b", "hello world", "hello  world", " hello world ",
    "\n", "\n\n", "\na", "a\n", " \n ", "\t", "a\tb", "a\r\nb", "▁", "▁a", "a▁b", "▁▁a", " ▁a", "▁ a",
    "남자가 공원에서 걷고 있다.", "  남자가  공원에서", "고양이가 노래를 부른다. 학생이 춤을 춘다.",
    "뷁쀍쓩 없는 글자", "ㄱㄴㄷ ㅏㅑ", "\u1100\u1161\u11a8", "\u1112\u1161\u11ab\u1100\u1173\u11af 자모",
    "日本語 中文", "😀", "👨‍👩‍👧‍👦 family", "🇰🇷", "é e\u0301", "\u00a0nbsp\u00a0", "\u3000전각",
    "\u200b", "\ufeffbom", "\ufffd", "\U0010ffff", "\u0000", "a\u0000b", "\u0001\u0002", "\u007f",
    "0123456789", "3.14, 100%", "!!!???", "<", "<0x41>", "<s>", "</s>", "<unk>", "a<s>b", "a <s> b", "<s><s>", "<s> ",
    "<video>", "USER: <video>\nDescribe the video. ASSISTANT:", "USER: <video> \n이 영상을 설명해 주세요. ASSISTANT:",
    "<video><video>", " <video> ", "<video> <video>", "<video>hello", "hello<video>", "<vid", "<vide", "<<video>>",
    "<image><video>", "a <l> b", "a<l>b", "a   <l>   b", "a <r> b", "a <r>\n\u3000 b", "a <lr> b", "<lr><lr> <lr>",
    "<l> <r> <l>", "word", "a word b", "swords", "word.", "word_", "단word", "(word)", "word word",
    "park", "a park b", "the parking", "in the park.", "parkpark park", "공원", "공원에서", "a 공원 b", "(공원)",
    "▁x y", "a▁x y", " x y", "x y", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "걷고있다걷고있다걷고있다", "The quick brown fox — jumps “over” the lazy dog…",
]


def sequences(tokenizer, rng):
    size = len(tokenizer)
    first_byte = tokenizer.convert_tokens_to_ids("<0x00>")
    has_bytes = first_byte != tokenizer.unk_token_id
    lists = [[rng.randrange(size) for _ in range(rng.randrange(1, 20))] for _ in range(12)]
    if has_bytes:
        to_ids = lambda raw: [first_byte + b for b in raw]
        word = tokenizer.convert_tokens_to_ids("▁a")
        lists += [
            to_ids("가".encode()), to_ids("가".encode()[:2]), to_ids("가나".encode()[:5]),
            to_ids(b"\xff"), to_ids(b"A\xffB"), to_ids("😀".encode()) + [word], [word] + to_ids("😀".encode()[:3]) + [word],
            to_ids(b"\xea") + [1] + to_ids(b"\xb0\x80"),  # a special token inside a character
            to_ids(b"\xea") + [word] + to_ids(b"\xb0\x80"), to_ids(b" "), to_ids(b"  a"), to_ids(b"\x00"),
            to_ids(b"\xe2\x96\x81"), to_ids(b"\xed\xa0\x80"), to_ids(b"\xf4\x90\x80\x80"), to_ids(b"\xc0\x80"),
            [1] + to_ids(b" x"), [word, word, 2, word], [1, 2], [0], [],
        ]
        cut = "👩‍🎤 뷁쀍".encode()
        lists += [[word] + to_ids(cut[:length]) for length in (5, 9, 12, 13, 14, 15, 16, 17)]
        lists += [to_ids(b"A\xea\xb0\x80\xff\xeb\x82") + [2], to_ids(b"\xed\xa0\x80\xea\xb0\x80\xf0\x9f\x98"),
                  to_ids("가".encode() + b"\xeb") + [word] + to_ids("나".encode() + b"\xeb\x8b")]
        lists += [to_ids(rng.randbytes(rng.randrange(1, 9))) + [word] for _ in range(12)]
    return lists


def decoded(oracle, pieces, ids):
    text = oracle.decode(ids, skip_special_tokens=True)
    first_byte = pieces.piece_to_id("<0x00>")
    spoken = [i for i in ids if i not in oracle.all_special_ids]
    run = list(itertools.takewhile(lambda i: first_byte <= i < first_byte + 256, reversed(spoken)))[::-1]
    raw = bytes(i - first_byte for i in run)
    if not pieces.is_byte(first_byte) or raw.decode("utf-8", "ignore").encode() == raw:
        return text
    assert text.endswith("\ufffd" * len(run))
    return text[:len(text) - len(run)] + pieces.decode(run)


def write_case(name, train_options, config, extra_files=None, fast_json=False):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    train(folder, **train_options)
    config = {"tokenizer_class": "LlamaTokenizer", **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1) + "\n")
    for file_name, content in (extra_files or {}).items():
        (folder / file_name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    if fast_json:  # what a hub folder holds; its configuration then says nothing of `legacy`
        with tempfile.TemporaryDirectory() as saved:
            LlamaTokenizerFast.from_pretrained(folder, legacy=fast_json == "legacy").save_pretrained(saved)
            full = json.loads((pathlib.Path(saved) / "tokenizer.json").read_text())
            full["model"] = {"type": "BPE", "vocab": {}, "merges": []}  # kept small: not read here
            oracle = LlamaTokenizerFast.from_pretrained(saved)
        (folder / "tokenizer.json").write_text(json.dumps(full, ensure_ascii=False, indent=1) + "\n")
    else:
        oracle = LlamaTokenizerFast.from_pretrained(folder)
    texts = []
    for text in TEXTS:
        plain = oracle(text, split_special_tokens=True)["input_ids"]
        ids = oracle(text, split_special_tokens=False)["input_ids"]
        texts.append({"text": text, "ids": ids, "plain_ids": plain,
                      "decoded": oracle.decode(ids, skip_special_tokens=True)})
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    rows = [{"ids": ids, "decoded": decoded(oracle, pieces, ids)}
            for ids in sequences(oracle, random.Random(SEED))]
    lines = lambda rows: ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / "expected.json").write_text(
        "{\n" + f' "vocab_size": {len(oracle)},\n "texts": [\n{lines(texts)}\n ],\n'
        + f' "sequences": [\n{lines(rows)}\n ]\n' + "}\n")


def main():
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    write_case("legacy", {}, {"legacy": True, "added_tokens_decoder": {**SPECIAL, **VIDEO}})
    write_case("modern", {}, {"legacy": False, "add_bos_token": True, "bos_token": {"__type": "AddedToken", **added("<s>")},
                              "added_tokens_decoder": {**SPECIAL, **VIDEO}})
    write_case("flags_legacy", {}, {"legacy": True, "add_eos_token": True, "added_tokens_decoder": FLAGS})
    write_case("flags_modern", {}, {"legacy": False, "add_bos_token": False, "added_tokens_decoder": FLAGS})
    write_case("no_prefix", {}, {"legacy": False, "add_prefix_space": False, "added_tokens_decoder": VIDEO})
    write_case("older_files", {}, {}, {"added_tokens.json": {"<video>": 520, "<image>": 521},
                                       "special_tokens_map.json": {"bos_token": "<s>", "additional_special_tokens": ["<video>"]}})
    write_case("user_defined", {"user_defined_symbols": ["<r>", "걷고", "word"], "byte_fallback": False, "vocab_size": 260},
               {"legacy": True})
    write_case("unigram", {"model_type": "unigram", "vocab_size": 360},
               {"legacy": False, "added_tokens_decoder": {**SPECIAL, "360": added("<video>"), "361": added("<image>")}})
    write_case("fast_json", {}, {"added_tokens_decoder": {**SPECIAL, **VIDEO}}, fast_json="modern")
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_text.py", "seed": SEED, "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__, "sentencepiece": sentencepiece.__version__}, indent=1) + "\n")


if __name__ == "__main__":
    main()
