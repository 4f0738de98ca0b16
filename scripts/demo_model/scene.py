"""What a clip shows: a `Scene` is drawn from one seed and everything else (picture, caption) follows from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

PLACES = ("sea", "mountain", "river", "field", "forest", "city", "bridge", "hanok")
TIMES = ("dawn", "day", "dusk", "night")
SEASONS = ("spring", "summer", "autumn", "winter")
WEATHERS = ("clear", "cloudy", "rain", "snow", "fog")
COLORS = ("red", "yellow", "blue", "white", "green", "purple")
RGB_NAMES = (*COLORS, "brown")
SIDES = ("left", "middle", "right")
HEADINGS = ("right", "left", "up")
CAMERAS = ("fixed", "pan_left", "pan_right", "tilt_up", "tilt_down", "zoom_in", "zoom_out")

STILL_KINDS = {
    "sea": ("sailboat", "ferry", "parasol"),
    "mountain": ("tent", "cabin", "flag"),
    "river": ("rowboat", "tent", "bench"),
    "field": ("windmill", "tractor", "person"),
    "forest": ("tent", "bench", "cabin"),
    "city": ("car", "flag", "parasol"),
    "bridge": ("ferry", "sailboat", "flag"),
    "hanok": ("jar", "lantern", "person"),
}
MOVER_KINDS = {
    "sea": ("bird", "airballoon", "rowboat"),
    "mountain": ("airballoon", "bird", "cablecar"),
    "river": ("bird", "bike", "sailboat"),
    "field": ("kite", "bird", "bike"),
    "forest": ("deer", "bike", "bird"),
    "city": ("bus", "car", "person"),
    "bridge": ("train", "bus", "car"),
    "hanok": ("kite", "person", "balloon"),
}
KINDS = tuple(sorted({k for table in (STILL_KINDS, MOVER_KINDS) for kinds in table.values() for k in kinds}))
FLYING = ("bird", "airballoon", "kite", "balloon", "cablecar")
AFLOAT = ("sailboat", "ferry", "rowboat")
RISING = ("airballoon", "balloon", "kite")
STATIC_SHARE = 0.03  # of all scenes: nothing moves, the camera is fixed
FIXED_COLOR = {"bird": "white", "deer": "brown"}
SINGLE = ("train",)

# The first word of every seed: scenes of different splits come from different entropy pools and can never coincide.
SPLITS = {"train": 101, "valid": 202, "test": 303}


@dataclass(frozen=True)
class Group:
    """`count` things of one kind and colour."""

    kind: str
    color: str
    count: int


@dataclass(frozen=True)
class Scene:
    detail_seed: int  # hills, trees, windows: seen, never mentioned
    place: str
    time: str
    season: str
    weather: str
    still: Group
    side: str
    mover: Group | None
    heading: str
    camera: str
    duration_s: float
    frozen: bool = False  # every frame is the first one


def split_rng(split: str, seed: int, index: int) -> np.random.Generator:
    return np.random.default_rng([SPLITS[split], seed, index])


def _pick(rng: np.random.Generator, options: tuple[str, ...], weights: tuple[float, ...] | None = None) -> str:
    if weights is None:
        return options[int(rng.integers(len(options)))]
    return options[int(rng.choice(len(options), p=np.array(weights) / sum(weights)))]


def _group(rng: np.random.Generator, kinds: tuple[str, ...]) -> Group:
    kind = _pick(rng, kinds)
    color = FIXED_COLOR.get(kind) or _pick(rng, COLORS)
    count = 1 if kind in SINGLE else 1 + int(rng.integers(3))
    return Group(kind, color, count)


def sample_scene(rng: np.random.Generator, static_share: float = STATIC_SHARE) -> Scene:
    place = _pick(rng, PLACES)
    season = _pick(rng, SEASONS)
    weathers = {"clear": 4.0, "cloudy": 2.0, "rain": 2.0, "snow": 0.0, "fog": 1.5}
    if season == "winter":
        weathers |= {"rain": 0.0, "snow": 3.0}
    still = _group(rng, STILL_KINDS[place])
    mover = None
    if rng.random() > 0.1:
        mover = _group(rng, tuple(k for k in MOVER_KINDS[place] if k != still.kind))
    heading = _pick(rng, HEADINGS[:2])
    if mover and mover.kind in RISING and rng.random() < 0.5:
        heading = "up"
    scene = Scene(
        detail_seed=int(rng.integers(2**31)),
        place=place,
        time=_pick(rng, TIMES),
        season=season,
        weather=_pick(rng, WEATHERS, tuple(weathers[w] for w in WEATHERS)),
        still=still,
        side=_pick(rng, SIDES),
        mover=mover,
        heading=heading,
        camera=_pick(rng, CAMERAS, (2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)),
        duration_s=round(float(rng.uniform(5.0, 12.0)), 2),
    )
    return static(scene) if rng.random() < static_share else scene


def static(scene: Scene) -> Scene:
    """The scene without what moves, under a fixed camera and frozen weather."""
    return replace(scene, mover=None, camera="fixed", frozen=True)


def truth_of(scene: Scene, start_s: float) -> dict:
    """The facts that captions state, for truth.jsonl, and when the clip shows them."""
    facts = asdict(scene)
    del facts["detail_seed"], facts["duration_s"]
    return facts | {"start_s": start_s, "end_s": round(start_s + scene.duration_s, 6)}
