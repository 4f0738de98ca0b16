#include "model/internal/unused_tensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string_view>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "tensor/dtype.h"

namespace caption::model {
namespace {

constexpr std::size_t kMaxNamed = 3;
constexpr std::string_view kEmbedding = "embed_tokens.weight";

// Buffers that transformers computes anew: CLIPVisionEmbeddings and SiglipVisionEmbeddings
// (position_ids, saved before 4.31), LlamaRotaryEmbedding (inv_freq, and in older releases tables
// of cosines and sines).
constexpr std::array<std::string_view, 4> kBuffers = {
    "embeddings.position_ids", "rotary_emb.inv_freq", "rotary_emb.cos_cached",
    "rotary_emb.sin_cached"};

bool matches(const IgnoredTensors& ignored, std::string_view name) {
  return name.size() >= ignored.prefix.size() + ignored.suffix.size() &&
         name.starts_with(ignored.prefix) && name.ends_with(ignored.suffix);
}

bool is_ignored(const Blueprint& blueprint, std::int32_t source, std::string_view name) {
  const auto is_match = [&](const IgnoredTensors& ignored) {
    return ignored.source == source && matches(ignored, name);
  };
  return std::any_of(kBuffers.begin(), kBuffers.end(),
                     [&](std::string_view buffer) { return name.ends_with(buffer); }) ||
         std::any_of(blueprint.ignored.begin(), blueprint.ignored.end(), is_match) ||
         std::any_of(blueprint.tied_heads.begin(), blueprint.tied_heads.end(), is_match);
}

bool has_equal_bytes(ConstView a, ConstView b) {
  return a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(),
                     static_cast<std::size_t>(a.num_elements()) * dtype_size_bytes(a.dtype())) == 0;
}

// Warns of LM heads that are ignored and differ from the embedding.
void compare_heads(const Blueprint& blueprint,
                   std::span<const std::unique_ptr<weights::Source>> sources,
                   const std::vector<std::vector<std::string>>& used) {
  for (const IgnoredTensors& head : blueprint.tied_heads) {
    const auto index = static_cast<std::size_t>(head.source);
    weights::Source& source = *sources[index];
    const auto embedding =
        std::find_if(used[index].begin(), used[index].end(),
                     [](const std::string& name) { return name.ends_with(kEmbedding); });
    if (!source.has(head.prefix) || embedding == used[index].end()) continue;
    const std::optional<Shape> shape = source.shape(*embedding);
    const bool is_same =
        source.shape(head.prefix) == shape &&
        has_equal_bytes(source.read(head.prefix, *shape), source.read(*embedding, *shape));
    source.release(head.prefix);
    if (is_same) continue;
    log_warning("model", source.name() + ": " + head.prefix +
                             " is not the embedding, and is ignored as transformers does it: "
                             "tie_word_embeddings is true");
  }
}

}  // namespace

void check_unused_tensors(const Blueprint& blueprint,
                          std::span<const std::unique_ptr<weights::Source>> sources,
                          const std::vector<std::vector<std::string>>& used) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    const std::set<std::string_view> taken(used[i].begin(), used[i].end());
    std::string named;
    std::size_t count = 0;
    const std::vector<std::string> names = sources[i]->names();
    for (const std::string& name : names) {
      if (taken.contains(name) || is_ignored(blueprint, index, name)) continue;
      if (++count <= kMaxNamed) named += (named.empty() ? "" : ", ") + name;
    }
    if (count == 0) continue;
    throw Error(ErrorCode::kBadModel, sources[i]->name() + ": holds " +
                                          counted(static_cast<std::int64_t>(count), "tensor") +
                                          " that the configuration does not describe: " + named +
                                          (count > kMaxNamed ? ", ..." : "") +
                                          "; configuration and weights are of different models: "
                                          "take both from one folder, or save the weights again "
                                          "without these tensors");
  }
  compare_heads(blueprint, sources, used);
}

}  // namespace caption::model
