#!/usr/bin/env python3
"""Writes tests/golden/chat: conversations with a system prompt and examples, of text and of videos,
as transformers renders them (apply_chat_template of each family's processor): prompt ids, positions
of M-RoPE, and for some checkpoints 64 greedy tokens. The checkpoints are those of the families'
goldens; the templates render messages as those of the hub do."""

import json
import pathlib
import tempfile

import torch

import captioner_goldens as goldens
import drawn
import make_goldens_internvl
import make_goldens_llava_next_video
import make_goldens_llava_onevision
import make_goldens_qwen2_5_vl
import make_goldens_qwen3_vl
import qwen_vl_goldens

FOLDER = goldens.GOLDEN / "chat"

IS_TEXT = "selectattr('type', 'equalto', 'text')"
VIDEOS = ("{# videos come first #}{% for part in message['content'] | "
          "selectattr('type', 'equalto', 'video') %}{{ '<video>\n' }}{% endfor %}")
SPACED_TEXTS = ("{% for part in message['content'] | " + IS_TEXT +
                " %}{{ part['text'] + ' ' }}{% endfor %}")
VICUNA = ("{% for message in messages %}{% if message['role'] != 'system' %}"
          "{{ message['role'].upper() + ': '}}{% endif %}" + VIDEOS + SPACED_TEXTS +
          "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}")
# As the family's converter writes it: the text of a system message comes twice.
VICUNA_TWICE = ("{% for message in messages %}{% if message['role'] == 'system' %}"
                "{{ message['content'][0]['text'] }}{% else %}"
                "{{ message['role'].upper() + ': '}}{% endif %}" + VIDEOS + SPACED_TEXTS +
                "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}")
MISTRAL = ("{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' }}" +
           VIDEOS + "{% for part in message['content'] | " + IS_TEXT +
           " %}{{ part['text'] }}{% endfor %}{{' [/INST]' }}"
           "{% elif message['role'] == 'assistant' %}"
           r"{{ ' ' + message['content'][0]['text'] + '<\s> '}}"
           "{% else %}{{ raise_exception('no such role') }}{% endif %}{% endfor %}")
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}" + VIDEOS +
          "{% for part in message['content'] | " + IS_TEXT + " %}{% if message['role'] == "
          "'assistant' %}{% generation %}{{ part['text'] }}{% endgeneration %}{% else %}"
          "{{ part['text'] }}{% endif %}{% endfor %}{{'<|im_end|>' + '\n'}}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
FIRST_ONEVISION = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + ' '}}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'video') %}"
    "{{ '<video>' }}{% endfor %}"
    "{% for part in message['content'] | " + IS_TEXT + " %}{{ '\n' + part['text'] }}{% endfor %}"
    "{{'<|im_end|>'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
