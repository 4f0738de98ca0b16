// tests/pipeline/fake_model.h: a caption model without weights whose caption shows which pixels it
// received, and clips whose pixels identify the file.
//
// Clip number n has the colour (n % 256, n / 256). The vision token carries the colour into the KV
// pages. The decoder reads it from there and counts from that number for 1 + n % kMaxLength words,
// so that captions finish in an order other than that of the clips.
#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "model/caption_model.h"
#include "pipeline/pipeline.h"
#include "records/sink.h"
#include "video/read_clip.h"

namespace caption::pipeline {

inline constexpr int kMaxLength = 13;
inline constexpr int kAdapterShift = 50;

std::string clip_name(int number);  // "clip_7"
int clip_number(const std::string& name);
// Returns "2 3 4"; with the prompt "+20", "22 23 24".
std::string expected_caption(int number, int shift = 0);

// Makes the clip that the file's name identifies.
video::Clip make_clip(const OpenFile& file, const video::ReadOptions& options);

class FakeModel final : public model::CaptionModel, public model::Decoder, public text::Tokenizer {
 public:
  // Layers after the first one compute nothing.
  explicit FakeModel(std::int64_t num_layers = 1);

  // Called at the beginning of the functions below; may throw.
  std::function<void(int clip_number)> on_encode;
  // Called with the number of clips that are encoded together, before on_encode.
  std::function<void(std::size_t num_clips)> on_encode_clips;
  double share_of_pass = 1;  // pass_share() of every clip
  std::function<void()> on_forward;
  std::function<void(std::string_view text)> on_tokenise;  // at the beginning of encode()
  std::optional<std::string> changed_file;                 // return value of find_changed_file()
  std::optional<std::string> broken_weight;                // return value of find_broken_weight()
  model::GenerationConfig generation;
  std::string unlike;                              // return value of unlike_sentence()
  std::function<bool(int clip_number)> gives_nan;  // whether the clip's logits are NaN
  bool writes_no_characters = false;               // every token of a caption is decoded as U+FFFD
  // Adapter i adds kAdapterShift * (i + 1) to all numbers of a caption.
  std::int64_t number_of_adapters = 0;

  const Context& context() const override { return context_; }
  const vision::PreprocessSpec& preprocess_spec() const override { return preprocess_; }
  void set_max_pixels(std::int64_t /*max_pixels*/) override {}
  std::int64_t vision_tokens(const model::ClipShape& /*clip*/) const override { return 1; }
  // Renders the last question alone.
  model::PromptIds build_prompt(const model::Conversation& conversation,
                                const model::ClipShape& clip) const override;
  std::vector<Tensor> encode_clips(Stream& stream, std::span<const ConstView> clips) override;
  double pass_share(const Shape& /*pixel_values*/) const override { return share_of_pass; }
  std::int64_t vision_scratch_bytes() const override { return 0; }
  model::Decoder& decoder() override { return *this; }
  const text::Tokenizer& tokenizer() const override { return *this; }
  std::vector<std::int32_t> eos_ids() const override;
  std::string default_prompt() const override { return "?"; }
  std::string_view family() const override { return "fake"; }
  Sha256 content_hash() const override { return {}; }
  std::optional<std::string> find_changed_file() const override { return changed_file; }
  std::optional<std::string> find_broken_weight() const override { return broken_weight; }
  const model::GenerationConfig& generation_config() const override { return generation; }
  std::int64_t weight_bytes() const override { return 0; }
  std::string_view unlike_sentence() const override { return unlike; }

  const model::DecoderSpec& spec() const override { return spec_; }
  std::int64_t num_adapters() const override { return number_of_adapters; }
  void reserve(std::int64_t /*max_tokens*/, std::int64_t /*max_logit_rows*/) override {}
  std::int64_t scratch_bytes() const override { return 0; }
  std::int64_t step_weight_bytes(std::span<const std::int32_t> layers) const override {
    return std::ssize(layers);
  }
  void forward(Stream& stream, const model::StepBatch& batch, const model::KvPages& kv,
               View logits) override;

  std::vector<text::TokenId> encode(std::string_view, text::AddedTokens,
                                    text::AddedEnds) const override;
  std::string decode(std::span<const text::TokenId> ids) const override;
  std::string token_bytes(text::TokenId id) const override;
  bool strips_leading_space() const override { return false; }
  std::int32_t vocab_size() const override;
  std::optional<text::TokenId> find_token(std::string_view) const override { return std::nullopt; }
  std::optional<text::TokenId> bos_id() const override { return std::nullopt; }
  std::optional<text::TokenId> eos_id() const override;

 private:
  Context context_;
  vision::PreprocessSpec preprocess_;
  model::DecoderSpec spec_;
};

// Stores all appended records.
class KeepingSinkBase : public records::RecordSink {
 public:
  records::AppendResult append(const records::Record& record) override {
    if (on_append) on_append(record);
    if (result == records::AppendResult::kWritten) kept.push_back(record);
    return result;
  }

  std::vector<records::Record> kept;
  std::function<void(const records::Record&)> on_append;  // may throw
  records::AppendResult result = records::AppendResult::kWritten;
};

class KeepingSink final : public KeepingSinkBase {};

// Options for the fake model; two decode threads.
Options fake_options();
// Makes files clip_0, clip_1, ... with different content in a folder that becomes the working
// folder.
InputList clips(int count);
InputList list_of(const std::vector<std::pair<std::string, Origin>>& paths);
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace caption::pipeline
