// config/kept_rates.h: the rates of this machine's CPU that were measured last, one small JSON file
// for each CPU model, tier and number of threads, so that `--dtype auto` chooses the same format of
// weights each time: rates that are measured anew differ by more than formats do.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "backend/context.h"
#include "backend/machine.h"
#include "bench/roofline.h"
#include "config/preset.h"

namespace caption::config {

// Rates are those of a CPU model, a tier and a number of threads.
struct RatesKey {
  std::string cpu_model;
  std::string tier;
  int num_threads = 1;  // threads that a run with the preset uses
};
RatesKey rates_key(const Context& context, const Preset& preset, const Machine& machine);

// Returns the rates in `folder`; nullopt if there are none of this key, or none that can be read.
// An empty path has none.
std::optional<bench::Roofline> read_rates(const std::filesystem::path& folder, const RatesKey& key);

enum class KeepRates {
  kReplace,  // in the place of earlier ones
  // Unless there are some that can be read: of several processes that begin together, the first to
  // write decides for all.
  kFirst,
};
// Writes the rates to `folder`, which is made if need be, and returns those that are kept now:
// `rates` where none can be written.
bench::Roofline keep_rates(const std::filesystem::path& folder, const RatesKey& key,
                           const bench::Roofline& rates, KeepRates keep = KeepRates::kReplace);

}  // namespace caption::config
