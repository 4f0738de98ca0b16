#include "plan/price_table.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <system_error>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/join.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "base/mapped_file.h"
#include "base/paths.h"

namespace caption::plan {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFileBytes = 1u << 20;
constexpr std::size_t kMaxFormats = 64;
constexpr std::size_t kMaxNameBytes = 64;
constexpr std::int64_t kLayout = 1;  // version of the file: the value of "price_table"
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();
constexpr double kMaxNumber = 1e18;
constexpr std::string_view kRemedy =
    "; delete the file, or measure again with caption-cli bench VIDEOS --price weights";

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kBadPreset, where + ": " + what);
}

void require_known_keys(const JsonObject& object, const std::set<std::string>& known) {
  for (const std::string& key : object.keys()) {
    if (known.count(key) == 0) {
      fail(object.name(),
           "unknown key " + json_quote_start(key, kMaxNameBytes) + "; there are " + join(known));
    }
  }
}

std::string require_name(const JsonObject& object, const std::string& key) {
  std::string name = object.require_string(key);
  if (name.empty() || name.size() > kMaxNameBytes) {
    fail(object.name(), key + " has " + std::to_string(name.size()) + " bytes, expected 1 to " +
                            std::to_string(kMaxNameBytes));
  }
  return name;
}

std::string require_hash(const JsonObject& object, const std::string& key) {
  std::string hash = object.require_string(key);
  if (parse_sha256(hash).has_value()) return hash;
  fail(object.name(), key + " is " + json_quote_start(hash, kMaxNameBytes) +
                          ", expected the 64 hexadecimal digits of a SHA-256");
}

PairedDifference read_difference(const JsonObject& object) {
  require_known_keys(object, {"value", "low", "high"});
  const PairedDifference difference{.value = object.require_double("value", -1, 1),
                                    .low = object.require_double("low", -1, 1),
                                    .high = object.require_double("high", -1, 1)};
  if (difference.low > difference.high) {
    fail(object.name(),
         "low is " + json_number(difference.low) + ", above high, " + json_number(difference.high));
  }
  return difference;
}

FormatPrice read_format(const JsonObject& object) {
  require_known_keys(
      object, {"format", "mean_kl", "p99_kl", "top1_agreement", "meteor_ko", "meteor_ko_difference",
               "equal_captions", "weight_bytes", "decode_tokens_per_s"});
  FormatPrice price{
      .format = require_name(object, "format"),
      .mean_kl = object.require_double("mean_kl", 0, kMaxNumber),
      .p99_kl = object.require_double("p99_kl", 0, kMaxNumber),
      .top1_agreement = object.require_double("top1_agreement", 0, 1),
      .equal_captions = object.require_double("equal_captions", 0, 1),
      .weight_bytes = object.require_int("weight_bytes", 1, kMaxInt),
      .decode_tokens_per_s = object.require_double("decode_tokens_per_s", 0, kMaxNumber)};
  if (object.has("meteor_ko")) price.meteor_ko = object.require_double("meteor_ko", 0, 1);
  if (const auto difference = object.get_object("meteor_ko_difference")) {
    price.meteor_ko_difference = read_difference(*difference);
  }
  return price;
}

std::vector<FormatPrice> read_formats(const JsonObject& root) {
  const std::vector<JsonObject> rows = root.get_objects("formats");
  if (rows.empty() || rows.size() > kMaxFormats) {
    fail(root.name(), "formats has " + std::to_string(rows.size()) + " rows, expected 1 to " +
                          std::to_string(kMaxFormats));
  }
  std::vector<FormatPrice> formats;
  std::set<std::string> names;
  for (const JsonObject& row : rows) {
    formats.push_back(read_format(row));
    if (!names.insert(formats.back().format).second) {
      fail(row.name(), "the format " + json_quote(formats.back().format) + " has two rows");
    }
  }
  return formats;
}

PriceTable parse(std::string_view text, const std::string& name) {
  const JsonObject root = JsonObject::parse(text, name, ErrorCode::kBadPreset);
  const std::int64_t layout = root.require_int("price_table", 0, kMaxInt);
  if (layout != kLayout) {
    fail(name, "price_table is " + std::to_string(layout) + ", but this version reads " +
                   std::to_string(kLayout));
  }
  require_known_keys(root, {"price_table", "model_hash", "base_hash", "made_as", "arithmetic",
                            "positions", "clips", "made_by", "formats"});
  PriceTable table{.model_hash = require_hash(root, "model_hash"),
                   .arithmetic = require_name(root, "arithmetic"),
                   .positions = root.require_int("positions", 1, kMaxInt),
                   .clips = root.require_int("clips", 1, kMaxInt),
                   .made_by = require_name(root, "made_by"),
                   .formats = read_formats(root)};
  if (root.has("base_hash")) table.base_hash = require_hash(root, "base_hash");
  if (root.has("made_as")) table.made_as = require_name(root, "made_as");
  return table;
}

