#!/usr/bin/env python3
"""Compares this program's tokenizers with Hugging Face's on random strings, and their speeds.

Trains small tokenizers with the pipelines of published ones (scripts/tokenizer_pipelines.py), draws
random strings and compares ids and decoded texts; exits with 1 at a difference. The other side is
build/auto/tests/text/caption_tokenizer_tool (cmake --build build/auto --target caption_tokenizer_tool).
Byte-fallback runs that end a text in the middle of a character, where this program keeps the whole
characters, do not occur: no text encodes to one.

  compare_tokenizers.py --count 1000000             strings, spread over the pipelines
  compare_tokenizers.py --speed                     MB per second of CPU of both, on ordinary and hostile text
Needs tokenizers 0.22.2.
"""
import argparse
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tokenizers import Tokenizer  # noqa: E402

import tokenizer_pipelines as pipelines  # noqa: E402

TOOL = pipelines.ROOT / "build" / "auto" / "tests" / "text" / "caption_tokenizer_tool"
PLAIN = 1 << 31


def alphabet(rng):
    """Lists of pieces, as bytes, of which strings are drawn."""
    text = lambda items: [item.encode() for item in items]
    words = sorted({word for line in pipelines.texts() for word in line.split()})
    letters = "".join(chr(c) for c in range(33, 127))
    return [
        [rng.choice(words).encode() + rng.choice([b"", b" ", b" ", b"\n"]) for _ in range(4000)],
        text(chr(c) for c in range(0xAC00, 0xD7A4, 7)),
        [("".join(chr(rng.choice(r)) for r in (range(0x1100, 0x1113), range(0x1161, 0x1176)))
          + rng.choice(["", chr(rng.randrange(0x11A8, 0x11C3))])).encode() for _ in range(500)],
        text(chr(c) for c in [*range(0x3131, 0x3190), *range(0x1100, 0x1200), *range(0xA960, 0xA97D),
                              *range(0xD7B0, 0xD7FC)]),
        text(["👨‍👩‍👧‍👦", "👩‍🎤", "🇰🇷", "❤️", "👍🏽", "😀", "🏴\U000e0067\U000e0062\U000e007f", "‍", "\ufe0f", "⏱", "㊗"]),
        text(["\r\n", "\n", "\n\n", "\r", "\r\n\r\n", "\n \n"]),
        text(["0", "7", "12", "345", "2026", "3.14", "1,000", "½", "Ⅷ", "٣", "一二", "²", "𝟘", "①"]),
        text(["'s", "'T", "'ſ", "'LL", "'re", "'VE", "'d", "'m", "don't", "’s", "'", "''", "it's", "K'll"]),
        text(["if (x) {\n\treturn a[i];\n}", "foo_bar(1, -2);", "  // x", "#include <a>", "==", "->", "::", "&&=",
              "\t\t", "</div>", "{}", "\\n", "a-b", "a_b__c", ",, ", ", "]),
        text(list(letters) + [rng.choice(letters) * rng.randrange(2, 9) for _ in range(60)]),
        text([" ", "  ", "   ", "\t", "\v", "\f", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u180e", "\u2003",
              "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff", " \n", " \t "]),
        text(["e\u0301", "é", "\u0301", "a\u0323\u0307", "a\u0307\u0323", "Å", "Å", "ﬁ", "Ω", "\u0344", "ç", "İ",
              "ẛ̣", "ｆｕｌｌ", "ﾊﾝｶｸ", "㍿", "ά", "ΑΣ", "が", "か\u3099", "ক\u09be", "ท\u0e48", "שׁ", "ﷺ", "𝔘", "ǅ",
              "\u0f71\u0f72", "豈", "日本語", "漢字", "カタカナ", "Привет", "مرحبا", "नमस्ते", "ㅋㅋㅋ", "ß", "ŉ", "ỻ"]),
        [b"\xff", b"\xc3", b"\xea\xb0", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\x80", b"\xc0\x80", b"\xf4\x90\x80\x80",
         b"\xe0\x80\x80", b"\xf8\x88\x80\x80\x80", b"\x00", b"\x7f", b"\xef\xbf\xbd", b"\xef\xbf\xbf", b"\xf0\x90"],
        text([*pipelines.CHAT, "<think>", "</think>", "<|begin_of_text|>", "<|eot_id|>", "<l>", "<r>", "<lr>", "word",
              "Park", "park", "공원", "<video>", "<s>", "</s>", "<unk>", "<0x41>", "<|im_", "<｜User｜>", "<extra_id_0>",
              "<｜begin▁of▁sentence｜>", "▁", "▁▁", "Ġ", "Ċa", "<|im_start|>user\n", "<|im_end|>\n"]),
        text(chr(c) for c in [*range(0xA0, 0x530), *range(0x2000, 0x2600), *range(0x3000, 0x3400)] if chr(c).isprintable()),
    ]


