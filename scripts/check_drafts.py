#!/usr/bin/env python3
"""Checks that drafts change no record: captions, statuses and log-probabilities, bit for bit as they are written.

Captions the videos in every setting below, each time in another random order, with `--drafts none`, `ngram`, `archive`,
`model` (--draft-model, or the model itself) and `self` (without the layers --left-out), greedy and drawn, and compares every record with that of the same video in the first run without drafts:
all keys but `timing_ms` and `speculation`, which tell what the run cost. One setting has so few KV pages that running
captions are preempted. Every guess is computed, up to eight a step, whether it pays or not, so that the test does not
depend on the machine. Vision tokens and prompt pages are kept in a folder between runs, so that a run costs little more
than its decoding. Everything is done once for each --each, whose captions may differ from those of another one. Exits
with 1 when a record differs or a run fails.

    python scripts/demo_model/make_clips.py --seed 318 --count 1000 --sizes small --out build/fresh
    python scripts/check_drafts.py --cli build/auto/apps/caption-cli/caption-cli --videos build/fresh/videos
    python scripts/check_drafts.py --cli build/auto/apps/caption-cli/caption-cli --videos build/fresh/videos \
        --settings "16 at a time" --each "--dtype int4 --kv-dtype fp8" --each "--dtype w8a8 --cpu-tier avx2"
"""
import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

GENERATIONS = {
    "greedy": [],
    "drawn": ["--temperature", "0.9", "--top-p", "0.95", "--seed", "7", "--repetition-penalty", "1.1",
              "--no-repeat-ngram-size", "6", "--min-new-tokens", "4"],
}
SETTINGS = {
    "continuous, 16 at a time": ["--max-num-seqs", "16"],
    "continuous, 1 at a time": ["--max-num-seqs", "1"],
    "continuous, 16 at a time, few pages": ["--max-num-seqs", "16", "--kv-cache-bytes"],
    "static, 16 at a time": ["--batching", "static", "--max-num-seqs", "16"],
    "static, 1 at a time": ["--batching", "static", "--max-num-seqs", "1"],
}
METHODS = ("none", "ngram", "archive", "model", "self")
PRESET = """model: {model}
engine:
  prefix_cache: true
generation:
  max_new_tokens: 128
  temperature: 0.0
speculative:
  adaptive: false
"""
COSTS = ("timing_ms", "speculation")


def run(args, videos, options, folder):
    """The records by video, and the seconds of the run."""
    names = "\0".join(str(video) for video in videos)
    command = [args.cli, "run", "-", "-0", "-q", "--preset", str(folder / "preset.yaml"), "--logprobs", "1",
               "--kv-cache-dir", str(folder / "kept"), *args.options.split(), *options]
    begin = time.monotonic()
    finished = subprocess.run(command, input=names.encode(), capture_output=True, check=False)
    if finished.returncode != 0:
        sys.exit(f"check_drafts: exit code {finished.returncode} of: {' '.join(command)}\n{finished.stderr.decode()}")
    records = [json.loads(line) for line in finished.stdout.decode().splitlines()]
    return {record["video"]: record for record in records}, time.monotonic() - begin


def leave_out_layers(args, videos, folder):
    """Makes `folder` / "model", a copy whose self-drafts leave out args.left_out, whether that pays or not."""
    model = folder / "model"
    shutil.copytree(args.model, model)
    kept = model / "self-draft.json"
    kept.unlink(missing_ok=True)
    run(args, videos[:16], ["--model", str(model), "--drafts", "self"], folder)  # searches, and names the model's hash
    if not kept.exists():
        sys.exit(f"check_drafts: no layers were found on {len(videos[:16])} videos; give more, or longer captions")
    found = json.loads(kept.read_text())
    found["left_out"] = [int(layer) for layer in args.left_out.split(",")]
    kept.write_text(json.dumps(found))
    return model


def kv_bytes(options):
    """Bytes of a number of K or V with these options."""
    words = options.split()
    dtype = words[words.index("--kv-dtype") + 1] if "--kv-dtype" in words else "bf16"
    return {"f32": 4, "bf16": 2, "f16": 2, "int8": 1}[dtype]


def compared(record):
    return {key: value for key, value in record.items() if key not in COSTS}


