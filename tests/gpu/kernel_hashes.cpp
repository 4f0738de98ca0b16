// Hashes what the CUDA kernels compute, on the machine's first GPU or, in another executable of the
// same source, on the emulator, and holds the two against each other.
//
//   caption_kernel_hashes --capability 80 >expected-80.jsonl       on the emulator
//   caption_kernel_hashes_on_gpu --expected FOLDER --time          on a GPU
//
// A line of JSON per result on stdout:
//   {"result":"device","name":"NVIDIA L4","compute_capability":89}
//   {"result":"kernel","case":"rms_norm","hash":"...","expected":"...","equal":true}
//   {"result":"time","case":"linear int4 [4096, 4096], 1 rows","us":41.2,"bytes_per_s":2.3e11}
//   {"result":"hashes","cases":80,"equal":80,"different":0,"failed":0,"unknown":0}
// FOLDER has expected-75.jsonl, expected-80.jsonl, expected-89.jsonl and expected-90.jsonl: GPUs
// without bf16, those from Ampere on, those with tensor cores for e4m3, and those from Hopper on,
// which add in another way. An error of a case does not end the others. Exit code 0: all cases ran,
// and none differs; 1: some do not; 2: wrong usage; 4: there is no GPU.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "tests/gpu/checked_device.h"
#include "tests/gpu/kernel_cases.h"

namespace caption::testing {
namespace {

constexpr int kExitDifferent = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNoDevice = 4;

struct Options {
  int capability = 80;
  std::string expected;  // folder; empty: nothing is compared
  bool is_timed = false;
};

std::optional<Options> parse(std::span<char* const> arguments) {
  Options options;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view name = arguments[i];
    const bool has_value = i + 1 < arguments.size();
    if (name == "--time") {
      options.is_timed = true;
    } else if (name == "--capability" && has_value) {
      options.capability = std::atoi(arguments[++i]);
      if (options.capability < 75 || options.capability > 999) return std::nullopt;
    } else if (name == "--expected" && has_value) {
      options.expected = arguments[++i];
    } else {
      return std::nullopt;
    }
  }
  return options;
}

void print(const JsonWriter& line) {
  std::printf("%s\n", line.text().c_str());
  std::fflush(stdout);
}

void print_error(const char* result, const std::string& name, const std::string& what) {
  JsonWriter line;
  line.begin_object().add("result", result).add("case", name).add("error", what).end_object();
  print(line);
}

// The capability under which the emulator's hashes of a GPU are kept.
int class_of(int capability) {
  for (const int first : {90, 89, 80}) {
    if (capability >= first) return first;
  }
  return 75;
}

using Hashes = std::map<std::string, std::string, std::less<>>;  // keyed by case

Hashes read_expected(const std::string& folder, int capability) {
  const std::filesystem::path path =
      std::filesystem::path(folder) /
      ("expected-" + std::to_string(class_of(capability)) + ".jsonl");
  std::ifstream file(path);
  if (!file) throw Error(ErrorCode::kBadReference, path.string() + ": cannot be read");
  Hashes hashes;
  for (std::string text; std::getline(file, text);) {
    const JsonObject line = JsonObject::parse(text, path.string(), ErrorCode::kBadReference);
    if (line.get_string("result", "") != "kernel" || !line.has("hash")) continue;
    hashes[line.require_string("case")] = line.require_string("hash");
  }
  return hashes;
}

struct Counts {
  std::int64_t cases = 0, equal = 0, different = 0, failed = 0, unknown = 0;
};

std::string hash_of(const Tensor& tensor) {
  const auto* const begin = static_cast<const std::byte*>(tensor.view().raw());
  return hash_bytes({begin, tensor.size_bytes()}).hex();
}

void check_case(Stream& stream, const KernelCase& one, const Hashes* expected, Counts& counts) {
  ++counts.cases;
  try {
    const std::string hash = hash_of(one.run(stream));
    JsonWriter line;
    line.begin_object().add("result", "kernel").add("case", one.name).add("hash", hash);
    if (expected != nullptr) {
      const auto found = expected->find(one.name);
      if (found == expected->end()) {
        ++counts.unknown;
      } else {
        const bool is_equal = found->second == hash;
        ++(is_equal ? counts.equal : counts.different);
        line.add("expected", found->second).add("equal", is_equal);
      }
    }
    print(line.end_object());
  } catch (const std::exception& error) {
    ++counts.failed;
    print_error("kernel", one.name, error.what());
  }
}

void time_layer(Stream& stream, const TimedLayer& layer) {
  constexpr int kRepetitions = 20;
  constexpr int kRounds = 5;
  try {
    layer.launch(stream);
    double best_s = 0;
    for (int round = 0; round < kRounds; ++round) {
      const Event begin = stream.record();
      for (int i = 0; i < kRepetitions; ++i) layer.launch(stream);
      const Event end = stream.record();
      const double seconds = std::chrono::duration<double>(end.since(begin)).count() / kRepetitions;
      best_s = round == 0 ? seconds : std::min(best_s, seconds);
    }
    JsonWriter line;
    line.begin_object().add("result", "time").add("case", layer.name).add("us", best_s * 1e6);
    print(line.add("bytes_per_s", layer.bytes / best_s).end_object());
  } catch (const std::exception& error) {
    print_error("time", layer.name, error.what());
  }
}

int run(const Options& options) {
  const CheckedDevice device(options.capability);
  const int capability = device.context().compute_capability;
  JsonWriter header;
  header.begin_object().add("result", "device").add("name", device.name());
  print(header.add("compute_capability", std::int64_t{capability}).end_object());
  Hashes expected;
  if (!options.expected.empty()) expected = read_expected(options.expected, capability);
  ThreadPool pool(1);
  Stream stream(device.context(), pool);
  Counts counts;
  for (const KernelCase& one : kernel_cases(capability)) {
    check_case(stream, one, options.expected.empty() ? nullptr : &expected, counts);
  }
  const std::string faults = device.faults();
  if (!faults.empty()) print_error("faults", "all", faults);
  if (options.is_timed && !device.is_emulated()) {
    for (const TimedLayer& layer : timed_layers(stream)) time_layer(stream, layer);
  }
  JsonWriter end;
  end.begin_object().add("result", "hashes").add("cases", counts.cases).add("equal", counts.equal);
  end.add("different", counts.different).add("failed", counts.failed);
  print(end.add("unknown", counts.unknown).end_object());
  const bool is_right =
      counts.different == 0 && counts.failed == 0 && counts.unknown == 0 && faults.empty();
  return is_right ? 0 : kExitDifferent;
}

}  // namespace
}  // namespace caption::testing

int main(int argc, char** argv) {
  const auto options = caption::testing::parse({argv, static_cast<std::size_t>(argc)});
  if (!options.has_value()) {
    std::fprintf(stderr, "usage: %s [--capability N] [--expected FOLDER] [--time]\n", argv[0]);
    return caption::testing::kExitUsage;
  }
  try {
    return caption::testing::run(*options);
  } catch (const caption::Error& error) {
    caption::testing::print_error("device", "", error.what());
    return error.code() == caption::ErrorCode::kUnavailable ? caption::testing::kExitNoDevice
                                                            : caption::testing::kExitDifferent;
  } catch (const std::exception& error) {
    caption::testing::print_error("device", "", error.what());
    return caption::testing::kExitDifferent;
  }
}
