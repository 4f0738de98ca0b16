"""Small tokenizers with the pipelines of published ones, trained on texts of this repository.

Used by scripts/make_goldens_byte_bpe.py and scripts/compare_tokenizers.py. Needs `tokenizers` 0.22.2.
"""
import itertools
import json
import pathlib
import random

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

ROOT = pathlib.Path(__file__).resolve().parent.parent

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"|\p{N}| ?", r"|\p{N}{1,3}| ?")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]

CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
          r"|\s+(?!\S)|\s+")

CHAT = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
        "<|image_pad|>", "<|video_pad|>"]


def special(content, **flags):
    return AddedToken(content, special=True, normalized=False, **flags)


def plain(content, **flags):
    return AddedToken(content, special=False, **{"normalized": False, **flags})


CODE = """int main(int argc, char** argv) {
\tstd::vector<std::string> words = {"a", 'b', \\n};
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == "x" && !done) return -1;  // the end
    }
}
def forward(self, hidden_states, attention_mask=None, **kwargs):
    query = self.q_proj(hidden_states).view(-1, self.num_heads, self.head_dim)
    return torch.nn.functional.softmax(query @ key.transpose(-2, -1) / 8.0, dim=-1)
#include <cstdint>
{"id": 1, "values": [0.5, 1e-3, null], "path": "/usr/share/doc/"}
""".splitlines()
ENGLISH = """a man is walking in the park. two people are cooking in the kitchen! the dog doesn't run on the road
a woman sings; describe the video, please. it's raining at 10:30 and they've been waiting for 25 minutes
frame 12 of 345: what happens next? I'll see. the quick brown fox jumps over the lazy dog -- again.""".split("\n")


def texts():
    """Korean, English and code: always the same, whatever becomes of the repository."""
    rng = random.Random(3)
    who = "남자가 여자가 아이가 강아지가 고양이가 사람들이 요리사가 학생이 자동차가 비행기가 할머니께서 선생님은".split()
    where = "공원에서 부엌에서 도로에서 바닷가에서 교실에서 무대에서 시장에서 눈밭에서 숲속에서 운동장에서".split()
    how = "천천히 빠르게 조용히 즐겁게 함께 홀로 다시 오랫동안 가만히".split()
    what = ["걷고 있습니다.", "공을 차고 있다.", "노래를 부릅니다.", "음식을 만든다.", "책을 읽었습니다.", "춤을 춘다.",
            "사진을 찍고 있어요.", "웃으며 이야기한다.", "파란 하늘을 바라봅니다.", "카메라가 천천히 움직입니다."]
    korean, english = made_up_words(rng, 3000, num_syllables=300)
    out = []
    for _ in range(1500):
        out.append(" ".join(map(rng.choice, (who, where, how, what))))
        out.append(rng.choice(ENGLISH) if rng.random() < 0.5 else " ".join(rng.choices(english, k=8)) + ".")
        out.append(" ".join(rng.choices(korean, k=5)) if rng.random() < 0.3 else rng.choice(CODE))
    return out


def byte_bpe(size, **options):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.train_from_iterator(texts(), trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    result = Tokenizer(models.BPE(model["vocab"], merges, **options))
    result.decoder = decoders.ByteLevel()
    result.post_processor = processors.ByteLevel(trim_offsets=False)
    return result


def split_and_bytes(*patterns):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
                                   + [pre_tokenizers.ByteLevel(False, trim_offsets=False, use_regex=False)])


def qwen2(size):
    tokenizer = byte_bpe(size)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split_and_bytes(QWEN2)
    tokenizer.add_tokens([special(c) for c in CHAT] + [plain("<think>"), plain("</think>")])
    return tokenizer