def draw(rng, pieces):
    kinds = rng.choices(range(len(pieces)), weights=[6, 4, 2, 1, 2, 2, 2, 2, 2, 2, 4, 2, 1, 3, 2], k=rng.randrange(1, 4))
    out = []
    for _ in range(rng.choice((1, 2, 3, 5, 8, 13, 30))):
        out.append(rng.choice(pieces[rng.choice(kinds)]))
    if rng.random() < 0.02:
        out.append(rng.choice(out) * rng.randrange(1, 100))
    return b"".join(out)


class Tool:
    path = TOOL

    def __init__(self, folder):
        self.command = [Tool.path, folder]

    def ask(self, strings, is_plain):
        with tempfile.TemporaryFile() as requests:  # a pipe could fill while the answers wait
            for string in strings:
                requests.write(struct.pack("<I", len(string) | (PLAIN if is_plain else 0)) + string)
            requests.seek(0)
            done = subprocess.run(self.command, stdin=requests, stdout=subprocess.PIPE, check=True).stdout
        at = 0
        for _ in strings:
            count, = struct.unpack_from("<I", done, at)
            ids = struct.unpack_from(f"<{count}i", done, at + 4)
            at += 4 + 4 * count
            size, = struct.unpack_from("<I", done, at)
            yield list(ids), done[at + 4:at + 4 + size].decode()
            at += 4 + size


def compare(name, folder, oracle, strings, is_plain):
    oracle.encode_special_tokens = is_plain
    differences = 0
    tool = Tool(folder)
    for string, (ids, decoded) in zip(strings, tool.ask(strings, is_plain)):
        text = string.decode("utf-8", "replace")
        wanted = oracle.encode(text).ids
        text_wanted = oracle.decode(wanted)
        if ids != wanted or decoded != text_wanted:
            differences += 1
            if differences <= 5:
                print(f"{name}: {string!r}\n  here      {ids} {decoded!r}\n  reference {wanted} {text_wanted!r}")
    return differences


