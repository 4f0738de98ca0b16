#include "fake_model.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "tests/support/batch_arrays.h"

namespace caption::pipeline {
namespace {

constexpr std::int32_t kStop = 0;
constexpr std::int32_t kPlaceholder = 1;
constexpr std::int32_t kFirstNumber = 2;  // token kFirstNumber + n is the number n as text
constexpr std::int64_t kVocab = 1024;
// Prompt token kFirstShift + n adds n to all numbers of the caption.
constexpr std::int32_t kFirstShift = 900;
constexpr std::int64_t kHidden = 2;

std::int64_t length_of(std::int64_t number) { return 1 + number % kMaxLength; }

// What the adapter of a row of the logits adds.
std::int64_t adapter_shift(const model::StepBatch& step, std::int64_t row) {
  for (const model::AdaptedRows& rows : step.adapted_logits) {
    if (row >= rows.first_row && row < rows.first_row + rows.num_rows) {
      return std::int64_t{kAdapterShift} * (rows.adapter + 1);
    }
  }
  return 0;
}

}  // namespace

std::string clip_name(int number) { return "clip_" + std::to_string(number); }

int clip_number(const std::string& name) { return std::stoi(name.substr(5)); }

std::string expected_caption(int number, int shift) {
  std::string caption = std::to_string(number + shift);
  for (int i = 1; i < length_of(number); ++i) {
    caption.append(" ").append(std::to_string(number + shift + i));
  }
  return caption;
}

video::Clip make_clip(const OpenFile& file, const video::ReadOptions& options) {
  const std::filesystem::path& path = file.path();
  const int number = clip_number(path.filename().string());
  video::Frame frame;
  frame.width_px = frame.height_px = 2;
  for (int i = 0; i < 4; ++i) {
    frame.rgb.push_back(static_cast<std::uint8_t>(number % 256));
    frame.rgb.push_back(static_cast<std::uint8_t>(number / 256));
    frame.rgb.push_back(0);
  }
  video::Clip clip;
  clip.path = path.string();
  clip.frames_wanted = options.sampling.num_frames;
  for (std::int64_t i = 0; i < options.sampling.num_frames; ++i) {
    // One bluish pixel, so that the frame is not of a single colour, and the clip is not frozen.
    frame.rgb[5] = i % 2 == 0 ? 100 : 200;
    clip.frames.push_back(frame);
  }
  clip.duration_us = 1000 * number;
  return clip;
}

FakeModel::FakeModel(std::int64_t num_layers)
    : spec_({.num_layers = num_layers,
             .hidden = kHidden,
             .num_heads = 1,
             .num_kv_heads = 1,
             .head_dim = kHidden,
             .vocab = kVocab,
             .max_positions = 128}) {
  preprocess_.do_resize = false;
  preprocess_.crop_px = {2, 2};
  preprocess_.do_normalize = false;
}

model::PromptIds FakeModel::build_prompt(const model::Conversation& conversation,
                                         const model::ClipShape& /*clip*/) const {
  model::PromptIds prompt{.ids = {kPlaceholder}, .vision_positions = {0}};
  if (conversation.prompt.starts_with('+')) {
    prompt.ids.push_back(kFirstShift + std::stoi(conversation.prompt.substr(1)));
  }
  return prompt;
}

std::vector<Tensor> FakeModel::encode_clips(Stream& /*stream*/, std::span<const ConstView> clips) {
  if (on_encode_clips) on_encode_clips(clips.size());
  std::vector<Tensor> encoded;
  for (const ConstView& pixel_values : clips) {
    const float* pixels = pixel_values.as<float>();
    // pixels has the shape [frames, 3, 2, 2] with values in 0..1; reads the first value of R and of
    // G.
    const float low = std::round(pixels[0] * 255);
    const float high = std::round(pixels[4] * 255);
    const int number = static_cast<int>(low) + 256 * static_cast<int>(high);
    if (on_encode) on_encode(number);
    Tensor& token = encoded.emplace_back(DType::kF32, Shape{1, kHidden});
    token.as<float>()[0] = low;
    token.as<float>()[1] = high;
  }
  return encoded;
}

std::vector<std::int32_t> FakeModel::eos_ids() const { return {kStop}; }
std::optional<text::TokenId> FakeModel::eos_id() const { return kStop; }
std::int32_t FakeModel::vocab_size() const { return kVocab; }

void FakeModel::forward(Stream& /*stream*/, const model::StepBatch& step, const model::KvPages& kv,
                        View logits) {
  if (on_forward) on_forward();
  const testing::BatchArrays batch(step);
  float* keys = kv.k[0].as<float>();
  for (std::size_t row = 0, piece = 0; row < batch.tokens.size(); ++row) {
    float* key = keys + batch.slots[row] * kHidden;
    const auto is_vision =
        std::find(batch.vision_rows.begin(), batch.vision_rows.end(), static_cast<int>(row));
    if (is_vision == batch.vision_rows.end()) {
      const std::int32_t shift = batch.tokens[row] - kFirstShift;
      std::fill_n(key, kHidden, shift > 0 ? static_cast<float>(-1 - shift) : -1.0F);
    } else {
      std::copy_n(batch.vision[piece++].as<float>(), kHidden, key);
    }
  }
  std::fill_n(logits.as<float>(), logits.num_elements(), 0.0F);
  for (std::size_t i = 0; i < batch.logit_rows.size(); ++i) {
    const std::int32_t row = batch.logit_rows[i];
    const auto sequence = std::upper_bound(batch.cu_seqlens.begin(), batch.cu_seqlens.end(), row) -
                          batch.cu_seqlens.begin() - 1;
    const std::int32_t page =
        batch.block_tables[static_cast<std::size_t>(sequence * batch.max_pages)];
    const float* key = keys + page * kv.page_tokens * kHidden;
    const auto number = static_cast<std::int64_t>(key[0]) + 256 * static_cast<std::int64_t>(key[1]);
    if (gives_nan && gives_nan(static_cast<int>(number))) {
      logits.as<float>()[static_cast<std::int64_t>(i) * kVocab] =
          std::numeric_limits<float>::quiet_NaN();
    }
    const std::int32_t position = batch.positions[static_cast<std::size_t>(row)];
    const auto shift = static_cast<std::int64_t>(position > 0 ? -1 - key[kHidden] : 0);
    const std::int64_t num_said = shift > 0 ? position - 1 : position;
    const std::int64_t token = num_said < length_of(number)
                                   ? kFirstNumber + number + shift + num_said +
                                         adapter_shift(step, static_cast<std::int64_t>(i))
                                   : kStop;
    logits.as<float>()[static_cast<std::int64_t>(i) * kVocab + token] = 1.0F;
  }
}

std::vector<text::TokenId> FakeModel::encode(std::string_view text, text::AddedTokens,
                                             text::AddedEnds) const {
  if (on_tokenise) on_tokenise(text);
  return {};
}

std::string FakeModel::decode(std::span<const text::TokenId> ids) const {
  std::string out;
  for (const text::TokenId id : ids) out += token_bytes(id);
  return out;
}

std::string FakeModel::token_bytes(text::TokenId id) const {
  if (id == kStop) return {};
  if (writes_no_characters) return "\xEF\xBF\xBD";
  return std::string(" ").append(std::to_string(id - kFirstNumber));
}

Options fake_options() {
  Options options;
  options.threads = {.decode = 2, .vision = 1, .engine = 1};
  options.read.sampling.num_frames = 2;
  options.engine = {.max_num_seqs = 4, .max_num_batched_tokens = 64, .kv_cache_bytes = 1 << 16};
  options.sampling.max_new_tokens = 32;
  options.read_clip = make_clip;
  return options;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

InputList list_of(const std::vector<std::pair<std::string, Origin>>& paths) {
  InputList list;
  for (const auto& [path, origin] : paths) list.add(path, origin);
  return list;
}

InputList clips(int count) {
  const std::filesystem::path folder = std::filesystem::path(CAPTION_TEST_TMP) / "clips";
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  std::vector<std::pair<std::string, Origin>> paths;
  for (int i = 0; i < count; ++i) {
    const std::string name = clip_name(i);
    if (!std::filesystem::exists(name)) write_file(name, "film " + std::to_string(i));
    paths.emplace_back(name, Origin::kNamed);
  }
  return list_of(paths);
}

}  // namespace caption::pipeline
