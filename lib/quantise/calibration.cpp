#include "quantise/calibration.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string_view>

#include "base/open_file.h"
#include "weights/safetensors_writer.h"

namespace caption::quantise {
namespace {

// A tensor of the file and its bytes.
struct Part {
  weights::PlannedTensor plan;
  std::span<const std::byte> bytes;
};

Part integers(const std::string& name, const std::vector<std::int32_t>& numbers,
              std::vector<std::int64_t> extents) {
  return {weights::plan_tensor(name, "I32", std::move(extents)), std::as_bytes(std::span(numbers))};
}

std::vector<Part> parts_of(const CalibrationPrompt& prompt, std::size_t index) {
  std::array<char, 32> stem{};
  std::snprintf(stem.data(), stem.size(), "prompt_%05zu", index);
  const std::string name = stem.data();
  const std::int64_t tokens = prompt.num_tokens();
  std::vector<Part> parts = {
      integers(name + ".ids", prompt.ids, {tokens}),
      integers(name + ".positions", prompt.positions,
               {std::ssize(prompt.positions) / tokens, tokens}),
      integers(name + ".vision_rows", prompt.vision_rows, {std::ssize(prompt.vision_rows)})};
  if (prompt.vision == nullptr) return parts;
  const Tensor& vision = *prompt.vision;
  parts.push_back({weights::plan_tensor(name + ".vision", "F32", {vision.dim(0), vision.dim(1)}),
                   std::as_bytes(std::span(vision.as<float>(),
                                           static_cast<std::size_t>(vision.num_elements())))});
  return parts;
}

}  // namespace

void save_calibration(const Calibration& calibration, const std::filesystem::path& path) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < calibration.prompts.size(); ++i) {
    for (Part& part : parts_of(calibration.prompts[i], i)) parts.push_back(std::move(part));
  }
  std::vector<weights::PlannedTensor> plans;
  for (const Part& part : parts) plans.push_back(part.plan);
  weights::SafetensorsWriter writer(path, plans);
  for (const Part& part : parts) writer.write(part.plan.name, part.bytes);
  writer.finish();
}

bool is_saved_calibration(const std::filesystem::path& path) {
  constexpr std::size_t kLengthBytes = 8;  // size of the length that precedes the header
  constexpr std::string_view kBegin = R"({"__metadata__":{"format":"pt"},"prompt_00000.)";
  std::array<char, kLengthBytes + kBegin.size()> head{};
  const std::size_t found = OpenFile(path).read_at(0, std::as_writable_bytes(std::span(head)));
  return std::string_view(head.data(), found).substr(std::min(found, kLengthBytes)) == kBegin;
}

}  // namespace caption::quantise
