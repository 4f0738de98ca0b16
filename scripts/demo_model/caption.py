"""Captions of a scene in the formal style of background-footage archives.

What is said is fixed by the scene; `rng` only chooses between ways of saying it, so three draws are three references.
"""

from __future__ import annotations

import numpy as np

from scene import Group, Scene

PROMPT = "이 영상을 자세히 설명해 주세요."
PROMPTS = (PROMPT, "이 영상을 설명해 주세요.", "영상을 자세히 설명해주세요.", "무엇이 보이나요?")

_WEATHER = {"clear": "맑은", "cloudy": "흐린", "rain": "비 내리는", "snow": "눈 내리는", "fog": "안개 낀"}
_SEASON = {"spring": "봄", "summer": "여름", "autumn": "가을", "winter": "겨울"}
_TIME = {"dawn": "새벽", "day": "한낮", "dusk": "저녁", "night": "밤"}
_PLACE = {
    "sea": ("수평선이 보이는 바다를", "바다를"), "mountain": ("봉우리가 솟은 산을", "산을"),
    "river": ("갈대가 자란 강을", "강을"), "field": ("고랑이 뻗은 들판을", "들판을"),
    "forest": ("오솔길이 난 숲을", "숲을"), "city": ("건물이 늘어선 도시를", "도시를"),
    "bridge": ("강을 가로지르는 다리를", "다리를"), "hanok": ("기와지붕을 얹은 한옥을", "한옥을"),
}
_SKY = {
    ("clear", "dawn"): "분홍빛 하늘에 해가 떠오르고", ("clear", "day"): "푸른 하늘에 햇살이 환하고",
    ("clear", "dusk"): "붉은 노을이 하늘을 물들이고", ("clear", "night"): "별이 총총한 밤하늘에 달이 떠 있고",
    ("cloudy", "dawn"): "희뿌연 하늘에 구름이 깔려 있고", ("cloudy", "day"): "회색 구름이 하늘을 뒤덮고",
    ("cloudy", "dusk"): "노을빛 구름이 낮게 드리우고", ("cloudy", "night"): "어두운 구름이 달을 가리고",
    "rain": "굵은 빗줄기가 쏟아지고", "snow": "하얀 눈송이가 흩날리고", "fog": "짙은 안개가 사방을 감싸고",
}
_LAND = {
    "spring": "연분홍 꽃나무가 피어 있습니다.", "summer": "짙푸른 녹음이 우거져 있습니다.",
    "autumn": "주황빛 단풍이 물들어 있습니다.", "winter": "흰 눈이 소복이 쌓여 있습니다.",
}
_COLOR = {"red": "빨간", "yellow": "노란", "blue": "파란", "white": "흰", "green": "초록", "purple": "보라", "brown": "갈색"}
_COUNT = {1: "한", 2: "두", 3: "세"}
# kind: noun, counter, what it does standing, what it does moving (sentence end left open)
_KIND = {
    "sailboat": ("돛단배", "척", "떠 있", "미끄러져 가"), "ferry": ("유람선", "척", "머물러 있", "지나가"),
    "rowboat": ("나룻배", "척", "매여 있", "노를 저어 가"), "parasol": ("파라솔", "개", "펼쳐져 있", ""),
    "tent": ("천막", "동", "설치되어 있", ""), "cabin": ("지붕의 오두막", "채", "자리 잡고 있", ""),
    "flag": ("깃발", "개", "펄럭이고 있", ""), "bench": ("나무 의자", "개", "비어 있", ""),
    "windmill": ("풍차", "기", "돌아가고 있", ""), "tractor": ("트랙터", "대", "멈춰 있", ""),
    "car": ("승용차", "대", "주차되어 있", "질주하"), "bus": ("버스", "대", "정차해 있", "운행하"),
    "train": ("열차", "대", "", "철교를 통과하"), "bike": ("자전거", "대", "", "페달을 밟으며 달리"),
    "person": ("옷차림의 사람", "명", "서 있", "걸어가"), "jar": ("항아리", "개", "놓여 있", ""),
    "lantern": ("등불", "개", "매달려 있", ""), "bird": ("새", "마리", "", "날갯짓하며 날아가"),
    "deer": ("사슴", "마리", "", "뛰어가"), "airballoon": ("열기구", "개", "", "두둥실 떠가"),
    "balloon": ("풍선", "개", "", "둥둥 떠가"), "kite": ("방패연", "개", "", "바람을 타고 날아가"),
    "cablecar": ("케이블카", "대", "", "줄을 따라 이동하"),
}
_SIDE = {"left": "왼쪽에는", "middle": "중앙에는", "right": "오른쪽에는"}
_HEADING = {"right": "왼쪽에서 오른쪽으로", "left": "오른쪽에서 왼쪽으로", "up": "아래에서 위로"}
_CAMERA = {
    "fixed": ("카메라는 고정된 채 움직이지 않습니다.", "고정된 카메라는 움직이지 않습니다."),
    "pan_left": ("카메라가 좌측으로 천천히 돌며 풍경을 훑습니다.", "시점이 좌측으로 천천히 돌며 풍경을 훑습니다."),
    "pan_right": ("카메라가 우측으로 천천히 돌며 풍경을 훑습니다.", "시점이 우측으로 천천히 돌며 풍경을 훑습니다."),
    "tilt_up": ("카메라가 서서히 고개를 들어 하늘을 비춥니다.", "시점이 서서히 고개를 들어 하늘을 비춥니다."),
    "tilt_down": ("카메라가 서서히 고개를 숙여 땅을 비춥니다.", "시점이 서서히 고개를 숙여 땅을 비춥니다."),
    "zoom_in": ("화면이 점점 확대되며 피사체에 다가갑니다.", "장면이 점점 확대되며 피사체에 다가갑니다."),
    "zoom_out": ("화면이 점점 축소되며 전경이 드러납니다.", "장면이 점점 축소되며 전경이 드러납니다."),
}