def llama3(size):
    tokenizer = byte_bpe(size, ignore_merges=True)
    tokenizer.pre_tokenizer = split_and_bytes(LLAMA3)
    tokenizer.add_tokens([special(c) for c in ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>")])
    bos = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", bos)])])
    return tokenizer


def gpt2(size):
    tokenizer = byte_bpe(size)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_tokens([special("<|endoftext|>")])
    return tokenizer


def gpt2_prefix(size):
    """GPT-2 with a space before each text, and tokens with every flag."""
    tokenizer = gpt2(size)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(),
                                                 normalizers.Replace("ㅋㅋ", "ㅋ"), normalizers.Strip()])
    tokenizer.add_tokens([special("<l>", lstrip=True), special("<r>", rstrip=True), plain("word", single_word=True),
                          plain("Park", normalized=True), plain("공원", normalized=True, single_word=True),
                          plain("<lr>", lstrip=True, rstrip=True), plain("  "), plain("é", normalized=True)])
    return tokenizer


def gpt4o(size):
    tokenizer = byte_bpe(size)
    tokenizer.pre_tokenizer = split_and_bytes(GPT4O)
    tokenizer.add_tokens([special("<|endoftext|>")])
    return tokenizer


def cl100k(size):
    tokenizer = byte_bpe(size, ignore_merges=True)
    tokenizer.pre_tokenizer = split_and_bytes(CL100K)
    tokenizer.add_tokens([special("<|endoftext|>"), special("<|im_start|>"), special("<|im_end|>")])
    return tokenizer


def deepseek(size):
    tokenizer = byte_bpe(size)
    tokenizer.pre_tokenizer = split_and_bytes(*DEEPSEEK)
    tokenizer.add_tokens([special("<｜begin▁of▁sentence｜>"), special("<｜User｜>"), plain("<think>")])
    return tokenizer


def splits(size):
    """Every behaviour of Split, inverted or not, and Digits."""
    tokenizer = byte_bpe(size)
    split = lambda pattern, behavior, invert=False: pre_tokenizers.Split(pattern, behavior, invert)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        split(Regex(r"[\r\n]+"), "isolated"), split("-", "removed"), split(Regex(r",\s*"), "merged_with_previous"),
        split(" ", "merged_with_next"), split("_", "contiguous"), split(Regex(r"[a-z]+|\S"), "isolated", True),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.ByteLevel(False, use_regex=False)])
    return tokenizer


