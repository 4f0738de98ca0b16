"""Checks judge.py against captions of the grammar: true ones score 1, each kind of mistake lowers its own aspect only."""

from __future__ import annotations

import dataclasses

import numpy as np

from caption import STYLES, caption
from judge import ASPECTS, judge, summary, verdicts
from phrases import UNLIKE
from scene import (CAMERAS, COLORS, HEADINGS, KINDS, PLACES, SEASONS, SIDES, TIMES, WEATHERS, Group, Scene, sample_scene,
                   split_rng, truth_of)

_SCENES = 240
_OPTIONS = {"place": PLACES, "time": TIMES, "season": SEASONS, "weather": WEATHERS, "side": SIDES, "heading": HEADINGS,
            "camera": CAMERAS, "kind": KINDS, "color": COLORS, "count": (1, 2, 3)}
# What a style says nothing of.
_UNSAID = {"full": (), "sentence": ("camera",), "keywords": (), "long": ()}


def _other(options: tuple, value: object) -> object:
    """Another value of the same aspect."""
    return options[(options.index(value) + 1) % len(options)] if value in options else options[0]


def _with_wrong(scene: Scene, aspect: str) -> Scene:
    """The scene with one fact changed."""
    if "_" not in aspect:
        return dataclasses.replace(scene, **{aspect: _other(_OPTIONS[aspect], getattr(scene, aspect))})
    who, name = aspect.split("_")
    group: Group = getattr(scene, who)
    return dataclasses.replace(scene, **{who: dataclasses.replace(group, **{name: _other(_OPTIONS[name], getattr(group, name))})})


def _truth(index: int, scene: Scene) -> dict:
    return {"video": f"{index}.mp4", "kind": "scene", "unlike": None, "scenes": [truth_of(scene, 0.0)]}


def _record(index: int, style: str, text: str) -> dict:
    return {"video": f"videos/{index}.mp4", "prompt": style, "caption": text}


def _check_true(scenes: list[Scene]) -> None:
    rng = np.random.default_rng(11)
    for style in STYLES:
        for scene in scenes:
            text = caption(scene, style, rng)
            right = verdicts(text, truth_of(scene, 0.0), style)
            assert all(right.values()), (style, text, [a for a, is_right in right.items() if not is_right])
            expected = {a for a in ASPECTS if a != "details" and a not in _UNSAID[style]}
            assert scene.mover is None or set(right) - {"details"} == expected, (style, set(right) ^ expected)


def _check_wrong(scenes: list[Scene]) -> None:
    """A caption of the scene with one fact changed is wrong in that aspect, and right in the others but the details."""
    rng = np.random.default_rng(12)
    for style in STYLES:
        for aspect in ASPECTS:
            if aspect == "details" or aspect in _UNSAID[style]:
                continue
            for scene in scenes[:60]:
                is_of_mover = aspect.startswith("mover") or aspect == "heading"
                if scene.mover is None and is_of_mover:
                    continue
                wrong = _with_wrong(scene, aspect)
                if aspect == "mover_kind" and wrong.mover.kind not in ("car", "bus", "bird", "person", "kite"):
                    wrong = dataclasses.replace(scene, mover=None if scene.mover.kind == "bus" else Group("bus", *_rest(scene)))
                if aspect == "still_kind":
                    kind = "jar" if scene.still.kind != "jar" else "tent"
                    wrong = dataclasses.replace(scene, still=dataclasses.replace(scene.still, kind=kind))
                text = caption(wrong, style, rng)
                right = verdicts(text, truth_of(scene, 0.0), style)
                missed = {a for a, is_right in right.items() if not is_right} - {"details"}
                expected = {aspect} if wrong.mover or not scene.mover else {"mover_kind", "mover_color", "mover_count", "heading"}
                assert missed == expected, (style, aspect, missed, text)


def _rest(scene: Scene) -> tuple[str, int]:
    assert scene.mover is not None
    return scene.mover.color, scene.mover.count


def _check_details(scenes: list[Scene]) -> None:
    """One wrong sky, course or camera effect is a wrong detail."""
    rng = np.random.default_rng(13)
    for style in ("full", "long"):
        for scene in scenes[:60]:
            for wrong in (_with_wrong(scene, "weather"), _with_wrong(scene, "season")):
                assert not verdicts(caption(wrong, style, rng), truth_of(scene, 0.0), style)["details"]
    for scene in scenes[:60]:
        assert not verdicts(caption(_with_wrong(scene, "camera"), "long", rng), truth_of(scene, 0.0), "long")["details"]


def _check_shares(scenes: list[Scene]) -> None:
    """Of 240 clips every fourth has a wrong camera, three are refused, one is garbled and one has no caption."""
    rng = np.random.default_rng(14)
    texts = [caption(_with_wrong(s, "camera") if i % 4 == 0 else s, "full", rng) for i, s in enumerate(scenes)]
    for i in (1, 5, 9):
        texts[i] = UNLIKE
    texts[13], texts[17] = texts[13][:20], ""
    truths = [_truth(i, scene) for i, scene in enumerate(scenes)]
    records = [_record(i, "full", "an earlier record") for i in range(4)] + [_record(i, "full", t) for i, t in enumerate(texts)]
    for i, (held_out, text) in enumerate(((True, UNLIKE), (True, texts[0]), (False, UNLIKE)), len(scenes)):
        truths.append({"video": f"{i}.mp4", "kind": "unlike", "unlike": {"kind": "maze", "held_out": held_out}, "scenes": []})
        records.append(_record(i, "full", text))
    seen = summary(judge(records, truths, "full")["full"])
    lost = 5 / _SCENES
    assert abs(seen["camera"] - (0.75 - lost)) < 1e-3 and abs(seen["side"] - (1 - lost)) < 1e-3, seen
    assert seen["own clips"] == _SCENES and abs(seen["own clips refused"] - 3 / _SCENES) < 1e-3, seen
    assert seen["unlike refused, held out kinds"] == 0.5 and seen["unlike refused, trained kinds"] == 1.0, seen
    assert seen["without caption"] == 1 and seen["distinct captions"] < 1.0, seen


def _check_windows(scenes: list[Scene]) -> None:
    """A window within one scene of a long clip is judged by that scene; one across a cut is not judged."""
    a, b = truth_of(scenes[0], 0.0), truth_of(scenes[1], 0.0)
    b |= {"start_s": a["end_s"], "end_s": a["end_s"] + 10.0}
    truth = {"video": "0.mp4", "kind": "long", "unlike": None, "scenes": [a, b]}
    text = caption(scenes[1], "full", np.random.default_rng(1))
    within = _record(0, "full", text) | {"window_s": [b["start_s"], b["end_s"]]}
    across = _record(0, "full", text) | {"window_s": [0.0, b["end_s"]]}
    tally = judge([within, across], [truth], "full")["full"]
    assert tally.own == 1 and tally.all_right == 1 and tally.mixed == 1


def self_check() -> str:
    scenes = [sample_scene(split_rng("valid", 3, i)) for i in range(_SCENES)]
    for check in (_check_true, _check_wrong, _check_details, _check_shares, _check_windows):
        check(scenes)
    return f"judge.py reads all facts of {_SCENES} x {len(STYLES)} captions, and every mistake made in them"


if __name__ == "__main__":
    print(self_check())
