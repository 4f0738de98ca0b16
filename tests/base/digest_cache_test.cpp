#include "base/digest_cache.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/mapped_file.h"

namespace caption {
namespace {

namespace fs = std::filesystem;

// A file that was last changed more than two seconds ago.
const fs::path kOldFile = CAPTION_SOURCE_DIR "/LICENSE";

fs::path fresh_folder() {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "digests";
  fs::remove_all(folder);
  return folder;
}

fs::path write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::size_t num_files(const fs::path& folder) {
  std::error_code ignored;
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    count += entry.is_regular_file() ? 1 : 0;
  }
  return count;
}

TEST_SUITE_BEGIN("base/digest_cache");

TEST_CASE("a digest is computed once and then read") {
  const DigestCache cache(fresh_folder() / "below");
  const OpenFile file(kOldFile);
  const Sha256 digest = sha256_of(read_text_file(kOldFile));
  CHECK_FALSE(cache.find(file.stamp()).has_value());
  CHECK(cache.digest_of(file) == digest);
  CHECK(cache.find(file.stamp()) == digest);
  const Sha256 other = sha256_of(std::string_view("other"));
  cache.keep(file.stamp(), other);
  CHECK(cache.digest_of(file) == other);  // the digest is read from the cache, not computed
}

TEST_CASE("a cache that keeps nothing finds what is there, and writes nothing") {
  const fs::path folder = fresh_folder();
  const DigestCache reading(folder, DigestCache::Keeping::kNo);
  const OpenFile file(kOldFile);
  CHECK(reading.digest_of(file) == sha256_of(read_text_file(kOldFile)));
  CHECK_FALSE(fs::exists(folder));
  const Sha256 other = sha256_of(std::string_view("other"));
  DigestCache(folder).keep(file.stamp(), other);
  CHECK(reading.digest_of(file) == other);
}

TEST_CASE("computing a digest can be cancelled, finding one not") {
  DigestCache cache(fresh_folder());
  std::atomic<bool> cancelled = true;
  cache.set_cancelled(&cancelled);
  const OpenFile file(kOldFile);
  try {
    cache.digest_of(file);
    FAIL_CHECK("was not cancelled");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kCancelled);
  }
  CHECK_FALSE(cache.find(file.stamp()).has_value());
  cancelled = false;
  const Sha256 digest = cache.digest_of(file);
  cancelled = true;
  CHECK(cache.digest_of(file) == digest);
}

TEST_CASE("every part of a stamp names another digest") {
  const DigestCache cache(fresh_folder());
  const FileStamp stamp = OpenFile(kOldFile).stamp();
  cache.keep(stamp, sha256_of(std::string_view("x")));
  CHECK(cache.find(stamp).has_value());
  for (int part = 0; part < 5; ++part) {
    FileStamp changed = stamp;
    changed.device += part == 0 ? 1 : 0;
    changed.inode += part == 1 ? 1 : 0;
    changed.size_bytes += part == 2 ? 1 : 0;
    changed.modified_ns += part == 3 ? 1 : 0;
    changed.changed_ns += part == 4 ? 1 : 0;
    CHECK_FALSE(cache.find(changed).has_value());
  }
}

TEST_CASE("what is no digest counts as absent") {
  const fs::path folder = fresh_folder();
  const DigestCache cache(folder);
  const OpenFile file(kOldFile);
  const Sha256 digest = cache.digest_of(file);
  REQUIRE(num_files(folder) == 1);
  const fs::path kept = fs::directory_iterator(folder)->path();
  for (const char* text :
       {"", "deadbeef\n", "a line that is longer than any digest has ever been"}) {
    write(kept, text);
    CHECK_FALSE(cache.find(file.stamp()).has_value());
    CHECK(cache.digest_of(file) == digest);
    CHECK(cache.find(file.stamp()) == digest);
  }
  CHECK(num_files(folder) == 1);  // no temporary file is left over
}

TEST_CASE("the digest of a file that was written just now is not kept") {
  const fs::path folder = fresh_folder();
  const fs::path path = write(fs::path(CAPTION_TEST_TMP) / "young", "young");
  const DigestCache cache(folder);
  CHECK(cache.digest_of(OpenFile(path)) == sha256_of(std::string_view("young")));
  // Setting the time of last writing back does not make the file old: its ctime is recent.
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  CHECK(cache.digest_of(OpenFile(path)) == sha256_of(std::string_view("young")));
  CHECK(num_files(folder) == 0);
}

TEST_CASE("a file that was written since it was opened has no digest") {
  const fs::path path = write(fs::path(CAPTION_TEST_TMP) / "rewritten", "first");
  const OpenFile file(path);
  std::ofstream(path, std::ios::app) << "more";
  CHECK_THROWS_WITH_AS(DigestCache().digest_of(file),
                       doctest::Contains("rewritten: changed while it is in use"), Error);
}

TEST_CASE("a folder that cannot be had is no error") {
  const OpenFile file(kOldFile);
  const Sha256 digest = file.sha256();
  CHECK(DigestCache().digest_of(file) == digest);
  CHECK(DigestCache("/dev/null/digests").digest_of(file) == digest);
  CHECK(DigestCache(kOldFile / "digests").digest_of(file) == digest);
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption
