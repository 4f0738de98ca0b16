// Output files: resumed, retried, refused.
#include "records/record_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "sample_record.h"

namespace caption::records {
namespace {

const Manifest kManifest{{{"seed", "20"}, {"prompt", "설명"}}};

void write_records(const std::filesystem::path& path, const std::vector<Record>& records,
                   const Retry& retry = {}) {
  RecordFile file(path, Format::kJsonl, kManifest, Existing::kResume, retry);
  for (const Record& record : records) file.append(record);
}

std::string refusal(const std::filesystem::path& path, Format format, const Manifest& manifest,
                    Existing existing = Existing::kResume) {
  try {
    const RecordFile file(path, format, manifest, existing);
    return "";
  } catch (const Error& error) {
    return std::string(error_code_name(error.code())) + " " + error.what();
  }
}

TEST_SUITE("records/record_file") {
  TEST_CASE("a second run finds the clips of the first and appends to them") {
    const Folder folder;
    write_records(folder / "c.jsonl", {sample_record("a.mp4"), failed_record("./b//c.mp4")});
    const std::string before = read_file(folder / "c.jsonl");
    RecordFile file(folder / "c.jsonl", Format::kJsonl, kManifest, Existing::kResume);
    CHECK(file.finished().num_finished() == 2);
    CHECK(file.finished().num_failed() == 1);
    CHECK(file.finished().contains("./a.mp4"));
    CHECK(file.finished().contains("b/c.mp4"));
    CHECK_FALSE(file.finished().contains("c.mp4"));
    file.append(sample_record("d.mp4"));
    CHECK(read_file(folder / "c.jsonl") == before + to_json_line(sample_record("d.mp4")) + "\n");
  }

  TEST_CASE("a line torn at any byte is cut off, and no other line is touched") {
    set_log_level(LogLevel::kError);
    const Folder folder;
    const std::filesystem::path path = folder / "c.jsonl";
    write_records(path, {sample_record("a.mp4"), sample_record("바다.mp4")});
    const std::string whole = read_file(path);
    const std::string first = to_json_line(sample_record("a.mp4")) + "\n";
    for (std::size_t size = first.size(); size < whole.size(); ++size) {
      CAPTURE(size);
      write_file(path, whole.substr(0, size));
      {
        RecordFile file(path, Format::kJsonl, kManifest, Existing::kResume);
        CHECK(file.finished().num_finished() == 1);
        CHECK_FALSE(file.finished().contains("바다.mp4"));
        file.append(sample_record("바다.mp4"));
      }
      CHECK(read_file(path) == whole);
    }
    set_log_level(LogLevel::kInfo);
  }

  TEST_CASE("a torn first line leaves a file that is taken as new") {
    set_log_level(LogLevel::kError);
    const Folder folder;
    write_records(folder / "c.jsonl", {sample_record("a.mp4")});
    const std::string whole = read_file(folder / "c.jsonl");
    write_file(folder / "c.jsonl", whole.substr(0, 9));
    write_records(folder / "c.jsonl", {sample_record("a.mp4")});
    CHECK(read_file(folder / "c.jsonl") == whole);
    set_log_level(LogLevel::kInfo);
  }

  TEST_CASE("a retry drops the failed lines and keeps the others byte for byte") {
    const Folder folder;
    const std::string odd = "{\"video\": \"a.mp4\",  " +  // spacing that we would not write
                            to_json_line(sample_record("a.mp4")).substr(17) + "\n";
    write_records(folder / "c.jsonl", {});
    write_file(folder / "c.jsonl", odd + to_json_line(failed_record("b.mp4")) + "\n" +
                                       to_json_line(sample_record("c.mp4")) + "\n");
    {
      RecordFile file(folder / "c.jsonl", Format::kJsonl, kManifest, Existing::kResume,
                      kRetryFailed);
      CHECK(file.finished().num_finished() == 2);
      CHECK_FALSE(file.finished().contains("b.mp4"));
      // The lock is on the file that has the name now.
      CHECK(refusal(folder / "c.jsonl", Format::kJsonl, kManifest).find("another run") !=
            std::string::npos);
      file.append(sample_record("b.mp4"));
    }
    CHECK(read_file(folder / "c.jsonl") == odd + to_json_line(sample_record("c.mp4")) + "\n" +
                                               to_json_line(sample_record("b.mp4")) + "\n");
  }

  TEST_CASE("captions of one clip for several prompts are several captions") {
    const Folder folder;
    Record brief = sample_record("a.mp4");
    brief.prompt = "짧게";
    Record failed = failed_record("a.mp4");
    failed.prompt = "길게";
    write_records(folder / "c.jsonl", {brief, failed});
    RecordFile file(folder / "c.jsonl", Format::kJsonl, kManifest, Existing::kResume, kRetryFailed);
    CHECK(file.finished().num_finished() == 1);
    CHECK(file.finished().contains("./a.mp4", "짧게"));
    CHECK_FALSE(file.finished().contains("a.mp4", "길게"));
    CHECK_FALSE(file.finished().contains("a.mp4"));
  }

  TEST_CASE("a retry may drop any status, and change the settings it names") {
    const Folder folder;
    const auto path = folder / "c.jsonl";
    Manifest manifest{{{"generation.max_new_tokens", "8"}, {"prompt", "p"}}};
    const auto open = [&](const Manifest& now, const Retry& retry) {
      return std::make_unique<RecordFile>(path, Format::kJsonl, now, Existing::kResume, retry);
    };
    Record cut = sample_record("cut.mp4");
    cut.status = Status::kTruncated;
    {
      const auto file = open(manifest, {});
      for (const Record& record : {sample_record("a.mp4"), cut, failed_record("b.mp4")}) {
        file->append(record);
      }
    }
    const Retry retry{.statuses = {Status::kTruncated}, .changeable = {"generation."}};
    Manifest longer{{{"generation.max_new_tokens", "64"}, {"prompt", "p"}}};
    CHECK_THROWS_WITH_AS(open(longer, {}), doctest::Contains("max_new_tokens"), Error);
    Manifest other_prompt{{{"generation.max_new_tokens", "8"}, {"prompt", "q"}}};
    CHECK_THROWS_WITH_AS(open(other_prompt, retry), doctest::Contains("prompt"), Error);
    {
      const auto file = open(longer, retry);
      CHECK_FALSE(file->finished().contains("cut.mp4"));
      CHECK(file->finished().contains("a.mp4"));
      CHECK(file->finished().contains("b.mp4"));
      file->append(sample_record("cut.mp4"));
    }
    const auto noted = read_manifest(manifest_path(path));
    REQUIRE(noted.has_value());
    CHECK(to_json(*noted).find("\"retried_with\": \"truncated: generation.max_new_tokens=64\"") !=
          std::string::npos);
    open(longer, retry);  // the same once more is noted once
    CHECK(read_manifest(manifest_path(path)) == noted);
    CHECK(open(manifest, {})->finished().num_finished() == 3);  // the first settings go on
  }

  TEST_CASE("two runs cannot write one file") {
    const Folder folder;
    const RecordFile file(folder / "c.jsonl", Format::kJsonl, kManifest, Existing::kResume);
    for (const Existing existing : {Existing::kResume, Existing::kOverwrite}) {
      CHECK(refusal(folder / "c.jsonl", Format::kJsonl, kManifest, existing)
                .starts_with("output_conflict"));
    }
  }

  TEST_CASE("another configuration is refused with the difference named, and overwritten on wish") {
    const Folder folder;
    write_records(folder / "c.jsonl", {sample_record("a.mp4")});
    const Manifest other{{{"seed", "21"}, {"prompt", "설명"}}};
    const std::string text = refusal(folder / "c.jsonl", Format::kJsonl, other);
    CHECK(text.starts_with("output_conflict"));
    CHECK(text.find("seed is \"20\" there and \"21\" now") != std::string::npos);
    CHECK(read_file(folder / "c.jsonl").size() > 0);
    CHECK(refusal(folder / "c.jsonl", Format::kJsonl, other, Existing::kOverwrite) == "");
    CHECK(read_file(folder / "c.jsonl") == "");
    CHECK(refusal(folder / "c.jsonl", Format::kJsonl, other) == "");
  }

  TEST_CASE("files that are not ours are left alone") {
    const Folder folder;
    write_file(folder / "notes.txt", "my notes, without a newline");
    CHECK(refusal(folder / "notes.txt", Format::kJsonl, kManifest).find("no manifest") !=
          std::string::npos);
    CHECK(read_file(folder / "notes.txt") == "my notes, without a newline");

    write_records(folder / "c.jsonl", {});
    write_file(folder / "c.jsonl", "{\"video\": \"a\"}\n");
    CHECK(refusal(folder / "c.jsonl", Format::kJsonl, kManifest).find("c.jsonl:1:") !=
          std::string::npos);

    std::filesystem::create_directory(folder / "folder");
    CHECK(refusal(folder / "folder", Format::kJsonl, kManifest).find("a folder") !=
          std::string::npos);
    REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
    CHECK(refusal(folder / "fifo", Format::kJsonl, kManifest).starts_with("usage"));
    CHECK(refusal(folder / "no/such/c.jsonl", Format::kJsonl, kManifest).starts_with("io_error"));
  }

  TEST_CASE("csv and txt start anew or not at all") {
    const Folder folder;
    {
      RecordFile file(folder / "c.csv", Format::kCsv, kManifest, Existing::kResume);
      file.append(sample_record("a.mp4"));
    }
    CHECK(read_file(folder / "c.csv").starts_with("video,prompt,window_begin_s"));
    CHECK(refusal(folder / "c.csv", Format::kCsv, kManifest).find("cannot be resumed") !=
          std::string::npos);
    CHECK(refusal(folder / "c.csv", Format::kCsv, kManifest, Existing::kOverwrite) == "");
  }

  TEST_CASE("a link to the output stays a link") {
    const Folder folder;
    write_records(folder / "real.jsonl", {failed_record("a.mp4")});
    std::filesystem::create_symlink(folder / "real.jsonl", folder / "link.jsonl");
    write_records(folder / "link.jsonl", {sample_record("a.mp4")}, kRetryFailed);
    CHECK(std::filesystem::is_symlink(folder / "link.jsonl"));
    CHECK(read_file(folder / "real.jsonl") == to_json_line(sample_record("a.mp4")) + "\n");
  }
}

}  // namespace
}  // namespace caption::records
