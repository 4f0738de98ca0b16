// Tests that the identities cover the declarations of all options.
#include "config/identity.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "config/fields.h"
#include "config/parse_preset.h"

namespace caption::config {
namespace {

const Context kContext;
const Sha256 kModel = sha256_of(std::string_view("weights"));

// Returns a value other than the default for every option, as text.
std::string other_value(const FieldValue& field) {
  if (field.value == "true") return "false";
  if (field.value == "false") return field.key == "generation.early_stopping" ? "never" : "true";
  if (field.key == "device.type") return "cuda";
  if (field.key == "quantization.weights") return "int8";
  if (field.key == "quantization.kv_cache") return "int8";
  if (field.key == "engine.batching") return "static";
  if (field.key == "engine.attention") return "squeezed";
  if (field.key == "speculative.method") return "archive";
  if (field.key == "video.sampling") return "linspace";
  if (field.key == "generation.examples") return "{\"caption\": \"other\"}";
  if (field.key == "video.color_matrix") return "bt709";
  if (field.key == "model.projector_type") return "mlp";
  if (field.key == "model.projector_hidden_act") return "relu";
  if (field.key == "device.memory_utilization") return "0.75";
  if (field.key == "model.pooling" || field.key == "generation.temperature" ||
      field.key == "generation.length_penalty" || field.key == "generation.repetition_penalty") {
    return "2";
  }
  if (field.key == "engine.kv_cache_dir_bytes" || field.key == "engine.kv_host_bytes") {
    return "4000000";
  }
  if (field.key == "engine.attention_threshold" || field.key == "generation.top_p") return "0.5";
  const bool is_number = field.value.find_first_not_of("-.0123456789e") == std::string::npos;
  if (!is_number || field.value.empty()) return "other";
  return field.value == "32" ? "33" : "32";
}

TEST_SUITE("config/identity") {
  TEST_CASE("each option changes the identities that its declaration names, and no others") {
    Preset base;
    base.model.is_composed = true;  // so that all options of models count
    base.generation.temperature = 0.5;
    base.generation.num_beams = 2;
    for (const FieldValue& field : list_values(base)) {
      CAPTURE(field.key);
      base.engine.attention = CompressionMode::kNone;
      if (field.key == "engine.attention_threshold") {
        base.engine.attention = CompressionMode::kSqueezed;
      } else if (field.key == "engine.attention_keep_tokens") {
        base.engine.attention = CompressionMode::kTopkMerge;
      }
      Preset changed = base;
      apply_override(changed, {field.key, other_value(field), "test"});
      changed.model.is_composed = true;  // model.path makes it a model of one folder
      const bool vision =
          vision_identity(kContext, base, kModel) != vision_identity(kContext, changed, kModel);
      const bool pages =
          page_identity(kContext, base, kModel) != page_identity(kContext, changed, kModel);
      const bool captions =
          caption_settings(kContext, base, kModel) != caption_settings(kContext, changed, kModel);
      CHECK(vision == (field.affects == Affects::kPixels || field.affects == Affects::kPages));
      CHECK(pages == (field.affects == Affects::kPages));
      // These have their own entries in a manifest.
      const bool is_prompt = field.key == "generation.prompt" || field.key == "generation.system";
      // Decides whether a run is refused, not what its captions are.
      const bool is_permit = field.key == "quantization.requantize";
      CHECK(captions == (field.affects != Affects::kNothing && !is_prompt && !is_permit));
    }
  }

  TEST_CASE("the settings of a model of one folder name no parts") {
    const auto has_parts = [](const Settings& settings) {
      return std::any_of(settings.begin(), settings.end(),
                         [](const auto& setting) { return setting.first.starts_with("model."); });
    };
    Preset preset;
    CHECK_FALSE(has_parts(caption_settings(kContext, preset, kModel)));
    preset.model.is_composed = true;
    CHECK(has_parts(caption_settings(kContext, preset, kModel)));
  }

  TEST_CASE("another model, tier or revision is another identity") {
    const Preset preset;
    const Sha256 other = sha256_of(std::string_view("other weights"));
    CHECK(vision_identity(kContext, preset, kModel) != vision_identity(kContext, preset, other));
    CHECK(page_identity(kContext, preset, kModel) != page_identity(kContext, preset, other));
    CHECK(vision_identity(kContext, preset, kModel) != page_identity(kContext, preset, kModel));
    const Settings settings = caption_settings(kContext, preset, kModel);
    for (const char* name :
         {"model", "arithmetic.device", "arithmetic.revision", "arithmetic.libraries"}) {
      CAPTURE(name);
      CHECK(std::any_of(settings.begin(), settings.end(), [&](const auto& setting) {
        return setting.first == name && !setting.second.empty();
      }));
    }
    CHECK(numerics_revision().size() == 16);
  }

  TEST_CASE("another CPU tier is another identity of vision tokens, of pages and of captions") {
    const Preset preset;
    const auto identities_with = [&](CpuTier tier) {
      const Context context{.cpu_tier = tier};
      return std::tuple(vision_identity(context, preset, kModel),
                        page_identity(context, preset, kModel),
                        caption_settings(context, preset, kModel));
    };
    const auto [vision, pages, captions] = identities_with(CpuTier::kReference);
    for (const CpuTier tier : supported_cpu_tiers().subspan(1)) {
      CAPTURE(cpu_tier_name(tier));
      const auto [other_vision, other_pages, other_captions] = identities_with(tier);
      CHECK(other_vision != vision);
      CHECK(other_pages != pages);
      CHECK(other_captions != captions);
    }
  }

  TEST_CASE("the program's version and the preset's name are no part of an identity") {
    for (const auto& [name, value] : caption_settings(kContext, Preset{}, kModel)) {
      CAPTURE(name);
      CHECK(name.find("version") == std::string::npos);
      CHECK(name.find("preset") == std::string::npos);
    }
  }

  TEST_CASE("an adapter that captions may choose is part of the settings and of its pages") {
    const Context context;
    const Preset preset;
    const Sha256 model = sha256_of(std::string_view("model"));
    const Sha256 a = sha256_of(std::string_view("a"));
    const Sha256 b = sha256_of(std::string_view("b"));
    const Settings plain = caption_settings(context, preset, model);
    const Settings with =
        caption_settings(context, preset, model, {{.name = "news", .content = a}});
    CHECK(with.size() == plain.size() + 1);
    CHECK(std::count(with.begin(), with.end(),
                     std::pair<std::string, std::string>("adapter.news", a.hex())) == 1);
    const Hash128 pages = page_identity(context, preset, model);
    CHECK(adapter_page_identity(pages, a) != pages);
    CHECK(adapter_page_identity(pages, a) != adapter_page_identity(pages, b));
    CHECK(adapter_page_identity(pages, a) !=
          adapter_page_identity(page_identity(context, preset, b), a));
  }
}

}  // namespace
}  // namespace caption::config