def characters_bpe(size, **options):
    """The kind of LLaMA: pieces of characters, and bytes for what they lack."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(texts(), trainers.BpeTrainer(vocab_size=size - 259, show_progress=False,
                                                               limit_alphabet=900))
    model = json.loads(tokenizer.to_str())["model"]
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    vocab = {name: i for i, name in enumerate(names + sorted(model["vocab"], key=model["vocab"].get))}
    for mark in ("▁", "▁▁", "▁▁▁▁"):
        vocab.setdefault(mark, len(vocab))
    merges = [("▁", "▁"), ("▁▁", "▁▁")] + [tuple(pair) for pair in model["merges"]]
    result = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", **options))
    result.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                        decoders.Strip(" ", 1, 0)])
    result.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    result.add_tokens([special("<unk>"), special("<s>"), special("</s>"), special("<video>")])
    return result


def llama(size):
    tokenizer = characters_bpe(size, fuse_unk=True, byte_fallback=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.add_tokens([plain("park", normalized=True)])
    return tokenizer


def llama_first(size):
    tokenizer = characters_bpe(size, fuse_unk=True, byte_fallback=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return tokenizer


def gemma(size):
    tokenizer = characters_bpe(size, fuse_unk=True, byte_fallback=True)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def unknown(size):
    """Characters without bytes to fall back to: each unknown one is <unk>."""
    tokenizer = characters_bpe(size, fuse_unk=False, byte_fallback=False)
    tokenizer.normalizer = normalizers.NFD()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    return tokenizer


def unigram_model(size, byte_fallback):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(texts(), trainers.UnigramTrainer(
        vocab_size=size - 256, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"], show_progress=False))
    vocab = json.loads(tokenizer.to_str())["model"]["vocab"]
    if byte_fallback:
        vocab += [(f"<0x{byte:02X}>", 0.0) for byte in range(256)]
    result = Tokenizer(models.Unigram([tuple(row) for row in vocab], 0, byte_fallback))
    result.add_tokens([special("<unk>"), special("<s>"), special("</s>"), special("<extra_id_0>")])
    return result


def unigram(size):
    tokenizer = unigram_model(size, False)
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return tokenizer


def unigram_bytes(size):
    tokenizer = unigram_model(size, True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return tokenizer


def made_up_words(rng, count, num_syllables=1200):
    """Korean words of common syllables and English ones of common letters."""
    syllables = rng.sample([chr(c) for c in range(0xAC00, 0xD7A4)], num_syllables)
    letters, weights = "abcdefghijklmnopqrstuvwxyz", [8, 2, 3, 4, 12, 2, 2, 6, 7, 1, 1, 4, 2, 7, 8, 2, 1, 6, 6, 9, 3, 1, 2, 1, 2, 1]
    korean = ["".join(rng.choices(syllables, k=rng.randrange(1, 5))) for _ in range(count * 3 // 5)]
    return korean, ["".join(rng.choices(letters, weights, k=rng.randrange(2, 9))) for _ in range(count * 2 // 5)]


def qwen2_large(_size):
    """As many tokens and merges as Qwen's, for times: the prefixes of made-up words."""
    to_text = pre_tokenizers.ByteLevel(False, use_regex=False)
    rng = random.Random(1)
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = []
    while len(vocab) < 151_643:
        korean, english = made_up_words(rng, 10_000)
        for word in korean + english:
            text = to_text.pre_tokenize_str(rng.choice(["", " ", " "]) + word)[0][0]
            for end in range(2, len(text) + 1):
                if text[:end] not in vocab and len(vocab) < 151_643:
                    vocab[text[:end]] = len(vocab)
                    merges.append((text[:end - 1], text[end - 1]))
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split_and_bytes(QWEN2)
    tokenizer.add_tokens([special(c) for c in CHAT])
    return tokenizer


def zipf_text(num_bytes):
    """Lines of made-up words, the k-th of which is as frequent as 1/k; seven of ten are Korean."""
    rng = random.Random(2)
    korean, english = made_up_words(rng, 60_000)
    endings = "은 는 이 가 을 를 에서 에 으로 와 하고 했습니다. 있다. 한다.".split() + [""]
    cumulative = lambda words: list(itertools.accumulate(1 / k for k in range(1, len(words) + 1)))
    of_korean, of_english = cumulative(korean), cumulative(english)
    lines, size = [], 0
    while size < num_bytes:
        if rng.random() < 0.7:
            line = " ".join(word + rng.choice(endings) for word in rng.choices(korean, cum_weights=of_korean, k=12))
        else:
            line = " ".join(rng.choices(english, cum_weights=of_english, k=14)) + "."
        lines.append(line)
        size += len(line.encode()) + 1
    return "\n".join(lines)


PIPELINES = {f.__name__: f for f in (qwen2, llama3, gpt2, gpt2_prefix, gpt4o, cl100k, deepseek, splits, llama, llama_first,
                                     gemma, unknown, unigram, unigram_bytes)}


def save(tokenizer, folder, **config):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    pre = json.loads((folder / "tokenizer.json").read_text())["pre_tokenizer"] or {}
    prefix = {"add_prefix_space": True} if pre.get("type") == "ByteLevel" and pre["add_prefix_space"] else {}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **prefix, **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1) + "\n")


def save_slow(tokenizer, folder):
    """The same tokenizer as vocab.json and merges.txt of a Qwen2Tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    full = json.loads(tokenizer.to_str())
    (folder / "vocab.json").write_text(json.dumps(full["model"]["vocab"], ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in full["model"]["merges"]))
    added = {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in full["added_tokens"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": added, "bos_token": None,
         "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None,
         "additional_special_tokens": CHAT[1:]}, indent=1) + "\n")
