// Compares what a preview finds with what a real run finds.
#include "records/output_preview.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "base/sha256.h"
#include "records/record_file.h"
#include "sample_record.h"

namespace caption::records {
namespace {

namespace fs = std::filesystem;

const Manifest kManifest = {.settings = {{"model", "m"}, {"generation.seed", "20"}}};
const Manifest kOther = {.settings = {{"model", "m"}, {"generation.seed", "21"}}};

// Makes a clip's file and the identity of the clip.
ClipIdentity make_clip(const fs::path& path, const std::string& content) {
  write_file(path, content);
  const auto size_bytes = static_cast<std::int64_t>(content.size());
  return {.file = {.path = path.string(), .size_bytes = size_bytes, .modified_ns = 7},
          .id = sha256_of(content).hex()};
}

Record record_of(const ClipIdentity& clip, Status status) {
  Record record =
      status == Status::kFailed ? failed_record(clip.file.path) : sample_record(clip.file.path);
  record.status = status;
  record.id = clip.id;
  record.file = clip.file;
  record.engine_ms = 20;
  return record;
}

ClipIdentity without_id(ClipIdentity clip) {
  clip.id.clear();
  return clip;
}

// Returns every file of a folder with its content.
std::string snapshot(const fs::path& folder) {
  std::string out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    out += entry.path().string() + "\n" + read_file(entry.path()) + "\n";
  }
  return out;
}

// Writes the output of a run that captioned one clip.
void write_record(const fs::path& out, const ClipIdentity& clip) {
  RecordFile file(out, Format::kJsonl, kManifest, Existing::kResume);
  file.append(record_of(clip, Status::kOk));
  file.finish();
}

TEST_SUITE("records/output_preview") {
  TEST_CASE("an output that another run writes is seen as such") {
    const Folder folder;
    const fs::path out = folder / "c.jsonl";
    const auto is_being_written = [&](Existing existing) {
      return OutputPreview(out, Format::kJsonl, kManifest, existing).is_being_written();
    };
    CHECK_FALSE(is_being_written(Existing::kResume));
    write_record(out, make_clip(folder / "a.mp4", "a"));
    CHECK_FALSE(is_being_written(Existing::kResume));
    {
      const RecordFile file(out, Format::kJsonl, kManifest, Existing::kResume);
      CHECK(is_being_written(Existing::kResume));
      CHECK(is_being_written(Existing::kOverwrite));
    }
    CHECK_FALSE(is_being_written(Existing::kOverwrite));
  }

  TEST_CASE("an overwriting run that was killed between its renames is seen as the run sees it") {
    const Folder folder;
    const fs::path out = folder / "c.jsonl";
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film a");
    write_record(out, clip);
    RecordFile(out, Format::kJsonl, kOther, Existing::kOverwrite)
        .append(record_of(clip, Status::kOk));
    fs::rename(out.string() + ".new", out);
    const std::string before = snapshot(folder / ".");
    OutputPreview preview(out, Format::kJsonl, kOther, Existing::kResume);
    CHECK(preview.plan(clip, "") == Planned::kKeep);
    CHECK(snapshot(folder / ".") == before);
  }

  TEST_CASE("a last record that lacks its end of line alone is seen as the run sees it") {
    const Folder folder;
    const fs::path out = folder / "c.jsonl";
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film a");
    write_record(out, clip);
    const std::string whole = read_file(out);
    write_file(out, whole.substr(0, whole.size() - 1));
    OutputPreview preview(out, Format::kJsonl, kManifest, Existing::kResume);
    CHECK(preview.plan(clip, "") == Planned::kKeep);
    CHECK(preview.num_found() == 1);
    CHECK(read_file(out).size() == whole.size() - 1);
  }

  TEST_CASE("an output that is not there knows nothing, and is not made") {
    const Folder folder;
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film");
    OutputPreview preview(folder / "out.jsonl", Format::kJsonl, kManifest, Existing::kResume);
    CHECK(preview.plan(clip, "") == Planned::kMake);
    CHECK(preview.num_found() == 0);
    CHECK(preview.mean_times().num_captions == 0);
    CHECK_FALSE(preview.may_know(4));
    CHECK_FALSE(fs::exists(folder / "out.jsonl"));
  }

  TEST_CASE("it plans what a run with the same flags finds, and touches nothing") {
    const Folder folder;
    const fs::path out = folder / "out.jsonl";
    const ClipIdentity good = make_clip(folder / "good.mp4", "good film");
    const ClipIdentity cut = make_clip(folder / "cut.mp4", "cut film");
    const ClipIdentity bad = make_clip(folder / "bad.mp4", "bad film");
    const ClipIdentity copy = make_clip(folder / "copy.mp4", "good film");
    // Same size as good's file.
    const ClipIdentity other = make_clip(folder / "other.mp4", "new film!");
    {
      RecordFile file(out, Format::kJsonl, kManifest, Existing::kResume);
      file.append(record_of(good, Status::kOk));
      file.append(record_of(cut, Status::kTruncated));
      file.append(record_of(bad, Status::kFailed));
      file.finish();
    }
    write_file(out, read_file(out) + "{\"torn");
    const std::string before = snapshot(out.parent_path());
    struct Case {
      const char* name;
      const ClipIdentity& clip;
      Planned plain;
      Planned retrying;  // with truncated and failed records retried
    };
    const ClipIdentity replaced = make_clip(folder / "good.mp4", "good film, longer");
    make_clip(folder / "good.mp4", "good film");
    const ClipIdentity named_only = without_id(good);
    const ClipIdentity copy_by_name = without_id(copy);
    const Case cases[] = {
        {"its record is there", good, Planned::kKeep, Planned::kKeep},
        {"by place, size and time", named_only, Planned::kKeep, Planned::kKeep},
        {"cut", cut, Planned::kKeep, Planned::kMakeAgain},
        {"failed", bad, Planned::kKeepFailed, Planned::kMakeAgain},
        {"a copy", copy, Planned::kTakeOver, Planned::kTakeOver},
        {"a copy whose digest is not known", copy_by_name, Planned::kMake, Planned::kMake},
        {"another film of the same size", other, Planned::kMake, Planned::kMake},
        {"replaced under its name", replaced, Planned::kMake, Planned::kMake},
    };
    const Retry retry = {.statuses = {Status::kTruncated, Status::kFailed}};
    OutputPreview plain(out, Format::kJsonl, kManifest, Existing::kResume);
    OutputPreview retrying(out, Format::kJsonl, kManifest, Existing::kResume, retry);
    for (const Case& c : cases) {
      CAPTURE(c.name);
      CHECK(plain.plan(c.clip, "") == c.plain);
      CHECK(retrying.plan(c.clip, "") == c.retrying);
      CHECK(plain.plan(c.clip, "another prompt") == Planned::kMake);
    }
    CHECK(plain.may_know(9));
    CHECK_FALSE(plain.may_know(10));
    CHECK(plain.num_found() == 3);
    const MeanTimes times = plain.mean_times();
    CHECK(times.num_captions == 2);
    CHECK(times.engine_ms == doctest::Approx(20));
    CHECK(times.decode_ms == doctest::Approx(30.125));
    CHECK(snapshot(out.parent_path()) == before);
    // The result of a real run.
    RecordFile file(out, Format::kJsonl, kManifest, Existing::kResume);
    CHECK(file.find(good, "good.mp4", "").kind == Earlier::Kind::kFinished);
    CHECK(file.find(copy, "copy.mp4", "").kind == Earlier::Kind::kElsewhere);
    CHECK(file.find(other, "other.mp4", "").kind == Earlier::Kind::kNone);
  }

  TEST_CASE("it follows a link to the output, as the run does") {
    const Folder folder;
    const fs::path out = folder / "out.jsonl";
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film");
    write_record(out, clip);
    fs::create_symlink(out, folder / "link.jsonl");
    OutputPreview preview(folder / "link.jsonl", Format::kJsonl, kManifest, Existing::kResume);
    CHECK(preview.plan(clip, "") == Planned::kKeep);
  }

  TEST_CASE("it knows the caption of a film whose place another film took") {
    const Folder folder;
    const fs::path out = folder / "out.jsonl";
    for (const char* content : {"first film", "second film"}) {
      write_record(out, make_clip(folder / "a.mp4", content));
    }
    const ClipIdentity moved = make_clip(folder / "b.mp4", "first film");
    OutputPreview preview(out, Format::kJsonl, kManifest, Existing::kResume);
    CHECK(preview.plan(moved, "") == Planned::kTakeOver);
    CHECK(preview.may_know(10));
    CHECK(preview.num_found() == 1);
  }

  TEST_CASE("records without a digest are known to a run that trusts times") {
    const Folder folder;
    const fs::path out = folder / "out.jsonl";
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film");
    RecordFile(out, Format::kJsonl, kManifest, Existing::kResume)
        .append(record_of(without_id(clip), Status::kOk));
    OutputPreview reading(out, Format::kJsonl, kManifest, Existing::kResume);
    OutputPreview trusting(out, Format::kJsonl, kManifest, Existing::kResume, {}, KnownBy::kTimes);
    CHECK(reading.plan(without_id(clip), "") == Planned::kMake);
    CHECK(reading.plan(clip, "") == Planned::kMake);
    CHECK(trusting.plan(without_id(clip), "") == Planned::kKeep);
    RecordFile file(out, Format::kJsonl, kManifest, Existing::kResume);
    CHECK(file.find(clip, "a.mp4", "").kind == Earlier::Kind::kNone);
    CHECK(file.find(without_id(clip), "a.mp4", "").kind == Earlier::Kind::kFinished);
  }

  TEST_CASE("what a run would refuse is refused") {
    const Folder folder;
    const fs::path out = folder / "out.jsonl";
    { RecordFile(out, Format::kJsonl, kManifest, Existing::kResume).append(sample_record("a")); }
    const auto code = [&](const fs::path& path, const Manifest& manifest, Existing existing) {
      try {
        OutputPreview(path, Format::kJsonl, manifest, existing);
      } catch (const Error& error) {
        return error.code();
      }
      return ErrorCode::kInternal;
    };
    CHECK(code(out, kOther, Existing::kResume) == ErrorCode::kOutputConflict);
    CHECK(code(folder / "", kManifest, Existing::kResume) == ErrorCode::kUsage);
    write_file(folder / "notes.txt", "mine");
    CHECK(code(folder / "notes.txt", kManifest, Existing::kOverwrite) ==
          ErrorCode::kOutputConflict);
    write_file(out, read_file(out) + "no record\n");
    CHECK(code(out, kManifest, Existing::kResume) == ErrorCode::kInternal);  // not refused
    write_file(out, "no record\n");
    CHECK(code(out, kManifest, Existing::kResume) == ErrorCode::kOutputConflict);
  }

  TEST_CASE("an overwriting run begins with nothing") {
    const Folder folder;
    const fs::path out = folder / "out.jsonl";
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film");
    write_record(out, clip);
    OutputPreview preview(out, Format::kJsonl, kOther, Existing::kOverwrite);
    CHECK(preview.plan(clip, "") == Planned::kMake);
    CHECK_FALSE(fs::exists(out.string() + ".new"));
    {
      RecordFile file(out, Format::kJsonl, kOther, Existing::kOverwrite);
      file.append(record_of(clip, Status::kOk));
    }  // destroyed without finish(), as in an interruption
    OutputPreview again(out, Format::kJsonl, kOther, Existing::kOverwrite);
    CHECK(again.plan(clip, "") == Planned::kKeep);
  }

  TEST_CASE("an interrupted --overwrite without a caption begins anew") {
    const Folder folder;
    const fs::path out = folder / "out.jsonl";
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film");
    write_record(out, clip);
    const auto append_failure = [&] {
      RecordFile file(out, Format::kJsonl, kManifest, Existing::kOverwrite);
      CHECK(file.num_found() == 0);
      file.append(record_of(clip, Status::kFailed));
    };
    append_failure();
    OutputPreview preview(out, Format::kJsonl, kManifest, Existing::kOverwrite);
    CHECK(preview.plan(clip, "") == Planned::kMake);
    append_failure();
  }

  TEST_CASE("a foreign FILE.new is refused in every format") {
    const Folder folder;
    const fs::path out = folder / "out.csv";
    { RecordFile(out, Format::kCsv, kManifest, Existing::kResume).append(sample_record("a")); }
    write_file(folder / "out.csv.new", "mine");
    const auto is_refused = [&](auto&& open) {
      try {
        open();
      } catch (const Error& error) {
        return error.code() == ErrorCode::kOutputConflict;
      }
      return false;
    };
    CHECK(is_refused([&] { OutputPreview(out, Format::kCsv, kManifest, Existing::kOverwrite); }));
    CHECK(is_refused([&] { RecordFile(out, Format::kCsv, kManifest, Existing::kOverwrite); }));
    CHECK(read_file(folder / "out.csv.new") == "mine");
  }
}

}  // namespace
}  // namespace caption::records
