#!/usr/bin/env python3
"""Writes tests/golden/vision/{resize,preprocess,smart_size}.json from torchvision and transformers.

Frames come from golden_frames.py; results are stored as XXH3-128 of their bytes (uint8 HWC for the
resize, float32 CHW of all frames for the pixel values), tiny ones in full.
Needs torch, torchvision, transformers, numpy, xxhash (the versions used are stored).
"""

import json
import pathlib

import numpy as np
import torch
import torchvision
import transformers
import xxhash
from torchvision.transforms.v2 import functional as F
from transformers import LlavaNextVideoVideoProcessor
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize as frame_size
from transformers.models.qwen3_vl.video_processing_qwen3_vl import smart_resize as clip_size

from golden_frames import synthetic_frame

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/vision"

# (height, width) -> (height, width): up, down, one axis only, 1 pixel, odd, real sizes.
RESIZES = [
    ((1, 1), (1, 1)), ((1, 1), (5, 3)), ((3, 5), (1, 1)), ((3, 5), (5, 3)), ((3, 5), (7, 5)),
    ((3, 5), (3, 9)), ((5, 3), (2, 2)), ((7, 7), (7, 7)), ((7, 13), (28, 28)), ((13, 7), (6, 3)),
    ((17, 31), (5, 40)), ((40, 5), (17, 31)), ((64, 1), (9, 4)), ((1, 64), (4, 9)),
    ((23, 44), (52, 2)), ((97, 101), (96, 100)), ((120, 160), (56, 74)), ((56, 74), (120, 160)),
    ((255, 257), (33, 35)), ((2, 600), (224, 3)), ((600, 2), (3, 224)), ((240, 426), (336, 596)),
    ((360, 640), (336, 597)), ((720, 1280), (336, 597)), ((540, 303), (598, 336)),
    ((1080, 1920), (28, 49)),
]

PROCESSORS = [
    # name, processor arguments, frame (height, width)
    ("shortest_28_landscape", dict(size={"shortest_edge": 28}, crop_size=28), (45, 80)),
    ("shortest_28_portrait", dict(size={"shortest_edge": 28}, crop_size=28), (81, 47)),
    ("shortest_28_square", dict(size={"shortest_edge": 28}, crop_size=28), (28, 28)),
    ("shortest_336_real", dict(size={"shortest_edge": 336}, crop_size=336), (360, 640)),
    ("straight_20x30", dict(size={"height": 20, "width": 30}, do_center_crop=False), (41, 33)),
    ("padded_crop", dict(size={"shortest_edge": 9}, crop_size={"height": 14, "width": 12}), (10, 11)),
    ("crop_taller_narrower", dict(size={"shortest_edge": 10},
                                  crop_size={"height": 15, "width": 7}), (20, 32)),
    ("no_resize", dict(do_resize=False, crop_size={"height": 11, "width": 12}), (18, 17)),
    ("no_normalize", dict(size={"shortest_edge": 12}, crop_size=12, do_normalize=False), (20, 30)),
    ("other_mean", dict(size={"shortest_edge": 12}, crop_size=12, image_mean=[0.5, 0.25, 0.125],
                        image_std=[0.5, 0.3, 0.7]), (20, 30)),
    ("bilinear", dict(size={"height": 20, "width": 30}, do_center_crop=False, resample=2),
     (41, 33)),
]


def versions():
    return {"script": "scripts/make_goldens_vision.py", "torch": torch.__version__,
            "torchvision": torchvision.__version__, "transformers": transformers.__version__,
            "cpu_capability": torch.backends.cpu.get_cpu_capability()}


def resize_cases():
    cases = []
    for seed, ((h, w), (oh, ow)) in enumerate(RESIZES):
        for filter, kind in (("bicubic", "noise"), ("bicubic", "binary"), ("bilinear", "noise")):
            frame = torch.from_numpy(synthetic_frame(h, w, seed, kind)).permute(2, 0, 1)
            resized = F.resize(frame, [oh, ow], antialias=True,
                               interpolation=torchvision.transforms.InterpolationMode(filter))
            pixels = np.ascontiguousarray(resized.permute(1, 2, 0).numpy())
            case = {"in": [h, w], "out": [oh, ow], "filter": filter, "seed": seed, "kind": kind,
                    "hash": xxhash.xxh3_128_hexdigest(pixels.tobytes())}
            if pixels.size <= 60:
                case["pixels"] = pixels.flatten().tolist()
            cases.append(case)
    return cases


def preprocess_cases():
    cases = []
    for seed, (name, arguments, (h, w)) in enumerate(PROCESSORS):
        processor = LlavaNextVideoVideoProcessor(**arguments)
        frames = np.stack([synthetic_frame(h, w, seed + i, "waves") for i in range(2)])
        video = torch.from_numpy(frames).permute(0, 3, 1, 2)
        values = processor(videos=[video], return_tensors="pt").pixel_values_videos[0].numpy()
        assert values.dtype == np.float32
        settings = json.loads(processor.to_json_string())
        kept = ("do_resize", "size", "do_center_crop", "crop_size", "do_normalize", "do_rescale",
                "rescale_factor", "image_mean", "image_std", "resample")
        cases.append({"name": name, "in": [h, w], "seed": seed, "shape": list(values.shape),
                      "processor": {k: settings[k] for k in kept if k in settings},
                      "hash": xxhash.xxh3_128_hexdigest(np.ascontiguousarray(values).tobytes()),
                      "first": [float(v) for v in values.flatten()[:4]]})
    return cases


def smart_size_cases():
    """Sizes of Qwen3-VL, whose limits are those of a clip, and of Qwen2.5-VL, of a frame."""
    random = np.random.default_rng(14)
    cases = []
    while len(cases) < 400:
        frames, merge = int(random.integers(2, 40)), int(random.choice([1, 2, 3]))
        height, width = (int(2 ** random.uniform(5.5, 11.5)) for _ in range(2))
        patch = int(random.choice([14, 16]))
        low, high = sorted(int(2 ** random.uniform(12, 25)) for _ in range(2))
        limits = dict(min_pixels=low, max_pixels=high)
        counts_clip = len(cases) % 2 == 0
        try:
            if counts_clip:
                out = clip_size(frames, height, width, temporal_factor=2, factor=patch * merge,
                                **limits)
            else:
                out = frame_size(height, width, factor=patch * merge, **limits)
        except ValueError:
            continue
        if min(out) >= patch * merge:  # smaller frames are enlarged to one merged patch
            cases.append({"frames": frames, "in": [height, width], "unit": patch * merge,
                          "counts_clip": counts_clip, "limits": [low, high], "out": list(out)})
    return cases


def write(name, cases):
    OUT.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("    " + json.dumps(case) for case in cases)
    made = json.dumps(versions())
    (OUT / name).write_text('{\n  "made_by": %s,\n  "cases": [\n%s\n  ]\n}\n' % (made, lines))


if __name__ == "__main__":
    write("resize.json", resize_cases())
    write("preprocess.json", preprocess_cases())
    write("smart_size.json", smart_size_cases())
