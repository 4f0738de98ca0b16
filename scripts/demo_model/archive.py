"""What the clips of an archive show: single scenes, static ones, near-duplicates, long films with cuts, unlike clips.

A `Film` is planned from (seed, index) alone but for its kind, so clip 7 shows the same scene in every archive of a seed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np

from caption import STYLES, UNLIKE, caption
from render import render
from scene import SPLITS, Scene, sample_scene, split_rng, static, truth_of
from unlike import HELD_OUT, Unlike, render_unlike, sample_unlike

KINDS = ("scene", "static", "near_duplicate", "long", "unlike")
CATEGORIES = {"city": "시가지", "hanok": "건축물", "bridge": "건축물"}  # the others are 자연
REFERENCES = 3
_KIND_STREAM, _COPY_STREAM, _UNLIKE_STREAM = 21, 22, 23


@dataclass(frozen=True)
class Film:
    """One clip before it is encoded. `scenes` follow one another; a clip of an unlike kind has none."""

    index: int
    kind: str
    scenes: tuple[Scene, ...]
    unlike: Unlike | None
    references: dict[str, list[str]]  # by style
    copy_of: int | None = None  # the clip that a near-duplicate shows again
    cropped: float = 0.0  # the share of each side that is cut off
    kept: float = 1.0  # the share of the length that is shown, from the start

    @property
    def label(self) -> str:
        return self.scenes[0].place if self.scenes else "unlike"

    @property
    def category(self) -> str:
        return CATEGORIES.get(self.label, "자연") if self.scenes else "기타"

    def frame_counts(self, fps: int, least: int) -> list[int]:
        """How many frames each scene takes; the whole clip has at least `least`."""
        shown = (self.unlike,) if self.unlike else self.scenes
        return [max(least, round(part.duration_s * self.kept * fps)) for part in shown]

    def frame(self, scene: int, t: float, width: int, height: int) -> np.ndarray:
        """The picture at `t` seconds of a scene, [height, width, 3] uint8 RGB."""
        if self.unlike is not None:
            return render_unlike(self.unlike, t, width, height)
        if not self.cropped:
            return render(self.scenes[scene], t, width, height)[0]
        w, h = (round(side / (1 - 2 * self.cropped)) for side in (width, height))
        x, y = (w - width) // 2, (h - height) // 2
        return np.ascontiguousarray(render(self.scenes[scene], t, w, h)[0][y:y + height, x:x + width])


def kinds_of(seed: int, count: int, shares: dict[str, float]) -> list[str]:
    """The kind of every clip: exactly the shares asked for, in random order. Without a share a clip is a single scene."""
    kinds = [kind for kind in KINDS[1:] for _ in range(round(shares.get(kind, 0.0) * count))][:count]
    kinds += ["scene"] * (count - len(kinds))
    return [kinds[i] for i in np.random.default_rng([SPLITS["test"], seed, _KIND_STREAM]).permutation(count)]


def _references(scenes: tuple[Scene, ...], rng: np.random.Generator) -> dict[str, list[str]]:
    """Three of every style; of a film, one for each of its scenes."""
    drawn = scenes if len(scenes) > 1 else scenes * REFERENCES
    return {style: [caption(scene, style, rng) for scene in drawn] for style in STYLES}


def _near_duplicate(seed: int, index: int, kinds: list[str]) -> Film:
    """The scene of another clip in another length, crop and, from its own index, another codec, size and rate."""
    rng = np.random.default_rng([SPLITS["test"], seed, index, _COPY_STREAM])
    originals = [i for i, kind in enumerate(kinds) if kind == "scene"]
    original = film_of(seed, originals[int(rng.integers(len(originals)))], kinds)
    way = int(rng.integers(3))
    return replace(original, index=index, kind="near_duplicate", copy_of=original.index,
                   cropped=float(rng.uniform(0.02, 0.05)) if way == 1 else 0.0,
                   kept=float(rng.uniform(0.85, 0.95)) if way == 2 else 1.0)


def film_of(seed: int, index: int, kinds: list[str]) -> Film:
    """Clip `index` of the archive; `kinds` are those of kinds_of()."""
    kind = kinds[index]
    if kind == "near_duplicate":
        return _near_duplicate(seed, index, kinds)
    if kind == "unlike":
        rng = np.random.default_rng([SPLITS["test"], seed, index, _UNLIKE_STREAM])
        unlike = sample_unlike(rng, held_out=bool(rng.random() < 0.5))
        return Film(index, kind, (), unlike, {style: [UNLIKE] for style in STYLES})
    rng = split_rng("test", seed, index)
    scenes = (sample_scene(rng, static_share=0.0),)
    if kind == "static":
        scenes = (static(scenes[0]),)
    while kind == "long" and len(scenes) < 3 + index % 4:
        following = sample_scene(rng, static_share=0.0)
        if following.place != scenes[-1].place:  # so that every cut is one to the eye
            scenes += (following,)
    return Film(index, kind, scenes, None, _references(scenes, rng))


def truth_line(film: Film, name: str, counts: list[int], fps: int, original_name: str | None) -> dict:
    """The line of truth.jsonl; the times of scenes and cuts are those of the encoded frames."""
    starts = np.concatenate([[0], np.cumsum(counts)]) / fps
    scenes = [truth_of(scene, float(start)) | {"start_s": round(float(start), 6), "end_s": round(float(end), 6)}
              for scene, start, end in zip(film.scenes, starts, starts[1:])]
    unlike = film.unlike and {"kind": film.unlike.kind, "motion": film.unlike.motion, "held_out": film.unlike.kind in HELD_OUT}
    return {"video": name, "kind": film.kind, "category": film.category, "near_duplicate_of": original_name, "unlike": unlike,
            "cuts_s": [scene["start_s"] for scene in scenes[1:]], "scenes": scenes}


def label_file(film: Film, video: PurePath, truth: dict, size: tuple[int, int], fps: int, style: str) -> dict:
    """A label in the layout of AI-Hub's background footage: the reference is at annotation.description_kr."""
    return {
        "video": {"file_name": video.name, "width": size[0], "height": size[1], "fps": fps},
        "category": film.category,
        "annotation": {"description_kr": film.references[style][0], "scene_cuts_s": truth["cuts_s"]},
    }
