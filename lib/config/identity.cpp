#include "config/identity.h"

#include <algorithm>
#include <initializer_list>

#include "config/comparable_settings.h"
#include "config/fields.h"
#include "text/library_versions.h"
#include "video/read_clip.h"

namespace caption::config {
namespace {

// Version of the layout of the hashed data; must be changed with it.
constexpr std::string_view kVisionFormat = "caption-cli vision 2";
constexpr std::string_view kPagesFormat = "caption-cli pages 2";

// Returns every option that affects one of `kinds`.
Settings select(const Preset& preset, std::initializer_list<Affects> kinds) {
  Settings out;
  for (const FieldValue& field : list_values(preset)) {
    if (std::find(kinds.begin(), kinds.end(), field.affects) == kinds.end()) continue;
    out.emplace_back(field.key, field.value);
  }
  return out;
}

Hash128 fold(const Context& context, std::string_view format, const Settings& settings,
             const Sha256& model_hash) {
  Sha256Hasher hasher;
  hasher.update_string(format);
  hasher.update_string(model_hash.hex());
  for (const Settings& part : {arithmetic(context), settings}) {
    for (const auto& [name, value] : part) {
      hasher.update_string(name);
      hasher.update_string(value);
    }
  }
  return hasher.digest().short_key();
}

}  // namespace

Settings arithmetic(const Context& context) {
  return {{"arithmetic.device", context.arithmetic()},
          {"arithmetic.revision", std::string(numerics_revision())},
          {"arithmetic.libraries", video::library_versions() + ", " + text::library_versions()}};
}

Hash128 vision_identity(const Context& context, const Preset& preset, const Sha256& model_hash) {
  return fold(context, kVisionFormat, select(preset, {Affects::kPixels, Affects::kPages}),
              model_hash);
}

Hash128 page_identity(const Context& context, const Preset& preset, const Sha256& model_hash) {
  return fold(context, kPagesFormat, select(preset, {Affects::kPages}), model_hash);
}

Hash128 adapter_page_identity(const Hash128& page_identity, const Sha256& adapter) {
  Sha256Hasher hasher;
  hasher.update_string("caption-cli adapter pages 1");
  hasher.update_string(page_identity.hex());
  hasher.update_value(adapter.bytes);
  return hasher.digest().short_key();
}

Settings caption_settings(const Context& context, const Preset& preset, const Sha256& model_hash,
                          const std::vector<model::NamedAdapter>& adapters) {
  Settings out = {{"model", model_hash.hex()}};
  for (const model::NamedAdapter& adapter : adapters) {
    out.emplace_back("adapter." + adapter.name, adapter.content.hex());
  }
  for (auto& setting : arithmetic(context)) out.push_back(std::move(setting));
  for (auto& setting : select(preset, {Affects::kPixels, Affects::kPages, Affects::kTokens})) {
    // A manifest lists prompts, system prompt and examples separately. The settings of parts do not
    // matter to a model of one folder.
    const bool is_conversation =
        setting.first == "generation.prompt" || setting.first == "generation.system";
    const bool is_of_parts = !preset.model.is_composed && setting.first.starts_with("model.");
    // Without a value they change nothing.
    const bool is_unused = setting.second.empty() && (setting.first == "model.system_template" ||
                                                      setting.first == "model.example_end");
    if (is_conversation || is_of_parts || is_unused) continue;
    out.push_back(std::move(setting));
  }
  return effective_settings(std::move(out));
}

}  // namespace caption::config
