#include "model/internal/parts.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/open_file.h"

namespace caption::model {
namespace {

constexpr const char* kConfigNames[] = {"added_tokens.json",
                                        "chat_template.jinja",
                                        "chat_template.json",
                                        "config.json",
                                        "generation_config.json",
                                        "merges.txt",
                                        "preprocessor_config.json",
                                        "processor_config.json",
                                        "special_tokens_map.json",
                                        "tokenizer.json",
                                        "tokenizer.model",
                                        "tokenizer_config.json",
                                        "video_preprocessor_config.json",
                                        "vocab.json"};

// Whether the folder has the files that were read and no others, none of which was written since.
bool has_stamps(const ConfigFolder& folder) {
  std::size_t found = 0;
  for (const char* const name : kConfigNames) {
    const std::filesystem::path path = folder.path / name;
    const bool was_read = found < folder.files.size() && folder.files[found].name == name;
    if (!was_read && is_present(path)) return false;
    if (was_read && stamp_of(path) != folder.files[found++].stamp) return false;
  }
  return true;
}

// Returns the size of preprocessed frames, or 0 x 0 when it depends on the video.
std::array<int, 2> output_px(const vision::PreprocessSpec& spec) {
  if (spec.do_center_crop) return spec.crop_px;
  if (spec.do_resize && spec.size_px) return *spec.size_px;
  return {0, 0};
}

void check_frames(const Parts& parts) {
  const std::int64_t image_px = parts.encoder->spec().image_px;
  const std::array<int, 2> output = output_px(parts.preprocess);
  if (output[0] != image_px || output[1] != image_px) {
    throw Error(
        ErrorCode::kBadModel,
        "preprocessing and vision tower do not fit: frames become " +
            (output[0] == 0
                 ? std::string("images of varying size")
                 : std::to_string(output[1]) + "x" + std::to_string(output[0]) + " pixels") +
            ", the tower takes " + std::to_string(image_px) + "x" + std::to_string(image_px) +
            "; size or crop_size in the preprocessor's configuration must say so");
  }
}

void check_fit(const Parts& parts) {
  if (parts.encoder != nullptr) check_frames(parts);
  const DecoderSpec& decoder = parts.decoder->spec();
  if (parts.tokenizer->vocab_size() - parts.num_unembedded_ids > decoder.vocab) {
    throw Error(ErrorCode::kBadModel, "the tokenizer is another model's: it has " +
                                          std::to_string(parts.tokenizer->vocab_size()) +
                                          " ids, the decoder's embedding " +
                                          std::to_string(decoder.vocab) +
                                          " rows; download the folder again");
  }
  for (const std::int32_t id : parts.eos_ids) {
    if (id < decoder.vocab) continue;
    throw Error(ErrorCode::kBadModel, "eos_token_id " + std::to_string(id) +
                                          " is not in the vocabulary of " +
                                          std::to_string(decoder.vocab) +
                                          "; config.json or generation_config.json is another "
                                          "model's: download the folder again");
  }
}

std::optional<std::string> find_changed_weights(const Parts& parts) {
  for (const auto& source : parts.weights->sources()) {
    if (auto changed = source->find_changed_file()) return changed;
  }
  for (const ModelAdapter& adapter : parts.adapters) {
    if (auto changed = adapter.adapter.find_changed_file()) return changed;
  }
  return std::nullopt;
}

// If a file was written while it was read, the parts may mix old and new content.
void check_unchanged(const Parts& parts) {
  if (const auto changed = find_changed_weights(parts)) {
    throw Error(ErrorCode::kBadModel, *changed);
  }
  for (const ConfigFolder& folder : parts.configs) {
    if (has_stamps(folder) || read_config_folder(folder.path) == folder) continue;
    throw Error(ErrorCode::kBadModel,
                folder.path.string() +
                    ": its configuration changed while it was read; run again with files that "
                    "nobody writes");
  }
}

}  // namespace

PartsCaptionModel::PartsCaptionModel(Parts parts) : parts_(std::move(parts)) {
  check_unchanged(parts_);
  check_fit(parts_);
}

std::int64_t PartsCaptionModel::vision_tokens(const ClipShape& clip) const {
  ClipShape preprocessed = clip;
  const vision::ImageSize size = preprocessed_size(clip);
  preprocessed.frame = {.width_px = size.width_px, .height_px = size.height_px};
  return parts_.encoder->num_tokens(preprocessed);
}

vision::ImageSize PartsCaptionModel::preprocessed_size(const ClipShape& clip) const {
  return vision::output_size(parts_.preprocess, clip.num_frames,
                             {clip.frame.height_px, clip.frame.width_px});
}

std::vector<Tensor> PartsCaptionModel::encode_clips(Stream& stream,
                                                    std::span<const ConstView> clips) {
  return parts_.encoder->encode_clips(stream, clips);
}

double PartsCaptionModel::pass_share(const Shape& pixel_values) const {
  return parts_.encoder->pass_share(pixel_values);
}

std::int64_t PartsCaptionModel::vision_scratch_bytes() const {
  return parts_.encoder->scratch_bytes();
}

std::string PartsCaptionModel::default_prompt() const { return "이 영상을 자세히 설명해 주세요."; }

Sha256 PartsCaptionModel::content_hash() const {
  Sha256Hasher hasher;
  hasher.update_string("caption-cli model 1");
  for (const auto& source : parts_.weights->sources()) {
    hasher.update_value(source->content_hash(parts_.digests).bytes);
  }
  for (const ConfigFolder& folder : parts_.configs) {
    hasher.update_value(static_cast<std::uint64_t>(folder.files.size()));
    for (const ConfigFolder::File& file : folder.files) {
      hasher.update_string(file.name);
      hasher.update_value(file.digest.bytes);
    }
  }
  hasher.update_string(parts_.settings);
  for (const ModelAdapter& adapter : parts_.adapters) {
    if (!adapter.name.empty()) continue;
    hasher.update_value(adapter.adapter.content_hash(parts_.digests).bytes);
    hasher.update_value(adapter.source.value_or(-1));
  }
  return hasher.digest();
}

std::vector<NamedAdapter> PartsCaptionModel::adapters() const {
  std::vector<NamedAdapter> named;
  for (const ModelAdapter& adapter : parts_.adapters) {
    if (adapter.name.empty()) continue;
    named.push_back(
        {.name = adapter.name, .content = adapter.adapter.content_hash(parts_.digests)});
  }
  return named;
}

std::vector<AdapterSummary> PartsCaptionModel::adapter_summaries() const {
  std::vector<AdapterSummary> summaries;
  for (const ModelAdapter& adapter : parts_.adapters) {
    const std::vector<LoraTerm>& terms = adapter.adapter.terms();
    const auto [least, most] = std::minmax_element(
        terms.begin(), terms.end(),
        [](const LoraTerm& x, const LoraTerm& y) { return x.a.dim(0) < y.a.dim(0); });
    summaries.push_back({.folder = adapter.adapter.folder(),
                         .name = adapter.name,
                         .num_modules = std::ssize(terms),
                         .min_rank = least->a.dim(0),
                         .max_rank = most->a.dim(0)});
  }
  return summaries;
}

std::optional<std::string> PartsCaptionModel::find_broken_weight() const {
  for (const auto& source : parts_.weights->sources()) {
    if (auto broken = source->find_broken_tensor()) return broken;
  }
  return std::nullopt;
}

std::optional<std::string> PartsCaptionModel::find_changed_file() const {
  return find_changed_weights(parts_);
}

std::int64_t PartsCaptionModel::weight_bytes() const { return parts_.weights->size_bytes(); }

Parts begin_parts(const Context& context, std::vector<ConfigFolder> configs,
                  const OpenOptions& options) {
  Parts parts;
  parts.context = context;
  parts.configs = std::move(configs);
  parts.opening = options.opening;
  parts.requantises = options.requantises;
  parts.cancelled = options.cancelled;
  parts.digests = options.digests;
  parts.digests.set_cancelled(options.cancelled);
  return parts;
}

void add_inner_adapter(Parts& parts, const std::filesystem::path& folder,
                       std::optional<std::int32_t> source) {
  if (!holds_adapter(folder)) return;
  parts.adapters.push_back({.adapter = Adapter::open(folder), .name = {}, .source = source});
}

void add_adapters(Parts& parts, const std::vector<AdapterSource>& adapters) {
  for (const AdapterSource& source : adapters) {
    parts.adapters.push_back(
        {.adapter = Adapter::open(source.folder), .name = source.name, .source = std::nullopt});
  }
}

void place_parts(Parts& parts, const Blueprint& blueprint,
                 std::vector<std::unique_ptr<weights::Source>> sources,
                 weights::WeightFormat format) {
  ThreadPool pool(parts.context.num_threads);
  Stream stream(parts.context, pool);
  parts.weights = std::make_unique<const PlacedWeights>(
      stream, blueprint, std::move(sources), format, parts.adapters,
      PlaceOptions{parts.opening, parts.requantises, parts.cancelled});
  if (blueprint.vision) parts.encoder = make_vision_encoder(*parts.weights, blueprint);
  parts.decoder = std::make_unique<TransformerDecoder>(stream, *parts.weights, blueprint);
}

ConfigFolder read_config_folder(const std::filesystem::path& folder) {
  ConfigFolder config{.path = folder, .files = {}};
  for (const char* name : kConfigNames) {
    if (!is_present(folder / name)) continue;
    try {
      const OpenFile file(folder / name);
      config.files.push_back({.name = name, .digest = file.sha256(), .stamp = file.stamp()});
    } catch (const Error& error) {
      throw Error(model_file_code(error.code()), error.what());
    }
  }
  return config;
}

}  // namespace caption::model
