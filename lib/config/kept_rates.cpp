#include "config/kept_rates.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "backend/cpu_tier.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "config/resolve.h"

namespace caption::config {
namespace {

namespace fs = std::filesystem;

// Version of the file, the value of "rates": another one also when rates are measured otherwise.
constexpr std::int64_t kLayout = 1;
constexpr std::size_t kMaxFileBytes = 1u << 16;
constexpr double kMostRate = 1e18;  // bytes or FLOP per second
constexpr std::array<std::string_view, 2> kArithmetics = {"f32", "bf16"};

struct RateField {
  const char* name;
  double bench::Roofline::*rate;
  bool may_be_zero = false;
};
constexpr std::array kFields = {
    RateField{.name = "read_bytes_per_s", .rate = &bench::Roofline::read_bytes_per_s},
    RateField{.name = "f32_flops_per_s", .rate = &bench::Roofline::f32_flops_per_s},
    RateField{.name = "flops_per_s", .rate = &bench::Roofline::flops_per_s},
    RateField{.name = "int8_flops_per_s", .rate = &bench::Roofline::int8_flops_per_s},
    RateField{.name = "own_int8_flops_per_s",
              .rate = &bench::Roofline::own_int8_flops_per_s,
              .may_be_zero = true},
    RateField{.name = "own_int4_flops_per_s",
              .rate = &bench::Roofline::own_int4_flops_per_s,
              .may_be_zero = true}};

fs::path path_of(const fs::path& folder, const RatesKey& key) {
  const std::string text =
      json_quote(key.cpu_model) + " " + key.tier + " " + std::to_string(key.num_threads);
  return folder / (sha256_of(std::string_view(text)).hex() + ".json");
}

// nullopt for rates of another key or layout, and for numbers that no measurement gives.
std::optional<bench::Roofline> parse(const JsonObject& root, const RatesKey& key) {
  const bool is_of_key = root.get_int("rates", 0, 0, kLayout) == kLayout &&
                         root.get_string("cpu", "") == key.cpu_model &&
                         root.get_string("tier", "") == key.tier &&
                         root.get_int("threads", 0, 0, 1 << 20) == key.num_threads;
  const std::string arithmetic = root.get_string("arithmetic", "");
  const auto* const known = std::find(kArithmetics.begin(), kArithmetics.end(), arithmetic);
  if (!is_of_key || known == kArithmetics.end()) return std::nullopt;
  bench::Roofline rates;
  rates.arithmetic = *known;
  rates.num_threads = static_cast<int>(root.get_int("measured_threads", 1, 1, 1 << 20));
  for (const RateField& field : kFields) {
    const double rate = root.get_double(field.name, -1);
    if (rate < 0 || rate > kMostRate || (rate == 0 && !field.may_be_zero)) return std::nullopt;
    rates.*field.rate = rate;
  }
  return rates;
}

std::string text_of(const RatesKey& key, const bench::Roofline& rates) {
  JsonWriter json;
  json.begin_object()
      .add("rates", kLayout)
      .add("cpu", key.cpu_model)
      .add("tier", key.tier)
      .add("threads", std::int64_t{key.num_threads})
      .add("measured_threads", std::int64_t{rates.num_threads})
      .add("arithmetic", std::string(rates.arithmetic));
  for (const RateField& field : kFields) json.add(field.name, rates.*field.rate);
  return json.end_object().text() + "\n";
}

}  // namespace

RatesKey rates_key(const Context& context, const Preset& preset, const Machine& machine) {
  return {.cpu_model = machine.cpu_model,
          .tier = std::string(cpu_tier_name(context.cpu_tier)),
          .num_threads = std::min(num_threads(preset, machine), machine.num_cpus)};
}

std::optional<bench::Roofline> read_rates(const fs::path& folder, const RatesKey& key) {
  if (folder.empty()) return std::nullopt;
  const fs::path path = path_of(folder, key);
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  try {
    const std::string text = read_text_file(path, kMaxFileBytes);
    return parse(JsonObject::parse(text, path.string(), ErrorCode::kBadPreset), key);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    log_debug("config", std::string("kept rates are not used: ") + error.what());
    return std::nullopt;
  }
}

bench::Roofline keep_rates(const fs::path& folder, const RatesKey& key,
                           const bench::Roofline& rates, KeepRates keep) {
  if (folder.empty()) return rates;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return rates;
  const fs::path path = path_of(folder, key);
  try {
    if (keep == KeepRates::kReplace) {
      write_file_atomically(path, text_of(key, rates));
      return rates;
    }
    // create_hard_link() fails where the name is taken, so that the first process decides. A kept
    // file that cannot be read is replaced.
    const fs::path own = path.string() + "." + std::to_string(::getpid());
    write_file_atomically(own, text_of(key, rates));
    fs::create_hard_link(own, path, error);
    const std::optional<bench::Roofline> kept = read_rates(folder, key);
    if (!kept) fs::rename(own, path, error);
    fs::remove(own, error);
    return kept.value_or(rates);
  } catch (const Error& failure) {
    log_debug("config", std::string("rates are not kept: ") + failure.what());
    return rates;
  }
}

}  // namespace caption::config