def tokens_per_step(records):
    """Of the records with drafts, and the drafts that were computed and accepted, by source."""
    counted = [record for record in records.values() if "speculation" in record]
    steps = sum(record["speculation"]["steps"] for record in counted)
    sources = {}
    for record in counted:
        for name, source in record["speculation"]["drafts"].items():
            computed, accepted = sources.get(name, (0, 0))
            sources[name] = (computed + source["computed"], accepted + source["accepted"])
    tokens = sum(record["tokens"]["output"] for record in counted)
    return (tokens / steps if steps else 1.0), sources


def report_difference(record, expected):
    for key in sorted(set(record) | set(expected)):
        if key not in COSTS and record.get(key) != expected.get(key):
            print(f"  {record['video']}: {key}: {str(record.get(key))[:200]} instead of "
                  f"{str(expected.get(key))[:200]}")


def chosen_runs(methods, parts):
    """The pairs of a setting and a method, of which the first is the reference."""
    reference = (next(iter(SETTINGS)), "none")
    chosen = [(setting, method) for setting in SETTINGS if any(part in setting for part in parts) for method in methods]
    return [reference, *(run for run in chosen if run != reference)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cli", required=True, help="path of caption-cli")
    parser.add_argument("--videos", required=True, type=pathlib.Path, help="folder")
    parser.add_argument("--model", default="samples/demo-model")
    parser.add_argument("--draft-model", help="of the method model; without it the model itself")
    parser.add_argument("--left-out", default="1", help="the layers, separated by commas, of the method self")
    parser.add_argument("--methods", default=",".join(METHODS), help="some of them, separated by commas")
    parser.add_argument("--generations", default=",".join(GENERATIONS), help="some of them, separated by commas")
    parser.add_argument("--settings", default="", help="only those whose names have one of these parts, separated by commas")
    parser.add_argument("--limit", type=int, help="only so many of the videos")
    parser.add_argument("--few-pages-bytes", type=int, default=1_500_000, help="KV cache of the setting with few pages, for 16-bit KV")
    parser.add_argument("--options", default="", help="further options of every run, in one argument")
    parser.add_argument("--each", action="append", help="more options, in one argument; may be given several times")
    parser.add_argument("--seed", type=int, default=1, help="of the orders")
    args = parser.parse_args()
    videos = sorted(path for path in args.videos.rglob("*") if path.is_file())[:args.limit]
    if not videos:
        sys.exit(f"check_drafts: {args.videos} has no file")
    common = args.options
    num_different = 0
    for each in args.each or [""]:
        args.options = f"{common} {each}"
        if each:
            print(f"{each}:")
        num_different += check(args, videos)
    print(f"check_drafts: {num_different} records differ")
    sys.exit(1 if num_different else 0)


def check(args, videos):
    """The number of records that differ with args.options."""
    shuffled = random.Random(args.seed)
    num_different = 0
    with tempfile.TemporaryDirectory() as temporary:
        (pathlib.Path(temporary) / "preset.yaml").write_text(PRESET.format(model=args.model))
        methods = args.methods.split(",")
        extra = {"model": ["--draft-model", args.draft_model or args.model]}
        if "self" in methods:
            extra["self"] = ["--model", str(leave_out_layers(args, videos, pathlib.Path(temporary)))]
        for generation in args.generations.split(","):
            expected = None
            for setting, method in chosen_runs(methods, args.settings.split(",")):
                order = videos[:]
                shuffled.shuffle(order)
                setting_options = SETTINGS[setting]
                if setting_options[-1] == "--kv-cache-bytes":
                    setting_options = [*setting_options, str(args.few_pages_bytes * kv_bytes(args.options) // 2)]
                options = [*GENERATIONS[generation], *setting_options, "--drafts", method, *extra.get(method, [])]
                records, seconds = run(args, order, options, pathlib.Path(temporary))
                expected = expected or records
                different = [video for video in expected
                             if video not in records or compared(records[video]) != compared(expected[video])]
                num_different += len(different)
                steps, sources = tokens_per_step(records)
                drafts = ", ".join(f"{name} {accepted}/{computed}" for name, (computed, accepted) in
                                   sorted(sources.items()))
                print(f"{generation}, {setting}, {method}: {len(expected) - len(different)} of {len(videos)} "
                      f"equal; {steps:.2f} tokens per step {f'({drafts}) ' if drafts else ''}in {seconds:.0f} s",
                      flush=True)
                for video in different[:3]:
                    if video in records:
                        report_difference(records[video], expected[video])
                    else:
                        print(f"  {video}: no record")
    return num_different


if __name__ == "__main__":
    main()
