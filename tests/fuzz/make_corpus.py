#!/usr/bin/env python3
"""Writes the seeds of tests/fuzz/corpus: small files, good ones and ones broken in a known way.

Run: python3 tests/fuzz/make_corpus.py   (no packages needed)
"""
import json
import pathlib
import shutil
import struct

OUT = pathlib.Path(__file__).resolve().parent / "corpus"


def write(folder, seeds):
    shutil.rmtree(OUT / folder, ignore_errors=True)
    (OUT / folder).mkdir(parents=True)
    for name, content in seeds.items():
        (OUT / folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def json_seeds():
    return {
        "empty": "", "object": "{}", "list": "[1, 2]", "null": "null",
        "config": json.dumps({"text_config": {"hidden_size": 4096, "rope_scaling": {"factor": 2.5, "type": "linear"}},
                              "grid": [[336, 672], [672, 336]], "layers": [{"id": 0}, {"id": 1}],
                              "tie": False, "eps": 1e-5, "name": "한국어 \u2028", "none": None}, ensure_ascii=False),
        "numbers": '{"a": [0, -0, 1.5, -1e-300, 9223372036854775807, 18446744073709551615, 1e22]}',
        "too_big": '{"a": 1e999}', "nan": '{"a": NaN}', "duplicate": '{"a": 1, "a": 2}',
        "duplicate_inside": '{"a": [{"b": 1, "b": 1}]}', "deep_ok": '{"a": ' + "[" * 63 + "]" * 63 + "}",
        "too_deep": '{"a": ' + "[" * 64 + "]" * 64 + "}", "open": '{"a": ' + "[" * 500,
        "escapes": r'{"\u0000\ud83d\ude00\"\\\/\b\f\n\r\t": "\u001f"}', "lone_surrogate": r'{"a": "\ud83d"}',
        "invalid_utf8": b'{"a": "\xff\xc0\x80"}', "bom": b'\xef\xbb\xbf{"a": 1}', "trailing": '{"a": 1} x',
        "comment": '{"a": 1 /* x */}', "nul": b'{"a"\x00: 1}', "cut": '{"a": "b',
    }


def record_seeds():
    good = {"video": "a \\x0a.mp4", "id": "0" * 64,
            "file": {"path": "/x/a.mp4", "bytes": 12, "modified": "2026-11-22T01:02:03.000000004Z"},
            "window_s": [0, 1.5], "caption": "영상", "status": "ok", "frames": {"wanted": 8, "used": 7},
            "tokens": {"prompt": 1, "vision": 2, "output": 3},
            "timing_ms": {"decode": 1, "vision": 2.5, "first_token": 3, "total": 4}, "finish_reason": "stop"}
    error = {"status": "failed", "error": {"code": "no_frames", "message": "m"}, "caption": ""}
    variants = {
        "ok": {}, "failed": error, "suspicious": {"status": "suspicious", "reason": "the caption is empty"},
        "copy": {"copy_of": "/y/b.mp4", "warnings": ["w", ""], "prompt": "p", "settings": "00ff"},
        "moved": {"moved_from": "/y/b.mp4", "logprobs": {"mean": -1, "tokens": []}},
        "before_1970": {"file": {"path": "", "bytes": 0, "modified": "1901-12-13T20:45:52.999999999Z"}},
        "no_time": {"file": {"path": "/x", "modified": "2026-13-01T00:00:00.0Z"}},
        "error_without_status": {"error": {"code": "x", "message": "y"}}, "no_reason": {"status": "suspicious"},
    }
    seeds = {name: json.dumps(good | change, ensure_ascii=False) for name, change in variants.items()}
    far = seeds["copy"].replace("bytes", "bytEs").replace("2026-11", "8131-11").replace("first_token", "frs_titoken")
    return seeds | {"empty": "", "cut": seeds["ok"][:100], "time_beyond_64_bits": far}


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors(header, size, pad=8):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % pad)
    return struct.pack("<Q", len(text)) + text + bytes(i % 251 for i in range(size))


