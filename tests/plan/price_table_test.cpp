// Tests that price tables are read as they were written, and that every other file is refused.
#include "plan/price_table.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tests/support/mutants.h"

namespace caption::plan {
namespace {

namespace fs = std::filesystem;

// A new folder, removed with its content at the end.
class Folder {
 public:
  Folder() {
    std::string name = fs::temp_directory_path() / "caption_prices_XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const fs::path& path() const { return path_; }
  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  fs::path path_;
};

Sha256 hash_of(const std::string& text) { return sha256_of(std::string_view(text)); }

PriceTable sample_table() {
  return {.model_hash = hash_of("model").hex(),
          .base_hash = hash_of("base").hex(),
          .made_as = "awq --calibrate",
          .arithmetic = "avx512bf16",
          .positions = 1003,
          .clips = 16,
          .made_by = "caption-cli 0.1",
          .formats = {{.format = "f32",
                       .meteor_ko = 0.979,
                       .weight_bytes = 18'600'000,
                       .decode_tokens_per_s = 1234.5},
                      {.format = "int4-head4",
                       .mean_kl = 0.1 + 0.2,  // not a short decimal
                       .p99_kl = 1e-17,
                       .top1_agreement = 0.97,
                       .meteor_ko = 0.97,
                       .meteor_ko_difference =
                           PairedDifference{.value = -0.009, .low = -0.02, .high = 1.0 / 3},
                       .equal_captions = 0.75,
                       .weight_bytes = 4'000'000,
                       .decode_tokens_per_s = 4321}}};
}

std::string text_of(const PriceTable& table) {
  const Folder folder;
  return read_text_file(write_price_table(table, folder.path()));
}

// The message with which a text is refused; empty if it is read.
std::string refusal_of(const std::string& text) {
  const Folder folder;
  try {
    read_price_table(folder.write("table.json", text));
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadPreset);
    return error.what();
  }
  return {};
}

std::string with(std::string text, const std::string& old, const std::string& changed) {
  const std::size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old.size(), changed);
}

TEST_SUITE("plan/price_table") {
  TEST_CASE("a table is read as it was written, into a folder that was not there") {
    const Folder folder;
    const PriceTable table = sample_table();
    const fs::path path = write_price_table(table, folder.path() / "a/b");
    CHECK(path == folder.path() / "a/b" / (table.model_hash + ".json"));
    CHECK(read_price_table(path) == table);
    PriceTable newer = table;
    newer.base_hash.clear();
    newer.made_as.clear();
    newer.formats[1].meteor_ko.reset();
    newer.formats[1].meteor_ko_difference.reset();
    CHECK(write_price_table(newer, folder.path() / "a/b") == path);
    CHECK(read_price_table(path) == newer);
    REQUIRE(newer.find("int4-head4") != nullptr);
    CHECK(newer.find("int4-head4")->weight_bytes == 4'000'000);
    CHECK(newer.find("int4") == nullptr);
  }

  TEST_CASE("tables of what was made of a model are found by its content, the larger of two") {
    const Folder folder;
    const std::vector<fs::path> folders = {"", folder.path() / "none", folder.path() / "own",
                                           folder.path() / "shipped"};
    PriceTable table = sample_table();
    write_price_table(table, folders[2]);
    table.positions = 2000;
    write_price_table(table, folders[3]);
    table.model_hash = hash_of("other format").hex();
    table.made_as = "gguf-q4_0";
    write_price_table(table, folders[2]);
    table.model_hash = hash_of("made elsewhere").hex();
    table.made_as.clear();
    write_price_table(table, folders[2]);
    table = sample_table();
    table.base_hash = hash_of("other base").hex();
    table.model_hash = hash_of("of another model").hex();
    write_price_table(table, folders[2]);
    std::ofstream(folders[2] / "broken.json") << "{";
    const auto found = find_made_price_tables(hash_of("base"), folders);
    REQUIRE(found.size() == 2);
    for (const FoundPriceTable& one : found) {
      const bool is_gguf = one.table.made_as == "gguf-q4_0";
      CHECK(one.table.positions == 2000);
      CHECK(one.path == price_table_path(folders[is_gguf ? 2 : 3], one.table.model_hash));
    }
    CHECK(find_made_price_tables(hash_of("model"), folders).empty());
  }

  TEST_CASE("a table is found by the content of its model: the one of the most positions") {
    const Folder folder;
    const PriceTable table = sample_table();
    PriceTable other = table;
    other.positions = 5;
    const fs::path first = write_price_table(table, folder.path() / "first");
    const fs::path second = write_price_table(other, folder.path() / "second");
    const std::vector<fs::path> folders = {"", folder.path() / "none", folder.path() / "first",
                                           folder.path() / "second"};
    REQUIRE(find_price_table(hash_of("model"), folders).has_value());
    CHECK(find_price_table(hash_of("model"), folders)->table == table);
    CHECK(find_price_table(hash_of("model"), folders)->path == first);
    const std::vector<fs::path> reversed = {folder.path() / "second", folder.path() / "first"};
    CHECK(find_price_table(hash_of("model"), reversed)->path == first);
    fs::remove(first);
    CHECK(find_price_table(hash_of("model"), folders)->path == second);
    CHECK(!find_price_table(hash_of("another"), folders).has_value());
    // A table under the name of another model is refused rather than taken for that model's.
    fs::rename(second, price_table_path(folder.path() / "second", hash_of("another").hex()));
    CHECK_THROWS_WITH_AS(find_price_table(hash_of("another"), folders),
                         doctest::Contains("prices of another model"), Error);
  }

  TEST_CASE("a table of few positions, or beside one of more, is not to be written") {
    const Folder folder;
    PriceTable table = sample_table();
    table.positions = kLeastPositions - 1;
    CHECK(find_obstacle(table, folder.path()).find("999 positions are fewer than 1000") == 0);
    table.positions = kLeastPositions;
    CHECK(find_obstacle(table, folder.path()).empty());
    PriceTable other = table;
    const fs::path path = write_price_table(other, folder.path());
    CHECK(find_obstacle(table, folder.path()).empty());  // an equal one is replaced
    other.positions = kLeastPositions + 1;
    write_price_table(other, folder.path());
    const std::string obstacle = find_obstacle(table, folder.path());
    CHECK(obstacle.find(path.string() + " has 1001 positions, more than these 1000") == 0);
    table.positions = kLeastPositions + 2;
    CHECK(find_obstacle(table, folder.path()).empty());
    // A file that cannot be used is no reason to keep it.
    table.positions = kLeastPositions;
    folder.write(path.filename().string(), "{}");
    CHECK(find_obstacle(table, folder.path()).empty());
  }

  TEST_CASE("every wrong value is refused with its key and the way out") {
    const std::string good = text_of(sample_table());
    CHECK(refusal_of(good).empty());
    struct Wrong {
      std::string old;
      std::string changed;
      const char* message;
    };
    const std::vector<Wrong> wrongs = {
        {"\"price_table\":1", "\"price_table\":2", "price_table is 2, but this version reads 1"},
        {"\"positions\":1003", "\"positions\":0", "positions"},
        {"\"positions\":1003", "\"positions\":1003.5", "positions"},
        {"\"clips\":16", "\"clip\":16", "unknown key \"clip\""},
        {"\"clips\":16,", "", "clips"},
        {"\"arithmetic\":\"avx512bf16\"", "\"arithmetic\":\"\"", "arithmetic has 0 bytes"},
        {"\"top1_agreement\":0.97", "\"top1_agreement\":1.5",
         "top1_agreement: expected 0 to 1, found 1.5"},
        {"\"top1_agreement\":0.97", "\"top1_agreement\":null", "top1_agreement: is null"},
        {"\"p99_kl\":1e-17", "\"p99_kl\":-1", "p99_kl: expected 0 to 1e+18, found -1"},
        {"\"p99_kl\":1e-17", "\"p99_kl\":1e999", "number"},
        {"\"weight_bytes\":4000000", "\"weight_bytes\":-1", "weight_bytes"},
        {"\"int4-head4\"", "\"f32\"", "the format \"f32\" has two rows"},
        {"\"low\":-0.02", "\"low\":0.5", "above high"},
        {hash_of("base").hex(), "12ab", "base_hash is \"12ab\""},
        {"\"positions\":1003", "\"positions\":1003,\"positions\":1", "twice"}};
    for (const Wrong& wrong : wrongs) {
      const std::string refusal = refusal_of(with(good, wrong.old, wrong.changed));
      INFO(wrong.changed << ": " << refusal);
      CHECK(refusal.find(wrong.message) != std::string::npos);
      CHECK(refusal.find("table.json") != std::string::npos);
      CHECK(refusal.find("delete the file, or measure again") != std::string::npos);
      CHECK(refusal.find('\n') == std::string::npos);
    }
    PriceTable empty = sample_table();
    empty.formats.clear();
    CHECK_THROWS_WITH_AS(text_of(empty), doctest::Contains("formats has 0 rows"), Error);
  }

  TEST_CASE("mutated tables are refused with one sentence, or are tables") {
    const std::string good = text_of(sample_table());
    PriceTable other = sample_table();
    other.formats.pop_back();
    const std::string piece = text_of(other);
    testing::Mutator mutator(11);
    const Folder folder;
    int num_refused = 0;
    constexpr int kMutants = 3000;
    for (int i = 0; i < kMutants; ++i) {
      const fs::path path = folder.write("mutant.json", mutator.json(good, piece));
      try {
        const PriceTable table = read_price_table(path);
        // What is read can be written, and is then read as the same.
        CHECK(read_price_table(write_price_table(table, folder.path())) == table);
      } catch (const Error& error) {
        const bool is_sentence = error.code() == ErrorCode::kBadPreset &&
                                 std::string(error.what()).find('\n') == std::string::npos;
        INFO("mutant " << i << ": " << error.what());
        CHECK(is_sentence);
        ++num_refused;
      }
    }
    CHECK(num_refused > kMutants / 2);
    CHECK(num_refused < kMutants);
  }
}

}  // namespace
}  // namespace caption::plan
