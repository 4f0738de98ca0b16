"""Captions of a scene in the formal style of background-footage archives, in four lengths (`STYLES`).

What is said is fixed by the scene; `rng` only chooses between ways of saying it, so three draws are three references.
"""

from __future__ import annotations

import numpy as np

from phrases import (ADVERB, CAMERA, CAMERA_EFFECT, CAMERA_KEYWORD, COLOR, COLOR_NOUN, COUNT, COURSE, COURSE_IN, DISTINCT,
                     HEADING, HEADING_KEYWORD, KIND, LAND, LIGHT, LONG_LAND, LONG_QUIET, LONG_SKY, PLACE, PLACE_AT,
                     PLACE_NOUN, QUIET, ROW, SEASON, SIDE, SIDE_WORD, SKY, TIME, TOGETHER, UNLIKE, VIEW, WEATHER,
                     WEATHER_NOUN, WINDOWS)
from scene import AFLOAT, FLYING, Group, Scene

__all__ = ["PROMPT", "PROMPTS", "STYLES", "UNLIKE", "caption", "parts"]

PROMPTS: dict[str, tuple[str, ...]] = {
    "full": (
        "이 영상을 자세히 설명해 주세요.", "이 영상을 설명해 주세요.", "영상을 자세히 설명해주세요.", "무엇이 보이나요?",
        "이 영상을 자세히 설명해주세요.", "영상의 내용을 자세히 말해 주세요.",
    ),
    "sentence": (
        "한 문장으로 요약해 주세요.", "이 영상을 한 문장으로 요약해 주세요.", "한 문장으로 설명해 주세요.",
        "영상을 한 문장으로 요약해주세요.", "짧게 한 문장으로 말해 주세요.",
    ),
    "keywords": (
        "핵심어만 나열해 주세요.", "이 영상의 핵심어만 나열해 주세요.", "핵심어를 쉼표로 나열해주세요.", "키워드만 적어 주세요.",
        "이 영상의 키워드를 나열해 주세요.",
    ),
    "long": (
        "이 영상을 빠짐없이 아주 길게 설명해 주세요.", "이 영상을 아주 길게 설명해 주세요.", "빠짐없이 길게 설명해주세요.",
        "이 영상을 처음부터 끝까지 빠짐없이 설명해 주세요.", "최대한 길고 자세하게 설명해 주세요.",
    ),
}
STYLES = tuple(PROMPTS)
PROMPT = PROMPTS["full"][0]

Part = tuple[str, str]  # a piece of the caption, and the aspect of the scene that it states ("" for none)


def _pick(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]


def subject(word: str) -> str:
    """The word with the subject particle that its last syllable asks for."""
    return word + ("이" if (ord(word[-1]) - 0xAC00) % 28 else "가")


def ends(verb_stem: str) -> tuple[str, str]:
    """The stem as the end of a sentence and as a clause that another follows."""
    if verb_stem.endswith("있"):
        return verb_stem + "습니다.", verb_stem + "고,"
    last = chr(ord(verb_stem[-1]) + 17)  # adds the final consonant ㅂ: 가 -> 갑
    return f"{verb_stem[:-1]}{last}니다.", verb_stem + "고,"


def _things(group: Group, who: str, ending: str = "subject") -> list[Part]:
    """ " 빨간 돛단배 두 척이", with the space before it; `who` is "still" or "mover"."""
    noun, counter = KIND[group.kind][:2]
    counted = subject(counter) if ending == "subject" else counter
    return [(f" {COLOR[group.color]}", f"{who}_color"), (f" {noun}", f"{who}_kind"),
            (f" {COUNT[group.count]}", f"{who}_count"), (f" {counted}", f"{who}_kind")]


def _when(scene: Scene) -> list[Part]:
    return [(WEATHER[scene.weather], "weather"), (f" {SEASON[scene.season]}", "season"), (f" {TIME[scene.time]}", "time")]


def _sky(scene: Scene, table: dict[tuple[str, str] | str, str]) -> str:
    return table.get((scene.weather, scene.time)) or table[scene.weather]


def _full(scene: Scene, rng: np.random.Generator) -> list[Part]:
    where = PLACE[scene.place][0 if rng.random() < 0.7 else 1]
    shown = "담은 영상으로," if rng.random() < 0.6 else "촬영한 영상으로,"
    said = _when(scene) + [(",", ""), (f" {where}", "place"), (f" {shown}", ""), (f" {_sky(scene, SKY)}", "weather"),
                           (f" {LAND[scene.season]}", "season")]
    still_end, still_open = ends(KIND[scene.still.kind][2])
    said += [(" 화면", "")] if rng.random() < 0.7 else []
    said += [(f" {SIDE[scene.side]}", "side"), *_things(scene.still, "still")]
    joined = rng.random() < 0.3
    if scene.mover is None:
        said += [(f" {still_end}", "still_kind"), (f" {QUIET}", "mover_kind")]
    else:
        said += [(f" {still_open if joined else still_end}", "still_kind"), *_things(scene.mover, "mover"),
                 (f" {HEADING[scene.heading]}", "heading"), (f" {ends(KIND[scene.mover.kind][3])[0]}", "mover_kind")]
    options = CAMERA[scene.camera]
    return said + [(f" {options[0] if rng.random() < 0.7 else options[1]}", "camera")]


