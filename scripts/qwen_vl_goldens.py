"""What the goldens of Qwen2.5-VL and Qwen3-VL have in common beside captioner_goldens.py: a
tokenizer with their tokens, processors on it, and how a small checkpoint is saved."""

from transformers import Qwen2VLImageProcessorFast

import captioner_goldens as goldens

TOKENIZER = goldens.GOLDEN / "qwen_vl_tokenizer"
ADDED = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
         "<|image_pad|>", "<|video_pad|>"]
TURNS = (
    "{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'video' %}{{ '<|vision_start|><|video_pad|><|vision_end|>' }}"
    "{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def indices_of(clip):
    return [clip["first"] + i * clip["step"] for i in range(clip["count"])]


def vision_config(**changes):
    return dict(depth=4, hidden_size=48, num_heads=3, intermediate_size=100, patch_size=4,
                spatial_merge_size=2, temporal_patch_size=2, out_hidden_size=64) | changes


def text_config(**changes):
    return dict(vocab_size=goldens.VOCAB, hidden_size=64, intermediate_size=112,
                num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=4096,
                rms_norm_eps=1e-6, eos_token_id=2, tie_word_embeddings=False) | changes


class Family:
    """A checkpoint as the reference runs it. A subclass names its classes, its template and the
    inputs that the model takes besides ids, and tells the processor the frames' times."""

    prompts = goldens.PROMPTS
    takes_clip = True

    def __init__(self, folder):
        self.model = goldens.open_reference(self.model_class, folder)

        class Processor(self.processor_class):
            tokenizer_class = ("LlamaTokenizer", "LlamaTokenizerFast")  # of the test tokenizer

        self.processors = [
            Processor(image_processor=Qwen2VLImageProcessorFast(), tokenizer=tokenizer,
                      video_processor=self.video_class.from_pretrained(folder),
                      chat_template=self.template)
            for tokenizer in goldens.tokenizers(TOKENIZER)]

    def inputs(self, question, clip):
        ids, found = goldens.run_processors(
            self.processors, question, goldens.frames_of(clip), **self.times(clip))
        return ids, {name: found[name] for name in self.input_names}


def make_case(family, name, text, vision, dtype, clips, shard, limits, spread, change=None):
    """Makes tests/golden/<family.name>/<name>; change(folder) alters the saved checkpoint."""
    ids = {token: goldens.token_id(token, TOKENIZER) for token in ADDED}
    config = family.config_class(
        text_config=text, vision_config=vision, image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"], vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"])

    def save(folder):
        family.model_class(config).to(dtype).save_pretrained(folder, max_shard_size=shard)
        family.video_class(
            size={"shortest_edge": limits[0], "longest_edge": limits[1]},
            patch_size=vision["patch_size"], merge_size=vision["spatial_merge_size"],
            temporal_patch_size=vision["temporal_patch_size"]).save_pretrained(folder)
        if change:
            change(folder)

    goldens.make_case(goldens.GOLDEN / family.name / name, save, family, clips,
                      tokenizer=TOKENIZER, spread=spread)
