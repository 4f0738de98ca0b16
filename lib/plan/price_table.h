// plan/price_table.h: what the formats of a model's weights cost in quality, as measured by `bench
// VIDEOS --price weights`: one small JSON file for each model, named after the model's content.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"

namespace caption::plan {

// A score minus the score of the reference on the same clips.
struct PairedDifference {
  double value = 0;
  double low = 0;   // lower bound of the 95 % interval (paired bootstrap over the clips)
  double high = 0;  // upper bound

  friend bool operator==(const PairedDifference&, const PairedDifference&) = default;
};

// What one format costs beside the reference, the model with the weights of its file in f32.
struct FormatPrice {
  std::string format;  // as --dtype names it: "bf16", "int4-head4"
  // KL(reference || format) in nats, over the positions of captions that the reference wrote: both
  // models continue the same tokens, and each distribution is that over the whole vocabulary.
  double mean_kl = 0;
  double p99_kl = 0;          // the 99th percentile over the positions
  double top1_agreement = 1;  // share of the positions at which both have the same likeliest token
  // The score of the format's own captions; absent without references.
  std::optional<double> meteor_ko = {};
  std::optional<PairedDifference> meteor_ko_difference = {};  // absent in the reference
  double equal_captions = 1;  // share of the clips whose caption is that of the reference
  std::int64_t weight_bytes = 0;
  // Output tokens per second of the engine's time, prompts included, on the machine that measured:
  // comparable inside one table only.
  double decode_tokens_per_s = 0;

  friend bool operator==(const FormatPrice&, const FormatPrice&) = default;
};

// Tables of fewer positions are not kept: the 99th percentile would rest on fewer than ten of them.
inline constexpr std::int64_t kLeastPositions = 1000;

struct PriceTable {
  std::string model_hash;  // CaptionModel::content_hash() in hexadecimal digits
  // The same of the reference if that is another model, of which this one was made by rounding;
  // otherwise empty.
  std::string base_hash = {};
  // How `caption-cli quantize` made the model of that one: "gptq --calibrate"; empty where it did
  // not.
  std::string made_as = {};
  std::string arithmetic;      // the CPU tier that computed: "avx512bf16"
  std::int64_t positions = 0;  // number of positions at which logits were compared
  std::int64_t clips = 0;      // number of clips that were captioned
  std::string made_by;         // "caption-cli 0.9.0"
  std::vector<FormatPrice> formats;

  // The row of a format, or null.
  const FormatPrice* find(std::string_view format) const;

  friend bool operator==(const PriceTable&, const PriceTable&) = default;
};

// Reads a table of at most 1 MiB. Throws Error(kBadPreset) with file, key, what was found and what
// to do unless every key is known, every required one present and every number in its range;
// otherwise as read_text_file().
PriceTable read_price_table(const std::filesystem::path& path);

// The file of a model's table in a folder of tables: FOLDER/<content hash>.json.
std::filesystem::path price_table_path(const std::filesystem::path& folder,
                                       std::string_view model_hash);

// Writes the table to its path in `folder`, which is made if need be, in the place of an earlier
// one, and returns the path. Throws Error(kInternal) for a table that could not be read again;
// otherwise as write_file_atomically().
std::filesystem::path write_price_table(const PriceTable& table,
                                        const std::filesystem::path& folder);

// Why the table is not to be written to `folder`: it has fewer than kLeastPositions, or the one
// that is there, if it can be read, has more positions. Empty if it is to be written. Throws Error
// as read_text_file() when what is there cannot be opened.
std::string find_obstacle(const PriceTable& table, const std::filesystem::path& folder);

struct FoundPriceTable {
  PriceTable table;
  std::filesystem::path path;
};

// Finds the table of the model with this content: the one of the most positions among those that
// the folders have, the first of equals. Folders that do not exist, and empty paths, have none.
// Throws as read_price_table(), and Error(kBadPreset) when the file has the table of another model.
std::optional<FoundPriceTable> find_price_table(const Sha256& model_hash,
                                                std::span<const std::filesystem::path> folders);

// Finds the tables of models that `caption-cli quantize` made of the model with this content
// (PriceTable::made_as is not empty), by file names; of the same file name in several folders, as
// find_price_table(). Files that are no tables are passed over: the models that they are named
// after tell of them.
std::vector<FoundPriceTable> find_made_price_tables(const Sha256& base_hash,
                                                    std::span<const std::filesystem::path> folders);

}  // namespace caption::plan