def _things(group: Group) -> str:
    noun, counter, _, _ = _KIND[group.kind]
    subject = "이" if (ord(counter[-1]) - 0xAC00) % 28 else "가"
    return f"{_COLOR[group.color]} {noun} {_COUNT[group.count]} {counter}{subject}"


def _ends(verb_stem: str) -> tuple[str, str]:
    """The stem as the end of a sentence and as a clause that another follows."""
    if verb_stem.endswith("있"):
        return verb_stem + "습니다.", verb_stem + "고,"
    last = chr(ord(verb_stem[-1]) + 17)  # adds the final consonant ㅂ: 가 -> 갑
    return f"{verb_stem[:-1]}{last}니다.", verb_stem + "고,"


def caption(scene: Scene, rng: np.random.Generator) -> str:
    long_place, short_place = _PLACE[scene.place]
    sky = _SKY.get((scene.weather, scene.time)) or _SKY[scene.weather]
    when = f"{_WEATHER[scene.weather]} {_SEASON[scene.season]} {_TIME[scene.time]}"
    where = long_place if rng.random() < 0.7 else short_place
    shown = "담은 영상으로," if rng.random() < 0.6 else "촬영한 영상으로,"
    opening = f"{when}, {where} {shown} {sky} {_LAND[scene.season]}"

    still_end, still_open = _ends(_KIND[scene.still.kind][2])
    still = f"{'화면 ' if rng.random() < 0.7 else ''}{_SIDE[scene.side]} {_things(scene.still)} "
    joined = rng.random() < 0.3
    if scene.mover is None:
        body = f"{still}{still_end} 그 밖의 풍경은 고요합니다."
    else:
        way, move_end = _HEADING[scene.heading], _ends(_KIND[scene.mover.kind][3])[0]
        body = f"{still}{still_open if joined else still_end} {_things(scene.mover)} {way} {move_end}"

    options = _CAMERA[scene.camera]
    return f"{opening} {body} {options[0] if rng.random() < 0.7 else options[1]}"
