"""METEOR on eojeol (the formula of NLTK) with exact matches only: a lower bound of `caption-cli eval`'s meteor-ko."""

from __future__ import annotations

import unicodedata


def _eojeol(text: str) -> list[str]:
    text = unicodedata.normalize("NFC", text.lower())
    return "".join(c if unicodedata.category(c)[0] not in "PS" else " " for c in text).split()


def _single(reference: str, hypothesis: str) -> float:
    hyp, ref = list(enumerate(_eojeol(hypothesis))), list(enumerate(_eojeol(reference)))
    hyp_len, ref_len, matches = len(hyp), len(ref), []
    for i in range(len(hyp) - 1, -1, -1):
        for j in range(len(ref) - 1, -1, -1):
            if hyp[i][1] == ref[j][1]:
                matches.append((hyp[i][0], ref[j][0]))
                ref.pop(j)
                break
    if not matches:
        return 0.0
    matches.sort()
    precision, recall = len(matches) / hyp_len, len(matches) / ref_len
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    steps = zip(matches, matches[1:])
    chunks = 1 + sum((b[0] - a[0], b[1] - a[1]) != (1, 1) for a, b in steps)
    return (1 - 0.5 * (chunks / len(matches)) ** 3) * mean


def meteor(references: list[str], hypothesis: str) -> float:
    return max(_single(reference, hypothesis) for reference in references)


def matched_and_shuffled(references: list[list[str]], hypotheses: list[str]) -> tuple[float, float]:
    """The mean score, and the mean when every caption is held against another clip's references."""
    n = len(hypotheses)
    matched = sum(meteor(references[i], hypotheses[i]) for i in range(n)) / n
    return matched, sum(meteor(references[(i + n // 2) % n], hypotheses[i]) for i in range(n)) / n
