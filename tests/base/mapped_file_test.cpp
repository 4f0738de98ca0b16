#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/requested_pages.h"
#include "tests/support/no_descriptors.h"

namespace caption {
namespace {

namespace fs = std::filesystem;

fs::path fresh_folder() {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "mapped_file";
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

fs::path write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string text_of(const MappedFile& file) {
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

// The code of the Error that opening throws; kInternal when it throws none.
ErrorCode code_of_opening(const fs::path& path) {
  try {
    const MappedFile file(path);
    return ErrorCode::kInternal;
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find(path.string()) == 0);
    CHECK_THROWS_AS(require_regular_file(path), Error);
    return error.code();
  }
}

TEST_SUITE("base/mapped_file") {
  TEST_CASE("without a descriptor left, the machine is blamed and not the file") {
    const fs::path path = write(fresh_folder() / "text", "text");
    {
      const test::NoDescriptors none;
      CHECK(code_of_opening(path) == ErrorCode::kOutOfMemory);
      CHECK_THROWS_WITH_AS(
          MappedFile{path},
          (path.string() + ": Too many open files (ulimit -n raises the limit)").c_str(), Error);
    }
    CHECK(text_of(MappedFile(path)) == "text");
  }

  TEST_CASE("the bytes of a file are mapped and move with their owner") {
    const fs::path path = write(fresh_folder() / "a", std::string("x\0y", 3));
    MappedFile file(path);
    CHECK(text_of(file) == std::string("x\0y", 3));
    const std::byte* begin = file.bytes().data();
    MappedFile moved(std::move(file));
    CHECK(moved.bytes().data() == begin);
    CHECK(file.bytes().empty());
    MappedFile assigned(write(path.parent_path() / "b", "other"));
    assigned = std::move(moved);
    CHECK(text_of(assigned) == std::string("x\0y", 3));
    CHECK(assigned.path() == path);
  }

  TEST_CASE("the mapping outlives the file's name") {
    const fs::path path = write(fresh_folder() / "a", "still here");
    const MappedFile file(path);
    fs::remove(path);
    CHECK(text_of(file) == "still here");
  }

  TEST_CASE("asking for pages changes nothing, also of a file that was cut meanwhile") {
    constexpr std::size_t kPages = 64;
    const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const fs::path path = write(fresh_folder() / "pages", std::string(kPages * page_bytes, 'x'));
    const MappedFile file(path);
    const std::span<const std::byte> bytes = file.bytes();
    populate_pages({});
    request_pages(bytes.subspan(1, 5));
    populate_pages(bytes.subspan(page_bytes - 1, 2));
    fs::resize_file(path, page_bytes);
    request_pages(bytes);
    populate_pages(bytes);
    populate_pages(bytes.last(page_bytes + 1));
    CHECK_FALSE(file.has_lost_pages());
    CHECK(bytes.front() == std::byte{'x'});
    CHECK(bytes.back() == std::byte{0});
    CHECK(file.has_lost_pages());
  }

  TEST_CASE(
      "pages that were read early, and are given back, are read again with the same content") {
    constexpr std::size_t kPages = 64;
    const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::string text(kPages * page_bytes, 'x');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
    const MappedFile file(write(fresh_folder() / "early", text));
    const std::span<const std::byte> bytes = file.bytes();
    for (int round = 0; round < 2; ++round) {
      RequestedPages requested;
      requested.add(file, {});
      requested.add(file, bytes.subspan(1, 5));
      requested.add(file, bytes.subspan(page_bytes - 1, 2 * page_bytes));
      requested.add(file, bytes.last(1));
      const RequestedPages moved = std::move(requested);
      CHECK(bytes[page_bytes] == static_cast<std::byte>(text[page_bytes]));
    }
    CHECK(text_of(file) == text);
    CHECK_FALSE(file.has_lost_pages());
  }

  TEST_CASE("input may come from a FIFO, with a limit, and from a file") {
    const fs::path path = fresh_folder() / "fifo";
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    const std::string text(200'000, 'k');
    const auto read_from = [&](std::size_t max_bytes) {
      std::thread writer([&] { std::ofstream(path, std::ios::binary) << text; });
      std::string read;
      try {
        read = read_text_input(path, max_bytes);
      } catch (const Error& error) {
        read = error_code_name(error.code());
      }
      writer.join();
      return read;
    };
    ::signal(SIGPIPE, SIG_IGN);  // the writer of a text that is too long is told by EPIPE
    CHECK(read_from(text.size()) == text);
    CHECK(read_from(text.size() - 1) == error_code_name(ErrorCode::kTooLarge));
    CHECK(read_text_input(write(path.parent_path() / "file", "text")) == "text");
    CHECK_THROWS_AS(read_text_input(path.parent_path()), Error);
  }

  TEST_CASE("an empty file is an empty span") {
    const MappedFile file(write(fresh_folder() / "empty", ""));
    CHECK(file.bytes().empty());
    CHECK(read_text_file(file.path()).empty());
  }

  TEST_CASE("what is no readable regular file is refused at once, with its kind") {
    const fs::path folder = fresh_folder();
    CHECK(code_of_opening(folder / "missing") == ErrorCode::kNotFound);
    CHECK(code_of_opening(write(folder / "file", "x") / "below") == ErrorCode::kNotFound);
    CHECK(code_of_opening(folder) == ErrorCode::kNotRegularFile);
    CHECK(code_of_opening("/dev/null") == ErrorCode::kNotRegularFile);
    REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
    CHECK(code_of_opening(folder / "fifo") == ErrorCode::kNotRegularFile);
    fs::create_symlink("loop", folder / "loop");
    CHECK(code_of_opening(folder / "loop") == ErrorCode::kUnreadable);
    fs::create_symlink("nowhere", folder / "dangling");
    CHECK(code_of_opening(folder / "dangling") == ErrorCode::kNotFound);
    if (::geteuid() != 0) {  // root may read every file
      fs::permissions(write(folder / "secret", "x"), fs::perms::none);
      CHECK(code_of_opening(folder / "secret") == ErrorCode::kUnreadable);
    }
  }

  TEST_CASE("a model's file that cannot be read is the model's fault, or the machine's") {
    CHECK(model_file_code(ErrorCode::kNotFound) == ErrorCode::kBadModel);
    CHECK(model_file_code(ErrorCode::kUnreadable) == ErrorCode::kBadModel);
    CHECK(model_file_code(ErrorCode::kOutOfMemory) == ErrorCode::kOutOfMemory);
    CHECK(model_file_code(ErrorCode::kIo) == ErrorCode::kIo);
  }

  TEST_CASE("a text file longer than its limit is refused") {
    const fs::path path = write(fresh_folder() / "text", "12345");
    CHECK(read_text_file(path, 5) == "12345");
    CHECK_THROWS_WITH_AS(read_text_file(path, 4), doctest::Contains("5 bytes; at most 4"), Error);
  }
}

}  // namespace
}  // namespace caption
