#include "model/internal/gguf_errors.h"

#include <cctype>
#include <span>
#include <string>
#include <string_view>

#include "base/mend_advice.h"

namespace caption::model {
namespace {

// A key of a configuration, and the GGUF key without its prefix that it was made of.
struct KeyPair {
  std::string_view json;
  std::string_view gguf;
};

// Behind "<architecture>.".
constexpr KeyPair kTextKeys[] = {
    {"beta_fast", "rope.scaling.yarn_beta_fast"},
    {"beta_slow", "rope.scaling.yarn_beta_slow"},
    {"factor", "rope.scaling.factor"},
    {"head_dim", "attention.key_length"},
    {"hidden_size", "embedding_length"},
    {"intermediate_size", "feed_forward_length"},
    {"max_position_embeddings", "context_length"},
    {"mrope_section", "rope.dimension_sections"},
    {"num_attention_heads", "attention.head_count"},
    {"num_hidden_layers", "block_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"original_max_position_embeddings", "rope.scaling.original_context_length"},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"rope_theta", "rope.freq_base"},
    {"sliding_window", "attention.sliding_window"},
};
// Behind "clip.vision.".
constexpr KeyPair kTowerKeys[] = {
    {"deepstack_visual_indexes", "is_deepstack_layers"},
    {"depth", "block_count"},
    {"downsample_ratio", "projector.scale_factor"},
    {"fullatt_block_indexes", "n_wa_pattern"},
    {"hidden_size", "embedding_length"},
    {"image_mean", "image_mean"},
    {"image_size", "image_size"},
    {"image_std", "image_std"},
    {"intermediate_size", "feed_forward_length"},
    {"layer_norm_eps", "attention.layer_norm_epsilon"},
    {"merge_size", "spatial_merge_size"},
    {"num_attention_heads", "attention.head_count"},
    {"num_heads", "attention.head_count"},
    {"num_hidden_layers", "block_count"},
    {"patch_size", "patch_size"},
    {"spatial_merge_size", "spatial_merge_size"},
    {"vision_feature_layer", "feature_layer"},
    {"window_size", "window_size"},
};

bool is_of_key(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

// Replaces every word of the text that is a key.
std::string replace_keys(std::string_view text, std::span<const KeyPair> keys,
                         const std::string& prefix) {
  std::string out;
  while (!text.empty()) {
    std::size_t end = 0;
    while (end < text.size() && is_of_key(text[end])) ++end;
    const std::string_view word = text.substr(0, end);
    std::string replaced(word);
    for (const KeyPair& key : keys) {
      if (key.json == word) replaced = prefix + std::string(key.gguf);
    }
    out += replaced;
    if (end < text.size()) out += text[end++];
    text.remove_prefix(end);
  }
  return out;
}

void replace(std::string& text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
}

}  // namespace

Error in_gguf_words(const Error& error, const ModelFolder& files) {
  const std::string message = error.what();
  constexpr std::string_view kConfig = ", as config.json: ";
  constexpr std::string_view kPreprocessor = ", as preprocessor_config.json: ";
  const std::size_t of_config = message.find(kConfig);
  const std::size_t of_preprocessor = message.find(kPreprocessor);
  if (!files.is_gguf() ||
      (of_config == std::string::npos && of_preprocessor == std::string::npos)) {
    return error;
  }
  std::string what = of_config == std::string::npos
                         ? message.substr(of_preprocessor + kPreprocessor.size())
                         : message.substr(of_config + kConfig.size());
  const bool is_of_tower = files.gguf_tower() != nullptr &&
                           (files.gguf_text() == nullptr || of_config == std::string::npos ||
                            what.find("vision_") != std::string::npos ||
                            what.find("downsample_ratio") != std::string::npos);
  const weights::GgufFile& file = is_of_tower ? *files.gguf_tower() : *files.gguf_text();
  for (const char* const part :
       {"text_config: ", "vision_config: ", "text_config.", "vision_config."}) {
    replace(what, part, "");
  }
  replace(what, kDownloadOrMend, kConvertAgain);
  replace(what, "attention heads", "attention heads (num_attention_heads)");
  replace(what, "key-value heads", "key-value heads (num_key_value_heads)");
  const std::string architecture = file.metadata().get_string("general.architecture", "");
  what = is_of_tower ? replace_keys(what, kTowerKeys, "clip.vision.")
                     : replace_keys(what, kTextKeys, architecture + ".");
  return Error(error.code(), file.path().string() + ": " + what);
}

}  // namespace caption::model
