// model/internal/parts.h: the parts of a captioner, and the part of CaptionModel that is the same
// for all families. A family's file fills in the parts and builds the prompt.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/open_file.h"
#include "model/caption_model.h"
#include "model/internal/config.h"
#include "model/internal/model_folder.h"
#include "model/internal/placed_weights.h"
#include "model/internal/transformer_decoder.h"
#include "model/internal/vision_encoder.h"

namespace caption::model {

// The existing configuration files of a folder, sorted, with digests of their contents.
struct ConfigFolder {
  struct File {
    std::string name;
    Sha256 digest;
    FileStamp stamp = {};  // the stamp before the digest was computed
    friend bool operator==(const File& a, const File& b) {
      return a.name == b.name && a.digest == b.digest;
    }
  };

  std::filesystem::path path;
  std::vector<File> files;
  friend bool operator==(const ConfigFolder&, const ConfigFolder&) = default;
};

// Throws Error(model_file_code()) when a file cannot be read.
ConfigFolder read_config_folder(const std::filesystem::path& folder);

struct Parts {
  Context context;
  Opening opening = Opening::kToRun;
  bool requantises = false;                      // OpenOptions::requantises
  const std::atomic<bool>* cancelled = nullptr;  // OpenOptions::cancelled
  // Before the weights, which borrow them: those inside the model's folders, then those that the
  // user named.
  std::vector<ModelAdapter> adapters = {};
  // The weights come first, so that they outlive encoder and decoder, which borrow them.
  std::unique_ptr<const PlacedWeights> weights;
  // Part of the model's identity besides the weights; read before any other file of the folders.
  std::vector<ConfigFolder> configs;
  std::string settings;  // for a composed model: the options that it was composed with
  DigestCache digests;   // known digests of weight files
  GenerationConfig generation;
  bool is_demonstration = false;
  std::string unlike_sentence = {};
  vision::PreprocessSpec preprocess;
  std::unique_ptr<VisionEncoder> encoder;  // null in a language model alone
  std::unique_ptr<TransformerDecoder> decoder;
  std::unique_ptr<const text::Tokenizer> tokenizer;
  // The same while it is read; destroying it waits for that.
  std::future<std::unique_ptr<const text::Tokenizer>> pending_tokenizer = {};
  std::vector<std::int32_t> eos_ids;
  // Ids at the end of the tokenizer's vocabulary that have no row in the embedding, because no
  // prompt contains them.
  std::int32_t num_unembedded_ids = 0;
};

class PartsCaptionModel : public CaptionModel {
 public:
  // Throws Error(kBadModel) when the parts do not fit each other (the size of preprocessed frames
  // and the tower, or a tokenizer with more ids than the embedding has rows), or when a file has
  // changed since the parts were read from it.
  explicit PartsCaptionModel(Parts parts);

  const Context& context() const override { return parts_.context; }
  const vision::PreprocessSpec& preprocess_spec() const override { return parts_.preprocess; }
  void set_max_pixels(std::int64_t max_pixels) override {
    vision::set_max_pixels(parts_.preprocess.smart, max_pixels);
  }
  std::int64_t vision_tokens(const ClipShape& clip) const override;
  std::vector<Tensor> encode_clips(Stream& stream, std::span<const ConstView> clips) override;
  double pass_share(const Shape& pixel_values) const override;
  std::int64_t vision_scratch_bytes() const override;
  Decoder& decoder() override { return *parts_.decoder; }
  const text::Tokenizer& tokenizer() const override { return *parts_.tokenizer; }
  std::vector<std::int32_t> eos_ids() const override { return parts_.eos_ids; }
  std::string default_prompt() const override;
  std::int64_t weight_bytes() const override;
  bool is_demonstration() const override { return parts_.is_demonstration; }
  std::string_view unlike_sentence() const override { return parts_.unlike_sentence; }
  const GenerationConfig& generation_config() const override { return parts_.generation; }
  Sha256 content_hash() const override;
  std::vector<NamedAdapter> adapters() const override;
  std::vector<AdapterSummary> adapter_summaries() const override;
  std::optional<std::string> find_changed_file() const override;
  std::optional<std::string> find_broken_weight() const override;

 protected:
  // The size of a clip's frames after preprocessing.
  vision::ImageSize preprocessed_size(const ClipShape& clip) const;

 private:
  Parts parts_;
};

// Returns parts with the context, the configurations and the options that every family takes, other
// than the adapters.
Parts begin_parts(const Context& context, std::vector<ConfigFolder> configs,
                  const OpenOptions& options);

// Opens the adapter inside a folder, if there is one, for the parameters of the weight file
// `source` or, without it, of all. Throws as Adapter::open().
void add_inner_adapter(Parts& parts, const std::filesystem::path& folder,
                       std::optional<std::int32_t> source = std::nullopt);
// Opens the adapters that the user named. Throws as Adapter::open().
void add_adapters(Parts& parts, const std::vector<AdapterSource>& adapters);

// Places the weights of `blueprint` on parts.context and constructs weights, encoder and decoder of
// `parts`, with parts.adapters. Throws as PlacedWeights and VisionEncoder.
void place_parts(Parts& parts, const Blueprint& blueprint,
                 std::vector<std::unique_ptr<weights::Source>> sources,
                 weights::WeightFormat format);

// A family of models. Each is defined in one file and listed in open_model.cpp.
struct Family {
  std::string_view model_type;  // in config.json
  // Throws Error(kBadModel | kUnavailable) as the parsers of internal/config.h.
  Blueprint (*describe)(const JsonObject& config);
  // open_model() calls it; `parts` already has context, digests and configs.
  std::unique_ptr<CaptionModel> (*open)(const ModelFolder& folder, const JsonObject& config,
                                        weights::WeightFormat format, Parts parts);
};
extern const Family kInternVl;
extern const Family kInternVlChat;
extern const Family kLlavaNextVideo;
extern const Family kLlavaOnevision;
extern const Family kQwen25Vl;
extern const Family kQwen3Vl;

}  // namespace caption::model
