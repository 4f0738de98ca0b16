// What was put is found by this store and by the next one; anything that differs from it is a miss.
#include "store/blob_store.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "blob_store_support.h"

namespace caption::store {
namespace {

TEST_SUITE("store/blob_store") {
  TEST_CASE("a blob that is written while it is looked for is known and counted") {
    const Silence silence;
    BlobStore store(fresh_folder("looked_for"), "pages", kPlenty);
    constexpr std::uint64_t kNumBlobs = 300;
    std::atomic<std::uint64_t> current{0};
    std::thread reader([&] {
      for (std::uint64_t i = 0; i < kNumBlobs; i = current.load()) store.get(key_of(i));
    });
    for (std::uint64_t i = 0; i < kNumBlobs; i = ++current) {
      store.put(key_of(i), make_blob(i, 10));
      store.flush();
    }
    reader.join();
    CHECK(store.stats().bytes == std::int64_t{kNumBlobs} * (10 + kHeaderBytes));
    for (std::uint64_t i = 0; i < kNumBlobs; ++i) CHECK(store.contains(key_of(i)));
  }

  TEST_CASE("gives back what was put, at once, after a flush, and to the next store") {
    const fs::path folder = fresh_folder("round_trip");
    {
      BlobStore store(folder, "pages", kPlenty);
      for (std::uint64_t i = 0; i < 20; ++i) {
        CHECK_FALSE(store.contains(key_of(i)));
        CHECK_FALSE(store.get(key_of(i)).has_value());
        store.put(key_of(i), make_blob(i, i * 1000));
        CHECK(store.contains(key_of(i)));
        CHECK(store.get(key_of(i)) == make_blob(i, i * 1000));
      }
      store.flush();
      for (std::uint64_t i = 0; i < 20; ++i) CHECK(store.get(key_of(i)) == make_blob(i, i * 1000));
      CHECK(store.stats().stored == 20);
      CHECK(store.stats().misses == 20);
      CHECK(store.stats().hits == 40);
    }
    BlobStore next(folder, "pages", kPlenty);
    for (std::uint64_t i = 0; i < 20; ++i) {
      CHECK(next.contains(key_of(i)));
      std::vector<std::byte> payload(i * 1000);
      CHECK(next.get_into(key_of(i), payload));
      CHECK(payload == make_blob(i, i * 1000));
    }
    BlobStore other_kind(folder, "vision", kPlenty);
    CHECK_FALSE(other_kind.contains(key_of(3)));
  }

  TEST_CASE("a flipped bit in any byte, any cut and any addition is a miss, and the file goes") {
    const Silence silence;
    const fs::path folder = fresh_folder("damage");
    const std::vector<std::byte> blob = make_blob(1, 100);
    {
      BlobStore store(folder, "pages", kPlenty);
      store.put(key_of(1), blob);
    }
    const fs::path path = files_in(folder).at(0);
    const std::string whole = read_file(path);
    REQUIRE(std::ssize(whole) == kHeaderBytes + 100);
    std::vector<std::string> damaged;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::string copy = whole;
      copy[i] = static_cast<char>(copy[i] ^ (1 << (i % 8)));
      damaged.push_back(copy);
      damaged.push_back(whole.substr(0, i));
    }
    damaged.push_back(whole + "x");
    for (std::size_t i = 0; i < damaged.size(); ++i) {
      CAPTURE(i);
      write_file(path, damaged[i]);
      BlobStore store(folder, "pages", kPlenty);
      std::vector<std::byte> payload(100, std::byte{7});
      CHECK_FALSE(store.get_into(key_of(1), payload));
      CHECK(payload == std::vector<std::byte>(100, std::byte{7}));
      CHECK(store.stats().damaged == 1);
      CHECK_FALSE(store.contains(key_of(1)));
      CHECK_FALSE(fs::exists(path));
    }
    write_file(path, whole);
    CHECK(BlobStore(folder, "pages", kPlenty).get(key_of(1)) == blob);
  }

