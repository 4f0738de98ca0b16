"""An OpenVINO model of a vision tower with random weights: SHAPE FORMAT FOLDER.

FORMAT is bf16 (what the plugin makes of f16 weights when it is told to) or int8 (weights and
activations, as NNCF's post-training quantisation of transformers does it). Needs torch,
transformers, openvino, and nncf for int8.
"""

from __future__ import annotations

import sys
from pathlib import Path

import openvino
import torch

from shapes import TOWERS, TowerShape
from torch_tower import make_random_tower

CALIBRATION_FRAMES = 4  # scales matter to quality, which random weights have none of


def main() -> None:
    shape_name, weight_format, target = sys.argv[1:]
    shape = TOWERS[shape_name]
    pixels = torch.randn(1, 3, shape.image_px, shape.image_px)
    tower = make_random_tower(shape)
    model = openvino.convert_model(tower, example_input={"pixel_values": pixels},
                                   input=[("pixel_values", [-1, *pixels.shape[1:]])])
    if weight_format == "int8":
        model = quantise(model, shape)
    folder = Path(target)
    folder.mkdir()
    openvino.save_model(model, folder / "openvino_model.xml", compress_to_fp16=True)


def quantise(model: openvino.Model, shape: TowerShape) -> openvino.Model:
    import nncf

    frames = [torch.randn(1, 3, shape.image_px, shape.image_px).numpy()
              for _ in range(CALIBRATION_FRAMES)]
    return nncf.quantize(model, nncf.Dataset(frames), model_type=nncf.ModelType.TRANSFORMER,
                         subset_size=CALIBRATION_FRAMES)


if __name__ == "__main__":
    main()