def safetensors_seeds():
    good = {"__metadata__": {"format": "pt"}, "w": tensor("F32", [2, 3], 0, 24), "b": tensor("BF16", [4], 24, 32),
            "s": tensor("F16", [], 32, 34), "e": tensor("I8", [0, 5], 34, 34), "f": tensor("F8_E4M3", [2], 34, 36)}
    file = safetensors(good, 36)
    return {
        "good": file, "cut_header": file[:40], "cut_data": file[:-1], "longer": file + b"x", "empty": b"",
        "seven": file[:7], "no_tensors": safetensors({}, 0), "length_0": bytes(8), "length_max": b"\xff" * 16,
        "overlap": safetensors({"a": tensor("I8", [4], 0, 4), "b": tensor("I8", [4], 2, 6)}, 6),
        "gap": safetensors({"a": tensor("I8", [4], 0, 4), "b": tensor("I8", [4], 6, 10)}, 10),
        "unaligned": safetensors({"a": tensor("I8", [1], 0, 1), "b": tensor("F32", [1], 1, 5)}, 5),
        "overflow": safetensors({"a": tensor("F32", [2**62, 2**62], 0, 4)}, 4),
        "negative": safetensors({"a": tensor("F32", [-1], 0, 4)}, 4),
        "backwards": safetensors({"a": tensor("I8", [4], 4, 0)}, 4),
        "beyond": safetensors({"a": tensor("I8", [2**40], 0, 2**40)}, 4),
        "dtype": safetensors({"a": tensor("F31", [1], 0, 4)}, 4),
        "duplicate": safetensors(b'{"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},'
                                 b'"a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}}', 2),
        "metadata": safetensors({"__metadata__": {"a": 1}}, 0), "null": safetensors({"a": None}, 0),
        "deep": safetensors(b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", 0), "lfs": "version https://git-lfs.github.com/spec/v1\n",
        "index": json.dumps({"metadata": {"total_size": 8}, "weight_map": {"w": "model-00001-of-00002.safetensors"}}),
        "index_escape": json.dumps({"weight_map": {"w": "../model.safetensors"}}),
        "index_type": json.dumps({"weight_map": {"w": 1}}),
    }


def quantised_seeds():
    """config.json, a NUL byte, model.safetensors; the first seeds are the goldens."""
    goldens = pathlib.Path(__file__).resolve().parent.parent / "golden"
    read = lambda folder: ((folder / "config.json").read_bytes(), (folder / "model.safetensors").read_bytes())
    row = lambda name: read(goldens / "quantised" / name)
    compressed = lambda name: read(goldens / "compressed_tensors" / name)
    names = ["awq_row", "gptq_v2_act_order_short_group", "gptq_8_bits_v1_act_order", "nf4", "nf4_odd", "fp4_double", "llm_int8"]
    seeds = {name: b"\0".join(row(name)) for name in names}
    names = ["w4_act_order_asymmetric", "w4_channel_odd", "w8_channel_odd", "w8a8_asymmetric", "w8a8_static_tensor", "mixed",
             "fp8_tensor_static", "fp8_block", "plain_fp8_block_bf16", "plain_fp8_static"]
    seeds |= {name: b"\0".join(compressed(name)) for name in names}
    awq, file = row("awq_row")
    packed, packed_file = compressed("w4_channel_odd")
    return seeds | {
        "no_config": b"{}\0" + file, "empty": b"", "cut": b"\0".join(row("nf4"))[:-9],
        "method": awq.replace(b"awq", b"hqq") + b"\0" + file, "bits": awq.replace(b": 4", b": 9") + b"\0" + file,
        "group_0": awq.replace(b"-1", b"0") + b"\0" + file, "group_huge": awq.replace(b"-1", b"1048576") + b"\0" + file,
        "version_type": awq.replace(b'"gemm"', b"[]") + b"\0" + file,
        "no_method": b'{"quantization_config": {}}\0' + file,
        "other_method": awq.replace(b'"awq"', b'"gptq"') + b"\0" + file,
        "packed_strategy": packed.replace(b'"channel"', b'"block"') + b"\0" + packed_file,
        "packed_bits": packed.replace(b'"num_bits": 4', b'"num_bits": 8') + b"\0" + packed_file,
        "packed_preset": packed.replace(b'"group_0": {', b'"W8A8": [], "group_0": {') + b"\0" + packed_file,
        "packed_shape": packed + b"\0" + packed_file.replace(b'"shape":[9,10]', b'"shape":[10,9]'),
        "fp8_of_packed": b'{"quantization_config": {"quant_method": "fp8"}}\0' + packed_file,
        "bitsandbytes_of_awq": b'{"quantization_config": {"quant_method": "bitsandbytes"}}\0' + file,
    }


def gguf_text(text):
    text = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(text)) + text


