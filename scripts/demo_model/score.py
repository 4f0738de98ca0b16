"""Scores a saved model with plain transformers: `python score.py --model samples/demo-model --clips DIR`.

DIR is what make_clips.py wrote. Frames are decoded with PyAV and pass through the folder's own processor.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import av
import numpy as np
import torch
from transformers import AutoProcessor, LlavaNextVideoForConditionalGeneration

from caption import PROMPT
from dataset import frame_indices
from meteor import matched_and_shuffled
from tokenizer import PROMPT_FORMAT


def decode(path: Path) -> np.ndarray:
    """The sampled frames [8, height, width, 3] of all frames the clip decodes to."""
    with av.open(str(path)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    return np.stack([frames[i] for i in frame_indices(len(frames))])


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("samples/demo-model"))
    parser.add_argument("--clips", type=Path, required=True)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--show", type=int, default=4)
    arguments = parser.parse_args()
    processor = AutoProcessor.from_pretrained(arguments.model)
    model = LlavaNextVideoForConditionalGeneration.from_pretrained(arguments.model, dtype=getattr(torch, arguments.dtype)).eval()
    lines = [json.loads(line) for line in (arguments.clips / "references.jsonl").read_text(encoding="utf-8").splitlines()]
    texts: list[str] = []
    for start in range(0, len(lines), 16):
        clips = [decode(arguments.clips / "videos" / line["video"]) for line in lines[start:start + 16]]
        inputs = [processor(text=PROMPT_FORMAT.format(PROMPT), videos=clip, return_tensors="pt") for clip in clips]
        ids = torch.cat([one["input_ids"] for one in inputs])
        seen = torch.cat([one["pixel_values_videos"] for one in inputs]).to(model.dtype)
        out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values_videos=seen)
        texts += processor.batch_decode(out[:, ids.shape[1]:], skip_special_tokens=True)
    matched, shuffled = matched_and_shuffled([line["captions"] for line in lines], texts)
    for line, text in list(zip(lines, texts))[:arguments.show]:
        print(f"{line['video']}\n  model: {text}\n  truth: {line['captions'][0]}")
    print(f"{len(lines)} clips: meteor {matched:.4f}, shuffled {shuffled:.4f}, distinct captions {len(set(texts))}")


if __name__ == "__main__":
    main()
