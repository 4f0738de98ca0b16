#include "engine/internal/name_pages.h"

#include <span>

#include "base/sha256.h"
#include "kv/prefix_hash.h"
#include "tensor/copy.h"

namespace caption::engine {
namespace {

Hash128 hash_tokens(Stream& stream, const Tensor& vision) {
  const Tensor copied =
      vision.device() == Device::kCpu ? Tensor() : copy_to(stream, Device::kCpu, vision.view());
  const Tensor& on_host = copied.empty() ? vision : copied;
  return sha256_of(std::span(reinterpret_cast<const std::byte*>(on_host.as<float>()),
                             on_host.size_bytes()))
      .short_key();
}

// Adds the positions of the tokens up to the last vision token to the hash of its content. Those
// after it follow from it.
Hash128 mix_positions(const Hash128& content, const Request& request) {
  Sha256Hasher hasher;
  hasher.update_value(content.high);
  hasher.update_value(content.low);
  const std::size_t stride = request.prompt_ids.size();
  const auto count = static_cast<std::size_t>(request.vision_positions.back()) + 1;
  for (std::size_t first = 0; first < request.positions.size(); first += stride) {
    hasher.update(std::as_bytes(std::span(request.positions).subspan(first, count)));
  }
  return hasher.digest().short_key();
}

}  // namespace

void name_pages(Stream& stream, const Hash128& root, const Request& request,
                scheduler::SequenceSpec& spec) {
  kv::PromptContent prompt{.ids = request.prompt_ids,
                           .vision_positions = request.vision_positions,
                           .vision_content = {}};
  if (!request.vision_positions.empty()) {
    prompt.vision_content = request.vision_content.has_value()
                                ? *request.vision_content
                                : hash_tokens(stream, *request.vision);
    if (!request.positions.empty()) {
      prompt.vision_content = mix_positions(prompt.vision_content, request);
    }
  }
  spec.prompt_pages = kv::hash_prompt_pages(root, prompt);
  if (request.vision_positions.empty()) return;
  const std::int64_t end = request.vision_positions.back() + 1;
  if (end % kv::kPageTokens == 0) return;
  spec.prompt_part = {.content = kv::hash_prompt_part(root, prompt, spec.prompt_pages, end),
                      .num_tokens = end};
}

}  // namespace caption::engine
