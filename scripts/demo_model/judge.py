"""How often captions state the truth: `python judge.py --captions captions.jsonl --truth DIR/truth.jsonl`.

captions.jsonl is what `caption-cli run` wrote over clips of make_clips.py, truth.jsonl what make_clips.py knows of them.
A prompt whose name is a style (`--prompts DIR/prompts.txt`) is read as that style; others, and records without a prompt's
name, as `--style`. Facts are read from a caption with the grammar's own phrases, so what is garbled counts as wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import unicodedata
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Callable, Iterable

import phrases as said
from phrases import UNLIKE

STYLES = ("full", "sentence", "keywords", "long")
ASPECTS = ("place", "time", "season", "weather", "still_kind", "still_color", "still_count", "side", "mover_kind", "mover_color",
           "mover_count", "heading", "camera", "details")
_ONLY_OF_MOVERS = ("mover_color", "mover_count", "heading")
Facts = dict[str, object]  # aspect -> the scene's value, None where nothing is said (of the mover: where there is none)


# ---- what a caption says

def _phrases(entry: str | tuple[str, ...]) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else entry


class Finder:
    """Finds which value of a table a text states: the first of its phrases that stands between two patterns."""

    def __init__(self, table: dict, before: str = "", after: str = "") -> None:
        self.value_of = {phrase: value for value, entry in table.items() for phrase in _phrases(entry)}
        longest_first = sorted(self.value_of, key=len, reverse=True)
        self.pattern = re.compile(f"{before}({'|'.join(map(re.escape, longest_first))}){after}")

    def __call__(self, text: str) -> object:
        found = self.pattern.search(text)
        return self.value_of[found.group(1)] if found else None


def _any(table: dict) -> str:
    options = {phrase for entry in table.values() for phrase in _phrases(entry)}
    return "(?:" + "|".join(map(re.escape, sorted(options, key=len, reverse=True))) + ")"


_NOUN = {kind: entry[0] for kind, entry in said.KIND.items()}
_COUNTER = {kind: entry[1] for kind, entry in said.KIND.items()}
_KIND_OF = {noun: kind for kind, noun in _NOUN.items()}
_COLOR_OF = {word: color for color, word in said.COLOR.items()}
_COUNT_OF = {word: count for count, word in said.COUNT.items()}
_THINGS = re.compile(rf"(?<!\S)({_any(said.COLOR)[3:-1]}) ({_any(_NOUN)[3:-1]}) ({_any(said.COUNT)[3:-1]}) {_any(_COUNTER)}")
_W, _S, _T = _any(said.WEATHER), _any(said.SEASON), _any(said.TIME)
_SIDE = Finder(said.SIDE_WORD, after=rf"(?:에는|에|의) (?={_THINGS.pattern})")
_SHOWN = " (?:담은|촬영한|담고|보여)"
_WORDED = {
    "weather": Finder(said.WEATHER, after=f" {_S} {_T}"), "season": Finder(said.SEASON, f"{_W} ", f" {_T}"),
    "time": Finder(said.TIME, f"{_W} {_S} "), "heading": Finder(said.HEADING), "camera": Finder(said.CAMERA),
    "place": Finder(said.PLACE, after=_SHOWN),
}
_READERS: dict[str, dict[str, Finder]] = {
    "full": _WORDED,
    "long": _WORDED,
    "sentence": {k: f for k, f in _WORDED.items() if k != "camera"} | {"place": Finder(said.PLACE_AT)},
    "keywords": {
        "place": Finder(said.PLACE_NOUN, "^", "(?=,)"), "time": Finder(said.TIME, ", ", "(?=,)"),
        "season": Finder(said.SEASON, ", ", "(?=,)"), "weather": Finder(said.WEATHER_NOUN, ", ", "(?=,)"),
        "heading": Finder(said.HEADING_KEYWORD, ", ", "(?=,)"), "camera": Finder(said.CAMERA_KEYWORD, ", ", "$"),
    },
}


def facts_said(text: str, style: str) -> Facts:
    """What the caption states of every aspect but the details; the first things are the standing ones."""
    facts: Facts = {aspect: finder(text) for aspect, finder in _READERS[style].items()}
    facts["side"] = _SIDE(text)
    groups = [match.groups() for match in _THINGS.finditer(text)]
    for who, group in zip(("still", "mover"), [*groups, (None, None, None), (None, None, None)]):
        color, noun, count = group[:3]
        facts |= {f"{who}_kind": _KIND_OF.get(noun), f"{who}_color": _COLOR_OF.get(color), f"{who}_count": _COUNT_OF.get(count)}
    return facts


# ---- what is true

def facts_of(scene: dict) -> Facts:
    """The facts of one scene of truth.jsonl."""
    mover = scene["mover"] or {}
    facts: Facts = {aspect: scene[aspect] for aspect in ("place", "time", "season", "weather", "side", "camera")}
    facts["heading"] = scene["heading"] if mover else None
    for who, group in (("still", scene["still"]), ("mover", mover)):
        facts |= {f"{who}_{name}": group.get(name) for name in ("kind", "color", "count")}
    return facts


def _sky_key(scene: dict) -> object:
    key = (scene["weather"], scene["time"])
    return key if key in said.SKY else scene["weather"]


def _light(scene: dict) -> str:
    return said.WINDOWS.get((scene["place"], scene["time"])) or said.LIGHT[scene["time"]]


_COLOR_SEEN = {color: f"{noun}이 주변" for color, noun in said.COLOR_NOUN.items()}
# style: (all phrases that describe one thing, the phrases that are true of a scene)
_DETAILS: dict[str, tuple[tuple[dict, Callable[[dict], Iterable[str]]], ...]] = {
    "full": ((said.SKY, lambda s: _phrases(said.SKY[_sky_key(s)])), (said.LAND, lambda s: (said.LAND[s["season"]],))),
    "long": (
        (said.LONG_SKY, lambda s: (said.LONG_SKY[_sky_key(s)],)), (said.LONG_LAND, lambda s: (said.LONG_LAND[s["season"]],)),
        (said.VIEW, lambda s: said.VIEW[s["place"]]), (said.LIGHT | said.WINDOWS, lambda s: (_light(s),)),
        (said.ROW, lambda s: said.ROW[s["still"]["count"]]), (_COLOR_SEEN, lambda s: (_COLOR_SEEN[s["still"]["color"]],)),
        (said.COURSE, lambda s: said.COURSE[s["heading"]] if s["mover"] else ()),
        (said.CAMERA_EFFECT, lambda s: (said.CAMERA_EFFECT[s["camera"]],)),
    ),
}


def details_right(text: str, scene: dict, style: str) -> bool:
    """Whether sky, ground, light and what else the style describes are described, and as they are."""
    for table, true_of in _DETAILS[style]:
        found = {phrase for entry in table.values() for phrase in _phrases(entry) if phrase in text}
        allowed = set(true_of(scene))
        if found - allowed or (allowed and not found):
            return False
    return True


def verdicts(text: str, scene: dict, style: str) -> dict[str, bool]:
    """For every aspect that the style states of the scene, whether the caption is right."""
    truth, stated = facts_of(scene), facts_said(text, style)
    right = {aspect: stated[aspect] == truth[aspect] for aspect in ASPECTS if aspect in stated}
    if scene["mover"] is None:
        right = {aspect: is_right for aspect, is_right in right.items() if aspect not in _ONLY_OF_MOVERS}
    if style in _DETAILS:
        right["details"] = details_right(text, scene, style)
    return right


# ---- the files

@dataclass
class Tally:
    """The counts of one style."""

    right: Counter = field(default_factory=Counter)
    asked: Counter = field(default_factory=Counter)
    all_right: int = 0
    captions: list[str] = field(default_factory=list)  # of clips with one scene, near-duplicates left out
    own: int = 0
    own_refused: int = 0
    unlike: Counter = field(default_factory=Counter)  # "trained" or "held out"
    refused: Counter = field(default_factory=Counter)
    fooled: Counter = field(default_factory=Counter)  # kinds of unlike clips that got another caption
    uncaptioned: int = 0
    mixed: int = 0  # captions over several scenes: not judged

    def add_own(self, text: str, scene: dict, style: str) -> None:
        self.own += 1
        self.own_refused += text == UNLIKE
        right = verdicts(text, scene, style)
        self.asked.update(right.keys())
        self.right.update(aspect for aspect, is_right in right.items() if is_right)
        self.all_right += all(right.values())

    def add_unlike(self, text: str, unlike: dict) -> None:
        group = "held out" if unlike["held_out"] else "trained"
        self.unlike[group] += 1
        self.refused[group] += text == UNLIKE
        if text != UNLIKE:
            self.fooled[unlike["kind"]] += 1


def _name(path: str) -> str:
    return unicodedata.normalize("NFC", PurePath(path).name)


def _lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]


def scene_shown(truth: dict, window_s: list[float] | None) -> dict | None:
    """The scene that fills at least nine tenths of the window; None where several share it."""
    scenes = truth["scenes"]
    if len(scenes) == 1:
        return scenes[0]
    start, end = window_s or (0.0, scenes[-1]["end_s"])
    for scene in scenes:
        shared = min(end, scene["end_s"]) - max(start, scene["start_s"])
        if shared >= 0.9 * (end - start):
            return scene
    return None


def judge(records: list[dict], truths: list[dict], other_style: str) -> dict[str, Tally]:
    """The tallies by style. Of the records of one clip, prompt and window the last counts, as for `caption-cli eval`."""
    by_name = {_name(truth["video"]): truth for truth in truths}
    last: dict[tuple, dict] = {}
    for record in records:
        last[_name(record["video"]), record.get("prompt", ""), tuple(record.get("window_s", ()))] = record
    tallies: dict[str, Tally] = defaultdict(Tally)
    for (name, prompt, window), record in last.items():
        truth = by_name.get(name)
        if truth is None:
            continue
        style = prompt if prompt in STYLES else other_style
        tally, text = tallies[style], unicodedata.normalize("NFC", record.get("caption") or "").strip()
        tally.uncaptioned += record.get("status") == "failed" or not text
        if truth["unlike"]:
            tally.add_unlike(text, truth["unlike"])
            continue
        scene = scene_shown(truth, list(window) or None)
        if scene is None:
            tally.mixed += 1
            continue
        tally.add_own(text, scene, style)
        if truth["kind"] == "scene":
            tally.captions.append(text)
    return {style: tallies[style] for style in STYLES if style in tallies}


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def summary(tally: Tally) -> dict[str, float | int | None]:
    shares: dict[str, float | int | None] = {a: _share(tally.right[a], tally.asked[a]) for a in ASPECTS if tally.asked[a]}
    shares |= {"all of these": _share(tally.all_right, tally.own),
               "distinct captions": _share(len(set(tally.captions)), len(tally.captions))}
    for group in ("trained", "held out"):
        if tally.unlike[group]:
            shares[f"unlike refused, {group} kinds"] = _share(tally.refused[group], tally.unlike[group])
    shares |= {"own clips refused": _share(tally.own_refused, tally.own), "own clips": tally.own,
               "unlike clips": sum(tally.unlike.values())}
    for label, count in (("without caption", tally.uncaptioned), ("over several scenes, not judged", tally.mixed)):
        shares |= {label: count} if count else {}
    return shares


def print_table(tallies: dict[str, Tally]) -> None:
    columns = {style: summary(tally) for style, tally in tallies.items()}
    rows = list(dict.fromkeys(row for column in columns.values() for row in column))
    width = max(map(len, rows), default=0) + 2
    print(" " * width + "".join(f"{style:>10}" for style in columns))
    for row in rows:
        cells = (column.get(row) for column in columns.values())
        print(f"{row:<{width}}" + "".join(f"{'-' if c is None else c if isinstance(c, int) else f'{c:.3f}':>10}" for c in cells))
    for style, tally in tallies.items():
        if tally.fooled:
            print(f"{style}: captioned though unlike: " + ", ".join(f"{kind} {n}" for kind, n in tally.fooled.most_common()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path, nargs="+", required=True, help="JSON lines of caption-cli")
    parser.add_argument("--truth", type=Path, required=True, help="truth.jsonl of make_clips.py")
    parser.add_argument("--style", choices=STYLES, default="full", help="of records whose prompt's name is no style")
    parser.add_argument("--json", action="store_true", help="print the shares as JSON")
    arguments = parser.parse_args()
    records = [record for path in arguments.captions for record in _lines(path)]
    tallies = judge(records, _lines(arguments.truth), arguments.style)
    if not tallies:
        parser.error(f"no record of {arguments.captions[0]} is of a clip that {arguments.truth} names")
    if arguments.json:
        print(json.dumps({style: summary(tally) for style, tally in tallies.items()}, ensure_ascii=False, indent=1))
    else:
        print_table(tallies)


if __name__ == "__main__":
    main()