def compare_all(arguments, folders):
    rng = random.Random(arguments.seed)
    pieces = alphabet(rng)
    share = -(-arguments.count // len(folders))
    total = differences = 0
    for name, (folder, oracle) in folders.items():
        # Plain text of the reference leaves out special tokens only, here all that are not in the
        # vocabulary of the model; they agree where all added tokens are special.
        has_plain = all(token.special for token in oracle.get_added_tokens_decoder().values())
        begin = time.time()
        found = done = 0
        while done < share:
            strings = [draw(rng, pieces) for _ in range(min(arguments.chunk, share - done))]
            found += compare(name, folder, oracle, strings, has_plain and (done // arguments.chunk) % 4 == 3)
            done += len(strings)
        print(f"{name:14} {done} strings, {found} differences, {time.time() - begin:.0f} s", flush=True)
        total += done
        differences += found
    print(f"{total} strings, {differences} differences")
    return differences


def speed_texts():
    ordinary = "\n".join(pipelines.texts())
    korean = "\n".join(line for line in pipelines.texts() if "가" <= line[:1] <= "힣")
    return {
        "ordinary": ordinary, "zipf": pipelines.zipf_text(5_000_000), "no space": "".join(korean.split()) * 5, "one letter": "a" * 1_000_000,
        "one syllable": "가" * 333_000, "spaces": " " * 1_000_000, "newlines": "\n" * 1_000_000, "signs": "!" * 1_000_000,
        "marks": "a" + "\u0301\u0323" * 250_000, "openings": "<|" * 500_000, "digits": "1234567890" * 100_000,
        "spaces and letters": "   a" * 250_000, "apostrophes": "'" * 1_000_000,
    }


def measure(arguments, folders):
    for name, (folder, oracle) in folders.items():
        oracle.encode_special_tokens = False
        for kind, text in speed_texts().items():
            with tempfile.NamedTemporaryFile() as file:
                raw = text.encode()
                file.write(raw)
                file.flush()
                rounds = 5 if kind in ("ordinary", "zipf") else 1
                lines = subprocess.run([Tool.path, folder, file.name, str(rounds)], capture_output=True, text=True,
                                       check=True).stdout.split("\n")
            here = {line.split()[0]: float(line.split()[1]) for line in lines if line}
            megabytes = len(raw) / 1e6
            row = f"{name:12} {kind:18} {megabytes:5.2f} MB: whole {megabytes / here['whole']:6.1f} MB/s " \
                  f"lines {megabytes / here['lines']:6.1f} MB/s open {1000 * here['open']:.0f} ms"
            if kind in ("ordinary", "zipf") or arguments.hostile_reference:
                begin = time.process_time()
                count = len(oracle.encode(text).ids)
                seconds = time.process_time() - begin
                begin = time.process_time()
                for line in text.split("\n"):
                    oracle.encode(line)
                row += f"; reference whole {megabytes / seconds:5.1f} lines {megabytes / (time.process_time() - begin):5.1f} MB/s"
                wanted = [int(line.split()[2]) for line in lines if line.startswith("whole")]
                if wanted != [count]:
                    print(f"{name} {kind}: {wanted} ids here, {count} in the reference")
            print(row, flush=True)


def unicode_differences(arguments, work):
    """Prints the characters that normalise otherwise, or belong to another class, than in the reference."""
    characters = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    forms = {name: getattr(pipelines.normalizers, name)() for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")}
    classes = [r"\s", r"\d", *(rf"\p{{{name}}}" for name in
               "L N M P S Z C Lu Ll Lt Lm Lo Mn Mc Nd Nl No Han Hangul Hiragana Katakana Latin".split())]
    checks = [(name, form, None) for name, form in forms.items()]
    checks += [(name, None, pipelines.pre_tokenizers.Split(pipelines.Regex(name), "removed")) for name in classes]
    for number, (name, form, split) in enumerate(checks):
        oracle = pipelines.gpt2(300)
        oracle.pre_tokenizer = pipelines.pre_tokenizers.Sequence(
            ([split] if split else []) + [pipelines.pre_tokenizers.ByteLevel(False, use_regex=False)])
        if form:
            oracle.normalizer = form
        pipelines.save(oracle, work / str(number))
        strings = [f"가{c}e".encode() for c in characters]
        answers = Tool(work / str(number)).ask(strings, False)
        found = [ord(c) for c, string, (ids, _) in zip(characters, strings, answers)
                 if ids != oracle.encode(string.decode()).ids]
        ranges = []
        for c in found:
            if ranges and ranges[-1][1] == c - 1:
                ranges[-1][1] = c
            else:
                ranges.append([c, c])
        print(f"{name}: {len(found)} differ", " ".join(f"{a:X}-{b:X}" if a != b else f"{a:X}" for a, b in ranges), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--chunk", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=6000, help="of the vocabularies")
    parser.add_argument("--only", nargs="*", help="names of pipelines")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--unicode", action="store_true", help="list characters whose properties differ")
    parser.add_argument("--hostile-reference", action="store_true", help="time the reference on hostile text too")
    parser.add_argument("--tool", type=pathlib.Path, default=TOOL)
    arguments = parser.parse_args()
    Tool.path = arguments.tool
    with tempfile.TemporaryDirectory() as work:
        if arguments.unicode:
            unicode_differences(arguments, pathlib.Path(work))
            return 0
        folders = {}
        makers = dict(pipelines.PIPELINES)
        if arguments.speed:
            makers["qwen2_large"] = pipelines.qwen2_large
        for name, make in makers.items():
            if arguments.only and name not in arguments.only and not (name == "qwen2" and "qwen2_slow" in arguments.only):
                continue
            oracle = make(arguments.size)
            folder = pathlib.Path(work) / name
            pipelines.save(oracle, folder)
            folders[name] = (folder, oracle)
            if name == "qwen2":
                pipelines.save_slow(oracle, pathlib.Path(work) / "qwen2_slow")
                folders["qwen2_slow"] = (pathlib.Path(work) / "qwen2_slow", oracle)
        if arguments.only:
            folders = {name: folders[name] for name in arguments.only}
        if arguments.speed:
            measure(arguments, folders)
            return 0
        return 1 if compare_all(arguments, folders) else 0


if __name__ == "__main__":
    sys.exit(main())
