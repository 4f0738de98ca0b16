// Outputs on a machine that lacks descriptors or disk space: the error code names the cause, and no
// incomplete file remains.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "base/error.h"
#include "records/manifest.h"
#include "records/record_file.h"
#include "records/stream_sink.h"
#include "sample_record.h"
#include "tests/support/no_descriptors.h"

namespace caption::records {
namespace {

namespace fs = std::filesystem;

const Manifest kManifest{{{"seed", "20"}}};

// Returns "code message" of the exception thrown by act(); empty if there is none.
std::string refusal(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const Error& error) {
    return std::string(error_code_name(error.code())) + " " + error.what();
  }
}

void open(const fs::path& path, Existing existing = Existing::kResume) {
  const RecordFile file(path, Format::kJsonl, kManifest, existing);
}

// Limits the size of all files written by this process to `max_bytes` for its lifetime.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t max_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{.rlim_cur = max_bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_SUITE("records/output_lack") {
  TEST_CASE("want of descriptors is want of memory, and names the limit") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    for (const bool is_there : {false, true}) {
      CAPTURE(is_there);
      if (is_there) {
        RecordFile file(path, Format::kJsonl, kManifest, Existing::kResume);
        file.append(sample_record("a.mp4"));
      }
      for (const Existing existing : {Existing::kResume, Existing::kOverwrite}) {
        const std::string text = refusal([&] {
          const test::NoDescriptors none;
          open(path, existing);
        });
        CAPTURE(text);
        CHECK(text.starts_with("out_of_memory "));
        CHECK(text.find(path.string()) != std::string::npos);
        CHECK(text.find("Too many open files (ulimit -n raises the limit)") != std::string::npos);
      }
    }
  }

  TEST_CASE("a manifest that is a folder is a conflict, not a failed clip") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_file(path, to_json_line(sample_record("a.mp4")) + "\n");
    fs::create_directory(manifest_path(path));
    const std::string text = refusal([&] { open(path); });
    CAPTURE(text);
    CHECK(text.starts_with("output_conflict "));
    CHECK(text.find("is a folder") != std::string::npos);
  }

  TEST_CASE("lines that cannot be dropped for want of room stay, and nothing else does") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    {
      RecordFile file(path, Format::kJsonl, kManifest, Existing::kResume);
      Record failed = failed_record("a.mp4");
      failed.id = std::string(64, 'a');  // of a film that was read
      Record captioned = sample_record("a.mp4");
      captioned.id = failed.id;
      file.append(failed);
      file.append(captioned);
      const std::string before = read_file(path);
      const std::string text = refusal([&] {
        const SmallFiles small(100);
        file.finish();
      });
      CAPTURE(text);
      CHECK(text.starts_with("io_error "));
      CHECK(text.find("File too large (ulimit -f raises the limit)") != std::string::npos);
      CHECK(text.find("every record of this run is in " + path.string()) != std::string::npos);
      CHECK(read_file(path) == before);
      CHECK_FALSE(fs::exists(path.string() + ".compact"));
    }
    RecordFile file(path, Format::kJsonl, kManifest, Existing::kResume);
    file.finish();
    const std::string after = read_file(path);
    CHECK(std::count(after.begin(), after.end(), '\n') == 1);
  }

  TEST_CASE("a full pipe that does not wait is waited for") {
    int ends[2] = {-1, -1};
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    REQUIRE(::fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    Record record = sample_record("a.mp4");
    record.caption = std::string(300'000, 'a');
    StreamSink sink(ends[1], Format::kJsonl, "");
    std::string read;
    std::thread reader([&] {
      std::string chunk(65'536, '\0');
      for (ssize_t count = 0; (count = ::read(ends[0], chunk.data(), chunk.size())) > 0;) {
        read.append(chunk, 0, static_cast<std::size_t>(count));
      }
    });
    const std::string text = refusal([&] { sink.append(record); });
    ::close(ends[1]);
    reader.join();
    ::close(ends[0]);
    CHECK(text.empty());
    CHECK(read == to_json_line(record) + "\n");
  }
}

}  // namespace
}  // namespace caption::records