void write_format(const FormatPrice& price, JsonWriter& json) {
  json.begin_object()
      .add("format", price.format)
      .add("mean_kl", price.mean_kl)
      .add("p99_kl", price.p99_kl)
      .add("top1_agreement", price.top1_agreement);
  if (price.meteor_ko.has_value()) json.add("meteor_ko", *price.meteor_ko);
  if (price.meteor_ko_difference.has_value()) {
    json.begin_object("meteor_ko_difference")
        .add("value", price.meteor_ko_difference->value)
        .add("low", price.meteor_ko_difference->low)
        .add("high", price.meteor_ko_difference->high)
        .end_object();
  }
  json.add("equal_captions", price.equal_captions)
      .add("weight_bytes", price.weight_bytes)
      .add("decode_tokens_per_s", price.decode_tokens_per_s)
      .end_object();
}

std::string to_json(const PriceTable& table) {
  JsonWriter json;
  json.begin_object().add("price_table", kLayout).add("model_hash", table.model_hash);
  if (!table.base_hash.empty()) json.add("base_hash", table.base_hash);
  if (!table.made_as.empty()) json.add("made_as", table.made_as);
  json.add("arithmetic", table.arithmetic)
      .add("positions", table.positions)
      .add("clips", table.clips)
      .add("made_by", table.made_by)
      .begin_list("formats");
  for (const FormatPrice& price : table.formats) write_format(price, json);
  return json.end_list().end_object().text() + "\n";
}

}  // namespace

const FormatPrice* PriceTable::find(std::string_view format) const {
  const auto found = std::find_if(formats.begin(), formats.end(),
                                  [&](const FormatPrice& row) { return row.format == format; });
  return found == formats.end() ? nullptr : &*found;
}

PriceTable read_price_table(const fs::path& path) {
  const std::string text = read_text_file(path, kMaxFileBytes);
  try {
    return parse(text, path.string());
  } catch (const Error& error) {
    throw Error(error.code(), std::string(error.what()) + std::string(kRemedy));
  }
}

fs::path price_table_path(const fs::path& folder, std::string_view model_hash) {
  return folder / (std::string(model_hash) + ".json");
}

fs::path write_price_table(const PriceTable& table, const fs::path& folder) {
  const std::string text = to_json(table);
  try {
    CAPTION_CHECK(parse(text, "price table") == table, "a price table is read as another one");
  } catch (const Error& error) {
    throw Error(ErrorCode::kInternal, error.what());
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(output_error_code(error.value()),
                folder.string() + ": cannot make this folder: " + describe_errno(error.value()));
  }
  fs::path path = price_table_path(folder, table.model_hash);
  write_file_atomically(path, text);
  return path;
}

std::string find_obstacle(const PriceTable& table, const fs::path& folder) {
  if (table.positions < kLeastPositions) {
    return std::to_string(table.positions) + " positions are fewer than " +
           std::to_string(kLeastPositions) + "; give more clips or prompts";
  }
  const fs::path path = price_table_path(folder, table.model_hash);
  if (!stamp_of(path).has_value()) return {};
  try {
    const std::int64_t positions = read_price_table(path).positions;
    if (positions <= table.positions) return {};
    return path.string() + " has " + std::to_string(positions) + " positions, more than these " +
           std::to_string(table.positions) + "; delete it, or give more clips or prompts";
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadPreset) throw;
    return {};
  }
}

std::optional<FoundPriceTable> find_price_table(const Sha256& model_hash,
                                                std::span<const fs::path> folders) {
  const std::string hash = model_hash.hex();
  std::optional<FoundPriceTable> best;
  for (const fs::path& folder : folders) {
    if (folder.empty()) continue;
    const fs::path path = price_table_path(folder, hash);
    if (!stamp_of(path).has_value()) continue;
    PriceTable table = read_price_table(path);
    if (table.model_hash != hash) {
      fail(path.string(),
           "it has the prices of another model, " + table.model_hash + std::string(kRemedy));
    }
    if (best.has_value() && best->table.positions >= table.positions) continue;
    best = FoundPriceTable{.table = std::move(table), .path = path};
  }
  return best;
}

std::vector<FoundPriceTable> find_made_price_tables(const Sha256& base_hash,
                                                    std::span<const fs::path> folders) {
  const std::string hash = base_hash.hex();
  std::map<std::string, FoundPriceTable> found;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    for (const fs::directory_entry& entry : list_folder(folder, ignored)) {
      if (entry.path().extension() != ".json") continue;
      try {
        PriceTable table = read_price_table(entry.path());
        const std::string name = table.model_hash + ".json";
        if (table.base_hash != hash || table.made_as.empty() || entry.path().filename() != name) {
          continue;
        }
        const auto other = found.find(name);
        if (other != found.end() && other->second.table.positions >= table.positions) continue;
        found[name] = {.table = std::move(table), .path = entry.path()};
      } catch (const Error& error) {
        if (is_of_machine(error.code())) throw;
      }
    }
  }
  std::vector<FoundPriceTable> tables;
  for (auto& [name, table] : found) tables.push_back(std::move(table));
  return tables;
}

}  // namespace caption::plan