  TEST_CASE("a blob of another size is a miss") {
    const Silence silence;
    BlobStore store(fresh_folder("size"), "pages", kPlenty);
    store.put(key_of(1), make_blob(1, 100));
    store.flush();
    std::vector<std::byte> payload(99);
    CHECK_FALSE(store.get_into(key_of(1), payload));
  }

  TEST_CASE("a file under another blob's name is not taken for it") {
    const Silence silence;
    const fs::path folder = fresh_folder("renamed");
    {
      BlobStore store(folder, "pages", kPlenty);
      store.put(key_of(1), make_blob(1, 100));
    }
    const fs::path path = files_in(folder).at(0);
    fs::rename(path, path.parent_path() / (key_of(2).hex() + ".bin"));
    BlobStore store(folder, "pages", kPlenty);
    CHECK(store.contains(key_of(2)));
    CHECK_FALSE(store.get(key_of(2)).has_value());
  }

  TEST_CASE("keeps to its bytes: the blob that was not used for longest goes first") {
    const fs::path folder = fresh_folder("cap");
    constexpr std::int64_t kRoom = 3 * (kHeaderBytes + 1000);
    {
      BlobStore store(folder, "pages", kRoom);
      for (std::uint64_t i = 0; i < 3; ++i) store.put(key_of(i), make_blob(i, 1000));
      store.flush();
      CHECK(store.get(key_of(0)).has_value());  // now 1 is the least recently used
      store.put(key_of(3), make_blob(3, 1000));
      store.flush();
      CHECK_FALSE(store.contains(key_of(1)));
      CHECK(store.contains(key_of(0)));
      CHECK(store.stats().evicted == 1);
      CHECK(store.stats().bytes == kRoom);
      store.put(key_of(9), make_blob(9, 4000));  // larger than the whole store
      CHECK_FALSE(store.contains(key_of(9)));
    }
    CHECK(files_in(folder).size() == 3);
    // Another run with less room keeps the most recently used blobs.
    for (const std::uint64_t i : {2, 0, 3}) {
      const std::string hex = key_of(i).hex();
      fs::last_write_time(folder / "pages" / hex.substr(0, 2) / (hex + ".bin"),
                          fs::file_time_type::clock::now() + std::chrono::seconds(i));
    }
    BlobStore smaller(folder, "pages", kHeaderBytes + 1000);
    CHECK(smaller.contains(key_of(3)));
    CHECK_FALSE(smaller.contains(key_of(0)));
    CHECK(files_in(folder).size() == 1);
  }

  TEST_CASE("two stores may share a folder, whatever one of them removes") {
    const fs::path folder = fresh_folder("two");
    BlobStore a(folder, "pages", kPlenty);
    a.put(key_of(1), make_blob(1, 1000));
    a.flush();
    BlobStore b(folder, "pages", kPlenty);
    CHECK(b.contains(key_of(1)));
    for (const fs::path& path : files_in(folder)) fs::remove(path);
    CHECK_FALSE(a.get(key_of(1)).has_value());
    CHECK_FALSE(b.get(key_of(1)).has_value());
    CHECK(b.stats().damaged == 0);  // a removed file is not a damaged one
    b.put(key_of(1), make_blob(1, 1000));
    b.flush();
    CHECK(a.get(key_of(1)) == make_blob(1, 1000));  // found although `a` has not listed it
  }

  TEST_CASE("several threads put and get at once") {
    BlobStore store(fresh_folder("threads"), "pages", 40 * (kHeaderBytes + 5000));
    std::vector<std::thread> threads;
    std::atomic<int> num_wrong = 0;
    for (std::uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 rng(t);
        for (int i = 0; i < 200; ++i) {
          const std::uint64_t number = rng() % 60;
          const auto blob = make_blob(number, 5000);
          if (rng() % 2 == 0) {
            store.put(key_of(number), blob);
          } else {
            const auto found = store.get(key_of(number));
            if (found.has_value() && *found != blob) ++num_wrong;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    store.flush();
    CHECK(num_wrong == 0);
    CHECK(store.stats().bytes <= 40 * (kHeaderBytes + 5000));
    CHECK(store.stats().damaged == 0);
  }
}

}  // namespace
}  // namespace caption::store