def gguf_tensor(name, dims, kind, offset):
    return gguf_text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def gguf(pairs, tensors, data, version=3, counts=(0, 0), alignment=32):
    """A file; pairs are (key, type, value bytes), and `counts` is added to the counts of the header."""
    text = b"GGUF" + struct.pack("<IQQ", version, len(tensors) + counts[0], len(pairs) + counts[1])
    text += b"".join(gguf_text(key) + struct.pack("<I", kind) + value for key, kind, value in pairs)
    text += b"".join(tensors)
    return text + bytes(-len(text) % alignment) + data


def gguf_seeds():
    array = lambda kind, count, items: struct.pack("<IQ", kind, count) + items
    scalars = [("k%d" % kind, kind, struct.pack(form, 1)) for kind, form in
               enumerate(["<B", "<b", "<H", "<h", "<I", "<i", "<f", "<?"])]
    scalars += [("text", 8, gguf_text("가 a")), ("u64", 10, struct.pack("<Q", 2**64 - 1)),
                ("i64", 11, struct.pack("<q", -1)), ("f64", 12, struct.pack("<d", float("nan")))]
    arrays = [("ints", 9, array(5, 2, struct.pack("<2i", 1, -1))), ("bools", 9, array(7, 2, b"\0\1")),
              ("texts", 9, array(8, 2, gguf_text("") + gguf_text(b"\xff"))),
              ("nested", 9, array(9, 1, array(9, 1, array(4, 1, bytes(4)))))]
    sizes = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 12: (256, 144),
             13: (256, 176), 14: (256, 210), 20: (32, 18), 30: (1, 2), 10: (256, 84), 28: (1, 8)}
    tensors, data = [], b""
    for kind, (block, size) in sizes.items():
        tensors.append(gguf_tensor(f"t{kind}", [block, 2], kind, len(data)))
        block_bytes = bytes((i * 7 + kind) % 251 for i in range(2 * size))
        data += block_bytes + bytes(-len(block_bytes) % 32)
    one = [gguf_tensor("t", [1], 0, 0)]
    good = gguf(scalars + arrays, tensors, data)
    return {
        "good": good, "version_2": gguf(scalars, one, bytes(4), version=2), "cut_header": good[:200],
        "cut_data": good[:-40], "longer": good + bytes(64), "empty": b"", "magic": b"GGUF", "no_tensors": gguf([], [], b""),
        "version_1": gguf([], [], b"", version=1), "big_endian": gguf([], [], b"", version=0x03000000),
        "many_pairs": gguf([], [], b"", counts=(0, 2**60)), "many_tensors": gguf([], [], b"", counts=(2**60, 0)),
        "long_key": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63), "twice": gguf([scalars[0]] * 2, [], b""),
        "array_bomb": gguf([("a", 9, array(9, 2**62, b""))], [], b""), "type": gguf([("a", 13, b"x")], [], b""),
        "deep": gguf([("a", 9, array(9, 1, array(9, 1, array(9, 1, array(9, 1, array(0, 0, b""))))))], [], b""),
        "alignment": gguf([("general.alignment", 4, struct.pack("<I", 64))], one, bytes(4), alignment=64),
        "alignment_3": gguf([("general.alignment", 4, struct.pack("<I", 3))], one, bytes(4)),
        "axes": gguf([], [gguf_tensor("t", [1] * 5, 0, 0)], bytes(4)), "zero": gguf([], [gguf_tensor("t", [0], 0, 0)], b""),
        "huge": gguf([], [gguf_tensor("t", [2**32, 2**31], 0, 0)], bytes(4)),
        "block": gguf([], [gguf_tensor("t", [33], 8, 0)], bytes(34)), "no_type": gguf([], [gguf_tensor("t", [32], 4, 0)], bytes(34)),
        "overlap": gguf([], one + [gguf_tensor("u", [1], 0, 0)], bytes(64)),
        "offset": gguf([], [gguf_tensor("t", [1], 0, 2**63)], bytes(4)),
        "same_name": gguf([], one + [gguf_tensor("t", [1], 0, 32)], bytes(64)),
    }


