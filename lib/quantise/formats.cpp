#include <algorithm>

#include "base/error.h"
#include "quantise/format.h"

namespace caption::quantise {
namespace {

constexpr FormatEntry kFormats[] = {
    {.name = "nf4",
     .summary = "bitsandbytes, 4 bits: quantiles of a normal distribution, blocks of 64",
     .has_double_quant = true,
     .make = make_nf4},
    {.name = "fp4",
     .summary = "bitsandbytes, 4-bit floating point, blocks of 64",
     .has_double_quant = true,
     .make = make_fp4},
    {.name = "int8", .summary = "bitsandbytes LLM.int8(): a scale per row", .make = make_llm_int8},
    {.name = "w8a8",
     .summary = "compressed-tensors int-quantized: 8 bits, a scale per row, 8-bit activations",
     .make = make_w8a8},
    {.name = "w4a16",
     .summary = "compressed-tensors pack-quantized: 4 bits, symmetric, groups of 128",
     .has_groups = true,
     .make = make_w4a16},
    {.name = "awq",
     .summary = "the layout of AutoAWQ (gemm, groups of 128); with --calibrate AWQ's scales and "
                "GPTQ's correction of errors, else rounded to nearest",
     .has_groups = true,
     .has_pack = true,
     .make = make_awq},
    {.name = "gptq",
     .summary = "the layout of GPTQModel (4 bits, groups of 128, symmetric); with --calibrate "
                "GPTQ's correction of errors, else rounded to nearest",
     .has_groups = true,
     .has_pack = true,
     .make = make_gptq},
};

}  // namespace

std::vector<Bytes> Format::pack(ThreadPool& /*pool*/, const RoundedMatrix& /*rounded*/) const {
  throw Error(ErrorCode::kInternal,
              "quantise: this format takes no codes that were chosen elsewhere");
}

std::span<const FormatEntry> formats() { return kFormats; }

const FormatEntry* find_format(std::string_view name) {
  const auto all = formats();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const FormatEntry& entry) { return entry.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace caption::quantise