def _sentence(scene: Scene, rng: np.random.Generator) -> list[Part]:
    said = _when(scene) + [("의", "") if rng.random() < 0.7 else (",", ""), (f" {PLACE_AT[scene.place]}", "place")]
    said += [(" 화면", "")] if rng.random() < 0.3 else []
    said += [(f" {SIDE_WORD[scene.side]}에", "side"), *_things(scene.still, "still")]
    stands, plain = KIND[scene.still.kind][2], rng.random() < 0.6
    if scene.mover is None:
        if plain:
            return said + [(f" {ends(stands)[0]}", "still_kind")]
        return said + [(f" {stands}는", "still_kind"), (" 고요한 풍경입니다.", "mover_kind")]
    moves = KIND[scene.mover.kind][3]
    said += [(f" {ends(stands)[1]}", "still_kind"), *_things(scene.mover, "mover"), (f" {HEADING[scene.heading]}", "heading")]
    if plain:
        return said + [(f" {ends(moves)[0]}", "mover_kind")]
    return said + [(f" {moves}는", "mover_kind"), (" 영상입니다.", "")]


def _keywords(scene: Scene, rng: np.random.Generator) -> list[Part]:
    said = [(PLACE_NOUN[scene.place], "place"), (f", {TIME[scene.time]}", "time"), (f", {SEASON[scene.season]}", "season")]
    said += [(f", {WEATHER_NOUN[scene.weather]}", "weather"), (", 화면" if rng.random() < 0.3 else ",", "")]
    said += [(f" {SIDE_WORD[scene.side]}의", "side"), *_things(scene.still, "still", "plain"), (",", "")]
    if scene.mover is None:
        said += [(" 움직이는 것 없음", "mover_kind")]
    else:
        said += [*_things(scene.mover, "mover", "plain"), (f", {HEADING_KEYWORD[scene.heading]}", "heading")]
    return said + [(f", {_pick(rng, CAMERA_KEYWORD[scene.camera])}", "camera")]


def _long_opening(scene: Scene, rng: np.random.Generator) -> list[Part]:
    where = PLACE[scene.place][0]
    if rng.random() < 0.5:
        return _when(scene) + [(",", ""), (f" {where}", "place"), (_pick(rng, (" 담은 영상입니다.", " 촬영한 영상입니다.")), "")]
    return [("이 영상은 ", ""), *_when(scene), ("에", ""), (f" {where}", "place"),
            (_pick(rng, (" 담고 있습니다.", " 보여 줍니다.")), "")]


def _long_view(scene: Scene, rng: np.random.Generator) -> list[Part]:
    """Sky, land from far to near, season and light."""
    far, between, near = VIEW[scene.place]
    return [(f" {_pick(rng, ('화면 위쪽에는', '위쪽에는'))}", ""), (f" {_sky(scene, LONG_SKY)}", "weather"),
            (f" {_pick(rng, ('멀리', '멀리에는'))}", ""), (f" {far}", "place"), (" 그 앞으로", ""), (f" {between}", "place"),
            (f" {_pick(rng, ('가까이에는', '앞쪽에는'))}", ""), (f" {near}", "place"),
            (f" {LONG_LAND[scene.season]}{_pick(rng, ('하고,', '하며,'))}", "season"),
            (f" {WINDOWS.get((scene.place, scene.time)) or LIGHT[scene.time]}", "time")]


def _long_still(scene: Scene, rng: np.random.Generator) -> list[Part]:
    group = scene.still
    return [(f" 화면 {SIDE[scene.side]}", "side"), *_things(group, "still"), (f" {ends(KIND[group.kind][2])[1]}", "still_kind"),
            (f" {COLOR_NOUN[group.color]}이", "still_color"), (f" {_pick(rng, DISTINCT)}", ""),
            (f" {_pick(rng, ROW[group.count])}", "still_count")]


def _long_mover(scene: Scene, rng: np.random.Generator) -> list[Part]:
    group = scene.mover
    if group is None:
        return [(f" {_pick(rng, LONG_QUIET)} {QUIET}", "mover_kind")]
    within = "sky" if group.kind in FLYING else "water" if group.kind in AFLOAT else "deck" if scene.place == "bridge" else "road"
    said = [*_things(group, "mover"), (f" {HEADING[scene.heading]}", "heading"), (f" {KIND[group.kind][3]}는데,", "mover_kind")]
    said += [(f" {COURSE_IN[within]}", "mover_kind")] if scene.heading != "up" else []
    said += [(f" {_pick(rng, TOGETHER)}", "mover_count")] if group.count > 1 else []
    return said + [(f" {_pick(rng, COURSE[scene.heading])}", "heading")]


def _long(scene: Scene, rng: np.random.Generator) -> list[Part]:
    said = _long_opening(scene, rng) + _long_view(scene, rng) + _long_still(scene, rng) + _long_mover(scene, rng)
    return said + [(f" {_pick(rng, CAMERA[scene.camera])}", "camera"),
                   (f" {_pick(rng, ADVERB)} {CAMERA_EFFECT[scene.camera]}", "camera")]


_WAYS = {"full": _full, "sentence": _sentence, "keywords": _keywords, "long": _long}


def parts(scene: Scene, style: str, rng: np.random.Generator) -> list[Part]:
    """The caption as (text, aspect): the texts concatenated are the caption, the aspect names the fact a text states."""
    return _WAYS[style](scene, rng)


def caption(scene: Scene, style: str, rng: np.random.Generator) -> str:
    return "".join(text for text, _ in parts(scene, style, rng))