def gguf_model_seeds():
    text = lambda key, value: (key, 8, gguf_text(value))
    number = lambda key, value: (key, 4, struct.pack("<I", value))
    texts = lambda key, values: (key, 9, struct.pack("<IQ", 8, len(values)) + b"".join(map(gguf_text, values)))
    sizes = lambda arch: [text("general.architecture", arch)] + [number(f"{arch}.{key}", value) for key, value in {
        "block_count": 1, "context_length": 64, "embedding_length": 32, "feed_forward_length": 32,
        "attention.head_count": 2, "attention.head_count_kv": 1}.items()] + [
        (f"{arch}.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-6))]
    def tensors(shapes):
        infos, data = [], b""
        for name, (dims, kind, size) in shapes.items():
            infos.append(gguf_tensor(name, dims, kind, len(data)))
            block = bytes(i * 7 % 60 for i in range(size))
            data += block + bytes(-len(block) % 32)
        return infos, data
    layer = {"token_embd.weight": ([32, 4], 8, 136), "output_norm.weight": ([32], 0, 128),
             "blk.0.attn_q.weight": ([32, 32], 2, 576), "blk.0.attn_k.weight": ([32, 16], 8, 544),
             "blk.0.ffn_up.weight": ([32, 32], 30, 2048), "blk.0.ffn_down.weight": ([32, 32], 7, 768)}
    words = ["<unk>", "<s>", "</s>", "\u2581a", "\u2581", "a", "\uac00", "1"]
    kinds = struct.pack("<IQ8i", 5, 8, 2, 3, 3, 1, 1, 1, 1, 1)
    piece_model = [text("tokenizer.ggml.model", "llama"), texts("tokenizer.ggml.tokens", words),
                   ("tokenizer.ggml.scores", 9, struct.pack("<IQ8f", 6, 8, *[-float(i) for i in range(8)])),
                   ("tokenizer.ggml.token_type", 9, kinds), number("tokenizer.ggml.bos_token_id", 1)]
    bytes_model = [text("tokenizer.ggml.model", "gpt2"), text("tokenizer.ggml.pre", "qwen2"),
                   texts("tokenizer.ggml.tokens", ["a", "b", "ab", "\u0120", "\u0120a", "<s>", "</s>", "1"]),
                   ("tokenizer.ggml.token_type", 9, struct.pack("<IQ8i", 5, 8, 1, 1, 1, 1, 1, 3, 4, 1)),
                   texts("tokenizer.ggml.merges", ["a b", "\u0120 a"]), text("tokenizer.chat_template", "ab <s> a")]
    clip = [text("general.architecture", "clip"), text("clip.projector_type", "qwen3vl_merger"),
            ("clip.vision.is_deepstack_layers", 9, struct.pack("<IQ", 7, 2) + b"\0\1")]
    tower = {"v.patch_embd.weight": ([2, 2, 3, 4], 1, 96), "v.patch_embd.weight.1": ([2, 2, 3, 4], 1, 96),
             "v.deepstack.1.fc1.weight": ([4, 4], 0, 64), "mm.2.weight": ([4, 4], 0, 64)}
    return {
        "llama": gguf(sizes("llama") + piece_model, *tensors(layer)),
        "qwen2": gguf(sizes("qwen2") + bytes_model, *tensors(layer)),
        "llama_bpe": gguf(sizes("llama") + [text("tokenizer.ggml.pre", "llama-bpe")] + bytes_model[:1] + bytes_model[2:],
                          *tensors(layer)),
        "tower": gguf(clip, *tensors(tower)), "no_tokenizer": gguf(sizes("qwen3"), *tensors(layer)),
        "no_tensors": gguf(sizes("llama") + piece_model, [], b""),
        "many_layers": gguf(clip[:1] + [text("clip.projector_type", "qwen2.5vl_merger")] +
                            [number("clip.vision.block_count", 2**30), number("clip.vision.n_wa_pattern", 1)],
                            *tensors(tower)),
        "empty": b"",
    }


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def piece(text, score=0.0, kind=1):
    text = text if isinstance(text, bytes) else text.encode()
    return field(1, field(1, text) + b"\x15" + struct.pack("<f", score) + b"\x18" + varint(kind))


NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
BPE = field(2, b"\x18\x02")
UNIGRAM = field(2, b"\x18\x01")


def tokenizer_seeds():
    head = piece("<unk>", kind=UNKNOWN) + piece("<s>", kind=CONTROL) + piece("</s>", kind=CONTROL)
    words = [piece(text, -float(i)) for i, text in enumerate(["▁a", "ab", "▁", "a", "b", "가", "▁가", "나", "▁▁"])]
    small = head + b"".join(words) + BPE
    bytes256 = head + b"".join(piece(f"<0x{b:02X}>", kind=BYTE) for b in range(256)) + b"".join(words) + BPE
    added = lambda **flags: json.dumps({"legacy": False, "added_tokens_decoder": {
        "12": {"content": "<video>", "special": True, "normalized": False, **flags}}})
    row = lambda config, text, model: config.encode() + b"\0" + text + b"\0" + model
    texts = "a  ab <video>\n가나 <s>▁😀".encode()
    return {
        "small": row("{}", texts, small), "bytes": row("{}", texts, bytes256),
        "modern": row(added(), texts, small), "lstrip": row(added(lstrip=True), texts, small),
        "rstrip": row(added(rstrip=True), texts, small), "word": row(added(single_word=True), texts, small),
        "normalized": row(added(normalized=True), texts, small), "plain": row(added(special=False), texts, small),
        "eos": row('{"add_eos_token": true, "add_bos_token": false}', texts, small),
        "no_prefix": row('{"add_prefix_space": false}', texts, small),
        "bos_object": row('{"bos_token": {"content": "</s>"}}', texts, small),
        "bos_missing": row('{"bos_token": "<none>"}', texts, small),
        "far_id": row('{"added_tokens_decoder": {"90000": {"content": "<x>"}}}', b"a<x>b", small),
        "too_far_id": row('{"added_tokens_decoder": {"9999999999": {"content": "<x>"}}}', texts, small),
        "pipeline": row('{"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend"}]}}', texts, small),
        "metaspace": row('{"pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "first"}}', texts, small),
        "byte_named_token": row('{"added_tokens_decoder": {"12": {"content": "<0xFF>"}}}', b"<0xFF>a", small),
        "invalid_text": row("{}", b"\xff\xea\xb0 \xed\xa0\x80", bytes256),
        "user_defined": row("{}", b"a<u>b", head + piece("<u>", kind=USER) + b"".join(words) + BPE),
        "one_char_control": row("{}", "나다".encode(), head + piece("나", kind=CONTROL) + piece("다", kind=USER) + BPE),
        "unused": row("{}", texts, head + piece("abab", kind=UNUSED) + b"".join(words) + BPE),
        "no_trainer_spec": row("{}", texts, head + b"".join(words)),
        "unigram": row("{}", texts, head + b"".join(words) + UNIGRAM), "no_unknown": row("{}", texts, b"".join(words) + BPE),
        "two_unknown": row("{}", texts, small + piece("<unk2>", kind=UNKNOWN)),
        "twice": row("{}", texts, small + piece("a")), "empty_piece": row("{}", texts, small + piece("")),
        "some_bytes": row("{}", texts, small + piece("<0x41>", kind=BYTE)),
        "bad_piece": row("{}", texts, small + piece(b"\xff")), "nan": row("{}", texts, small + piece("x", float("nan"))),
        "kind": row("{}", texts, small + piece("x", kind=99)), "cut": row("{}", texts, small[:-3]),
        "group": row("{}", texts, small + b"\x0b\x0c"), "long_varint": row("{}", texts, small + b"\x80" * 11),
        "same_scores": row("{}", b"aaaa bbbb abab", head + b"".join(
            piece(t) for t in ["▁", "a", "b", "aa", "bb", "ab", "aab", "▁b"]) + BPE),
        "tiktoken": row("{}", texts, b"IQ== 0\nIg== 1\n"), "empty": b"", "bad_config": row('{"legacy": 3}', texts, small),
    }


def pipeline_seeds():
    """tokenizer.json, and vocab.json with merges.txt."""
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
               r"|\s*[\r\n]+|\s+(?!\S)|\s+")
    vocab = {t: i for i, t in enumerate(["a", "b", "ab", "Ġ", "Ġa", "ê", "°", "Ģ", "ê°", "'", "s"])}
    merges = ["a b", "Ġ a", "ê °"]
    bpe = {"type": "BPE", "vocab": vocab, "merges": merges}
    mark = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    added = [{"id": 11, "content": "<x>", "special": True, "lstrip": True},
             {"id": 12, "content": "가b", "normalized": True, "single_word": True}]
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    template = {"type": "TemplateProcessing", "special_tokens": {"<x>": {"id": "<x>", "ids": [11]}},
                "single": [{"SpecialToken": {"id": "<x>"}}, {"Sequence": {"id": "A"}}]}
    qwen2 = {"normalizer": {"type": "NFC"}, "model": {**bpe, "ignore_merges": True}, "decoder": {"type": "ByteLevel"},
             "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}, "added_tokens": added,
             "post_processor": template}
    gpt2 = {"pre_tokenizer": {"type": "ByteLevel"}, "decoder": {"type": "ByteLevel"}, "added_tokens": added,
            "model": {"vocab": vocab, "merges": [m.split() for m in merges], "unk_token": "s"}}
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    characters = {"<unk>": 0, "<s>": 1, "</s>": 2, "▁": 3, "a": 4, "b": 5, "▁a": 6,
                  **{f"<0x{b:02X}>": 20 + b for b in range(256)}}
    llama = {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, spaces, {"type": "NFKC"},
                                                                {"type": "Lowercase"}, {"type": "Strip"}]},
             "model": {"type": "BPE", "vocab": characters, "merges": ["▁ a"], "byte_fallback": True, "fuse_unk": True,
                       "unk_token": "<unk>"},
             "decoder": {"type": "Sequence", "decoders": [
                 {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                 {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
             "added_tokens": [{"id": 1, "content": "<s>", "special": True}]}
    unigram = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                   {"type": "WhitespaceSplit"}, {"type": "Digits", "individual_digits": True},
                   {"type": "Split", "pattern": {"String": "-"}, "behavior": "MergedWithNext"}, mark]},
               "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": True,
                         "vocab": [["<unk>", 0], ["▁", -1.5], ["a", -2], ["▁a", -2.5], ["ab", -1e1]]},
               "decoder": {**mark, "prepend_scheme": "always"}}
    text = "가 ab<x> 's\u1100\u1161 12-b ▁가b".encode()
    dumped = lambda value: json.dumps(value, ensure_ascii=False).encode()
    row = lambda config, model: dumped(config) + b"\0" + text + b"\xff\0" + model
    listed = {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {"11": {"content": "<x>", "special": True}}}
    return {
        "json_qwen2": row({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<x>"}, dumped(qwen2)),
        "json_gpt2": row({"add_prefix_space": True}, dumped(gpt2)),
        "json_llama": row({"tokenizer_class": "LlamaTokenizer"}, dumped(llama)),
        "json_unigram": row({}, dumped(unigram)), "json_cut": row({}, dumped(qwen2)[:-9]),
        "slow_qwen2": row(listed, b"V" + dumped(vocab) + b"\0#version: 0.2\n" + "\n".join(merges).encode()),
    }


def preset_seeds():
    full = """# For a test.
device: {type: cpu, threads: 2, memory_utilization: 0.5}
model: samples/demo-model
quantization:
  weights: bf16
  kv_cache: bf16
engine:
  batching: continuous
  max_num_seqs: 16
  chunked_prefill: on
generation:
  prompt: "이 영상을 설명해 주세요."
  temperature: 0.7
  seed: 42
video:
  num_frames: 8
  sampling: fps=1.5
"""
    composed = """model:
  vision: a/clip
  projector: a/projector.safetensors
  llm: Qwen/Qwen3-8B
  adapter: a/lora
  prompt: "{video} 설명"
  vision_feature_layer: -2
  pooling: 2
"""
    return {
        "full": full, "composed": composed, "empty": "", "comment": "# nothing\n", "scalar": "x", "list": "[1, 2]",
        "texts": "generation:\n  stop: [끝, \"\\n\", '#']\n", "list_in_list": "generation:\n  stop: [a, [b], {c: d}, ~]\n",
        "unknown_section": "nope:\n  a: 1\n", "unknown_key": "engine:\n  nope: 1\n",
        "duplicate": "engine:\n  max_num_seqs: 1\n  max_num_seqs: 2\n", "duplicate_section": "video: {}\nvideo: {}\n",
        "number": "engine: {max_num_seqs: 1.5}", "range": "engine: {max_num_seqs: 0}", "nan": "generation: {temperature: .nan}",
        "inf": "generation: {temperature: .inf}", "hex": "engine: {max_num_seqs: 0x10}", "big": "generation: {seed: 1e15}",
        "text": "device: {type: tpu}", "bool": "engine: {chunked_prefill: maybe}", "null": "engine:\n", "tilde": "engine: {max_num_seqs: ~}",
        "alias": "engine: &a {max_num_seqs: 2}\nvideo: *a\n", "self_alias": "engine: &a [*a]\n", "merge": "engine: {<<: {max_num_seqs: 3}}",
        "documents": "engine: {}\n---\nvideo: {}\n", "tag": "engine: !!str {max_num_seqs: 2}", "block": "generation:\n  prompt: |\n    a\n    b\n",
        "quotes": "generation: {prompt: 'it''s \\x', }", "escapes": 'generation: {prompt: "\\u263a \\x41 \\0"}',
        "invalid_utf8": b"generation: {prompt: \xff}", "nul": b"engine:\x00 {}", "bom": b"\xef\xbb\xbfengine: {}", "utf16": "engine: {}".encode("utf-16"),
        "deep": "engine: " + "[" * 200, "deep_map": "{a: " * 200, "tab": "engine:\n\tmax_num_seqs: 1\n", "open": "generation: {prompt: \"a",
        "sampling": "video: {sampling: fps=0}", "no_video": "model: {vision: a, llm: b, projector: c, prompt: x}",
        "escape_of_half_a_character": b' " \\\xda\xa4',
    }


def blob_header(magic=b"capblob\n", version=1, header_bytes=72, kind=b"pages", key=(1, 2), payload_bytes=0, checksum=(0, 0)):
    return (magic + struct.pack("<II", version, header_bytes) + kind.ljust(16, b"\0")
            + struct.pack("<QQQQQ", *key, payload_bytes, *checksum))


def blob_seeds():
    # XXH3-128 of nothing, high half first.
    empty = (0x99AA06D3014798D8, 0x6001C324468D497F)
    return {
        "empty": b"", "good": blob_header(checksum=empty), "cut": blob_header()[:40], "magic": blob_header(magic=b"capblob\r"),
        "version": blob_header(version=2), "kind": blob_header(kind=b"vision"), "key": blob_header(key=(2, 1)),
        "size": blob_header(payload_bytes=2**64 - 1), "checksum": blob_header(payload_bytes=3) + b"abc",
    }


SEEN_CLIP_LAYOUT = b"ccsclip3"  # kLayout of lib/pipeline/vision_cache.cpp


def seen_clip(layout=SEEN_CLIP_LAYOUT, times=(0.0, 0.5), suspicion=b"", warnings=(b"x",), shape=(1, 2), tokens=b"\0" * 8):
    text = lambda one: struct.pack("<q", len(one)) + one
    frames = struct.pack("<qqqq", len(times), 64, 48, len(times)) + struct.pack(f"<{len(times)}d", *times)
    return (layout + struct.pack("<QQq", 1, 2, 8) + frames + struct.pack("<q", 10**6) + text(suspicion)
            + struct.pack("<q", len(warnings)) + b"".join(text(w) for w in warnings) + struct.pack("<qq", *shape) + tokens)


def seen_clip_seeds():
    return {
        "good": seen_clip(), "suspicious": seen_clip(suspicion=b"every frame is black"), "no_warning": seen_clip(warnings=()), "cut": seen_clip()[:-1], "longer": seen_clip() + b"x",
        "no_tokens": seen_clip(shape=(0, 2), tokens=b""), "huge": seen_clip(shape=(2**31, 2**31)), "negative": seen_clip(shape=(-1, 2)),
        "many_warnings": SEEN_CLIP_LAYOUT + struct.pack("<QQqqqqqqqq", 1, 2, 8, 0, 64, 48, 0, 0, 0, 2**31), "empty": b"",
        "other_layout": seen_clip(layout=b"ccsclip2"), "no_times": seen_clip(times=()),
        "many_times": SEEN_CLIP_LAYOUT + struct.pack("<QQqqqqq", 1, 2, 8, 8, 64, 48, 2**31),
    }


if __name__ == "__main__":
    write("seen_clip", seen_clip_seeds())
    write("blob", blob_seeds())
    write("gguf", gguf_seeds())
    write("gguf_model", gguf_model_seeds())
    write("json", json_seeds())
    write("preset", preset_seeds())
    write("record", record_seeds())
    write("quantised_config", quantised_seeds())
    write("safetensors", safetensors_seeds())
    write("tokenizer", {**tokenizer_seeds(), **pipeline_seeds()})
