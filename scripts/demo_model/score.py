"""Scores a saved model with plain transformers: `python score.py --model samples/demo-model --clips DIR`.

DIR is what make_clips.py wrote. Frames are decoded with PyAV and pass through the folder's own processor; a clip is seen
as a whole, so for clips with cuts use `caption-cli run` and judge.py.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import av
import numpy as np
import torch
from transformers import AutoProcessor, LlavaNextVideoForConditionalGeneration

from caption import PROMPTS, STYLES, UNLIKE
from dataset import frame_indices
from judge import judge, print_table
from meteor import matched_and_shuffled
from tokenizer import PROMPT_FORMAT

BATCH = 16


def decode(path: Path) -> np.ndarray:
    """The sampled frames [8, height, width, 3] of all frames the clip decodes to."""
    with av.open(str(path)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    return np.stack([frames[i] for i in frame_indices(len(frames))])


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@torch.no_grad()
def captions_of(model: LlavaNextVideoForConditionalGeneration, processor: AutoProcessor, clips: list[np.ndarray],
                style: str) -> list[str]:
    inputs = [processor(text=PROMPT_FORMAT.format(PROMPTS[style][0]), videos=clip, return_tensors="pt") for clip in clips]
    ids = torch.cat([one["input_ids"] for one in inputs])
    seen = torch.cat([one["pixel_values_videos"] for one in inputs]).to(model.dtype)
    out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values_videos=seen)
    return processor.batch_decode(out[:, ids.shape[1]:], skip_special_tokens=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("samples/demo-model"))
    parser.add_argument("--clips", type=Path, required=True)
    parser.add_argument("--styles", nargs="+", choices=STYLES, default=STYLES)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--show", type=int, default=2, help="clips whose captions are printed")
    arguments = parser.parse_args()
    processor = AutoProcessor.from_pretrained(arguments.model)
    model = LlavaNextVideoForConditionalGeneration.from_pretrained(arguments.model, dtype=getattr(torch, arguments.dtype)).eval()
    lines = read_lines(arguments.clips / "references.jsonl")
    files = {path.name: path for path in arguments.clips.rglob("*") if path.suffix in (".mp4", ".mkv", ".webm")}
    texts: dict[str, list[str]] = {style: [] for style in arguments.styles}
    for start in range(0, len(lines), BATCH):
        clips = [decode(files[line["video"]]) for line in lines[start:start + BATCH]]
        for style in arguments.styles:
            texts[style] += captions_of(model, processor, clips, style)
    records = []
    for style in arguments.styles:
        references = [line["captions"] if style == "full" else line["prompts"][style] for line in lines]
        scenes = [i for i, some in enumerate(references) if UNLIKE not in some]
        matched, shuffled = matched_and_shuffled([references[i] for i in scenes], [texts[style][i] for i in scenes])
        for i in range(min(arguments.show, len(lines))):
            print(f"{lines[i]['video']}, {style}\n  model: {texts[style][i]}\n  truth: {references[i][0]}")
        print(f"{style}: {len(scenes)} clips with scenes: meteor {matched:.4f}, shuffled {shuffled:.4f}")
        records += [{"video": line["video"], "prompt": style, "caption": text} for line, text in zip(lines, texts[style])]
    print_table(judge(records, read_lines(arguments.clips / "truth.jsonl"), "full"))


if __name__ == "__main__":
    main()
