#include "engine/internal/name_pages.h"

#include <span>
#include <vector>

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

// Adds the positions of the first `count` tokens, up to the content's last vision token, to the
// hash of the content. Those after it follow from it.
Hash128 mix_positions(const Hash128& content, const Request& request, std::size_t count) {
  if (request.positions.empty()) return content;
  Sha256Hasher hasher;
  hasher.update_value(content.high);
  hasher.update_value(content.low);
  const std::size_t stride = request.prompt_ids.size();
  for (std::size_t first = 0; first < request.positions.size(); first += stride) {
    hasher.update(std::as_bytes(std::span(request.positions).subspan(first, count)));
  }
  return hasher.digest().short_key();
}

// Number of the prompt's tokens up to and including the vision token that num_after others follow.
std::size_t end_of_vision(const Request& request, std::int64_t num_after) {
  const std::int64_t last = std::ssize(request.vision_positions) - 1 - num_after;
  return static_cast<std::size_t>(request.vision_positions.at(static_cast<std::size_t>(last))) + 1;
}

bool has_own_vision(const Request& request) {
  std::int64_t num_leading = 0;
  for (const SharedVision& shared : request.leading_vision) num_leading += shared.tokens->dim(0);
  return num_leading < std::ssize(request.vision_positions);
}

std::vector<kv::VisionContent> name_leading_vision(const Request& request) {
  std::vector<kv::VisionContent> leading;
  std::int64_t num_after = std::ssize(request.vision_positions);
  for (const SharedVision& shared : request.leading_vision) {
    num_after -= shared.tokens->dim(0);
    leading.push_back(
        {.num_tokens = shared.tokens->dim(0),
         .content = mix_positions(shared.content, request, end_of_vision(request, num_after))});
  }
  return leading;
}

}  // namespace

void name_pages(Stream& stream, const Hash128& root, const Request& request,
                scheduler::SequenceSpec& spec) {
  const std::vector<kv::VisionContent> leading = name_leading_vision(request);
  kv::PromptContent prompt{.ids = request.prompt_ids,
                           .vision_positions = request.vision_positions,
                           .vision_content = {},
                           .leading = leading};
  if (has_own_vision(request)) {
    const Hash128 content = request.vision_content.has_value()
                                ? *request.vision_content
                                : hash_tokens(stream, *request.vision);
    prompt.vision_content = mix_positions(content, request, end_of_vision(request, 0));
  }
  spec.prompt_pages = kv::hash_prompt_pages(root, prompt);
  if (request.vision_positions.empty()) return;
  const std::int64_t end = request.vision_positions.back() + 1;
  if (end % kv::kPageTokens == 0) return;
  spec.prompt_part = {.content = kv::hash_prompt_part(root, prompt, spec.prompt_pages, end),
                      .num_tokens = end};
}

}  // namespace caption::engine
