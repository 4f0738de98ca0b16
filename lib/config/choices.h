// config/choices.h: the names of every enumerated option.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/machine.h"
#include "base/join.h"
#include "config/preset.h"
#include "weights/file_format.h"

namespace caption::config {

template <class E>
struct Choice {
  E value;
  std::string_view name;
};

inline constexpr std::array kDeviceTypes = {Choice<DeviceType>{DeviceType::kAuto, "auto"},
                                            Choice<DeviceType>{DeviceType::kCpu, "cpu"},
                                            Choice<DeviceType>{DeviceType::kCuda, "cuda"}};
inline constexpr std::array kWeightFormats = {
    Choice<WeightFormat>{WeightFormat::kAuto, "auto"},
    Choice<WeightFormat>{WeightFormat::kF32, "f32"},
    Choice<WeightFormat>{WeightFormat::kBF16, "bf16"},
    Choice<WeightFormat>{WeightFormat::kF16, "f16"},
    Choice<WeightFormat>{WeightFormat::kInt8, "int8"},
    Choice<WeightFormat>{WeightFormat::kInt4, "int4"},
    Choice<WeightFormat>{WeightFormat::kNf4, "nf4"},
    Choice<WeightFormat>{WeightFormat::kW8A8, "w8a8"},
    Choice<WeightFormat>{WeightFormat::kFp8, "fp8"},
    Choice<WeightFormat>{WeightFormat::kW4A8, "w4a8"},
    Choice<WeightFormat>{WeightFormat::kInt4Head4, "int4-head4"},
    Choice<WeightFormat>{WeightFormat::kW4A8Head4, "w4a8-head4"},
    Choice<WeightFormat>{WeightFormat::kAwq, "awq"},
    Choice<WeightFormat>{WeightFormat::kGptq, "gptq"}};
inline constexpr std::array kKvFormats = {
    Choice<KvFormat>{KvFormat::kAuto, "auto"}, Choice<KvFormat>{KvFormat::kF32, "f32"},
    Choice<KvFormat>{KvFormat::kBF16, "bf16"}, Choice<KvFormat>{KvFormat::kF16, "f16"},
    Choice<KvFormat>{KvFormat::kInt8, "int8"}};
inline constexpr std::array kBatchings = {Choice<BatchMode>{BatchMode::kContinuous, "continuous"},
                                          Choice<BatchMode>{BatchMode::kStatic, "static"}};

inline constexpr std::array kAttentions = {
    Choice<CompressionMode>{CompressionMode::kNone, "full"},
    Choice<CompressionMode>{CompressionMode::kTopkMerge, "topk-merge"},
    Choice<CompressionMode>{CompressionMode::kSqueezed, "squeezed"}};
inline constexpr std::array kEarlyStoppings = {
    Choice<EarlyStopping>{EarlyStopping::kNo, "false"},
    Choice<EarlyStopping>{EarlyStopping::kYes, "true"},
    Choice<EarlyStopping>{EarlyStopping::kNever, "never"}};

inline constexpr std::array kColorMatrices = {Choice<ColorMatrix>{ColorMatrix::kAuto, "auto"},
                                              Choice<ColorMatrix>{ColorMatrix::kBt601, "bt601"},
                                              Choice<ColorMatrix>{ColorMatrix::kBt709, "bt709"}};

inline constexpr std::array kProjectorTypes = {
    Choice<ProjectorType>{ProjectorType::kAuto, "auto"},
    Choice<ProjectorType>{ProjectorType::kMlp, "mlp"},
    Choice<ProjectorType>{ProjectorType::kPerceiverResampler, "perceiver_resampler"},
    Choice<ProjectorType>{ProjectorType::kCAbstractor, "c_abstractor"}};
inline constexpr std::array kHiddenActs = {
    Choice<HiddenAct>{HiddenAct::kAuto, "auto"},
    Choice<HiddenAct>{HiddenAct::kGelu, "gelu"},
    Choice<HiddenAct>{HiddenAct::kGeluPytorchTanh, "gelu_pytorch_tanh"},
    Choice<HiddenAct>{HiddenAct::kQuickGelu, "quick_gelu"},
    Choice<HiddenAct>{HiddenAct::kRelu, "relu"},
    Choice<HiddenAct>{HiddenAct::kSilu, "silu"}};

inline constexpr std::array kDraftMethods = {Choice<DraftMethod>{DraftMethod::kNone, "none"},
                                             Choice<DraftMethod>{DraftMethod::kNgram, "ngram"},
                                             Choice<DraftMethod>{DraftMethod::kArchive, "archive"},
                                             Choice<DraftMethod>{DraftMethod::kModel, "model"},
                                             Choice<DraftMethod>{DraftMethod::kSelf, "self"}};

constexpr const auto& choices_of(DeviceType) { return kDeviceTypes; }
constexpr const auto& choices_of(WeightFormat) { return kWeightFormats; }
constexpr const auto& choices_of(KvFormat) { return kKvFormats; }
constexpr const auto& choices_of(BatchMode) { return kBatchings; }
constexpr const auto& choices_of(DraftMethod) { return kDraftMethods; }
constexpr const auto& choices_of(CompressionMode) { return kAttentions; }
constexpr const auto& choices_of(EarlyStopping) { return kEarlyStoppings; }
constexpr const auto& choices_of(ColorMatrix) { return kColorMatrices; }
constexpr const auto& choices_of(ProjectorType) { return kProjectorTypes; }
constexpr const auto& choices_of(HiddenAct) { return kHiddenActs; }

// Whether this build can run the choice. A preset may name others: `plan` counts them, and `run`
// rejects them with one message.
template <class E>
bool runs_here(E /*value*/) {
  return true;
}
inline bool runs_here(DeviceType type) {
  return type != DeviceType::kCuda || caption::has_cuda_kernels();
}
// The format of weights that a choice other than kAuto names. Throws Error(kInternal) for kAuto.
weights::WeightFormat named_format(WeightFormat choice);
// The name by which --dtype chooses a format; that of nf4 for kNf4Double.
std::string_view option_name(weights::WeightFormat format);
inline bool runs_here(WeightFormat choice) {
  if (choice == WeightFormat::kAuto) return true;
  const weights::WeightFormat format = named_format(choice);
  return weights::can_be_held(format) || weights::is_file_format(format);
}

template <class E>
std::string_view choice_name(E value) {
  for (const auto& choice : choices_of(value)) {
    if (choice.value == value) return choice.name;
  }
  return {};
}

template <class E>
std::optional<E> find_choice(std::string_view name) {
  for (const auto& choice : choices_of(E{})) {
    if (choice.name == name) return choice.value;
  }
  return std::nullopt;
}

// Returns the names of the choices that this build can run.
template <class E>
std::vector<std::string> choice_list() {
  std::vector<std::string> out;
  for (const auto& choice : choices_of(E{})) {
    if (runs_here(choice.value)) out.emplace_back(choice.name);
  }
  return out;
}

// Returns the same as text for messages: "f32, bf16, int8, int4, nf4, w8a8".
template <class E>
std::string choice_names() {
  return join(choice_list<E>());
}

}  // namespace caption::config
