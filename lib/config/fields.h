// config/fields.h: the table of all options. The YAML keys, the flags, their --help, the range
// checks and `presets --show` are generated from it.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/preset.h"

namespace caption::config {

// The first result that an option changes, in the order from frames to captions; later results
// change as well. The keys of everything stored for later runs are computed from these declarations
// (config/identity.h), so that no option can be forgotten.
enum class Affects {
  kPixels,  // which frames are taken, and how they become pixel values
  kPages,   // the vision tokens of given pixels, and the KV pages of a prompt
  kTokens,  // which tokens follow the prompt, and what records contain about them
  // Only speed, memory or limits; or a path, where the content of its files is hashed instead.
  kNothing,
};

// The meaning of a value where its type does not show it.
enum class Means {
  kItself,
  kBytes,    // an integer; also written as a size: 4GiB (base/units.h)
  kSeconds,  // a number; also written as a time: 1h30m
  kFile,
  kFolder,
  kModel,     // a folder, or a name in the Hugging Face cache
  kSampling,  // a form of video::sampling_forms()
};

struct Field {
  const char* key;   // "section.name"
  const char* flag;  // "--name"; empty: only in presets
  Affects affects;
  const char* help;  // one short line
  Means means;
  const char* details;  // additional sentences for the manual

  // A constructor instead of aggregate initialisation, so that omitting `affects` is a compile
  // error.
  constexpr Field(const char* the_key, const char* the_flag, Affects what_it_affects,
                  const char* the_help, Means what_it_means = Means::kItself,
                  const char* the_details = "")
      : key(the_key),
        flag(the_flag),
        affects(what_it_affects),
        help(the_help),
        means(what_it_means),
        details(the_details) {}
};

template <class T>
struct Range {
  T min;
  T max;
};
using IntRange = Range<std::int64_t>;
using RealRange = Range<double>;

// Longest prompt or path in a preset, in bytes.
inline constexpr std::size_t kMaxTextBytes = 16u << 10;

// One function per section of a preset: calls visit(field, value[, range]) for each of its options.
template <class Section, class Visit>
void for_each_device_field(Section& device, Visit&& visit) {
  visit(Field{"device.type", "--device", Affects::kNothing,
              "where the model runs; auto looks at the machine"},
        device.type);
  visit(Field{"device.devices", "--devices", Affects::kNothing,
              "GPUs: first, all, or numbers as 0,1", Means::kItself,
              "Each gets a copy of the model and an engine; clips go to the GPU that has room, and "
              "records to one output. Their arithmetic must be the same. When one is lost, the "
              "others make its clips."},
        device.devices);
  visit(Field{"device.memory_utilization", "--memory-utilization", Affects::kNothing,
              "share of memory for weights and KV pages", Means::kItself,
              "KV pages get what weights and activations leave of it."},
        device.memory_utilization, RealRange{0.05, 0.98});
  visit(Field{"device.threads", "--threads", Affects::kNothing,
              "CPU threads; 0: all that are usable"},
        device.threads, IntRange{0, 4096});
}

template <class Section, class Visit>
void for_each_model_field(Section& model, Visit&& visit) {
  visit(Field{"model.path", "--model", Affects::kNothing, "folder, .gguf file or Hub name",
              Means::kModel,
              "Names are those of the local cache; a .gguf file has its mmproj file beside it."},
        model.path);
  visit(Field{"model.vision", "", Affects::kNothing,
              "composed model: folder of the CLIP or SigLIP vision tower", Means::kModel},
        model.vision);
  visit(Field{"model.vision_feature_layer", "", Affects::kPages,
              "composed model: hidden layer taken, -1 is the last", Means::kItself,
              "A list takes several layers, side by side."},
        model.vision_feature_layer, IntRange{-256, 255});
  visit(Field{"model.pooling", "", Affects::kPages,
              "composed model: stride of average pooling, 1 is none", Means::kItself,
              "As avg_pool2d of torch: patches at the end of a row or column that fill no window "
              "are left out, with a warning."},
        model.pooling, IntRange{1, 16});
  visit(Field{"model.projector", "", Affects::kNothing,
              "composed model: safetensors of the projector", Means::kFile},
        model.projector);
  visit(Field{"model.projector_type", "", Affects::kPages, "composed model: kind of projector",
              Means::kItself, "auto recognises it by its tensors."},
        model.projector_type);
  visit(Field{"model.projector_hidden_act", "", Affects::kPages,
              "composed model: activation of the projector's layers", Means::kItself,
              "auto is gelu for mlp and perceiver_resampler, silu for c_abstractor."},
        model.projector_hidden_act);
  visit(Field{"model.projector_tokens", "", Affects::kPages,
              "composed model: tokens of a frame from a c_abstractor, a square; 0: 64"},
        model.projector_tokens, IntRange{0, 4096});
  visit(Field{"model.projector_head_dim", "", Affects::kPages,
              "composed model: width of a perceiver_resampler's heads; 0: usual", Means::kItself,
              "0 is 64, or 96 where the tensors are called as those of Idefics2."},
        model.projector_head_dim, IntRange{0, 256});
  visit(
      Field{"model.tensor_names", "", Affects::kPages,
            "composed model: names in the files, THEIRS=OURS", Means::kItself,
            "Both are the beginning of names. PART:THEIRS=OURS is for one file: vision, projector "
            "or llm."},
      model.tensor_names);
  visit(Field{"model.llm", "", Affects::kNothing, "composed model: folder of the language model",
              Means::kModel},
        model.llm);
  visit(Field{"model.adapter", "--adapter", Affects::kNothing, "LoRA folder, or NAME=FOLDER",
              Means::kFolder,
              "A folder as PEFT writes it. Without a name it applies to every clip. Adapters with "
              "names change the language model only, and are chosen by a line of JSON in the list "
              "of videos or of prompts."},
        model.adapter);
  visit(Field{"model.prompt", "", Affects::kTokens,
              "composed model: template with {video} and {prompt}"},
        model.prompt);
  visit(Field{"model.system_template", "", Affects::kTokens,
              "composed model: template of a system prompt, with {system}"},
        model.system_template);
  visit(Field{"model.example_end", "", Affects::kTokens,
              "composed model: text after the caption of an example"},
        model.example_end);
}

template <class Section, class Visit>
void for_each_quantization_field(Section& quantization, Visit&& visit) {
  visit(
      Field{"quantization.weights", "--dtype", Affects::kPages, "weights as", Means::kItself,
            "auto chooses for the machine, the model and --max-num-seqs, as plan --fit shows: the "
            "fastest of the formats that fit and, as measured by bench --price weights, stay "
            "close to f32; without measured prices bf16 or int8. A run that continues an output "
            "keeps the format of its records. awq and gptq are the codes of the model's files. fp8 "
            "needs a GPU of compute capability 8.9 or later."},
      quantization.weights);
  visit(Field{"quantization.double_quant", "", Affects::kPages,
              "nf4: the file's, with quantised scales"},
        quantization.double_quant);
  visit(
      Field{"quantization.requantize", "--requantize", Affects::kPages,
            "may round a file's codes a second time", Means::kItself,
            "Weights that a file holds as codes of 4 or 8 bits (AWQ, GPTQ, GGUF, ...) are kept by "
            "--dtype bf16 and f32. Another format decodes and rounds them again, which loses a "
            "little more than rounding the original weights, and is refused without this option."},
      quantization.requantize);
  visit(Field{"quantization.kv_cache", "--kv-dtype", Affects::kPages, "KV pages as", Means::kItself,
              "auto follows the weights: f32 for f32, else bf16."},
        quantization.kv_cache);
}

template <class Section, class Visit>
void for_each_engine_field(Section& engine, Visit&& visit) {
  visit(Field{"engine.batching", "--batching", Affects::kNothing, "how requests share steps"},
        engine.batching);
  visit(Field{"engine.max_num_seqs", "--max-num-seqs", Affects::kNothing, "most clips in one step"},
        engine.max_num_seqs, IntRange{1, 4096});
  visit(Field{"engine.max_num_batched_tokens", "--max-num-batched-tokens", Affects::kNothing,
              "most tokens in one step"},
        engine.max_num_batched_tokens, IntRange{1, 1 << 20});
  visit(Field{"engine.chunked_prefill", "--chunked-prefill", Affects::kNothing,
              "split long prompts over steps"},
        engine.chunked_prefill);
  visit(Field{"engine.prefix_cache", "--prefix-cache", Affects::kNothing,
              "reuse KV pages of equal prefixes"},
        engine.prefix_cache);
  visit(Field{"engine.attention", "--attention", Affects::kTokens, "attends to", Means::kItself,
              "topk-merge and squeezed read less than everything and cost quality; bench --price "
              "attention says how much."},
        engine.attention);
  visit(Field{"engine.attention_keep_tokens", "--attention-keep-tokens", Affects::kTokens,
              "topk-merge: prompt tokens that stay", Means::kItself, "The others become 32 means."},
        engine.attention_keep_tokens, IntRange{32, 1 << 20});
  visit(Field{"engine.attention_threshold", "--attention-threshold", Affects::kTokens,
              "squeezed: least attention of a cluster", Means::kItself,
              "A cluster of vision tokens with a smaller share of attention is passed over."},
        engine.attention_threshold, RealRange{0.0, 1.0});
  visit(Field{"engine.kv_cache_bytes", "--kv-cache-bytes", Affects::kNothing,
              "memory for KV pages; 0: what the clips need", Means::kBytes,
              "0 is what --max-num-seqs clips of any length need, within --memory-utilization."},
        engine.kv_cache_bytes, IntRange{0, std::int64_t{1} << 50});
  visit(Field{"engine.kv_host_bytes", "--kv-host-bytes", Affects::kNothing,
              "host memory for a GPU's evicted KV pages", Means::kBytes,
              "0: none. It is pinned, and at most a quarter of the machine's memory for all GPUs "
              "together; "
              "used with --prefix-cache true."},
        engine.kv_host_bytes, IntRange{0, std::int64_t{1} << 50});
  visit(Field{"engine.kv_cache_dir", "--kv-cache-dir", Affects::kNothing,
              "keeps vision tokens and KV pages for later runs", Means::kFolder,
              "Without a folder nothing is kept."},
        engine.kv_cache_dir);
  visit(Field{"engine.kv_cache_dir_bytes", "--kv-cache-dir-bytes", Affects::kNothing,
              "most bytes of each kind in that folder", Means::kBytes,
              "Vision tokens and KV pages have so much each; what was not used for longest goes "
              "first."},
        engine.kv_cache_dir_bytes, IntRange{1 << 20, std::int64_t{1} << 50});
}

template <class Section, class Visit>
void for_each_speculative_field(Section& speculative, Visit&& visit) {
  visit(Field{"speculative.method", "--drafts", Affects::kNothing, "guesses from", Means::kItself,
              "Several tokens of a caption are then computed in one step, and those that the model "
              "itself would have chosen are kept: captions are the same, sooner. archive guesses "
              "from the captions that this run and the output before it made, and from "
              "--draft-from; ngram only from the caption itself and the prompt; model asks "
              "--draft-model alone; archive and ngram ask it as well where one is named; self asks "
              "the model itself without some of its layers, which are found on the first captions "
              "and kept in self-draft.json beside the model. Beams have no drafts."},
        speculative.method);
  visit(Field{"speculative.draft_from", "--draft-from", Affects::kNothing,
              "captions to guess from; for --drafts archive", Means::kFile,
              "JSONL of records or of references, as eval reads them."},
        speculative.draft_from);
  visit(
      Field{"speculative.draft_model", "--draft-model", Affects::kNothing,
            "a smaller model that guesses tokens; empty: none", Means::kModel,
            "A captioner, or a language model, which guesses without the video. It guesses tokens "
            "that its vocabulary has, where no other source does better, and only while that "
            "saves time."},
      speculative.draft_model);
  visit(Field{"speculative.draft_video", "", Affects::kNothing,
              "whether the draft model sees the video, or the question alone, as a language model "
              "does"},
        speculative.draft_video);
  visit(Field{"speculative.num_draft_tokens", "", Affects::kNothing,
              "most tokens guessed for a caption at a time"},
        speculative.num_draft_tokens, IntRange{1, 32});
  visit(Field{"speculative.adaptive", "", Affects::kNothing,
              "guess only as many as shorten the time"},
        speculative.adaptive);
}

template <class Section, class Visit>
void for_each_prompt_field(Section& generation, Visit&& visit) {
  visit(Field{"generation.prompt", "--prompt", Affects::kTokens,
              "what the model is asked; none: its own", Means::kItself,
              "In a preset an empty prompt is none; on the command line it is refused, and "
              "--prompt left out."},
        generation.prompt);
  visit(Field{"generation.system", "--system", Affects::kTokens,
              "system prompt; empty: the model's own, if any", Means::kItself,
              "It comes before everything else, for every clip alike."},
        generation.system);
  visit(
      Field{"generation.examples", "--examples", Affects::kNothing,
            "examples shown before every clip", Means::kFile,
            "A line of JSON for each: {\"video\": PATH, \"prompt\": TEXT, \"caption\": TEXT}, "
            "of which only the caption is needed; without a prompt it is the clip's, and paths "
            "are relative to the file. In a preset, a list of such maps. Their tokens are computed "
            "once, with the prefix cache."},
      generation.examples);
}

template <class Section, class Visit>
void for_each_output_field(Section& generation, Visit&& visit) {
  visit(Field{"generation.max_new_tokens", "--max-new-tokens", Affects::kTokens,
              "longest caption in tokens"},
        generation.max_new_tokens, IntRange{1, 1 << 16});
  visit(Field{"generation.min_new_tokens", "--min-new-tokens", Affects::kTokens,
              "shortest caption in tokens"},
        generation.min_new_tokens, IntRange{0, 1 << 16});
  visit(Field{"generation.temperature", "--temperature", Affects::kTokens,
              "0: always the likeliest token"},
        generation.temperature, RealRange{0.0, 10.0});
  visit(Field{"generation.top_p", "--top-p", Affects::kTokens,
              "sample from this share of probability; 1: all"},
        generation.top_p, RealRange{1e-6, 1.0});
  visit(
      Field{"generation.top_k", "--top-k", Affects::kTokens, "sample from so many tokens; 0: all"},
      generation.top_k, IntRange{0, 1 << 20});
  visit(Field{"generation.repetition_penalty", "--repetition-penalty", Affects::kTokens,
              "divides logits of tokens seen; 1: off", Means::kItself,
              "Tokens of the prompt count too, except in composed models."},
        generation.repetition_penalty, RealRange{0.01, 10.0});
  visit(Field{"generation.no_repeat_ngram_size", "--no-repeat-ngram-size", Affects::kTokens,
              "n-grams that may not come twice; 0: off", Means::kItself,
              "Those of the prompt count too, except in composed models."},
        generation.no_repeat_ngram_size, IntRange{0, 1024});
  visit(Field{"generation.num_beams", "--num-beams", Affects::kTokens, "beam search; 1: none"},
        generation.num_beams, IntRange{1, 64});
  visit(Field{"generation.length_penalty", "--length-penalty", Affects::kTokens,
              "beams: above 0 favours long captions", Means::kItself, "Below 0 short ones."},
        generation.length_penalty, RealRange{-10.0, 10.0});
  visit(Field{"generation.early_stopping", "--early-stopping", Affects::kTokens,
              "beams: stop early", Means::kItself,
              "As transformers has it. true: as soon as --num-beams have ended; never: look as far "
              "as can be."},
        generation.early_stopping);
  visit(Field{"generation.stop", "--stop", Affects::kTokens, "text that ends a caption, left out"},
        generation.stop);
  visit(
      Field{"generation.num_logprobs", "--logprobs", Affects::kTokens,
            "log-probabilities of so many tokens; -1: none", Means::kItself,
            "Records hold the log-probability of each token, and those of so many likeliest ones."},
      generation.num_logprobs, IntRange{-1, 100});
  visit(Field{"generation.seed", "--seed", Affects::kTokens,
              "the same seed samples the same captions"},
        generation.seed, IntRange{0, std::numeric_limits<std::int64_t>::max()});
}

template <class Section, class Visit>
void for_each_generation_field(Section& generation, Visit&& visit) {
  for_each_prompt_field(generation, visit);
  for_each_output_field(generation, visit);
}

template <class Section, class Visit>
void for_each_video_field(Section& video, Visit&& visit) {
  visit(Field{"video.num_frames", "--frames", Affects::kPixels, "frames taken from each clip"},
        video.num_frames, IntRange{1, 4096});
  visit(Field{"video.sampling", "--sampling", Affects::kPixels, "which frames", Means::kSampling,
              "fps=F takes F frames of each second, at most --frames of a clip, spread over it."},
        video.sampling);
  visit(Field{"video.max_pixels", "--max-pixels", Affects::kPixels,
              "pixels after resizing; 0: the model's limit", Means::kItself,
              "It is for models that take frames of any size, and replaces Qwen2.5-VL's "
              "max_pixels, the "
              "limit of one frame, or Qwen3-VL's size.longest_edge, that of all frames of a clip."},
        video.max_pixels, IntRange{0, std::int64_t{1} << 40});
  visit(Field{"video.max_frame_pixels", "--max-frame-pixels", Affects::kNothing,
              "largest frame in pixels; others fail"},
        video.max_frame_pixels, IntRange{1, std::int64_t{1} << 31});
  visit(Field{"video.decode_timeout_s", "--decode-timeout-s", Affects::kNothing,
              "longest time to read one clip", Means::kSeconds},
        video.decode_timeout_s, RealRange{0.001, 86400.0});
  visit(Field{"video.color_matrix", "--color-matrix", Affects::kPixels, "if a video names none",
              Means::kItself, "auto is bt601 at every size, as ffmpeg, PyAV and OpenCV take it."},
        video.color_matrix);
}

// Calls visit(field, value[, range]) for every option; `preset` may be const. Values are
// std::string, bool, std::int64_t and double (with a range), lists of std::string, lists of
// std::int64_t (with a range of each), and the enumerations of choices.h.
template <class P, class Visit>
void for_each_field(P& preset, Visit&& visit) {
  // Fails to compile when a section is added: then call its function below.
  auto& [name, device, model, quantization, engine, speculative, generation, video, given,
         origins] = preset;
  for_each_device_field(device, visit);
  for_each_model_field(model, visit);
  for_each_quantization_field(quantization, visit);
  for_each_engine_field(engine, visit);
  for_each_speculative_field(speculative, visit);
  for_each_generation_field(generation, visit);
  for_each_video_field(video, visit);
}

// Text about an option for --help, the completions and the manual.
struct FieldHelp {
  std::string key;
  std::string flag;
  std::string help;
  std::string details;  // for the manual; may be empty
  Means means = Means::kItself;
  std::string value;                 // formatted as in a preset; "" for an empty text
  std::string range;                 // "1 to 4096", "1MiB to 1PiB"; empty: none
  std::vector<std::string> choices;  // for an enumeration: the choices that this build can run
  bool is_number = false;
};
std::vector<FieldHelp> describe_fields(const Preset& preset = {});

// Every option with its value as text ("generation.seed", "20"), in the order of the table.
struct FieldValue {
  std::string key;
  std::string value;
  Affects affects = Affects::kNothing;
};
std::vector<FieldValue> list_values(const Preset& preset);

// --quality: beam search with 4 beams. --speed: short captions by unrestricted sampling.
void apply_quality(Preset& preset);
void apply_speed(Preset& preset);

// Formats the preset as a file that parse_preset() reads to the same values, with the help of every
// key and a note at those of `from_model` that the model's generation_config.json set them.
std::string to_yaml(const Preset& preset, const std::set<std::string>& from_model = {});

}  // namespace caption::config
