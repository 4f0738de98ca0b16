// The disk store's folder: foreign files in it, links, and a full disk.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "base/error.h"
#include "blob_store_support.h"
#include "store/blob_store.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/other_user.h"

namespace caption::store {
namespace {

TEST_SUITE("store/blob_store_folder") {
  TEST_CASE("what is not its own is neither read, counted nor removed") {
    const Silence silence;
    const fs::path folder = fresh_folder("foreign");
    fs::create_directories(folder / "pages" / "ab");
    const fs::path notes = folder / "pages" / "ab" / "notes.txt";
    write_file(notes, "mine");
    const fs::path outside = fresh_folder("foreign_outside");
    fs::create_directories(outside);
    write_file(outside / "target", "mine too");
    const std::string hex = key_of(5).hex();
    fs::create_directories(folder / "pages" / hex.substr(0, 2));
    fs::create_symlink(outside / "target", folder / "pages" / hex.substr(0, 2) / (hex + ".bin"));
    {
      BlobStore store(folder, "pages", 1);
      CHECK(store.stats().bytes == 0);
      CHECK_FALSE(store.contains(key_of(5)));
      CHECK_FALSE(store.get(key_of(5)).has_value());
    }
    CHECK(read_file(notes) == "mine");
    CHECK(read_file(outside / "target") == "mine too");
  }

  TEST_CASE("a link in the place of a folder leads nowhere") {
    const Silence silence;
    const fs::path folder = fresh_folder("linked");
    const fs::path outside = fresh_folder("linked_outside");
    const std::string hex = key_of(5).hex();
    {
      BlobStore store(folder, "pages", kPlenty);
      store.put(key_of(5), make_blob(5, 100));
    }
    fs::rename(folder / "pages" / hex.substr(0, 2), outside);
    fs::create_directory_symlink(outside, folder / "pages" / hex.substr(0, 2));
    {
      BlobStore store(folder, "pages", kPlenty);
      CHECK_FALSE(store.contains(key_of(5)));
      CHECK_FALSE(store.get(key_of(5)).has_value());
      store.put(key_of(5), make_blob(6, 100));
      store.put(key_of(6), make_blob(6, 100));
    }
    CHECK(files_in(outside).size() == 1);
  }

  TEST_CASE("a file larger than the store is not read") {
    const Silence silence;
    const fs::path folder = fresh_folder("sparse");
    BlobStore store(folder, "pages", 1 << 20);
    store.put(key_of(1), make_blob(1, 100));
    store.flush();
    const fs::path file = files_in(folder).at(0);
    fs::resize_file(file, 1ULL << 40);  // a sparse file
    CHECK_FALSE(store.get(key_of(1)).has_value());
  }

  TEST_CASE("temporary files that a killed run left long ago are removed, fresh ones are not") {
    const fs::path folder = fresh_folder("temporary");
    fs::create_directories(folder / "pages" / "12");
    const fs::path old_file = folder / "pages" / "12" / (key_of(1).hex() + ".17.0.tmp");
    const fs::path fresh = folder / "pages" / "12" / (key_of(2).hex() + ".17.0.tmp");
    write_file(old_file, "half");
    write_file(fresh, "half");
    fs::last_write_time(old_file, fs::file_time_type::clock::now() - std::chrono::hours(2));
    const BlobStore store(folder, "pages", kPlenty);
    CHECK_FALSE(fs::exists(old_file));
    CHECK(fs::exists(fresh));
  }

  TEST_CASE("a folder that cannot be one is refused by name") {
    const fs::path folder = fresh_folder("file");
    fs::create_directories(folder);
    write_file(folder / "file", "");
    CHECK_THROWS_WITH_AS(BlobStore(folder / "file", "pages", kPlenty),
                         doctest::Contains("--kv-cache-dir"), Error);
  }

  TEST_CASE("a disk that takes no more costs the blob, not the run") {
    const Silence silence;
    BlobStore store(fresh_folder("full"), "pages", kPlenty);
    struct rlimit before {};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    struct rlimit small = before;
    small.rlim_cur = 4096;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    store.put(key_of(1), make_blob(1, 10'000));
    store.put(key_of(2), make_blob(2, 1'000));
    store.flush();
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    std::signal(SIGXFSZ, handler);
    CHECK_FALSE(store.contains(key_of(1)));
    CHECK(store.get(key_of(2)) == make_blob(2, 1'000));
    CHECK(store.stats().stored == 1);
  }

  TEST_CASE("a file that only another user may read is a miss that stays") {
    const Silence silence;
    const fs::path folder = fresh_folder("of_another");
    BlobStore store(folder, "pages", kPlenty);
    store.put(key_of(1), make_blob(1, 1'000));
    store.flush();
    const fs::path file = files_in(folder).at(0);
    fs::permissions(file, fs::perms::none);
    fs::permissions(file.parent_path(), fs::perms::all);  // whoever may not read may remove
    {
      const test::OtherUser other;
      CHECK_FALSE(store.get(key_of(1)).has_value());
    }
    CHECK(fs::exists(file));
    CHECK(store.stats().damaged == 0);
    fs::permissions(file, fs::perms::owner_all);
    CHECK(store.get(key_of(1)) == make_blob(1, 1'000));
  }

  TEST_CASE("without a descriptor left a blob is a miss that stays, and a store cannot open") {
    const Silence silence;
    const fs::path folder = fresh_folder("no_descriptors");
    BlobStore store(folder, "pages", kPlenty);
    store.put(key_of(1), make_blob(1, 1'000));
    store.flush();
    {
      const test::NoDescriptors none;
      CHECK_FALSE(store.get(key_of(1)).has_value());
      store.put(key_of(2), make_blob(2, 1'000));
      store.flush();
// UBSan checks object addresses by means of a pipe, and reports valid objects when no descriptor is
// left.
#if !defined(__SANITIZE_ADDRESS__)
      try {
        const BlobStore other(folder, "pages", kPlenty);
        FAIL("the folder was listed");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kOutOfMemory);
      }
#endif
    }
#if defined(__SANITIZE_ADDRESS__)
    MESSAGE("not tested under sanitizers: opening a store without descriptors");
#endif
    CHECK(store.get(key_of(1)) == make_blob(1, 1'000));
    CHECK(store.stats().damaged == 0);
    CHECK(store.stats().stored == 1);
  }
}

}  // namespace
}  // namespace caption::store