INTERNVL = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    "{{ '<IMG_CONTEXT>\n' }}{% elif part['type'] == 'video' %}{{ '<video>\n' }}"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "{{'<|im_end|>\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{'<|im_start|>assistant\n' }}{% endif %}")
# Text outside of braces, numbers of the images and videos on request.
QWEN2_5 = (
    "{% set videos = namespace(value=0) %}{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}<|im_start|>system\n"
    "You are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' or 'image' in part %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% elif part['type'] == 'video' %}"
    "{% set videos.value = videos.value + 1 %}{% if add_vision_id %}Video {{ videos.value }}: "
    "{% endif %}<|vision_start|><|video_pad|><|vision_end|>{% elif 'text' in part %}"
    "{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
# Indented, with white space control and a branch about tools.
QWEN3 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' }}
        {%- for part in messages[0].content %}
            {{- part.text }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "user" or message.role == "assistant" %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- for part in message.content %}
            {%- if part.type == 'video' or 'video' in part %}
                {%- if add_vision_id %}Video {{ loop.index }}: {% endif -%}
                <|vision_start|><|video_pad|><|vision_end|>
            {%- elif 'text' in part %}
                {{- part.text }}
            {%- endif %}
        {%- endfor %}
        {%- if message.tool_calls %}
            {{- '<tool_call>' }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {{- '<tool_response>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

EXAMPLE = dict(height=60, width=44, seed=7, count=4, kind="waves")
CLIP = dict(height=50, width=70, seed=3, count=4, kind="waves")
TIMES = [dict(fps=30, first=2, step=20), dict(fps=25, first=0, step=30)]
SYSTEM = "너는 아카이브의 영상을 한국어로 설명한다."
TEXT_EXAMPLE = {"prompt": "두 문장으로 답해 주세요. <b> 1 < 2", "caption": "첫째 문장.\n둘째 문장! "}
VIDEO_EXAMPLE = {"prompt": "무엇이 보입니까?", "caption": "맑은 날 공원에서 사람이 걷는다."}


def conversations(example, clip):
    """`example` and `clip` describe the frames of the example's video and of the clip."""
    shown = VIDEO_EXAMPLE | {"clip": example}
    prompt = goldens.PROMPTS[0]
    return [dict(system=SYSTEM, examples=[TEXT_EXAMPLE, shown], prompt=prompt, clip=clip),
            dict(system="", examples=[shown], prompt=" 공원 ", clip=clip),
            dict(system="Answer in Korean.", examples=[], prompt=prompt, clip=clip),
            dict(system="", examples=[TEXT_EXAMPLE, shown, shown], prompt="", clip=clip)]


def messages_of(talk):
    def text(words):
        return {"type": "text", "text": words}
    messages = [{"role": "system", "content": [text(talk["system"])]}] if talk["system"] else []
    for example in talk["examples"]:
        video = [{"type": "video"}] if "clip" in example else []
        messages += [{"role": "user", "content": video + [text(example["prompt"])]},
                     {"role": "assistant", "content": [text(example["caption"])]}]
    return messages + [{"role": "user", "content": [{"type": "video"}, text(talk["prompt"])]}]


def clips_of(talk):
    return [example["clip"] for example in talk["examples"] if "clip" in example] + [talk["clip"]]


def videos_of(talk):
    return [torch.from_numpy(goldens.frames_of(clip)).permute(0, 3, 1, 2) for clip in clips_of(talk)]


def rendered(family, talk):
    return [processor.apply_chat_template(messages_of(talk), add_generation_prompt=True)
            for processor in family.processors]


def process(family, talk, keys, **more):
    """Ids and the inputs of the model under `keys`, from the two tokenizers' processors."""
    found = [processor(text=text, videos=videos_of(talk), return_tensors="pt", **more)
             for processor, text in zip(family.processors, rendered(family, talk))]
    assert torch.equal(found[0].input_ids, found[1].input_ids), talk
    return found[0].input_ids[0].tolist(), {key: found[0][key] for key in keys}


def qwen3_inputs(family, talk):
    metadata = []
    for clip in clips_of(talk):
        indices = qwen_vl_goldens.indices_of(clip)
        metadata.append({"total_num_frames": indices[-1] + 1, "fps": clip["fps"],
                         "frames_indices": indices})
    return process(family, talk, ["pixel_values_videos", "video_grid_thw"],
                   video_metadata=metadata, do_sample_frames=False)


def qwen2_5_inputs(family, talk):
    return process(family, talk, ["pixel_values_videos", "video_grid_thw", "second_per_grid_ts"],
                   fps=[clip["fps"] / clip["step"] for clip in clips_of(talk)])


def internvl_inputs(family, talk):
    return process(family, talk, ["pixel_values"])


def onevision_inputs(family, talk):
    return process(family, talk, ["pixel_values_videos"])


def llava_inputs(family, talk):
    found = []
    for processor, text in zip(family.processors, rendered(family, talk)):
        pixels = processor.video_processor(videos=videos_of(talk), return_tensors="pt")
        grid = pixels.pixel_values_videos.shape[-1] // processor.patch_size // family.stride
        text = text.replace("<video>", "<video>" * (grid * grid * talk["clip"]["count"]))
        found.append(processor.tokenizer(text).input_ids)
    assert found[0] == found[1], talk
    return found[0], {"pixel_values_videos": pixels.pixel_values_videos}


def positions_of(family, ids, inputs):
    grid = inputs["video_grid_thw"]
    times = inputs.get("second_per_grid_ts")
    more = {} if times is None else {"second_per_grid_ts": times}
    found, _ = family.model.model.get_rope_index(torch.tensor([ids]), None, grid, **more)
    return found[:, 0].flatten().tolist()


def in_frames(talk):
    """The conversation as it is written: clips are objects with "frames"."""
    examples = [example | ({"clip": {"frames": example["clip"]}} if "clip" in example else {})
                for example in talk["examples"]]
    return talk | {"examples": examples, "clip": {"frames": talk["clip"]}}


def pick_talk(family, talk, inputs_of):
    """The conversation, with a system prompt with which no greedy choice is close."""
    for number in range(1, 100):
        tried = talk | {"system": f"{SYSTEM} ({number})"}
        tokens, _, _, margin = goldens.greedy(family.model, *inputs_of(family, tried))
        if margin >= goldens.MIN_MARGIN and len(set(tokens)) >= 4 and 2 not in tokens:
            return tried, tokens, float(f"{margin:.3g}")
    raise AssertionError("no system prompt without close choices")


def make(name, case, load, inputs_of, template, has_times=False, has_system=True, has_greedy=False):
    example, clip = [frames | (times if has_times else {})
                     for frames, times in zip((EXAMPLE, CLIP), TIMES)]
    if has_times:  # of any size and number of frames
        example, clip = example | {"count": 3}, clip
    with tempfile.TemporaryDirectory() as scratch:
        drawn.write_case(goldens.GOLDEN / case, scratch)
        family = load(pathlib.Path(scratch))
        for processor in family.processors:
            processor.chat_template = template
        rows = []
        for talk in conversations(example, clip):
            if talk["system"] and not has_system:
                talk = talk | {"system": ""}
            if has_greedy and not rows:
                talk, tokens, margin = pick_talk(family, talk, inputs_of)
            ids, inputs = inputs_of(family, talk)
            row = in_frames(talk) | {"ids": ids}
            if has_times:
                row["positions"] = positions_of(family, ids, inputs)
            if has_greedy and not rows:
                row |= {"greedy": tokens, "margin": margin}
            rows.append(row)
    head = {"case": case, "template": template}
    lines = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
             for key, value in head.items()]
    lines.append(' "conversations": [\n' + ",\n".join(
        "  " + json.dumps(row, ensure_ascii=False) for row in rows) + "\n ]")
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(name, [len(row["ids"]) for row in rows], rows[0].get("margin"))


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    next_video = make_goldens_llava_next_video.LlavaNextVideo
    onevision = make_goldens_llava_onevision.Onevision
    make("qwen3_vl", "qwen3_vl/untied_f32", make_goldens_qwen3_vl.Qwen3Vl, qwen3_inputs, QWEN3,
         has_times=True, has_greedy=True)
    make("qwen2_5_vl", "qwen2_5_vl/untied_f32", make_goldens_qwen2_5_vl.Qwen25Vl, qwen2_5_inputs,
         QWEN2_5, has_times=True, has_greedy=True)
    make("internvl", "internvl/vit_300m_f32",
         lambda folder: make_goldens_internvl.InternVl(folder, 56), internvl_inputs, INTERNVL,
         has_greedy=True)
    make("onevision", "llava_onevision/qwen3_f32", lambda folder: onevision(folder, CHATML),
         onevision_inputs, CHATML, has_greedy=True)
    make("onevision_first", "llava_onevision/qwen2_tied",
         lambda folder: onevision(folder, FIRST_ONEVISION), onevision_inputs, FIRST_ONEVISION)
    make("vicuna", "llava_next_video/vicuna_conv_f32",
         lambda folder: next_video(folder, VICUNA), llava_inputs, VICUNA, has_greedy=True)
    make("vicuna_twice", "llava_next_video/vicuna_conv_f32",
         lambda folder: next_video(folder, VICUNA_TWICE), llava_inputs, VICUNA_TWICE)
    make("mistral", "llava_next_video/mistral_f16",
         lambda folder: next_video(folder, MISTRAL), llava_inputs, MISTRAL, has_system=False)
    make("yi", "llava_next_video/yi_bf16", lambda folder: next_video(folder, CHATML), llava_inputs,
         CHATML)


if __name__ == "__main__":
    with torch.no_grad():
        main()
