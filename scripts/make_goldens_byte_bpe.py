#!/usr/bin/env python3
"""Makes tests/golden/text_pipelines: small tokenizer.json files and what Hugging Face does with them.

Every case is a model folder (tokenizer.json, or vocab.json and merges.txt, with tokenizer_config.json)
plus expected.json:
  texts      [{text, ids, decoded}] and, where all added tokens are special, plain_ids, with special
             tokens spelled out: encode(text); decode(ids, skip_special_tokens=True)
  sequences  [{ids, decoded}]: decode() of random ids, which no text encodes to
The oracle is AutoTokenizer of transformers on the folder.

Run: /path/to/venv/bin/python scripts/make_goldens_byte_bpe.py   (transformers 4.57.6, tokenizers 0.22.2)
"""
import json
import logging
import os
import pathlib
import random
import shutil

import tokenizers
import transformers
from transformers import AutoTokenizer

import tokenizer_pipelines as pipelines

SEED = 14
SIZE = 700  # of the vocabularies
OUT = pipelines.ROOT / "tests" / "golden" / "text_pipelines"
logging.disable(logging.WARNING)

TEXTS = [
    "", " ", "  ", "   ", "a", " a", "  a", "a ", "a  b", "hello world", "  hello  world  ", "Hello, World!", "\n", "\n\n", "\r\n",
    "a\r\n\r\nb", " \n ", "\n \n a", "\t", "a\tb", "\v\f", "\x85", "\u00a0", "\u180ea", "\u200b", "\u2028x", "\u3000전각 공백",
    "남자가 공원에서 걷고 있습니다.", "  여자가\n\n노래를  부릅니다.", "뷁쀍쓩 없는 글자", "ㄱㄴㄷ ㅏㅑ ㅋㅋㅋㅋ", "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "한글\u11a7", "각\u11a8", "\u1100\u1161\u11a7", "\u1161\u11a8", "日本語 中文 カタカナ", "か\u3099き\u309a", "é e\u0301 a\u0323\u0307 a\u0307\u0323",
    "\u212b \u2126 ﬁ ½ ㍿ ｆｕｌｌ", "İstanbul ΑΣ ẞ ǅ", "\u32ff \U0001f16c", "😀", "👨‍👩‍👧‍👦 family 👍🏽", "🇰🇷❤️", "don't DON'T it'S we'll I'M they'VE 'ſ 'K", "'", "''s",
    "0", "12", "123", "1234567", "3.14159, 100%", "½Ⅷ٣²", "a1b22c333", "if (x) {\n\treturn a[i] != '\\n';\n}\n", "foo_bar-baz__qux, a,  b,c",
    "  // comment", "!!!???", "===>>>", "<|", "<|im_start|>user\n설명해 주세요.<|im_end|>\n<|im_start|>assistant\n", "a<|endoftext|>b", "<|endoftext|>",
    "<|im_start|><|im_end|>", " <|im_end|> ", "<think>\n\n</think>\n\n", "<|begin_of_text|>hi<|eot_id|>", "a <l> b", "a  \n<l>b", "a <r>  b", "<r> \n<l>",
    "a <lr> b", "word", "a word b", "sword words", "word_", "단word", "(word)", "Park park PARK", "parking", "공원", "공원에서", "(공원)", "é", "cafe\u0301",
    "<video>", "USER: <video>\nDescribe. ASSISTANT:", "<s>", "</s>a", "<unk>", "<0x41>", "<0x4", "▁", "a▁b", "▁▁ ▁", "Ġhello", "<extra_id_0> x", "<｜User｜>hi",
    "<｜begin▁of▁sentence｜>안녕<think>", "\u0000", "a\u0000b", "\u007f", "\ufffd", "\uffff", "\U0010ffff", "\ufeffbom", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "가가가가가가가가가가가가가가가가가가가가가가가가가가가가가가", "                                                            x", "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
    "걷고있습니다걷고있습니다걷고있습니다", "The quick brown fox — jumps “over” the lazy dog…", "Привет, мир! مرحبا नमस्ते",
]


def write_case(name, tokenizer, **config):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    if name.endswith("slow"):
        pipelines.save_slow(tokenizer, folder)
    else:
        pipelines.save(tokenizer, folder, **config)
    oracle = AutoTokenizer.from_pretrained(folder)
    decode = lambda ids: oracle.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    has_plain = all(token.special for token in oracle.added_tokens_decoder.values())
    rng = random.Random(SEED)
    texts = []
    for text in TEXTS:
        ids = oracle(text)["input_ids"]
        row = {"text": text, "ids": ids, "decoded": decode(ids)}
        if has_plain:
            row["plain_ids"] = oracle(text, split_special_tokens=True)["input_ids"]
        texts.append(row)
    lists = [[rng.randrange(len(oracle)) for _ in range(rng.randrange(1, 12))] for _ in range(40)]
    first_byte = oracle.convert_tokens_to_ids("<0x00>")
    if first_byte not in (None, oracle.unk_token_id):
        # A run of bytes at the end is decoded otherwise (text/tokenizer.h).
        lists = [ids + [300] for ids in lists]
    rows = [{"ids": ids, "decoded": decode(ids)} for ids in lists + [[]]]
    lines = lambda rows: ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / "expected.json").write_text(
        f'{{\n "vocab_size": {len(oracle)},\n "texts": [\n{lines(texts)}\n ],\n "sequences": [\n{lines(rows)}\n ]\n}}\n')


def main():
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for name, make in pipelines.PIPELINES.items():
        # All characters of the sample texts, 259 names of bytes, and a few hundred pieces.
        size = SIZE if name not in ("llama", "llama_first", "gemma", "unknown", "unigram", "unigram_bytes") else 2 * SIZE
        write_case(name, make(size))
    write_case("qwen2_slow", pipelines.qwen2(SIZE))
    llama_class = dict(tokenizer_class="LlamaTokenizerFast", add_eos_token=True, bos_token="<s>", eos_token="</s>")
    write_case("llama_class", pipelines.llama_first(2 * SIZE), **llama_class)
    added = {"<|vision_pad|>": len(pipelines.CHAT) + SIZE + 2}
    write_case("added_in_config", pipelines.qwen2(SIZE), tokenizer_class="Qwen2Tokenizer", add_prefix_space=False,
               additional_special_tokens=["<|vision_pad|>"],
               added_tokens_decoder={str(id): {"content": content, "lstrip": True, "rstrip": False, "normalized": False,
                                               "single_word": False, "special": True} for content, id in added.items()})
    (OUT / "make.json").write_text(json.dumps({
        "script": "scripts/make_goldens_byte_bpe.py", "seed": SEED, "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__}, indent=1) + "\n")


if __name__ == "__main__":
    main()
