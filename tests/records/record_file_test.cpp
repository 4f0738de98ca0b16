// Tests output files: resuming by content, improving, overwriting, refusing.
#include "records/record_file.h"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include "records/output_preview.h"

#include <chrono>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/open_file.h"
#include "base/sha256.h"
#include "records/internal/record_index.h"
#include "sample_record.h"

namespace caption::records {
namespace {

namespace fs = std::filesystem;

const Manifest kManifest{{{"seed", "20"}, {"prompt", "설명"}}};
const std::string kSettings = settings_key(kManifest);

std::unique_ptr<RecordFile> open(const fs::path& path, const Manifest& manifest = kManifest,
                                 const Retry& retry = {}, Existing existing = Existing::kResume) {
  return std::make_unique<RecordFile>(path, Format::kJsonl, manifest, existing, retry);
}

void write_records(const fs::path& path, const std::vector<Record>& records,
                   const Retry& retry = {}, Existing existing = Existing::kResume) {
  const auto file = open(path, kManifest, retry, existing);
  for (const Record& record : records) file->append(record);
  file->finish();
}

std::string refusal(const fs::path& path, Format format, const Manifest& manifest,
                    Existing existing = Existing::kResume) {
  try {
    const RecordFile file(path, format, manifest, existing);
    return "";
  } catch (const Error& error) {
    return std::string(error_code_name(error.code())) + " " + error.what();
  }
}

// Returns the line that a run with kManifest writes.
std::string line_of(Record record) {
  record.settings = kSettings;
  return to_json_line(record) + "\n";
}

std::string id_of(const std::string& content) { return sha256_of(content).hex(); }

// Makes a clip whose file exists and contains `content`.
ClipIdentity make_clip(const fs::path& path, const std::string& content) {
  write_file(path, content);
  const FileStamp stamp = *stamp_of(path);
  return {.file = {.path = path.string(),
                   .size_bytes = stamp.size_bytes,
                   .modified_ns = stamp.modified_ns},
          .id = id_of(content)};
}

Record record_of(const ClipIdentity& clip, const std::string& caption = "영상") {
  Record record = sample_record(fs::path(clip.file.path).filename());
  record.id = clip.id;
  record.file = clip.file;
  record.caption = caption;
  return record;
}

Record failed_record_of(const ClipIdentity& clip, const char* code = "no_frames") {
  Record record = failed_record(fs::path(clip.file.path).filename());
  record.id = clip.id;
  record.file = clip.file;
  record.error->code = code;
  return record;
}

Earlier find(RecordFile& file, const ClipIdentity& clip, std::string_view prompt = {}) {
  return file.find(clip, fs::path(clip.file.path).filename(), prompt);
}

std::vector<Record> records_in(const fs::path& path) {
  std::vector<Record> records;
  const std::string text = read_file(path);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    REQUIRE(end != std::string::npos);
    records.push_back(parse_json_line(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return records;
}

using Kind = Earlier::Kind;

TEST_SUITE("records/record_file") {
  TEST_CASE("a caption by one adapter is not taken for another adapter's") {
    const Folder folder;
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film");
    Record record = record_of(clip);
    record.adapter = "sports";
    write_records(folder / "out.jsonl", {record});
    const auto file = open(folder / "out.jsonl");
    const auto kind = [&](const ClipIdentity& of, std::string_view adapter) {
      return file->find(of, "a.mp4", caption_key("", adapter)).kind;
    };
    CHECK((kind(clip, "sports") == Earlier::Kind::kFinished));
    CHECK((kind(clip, "news") == Earlier::Kind::kNone));
    CHECK((kind(clip, "") == Earlier::Kind::kNone));
    // Nor for that of another file of the same content.
    const ClipIdentity copy = make_clip(folder / "b.mp4", "film");
    CHECK((kind(copy, "sports") == Earlier::Kind::kElsewhere));
    CHECK((kind(copy, "news") == Earlier::Kind::kNone));
    // A second caption of the clip stands beside the first.
    record.adapter = "news";
    CHECK((file->append(record) == AppendResult::kWritten));
    CHECK((kind(clip, "sports") == Earlier::Kind::kFinished));
    CHECK((kind(clip, "news") == Earlier::Kind::kFinished));
    file->finish();
    const std::string text = read_file(folder / "out.jsonl");
    CHECK(text.find("sports") != std::string::npos);
    CHECK(text.find("news") != std::string::npos);
  }

  TEST_CASE("a second run finds the clips of the first and appends to them") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity a = make_clip(folder / "a.mp4", "film a");
    const ClipIdentity b = make_clip(folder / "b.mp4", "film b");
    const ClipIdentity c = make_clip(folder / "c.mp4", "film c");
    write_records(path, {record_of(a), failed_record_of(b)});
    const std::string before = read_file(path);
    const auto file = open(path);
    CHECK(file->num_found() == 2);
    CHECK(find(*file, a).kind == Kind::kFinished);
    CHECK(find(*file, b).kind == Kind::kFinished);
    CHECK(find(*file, b).status == Status::kFailed);
    CHECK(find(*file, c).kind == Kind::kNone);
    file->append(record_of(c));
    CHECK(read_file(path) == before + line_of(record_of(c)));
  }

  TEST_CASE("a file replaced under its name is another clip, and its record the only one") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(path, {record_of(make_clip(folder / "a.mp4", "film a"), "가")});
    const ClipIdentity other = make_clip(folder / "a.mp4", "film A");  // same size, other content
    const auto file = open(path);
    CHECK(find(*file, other).kind == Kind::kNone);
    file->append(record_of(other, "나"));
    CHECK(find(*file, other).kind == Kind::kFinished);
    file->finish();
    CHECK(read_file(path) == line_of(record_of(other, "나")));
  }

  TEST_CASE("a file that is empty for a while loses no caption") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity whole = make_clip(folder / "a.mp4", "film a");
    write_records(path, {record_of(whole, "가")});
    const ClipIdentity empty = make_clip(folder / "a.mp4", "");
    {
      const auto file = open(path);
      CHECK(find(*file, empty).kind == Kind::kNone);
      file->append(failed_record_of(empty, "not_video"));
      file->append(failed_record_of(empty, "not_video"));
      file->finish();
    }
    CHECK(records_in(path).size() == 2);  // the caption, and the last failure
    const ClipIdentity again = make_clip(folder / "a.mp4", "film a");
    const auto file = open(path);
    const Earlier earlier = find(*file, again);
    REQUIRE(earlier.kind == Kind::kElsewhere);
    CHECK(earlier.record->caption == "가");
    CHECK(earlier.record->moved_from == "");
    file->append(*earlier.record);
    file->finish();
    REQUIRE(records_in(path).size() == 1);
    CHECK(records_in(path)[0].caption == "가");
  }

  TEST_CASE("a file that is touched and copied has not moved") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film a");
    write_records(path, {record_of(clip)});
    fs::last_write_time(clip.file.path,
                        fs::last_write_time(clip.file.path) + std::chrono::hours(1));
    const ClipIdentity copy = make_clip(folder / "b.mp4", "film a");
    const auto file = open(path);
    const Earlier earlier = find(*file, copy);
    REQUIRE(earlier.kind == Kind::kElsewhere);
    CHECK(earlier.record->moved_from == "");
    CHECK(earlier.record->copy_of == clip.file.path);
  }

  TEST_CASE("a moved folder of equal files leaves no record behind") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    fs::create_directory(folder / "x");
    std::vector<Record> records;
    for (const char* name : {"a", "b", "c"}) {
      records.push_back(record_of(make_clip(folder / ("x/" + std::string(name)), "film")));
    }
    write_records(path, records);
    fs::rename(folder / "x", folder / "y");
    const auto file = open(path);
    for (const char* name : {"a", "b", "c"}) {
      ClipIdentity clip{.file = *records[0].file, .id = records[0].id};
      clip.file.path = (folder / ("y/" + std::string(name))).string();
      const Earlier earlier = find(*file, clip);
      REQUIRE(earlier.kind == Kind::kElsewhere);
      file->append(*earlier.record);
    }
    file->finish();
    CHECK(records_in(path).size() == 3);
  }

  TEST_CASE("a moved folder of many equal files, met at the same time, leaves no record behind") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    constexpr int kNum = 150;
    fs::create_directory(folder / "x");
    std::vector<Record> records;
    const auto name_of = [](int i) { return "/" + std::to_string(i) + ".mp4"; };
    for (int i = 0; i < kNum; ++i) {
      records.push_back(record_of(make_clip(folder / ("x" + name_of(i)), "film")));
    }
    write_records(path, records);
    fs::rename(folder / "x", folder / "y");
    const auto file = open(path);
    for (int first = 0; first < kNum; first += 50) {
      std::vector<Record> found;
      for (int i = first; i < first + 50; ++i) {  // before any of them is appended
        ClipIdentity clip{.file = *records[0].file, .id = records[0].id};
        clip.file.path = (folder / ("y" + name_of(i))).string();
        Earlier earlier = find(*file, clip);
        REQUIRE(earlier.kind == Kind::kElsewhere);
        found.push_back(*std::move(earlier.record));
      }
      for (const Record& record : found) file->append(record);
    }
    file->finish();
    CHECK(records_in(path).size() == kNum);
  }

  TEST_CASE("a moved clip keeps its caption under the new name, and has one record") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity before = make_clip(folder / "a.mp4", "film a");
    Record made = record_of(before, "가");
    made.logprobs_json = R"({"mean":-0.5,"tokens":[{"token":"가","logprob":-0.5}]})";
    write_records(path, {made});
    ClipIdentity after = before;
    after.file.path = (folder / "b.mp4").string();
    fs::rename(before.file.path, after.file.path);
    const auto file = open(path);
    const Earlier earlier = find(*file, after);
    REQUIRE(earlier.kind == Kind::kElsewhere);
    CHECK(earlier.record->video == "b.mp4");
    CHECK(earlier.record->caption == "가");
    CHECK(earlier.record->moved_from == before.file.path);
    CHECK(earlier.record->copy_of == "");
    CHECK(earlier.record->logprobs_json == made.logprobs_json);
    file->append(*earlier.record);
    file->finish();
    const std::vector<Record> records = records_in(path);
    REQUIRE(records.size() == 1);
    CHECK(records[0].video == "b.mp4");
    CHECK(records[0].logprobs_json == made.logprobs_json);
  }

  TEST_CASE("a search among many clips of one content ends where it has found one") {
    RecordIndex index;
    const auto record_at = [](int i) {
      Record record = sample_record("v.mp4");
      record.id = id_of("film");
      record.file = ClipFile{.path = "/" + std::to_string(i)};
      return record;
    };
    for (int i = 0; i < 1000; ++i) index.add(record_at(i), i, 1);
    const ClipKeys keys = keys_of(record_at(0));
    int num_looked_at = 0;
    const auto looked_at = [&](int wanted) {
      num_looked_at = 0;
      return index.find_of_content(keys,
                                   [&](const RecordSlot&) { return ++num_looked_at == wanted; });
    };
    CHECK(looked_at(3) != nullptr);
    CHECK(num_looked_at == 3);
    CHECK(looked_at(1001) == nullptr);
    CHECK(num_looked_at == 1000);
    CHECK(index.find_of_content({}, [](const RecordSlot&) { return true; }) == nullptr);
  }

  TEST_CASE("a copy that takes the place of its original is no copy of itself") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity first = make_clip(folder / "a.mp4", "film");
    const ClipIdentity second = make_clip(folder / "b.mp4", "film");
    Record copy = record_of(second, "가");
    copy.copy_of = first.file.path;
    write_records(path, {record_of(make_clip(folder / "a.mp4", "another"), "나"), copy});
    fs::rename(second.file.path, first.file.path);
    const Earlier earlier = find(*open(path), first);
    REQUIRE(earlier.kind == Kind::kElsewhere);
    CHECK(earlier.record->caption == "가");
    CHECK(earlier.record->moved_from == second.file.path);
    CHECK(earlier.record->copy_of == "");
  }

  TEST_CASE("a copy of a clip has a record of its own, and so has the first") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity first = make_clip(folder / "a.mp4", "film");
    const ClipIdentity second = make_clip(folder / "b.mp4", "film");
    write_records(path, {record_of(first, "가")});
    const auto file = open(path);
    const Earlier earlier = find(*file, second);
    REQUIRE(earlier.kind == Kind::kElsewhere);
    CHECK(earlier.record->copy_of == first.file.path);
    CHECK(earlier.record->moved_from == "");
    file->append(*earlier.record);
    file->finish();
    CHECK(records_in(path).size() == 2);
  }

  TEST_CASE("a copy of a copy names the clip whose caption it is, which is no copy of its copy") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity first = make_clip(folder / "a.mp4", "film");
    const ClipIdentity second = make_clip(folder / "b.mp4", "film");
    const ClipIdentity third = make_clip(folder / "c.mp4", "film");
    Record copy = record_of(second, "가");
    copy.copy_of = first.file.path;
    write_records(path, {copy});
    {
      const auto file = open(path);
      const Earlier earlier = find(*file, third);
      REQUIRE(earlier.kind == Kind::kElsewhere);
      CHECK(earlier.record->copy_of == first.file.path);
      file->append(*earlier.record);
      file->finish();
    }
    const Earlier again = find(*open(path), make_clip(folder / "d.mp4", "film"));
    REQUIRE(again.kind == Kind::kElsewhere);
    CHECK(again.record->copy_of == first.file.path);
    const Earlier root = find(*open(path), first);
    REQUIRE(root.kind == Kind::kElsewhere);
    CHECK(root.record->copy_of == "");
    CHECK(root.record->moved_from == "");
  }

  TEST_CASE("no record names a file that has another film by now as its original") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity first = make_clip(folder / "a.mp4", "film");
    const ClipIdentity second = make_clip(folder / "b.mp4", "film");
    Record copy = record_of(second, "가");
    copy.copy_of = first.file.path;
    for (const char* const other : {"another", "fiim"}) {  // of another size, of the same
      CAPTURE(other);
      write_records(path, {copy});
      make_clip(first.file.path, other);
      const Earlier third = find(*open(path), make_clip(folder / "c.mp4", "film"));
      REQUIRE(third.kind == Kind::kElsewhere);
      CHECK(third.record->copy_of == second.file.path);
      ClipIdentity moved = second;
      moved.file.path = (folder / "d.mp4").string();
      fs::rename(second.file.path, moved.file.path);
      const Earlier fourth = find(*open(path), moved);
      REQUIRE(fourth.kind == Kind::kElsewhere);
      CHECK(fourth.record->moved_from == second.file.path);
      CHECK(fourth.record->copy_of == "");
      fs::rename(moved.file.path, second.file.path);
    }
  }

  TEST_CASE("two clips that change places keep their captions, met in one run or in two") {
    for (const bool in_one_run : {true, false}) {
      CAPTURE(in_one_run);
      const Folder folder;
      const fs::path path = folder / "c.jsonl";
      const ClipIdentity a = make_clip(folder / "a.mp4", "film a");
      const ClipIdentity b = make_clip(folder / "b.mp4", "film b2");
      write_records(path, {record_of(a, "가"), record_of(b, "나")});
      const ClipIdentity new_a = make_clip(folder / "a.mp4", "film b2");
      const ClipIdentity new_b = make_clip(folder / "b.mp4", "film a");
      auto file = open(path);
      for (const ClipIdentity& clip : {new_a, new_b}) {
        const Earlier earlier = find(*file, clip);
        REQUIRE(earlier.kind == Kind::kElsewhere);
        file->append(*earlier.record);
        if (in_one_run) continue;
        file->finish();
        file.reset();  // releases the lock
        file = open(path);
      }
      file->finish();
      const std::vector<Record> records = records_in(path);
      REQUIRE(records.size() == 2);
      CHECK(records[0].video == "a.mp4");
      CHECK(records[0].caption == "나");
      CHECK(records[1].video == "b.mp4");
      CHECK(records[1].caption == "가");
    }
  }

  TEST_CASE("what a killed compaction leaves is removed, with and without an overwriting run") {
    for (const char* left : {"c.jsonl.compact", "c.jsonl.new.compact"}) {
      const Folder folder;
      const fs::path path = folder / "c.jsonl";
      write_records(path, {record_of(make_clip(folder / "a.mp4", "film a"), "가")});
      write_file(folder / left, "half a line");
      open(path)->finish();
      CHECK_FALSE(fs::exists(folder / left));
      CHECK(records_in(path).size() == 1);
    }
  }

  TEST_CASE("a film moved away keeps its caption though another film took its place") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const fs::path aside = folder / "c.jsonl.replaced";
    const ClipIdentity a = make_clip(folder / "a.mp4", "film a");
    write_records(path, {record_of(a, "가")});
    std::string uncompacted;
    fs::create_directory(folder / "kept");
    ClipIdentity moved = make_clip(folder / "kept" / "a.mp4", "film a");
    const ClipIdentity other = make_clip(folder / "a.mp4", "film b");
    {  // a run with only the old place
      const auto file = open(path);
      CHECK(find(*file, other).kind == Kind::kNone);
      file->append(record_of(other, "나"));
      uncompacted = read_file(path);
      file->finish();
    }
    CHECK(read_file(path) == line_of(record_of(other, "나")));
    CHECK(read_file(aside) == line_of(record_of(a, "가")));
    write_file(path, uncompacted);  // as a kill before the compaction leaves the file
    std::string unended = read_file(aside);
    unended.pop_back();
    write_file(aside, unended);
    open(path)->finish();
    CHECK(read_file(path) == line_of(record_of(other, "나")));
    CHECK(read_file(aside) == line_of(record_of(a, "가")));
    write_records(path, {});  // a run that changes nothing
    CHECK(read_file(aside) == line_of(record_of(a, "가")));
    {  // a run that retries this caption must not take it from the aside file
      const auto file = open(path, kManifest, {.statuses = {Status::kOk}});
      CHECK(find(*file, moved).kind == Kind::kNone);
    }
    {
      const auto file = open(path);
      const Earlier earlier = find(*file, moved);
      REQUIRE(earlier.kind == Kind::kElsewhere);
      CHECK(earlier.record->caption == "가");
      CHECK(earlier.record->video == "a.mp4");
      CHECK(earlier.record->file->path == moved.file.path);
      CHECK(earlier.record->moved_from == "");
      CHECK(earlier.record->copy_of == "");
      file->append(*earlier.record);
      file->finish();
    }
    CHECK(records_in(path).size() == 2);
    CHECK_FALSE(fs::exists(aside));
  }

  TEST_CASE("a caption that goes along with its film leaves the failure of its old place") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity a = make_clip(folder / "a.mp4", "film a");
    write_records(path, {record_of(a, "가")});
    fs::rename(folder / "a.mp4", folder / "b.mp4");
    ClipIdentity b = a;
    b.file.path = (folder / "b.mp4").string();
    Record unreadable = failed_record("a.mp4");  // another file, which could not be read
    unreadable.file = ClipFile{.path = a.file.path};
    const auto file = open(path);
    CHECK(file->append(unreadable) == AppendResult::kKept);
    const Earlier earlier = find(*file, b);
    REQUIRE(earlier.kind == Kind::kElsewhere);
    CHECK(file->append(*earlier.record) == AppendResult::kWritten);
    file->finish();
    const std::vector<Record> records = records_in(path);
    REQUIRE(records.size() == 2);
    CHECK(records[0].file->path == b.file.path);
    CHECK(records[0].caption == "가");
    CHECK(records[1].file->path == a.file.path);
    CHECK(records[1].status == Status::kFailed);
  }

  TEST_CASE(
      "an overwriting run with clips that nobody could read never takes the old file's place") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity a = make_clip(folder / "a.mp4", "film a");
    const ClipIdentity b = make_clip(folder / "b.mp4", "film b");
    write_records(path, {record_of(a, "가"), record_of(b, "나")});
    const std::string before = read_file(path);
    Record unreadable = failed_record("a.mp4");
    unreadable.file = ClipFile{.path = a.file.path};
    {
      const auto file = open(path, kManifest, {}, Existing::kOverwrite);
      file->append(unreadable);
      file->append(record_of(b, "다"));
      CHECK(file->finish() == RecordFile::Ending::kOldFileStays);
    }
    {  // continues, and finds both clips done
      const auto file = open(path, kManifest, {}, Existing::kOverwrite);
      CHECK(file->num_found() == 2);
      CHECK(find(*file, {.file = {.path = a.file.path}}).kind == Kind::kFinished);
      CHECK(find(*file, b).kind == Kind::kFinished);
      CHECK(file->finish() == RecordFile::Ending::kOldFileStays);
    }
    CHECK(read_file(path) == before);
    const auto file = open(path, kManifest, {}, Existing::kOverwrite);
    CHECK(find(*file, b).kind == Kind::kFinished);
    file->append(record_of(a, "라"));
    CHECK(file->finish() == RecordFile::Ending::kInPlace);
    CHECK(records_in(path).size() == 2);
  }

  TEST_CASE("captions set aside do not outlive an output that starts anew") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const fs::path aside = folder / "c.jsonl.replaced";
    const ClipIdentity a = make_clip(folder / "a.mp4", "film a");
    const auto set_aside = [&] {
      write_records(path, {record_of(a, "가")});
      write_records(path, {record_of(make_clip(folder / "a.mp4", "film b"), "나")});
      REQUIRE(fs::exists(aside));
    };
    set_aside();
    fs::remove(path);
    CHECK(find(*open(path), a).kind == Kind::kNone);
    CHECK_FALSE(fs::exists(aside));
    set_aside();
    const auto file = open(path, kManifest, {}, Existing::kOverwrite);
    CHECK(find(*file, a).kind == Kind::kNone);
    file->append(record_of(make_clip(folder / "a.mp4", "film c"), "다"));
    CHECK(file->finish() == RecordFile::Ending::kInPlace);
    CHECK_FALSE(fs::exists(aside));
  }

  TEST_CASE("clips without a digest are known by size and time") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    ClipIdentity clip = make_clip(folder / "a.mp4", "film");
    const ClipIdentity with_digest = clip;
    clip.id.clear();
    write_records(path, {record_of(clip)});
    const auto file = open(path);
    CHECK(find(*file, clip).kind == Kind::kFinished);
    // A different video may have the same size and time.
    CHECK(find(*file, with_digest).kind == Kind::kNone);
    ClipIdentity elsewhere = clip;
    elsewhere.file.path += "x";
    CHECK(find(*file, elsewhere).kind == Kind::kNone);
    *clip.file.modified_ns += 1;
    CHECK(find(*file, clip).kind == Kind::kNone);
  }

  TEST_CASE("failures for the machine's sake are made again, those of broken films are not") {
    const Folder folder;
    for (const char* code : {"out_of_memory", "io_error", "timeout", "changed"}) {
      CAPTURE(code);
      const ClipIdentity clip = make_clip(folder / "a.mp4", "film");
      write_records(folder / "c.jsonl", {failed_record_of(clip, code)});
      CHECK(find(*open(folder / "c.jsonl"), clip).kind == Kind::kNone);
      fs::remove(folder / "c.jsonl");
    }
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film");
    write_records(folder / "c.jsonl", {failed_record_of(clip, "no_frames")});
    CHECK(find(*open(folder / "c.jsonl"), clip).kind == Kind::kFinished);
    CHECK(find(*open(folder / "c.jsonl", kManifest, kRetryFailed), clip).kind == Kind::kNone);
  }

  TEST_CASE("a file that could not be opened is captioned once it can") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity missing{.file = {.path = (folder / "late.mp4").string()}};
    write_records(path, {failed_record_of(missing, "not_found")});
    CHECK(find(*open(path), missing).kind == Kind::kFinished);
    CHECK(find(*open(path), make_clip(folder / "late.mp4", "film")).kind == Kind::kNone);
  }

  TEST_CASE("a line torn at any byte is cut off, and no other line is touched") {
    set_log_level(LogLevel::kError);
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity a = make_clip(folder / "a.mp4", "film a");
    const ClipIdentity b = make_clip(folder / "바다.mp4", "film b");
    write_records(path, {record_of(a), record_of(b)});
    const std::string whole = read_file(path);
    const std::string first = line_of(record_of(a));
    for (std::size_t size = first.size(); size < whole.size() - 1; ++size) {
      CAPTURE(size);
      write_file(path, whole.substr(0, size));
      {
        const auto file = open(path);
        CHECK(file->num_found() == 1);
        CHECK(find(*file, b).kind == Kind::kNone);
        file->append(record_of(b));
      }
      CHECK(read_file(path) == whole);
    }
    set_log_level(LogLevel::kInfo);
  }

  TEST_CASE("a last record that lacks its end of line alone is kept") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity a = make_clip(folder / "a.mp4", "film a");
    const ClipIdentity b = make_clip(folder / "b.mp4", "film b");
    Record last = record_of(b);
    last.caption = std::string(100'000, 'x');
    write_records(path, {record_of(a), last});
    const std::string whole = read_file(path);
    write_file(path, whole.substr(0, whole.size() - 1));
    {
      const auto file = open(path);
      CHECK(file->num_found() == 2);
      CHECK(find(*file, b).kind == Kind::kFinished);
    }
    CHECK(read_file(path) == whole);
    // What is not the beginning of a record is kept as a damaged line: JSON that is no record, two
    // records in one, a note, a record behind which a failing disk left zeros.
    set_log_level(LogLevel::kError);
    const fs::path damaged = path.string() + ".damaged";
    const std::string last_line = whole.substr(line_of(record_of(a)).size());
    const std::string bare = last_line.substr(0, last_line.size() - 1);
    for (const std::string& rest : {std::string("{}"), bare + bare, std::string("메모: 좋다"),
                                    bare + std::string(64, '\0')}) {
      fs::remove(damaged);
      write_file(path, line_of(record_of(a)) + rest);
      {
        const auto file = open(path);
        CHECK(file->num_found() == 1);
        CHECK(find(*file, b).kind == Kind::kNone);
        file->append(record_of(b));
        file->finish();
      }
      CHECK(read_file(path) == line_of(record_of(a)) + line_of(record_of(b)));
      CHECK(read_file(damaged) == rest + "\n");
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

  TEST_CASE("a retry keeps every record until a better one is there, and the others untouched") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity a = make_clip(folder / "a.mp4", "film a");
    const ClipIdentity b = make_clip(folder / "b.mp4", "film b");
    const ClipIdentity c = make_clip(folder / "c.mp4", "film c");
    const std::string odd = "{\"video\":  \"a.mp4\"" +  // spacing that this program does not write
                            line_of(record_of(a)).substr(16);
    // A failed clip that is not part of the run.
    const std::string other = line_of(failed_record_of(make_clip(folder / "d.mp4", "film d")));
    write_records(path, {});
    write_file(path, odd + line_of(failed_record_of(b)) + line_of(record_of(c)) + other);
    const std::string before = read_file(path);
    {
      const auto file = open(path, kManifest, kRetryFailed);
      CHECK(find(*file, a).kind == Kind::kFinished);
      CHECK(find(*file, b).kind == Kind::kNone);
      CHECK(read_file(path) == before);
      CHECK(file->append(record_of(b)) == AppendResult::kWritten);
      CHECK(read_file(path) == before + line_of(record_of(b)));
      file->finish();
      // The lock must be on the file that has the name now.
      CHECK(refusal(path, Format::kJsonl, kManifest).find("another run") != std::string::npos);
    }
    CHECK(read_file(path) == odd + line_of(record_of(c)) + other + line_of(record_of(b)));
  }

  TEST_CASE("a retry that comes out worse changes nothing") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film a");
    Record cut = record_of(clip, "반쯤");
    cut.status = Status::kTruncated;
    write_records(path, {cut});
    const std::string before = read_file(path);
    const auto file = open(path, kManifest, {.statuses = {Status::kTruncated}});
    CHECK(find(*file, clip).kind == Kind::kNone);
    CHECK(file->append(failed_record_of(clip)) == AppendResult::kKept);
    CHECK(find(*file, clip).kind == Kind::kFinished);  // tried once in this run, so not again
    CHECK(read_file(path) == before);
    Record gone = failed_record(cut.video);  // the file can no longer be opened
    gone.file = ClipFile{.path = clip.file.path};
    CHECK(file->append(gone) == AppendResult::kKept);
    Record shorter = cut;  // a part of the caption that is no longer than the first
    CHECK(file->append(shorter) == AppendResult::kKept);
    shorter.output_tokens += 1;
    CHECK(file->append(shorter) == AppendResult::kWritten);
    CHECK(file->append(record_of(clip, "다")) == AppendResult::kWritten);
  }

  TEST_CASE("captions of one clip for several prompts are several captions") {
    const Folder folder;
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film a");
    Record brief = record_of(clip);
    brief.prompt = "짧게";
    Record failed = failed_record_of(clip);
    failed.prompt = "길게";
    write_records(folder / "c.jsonl", {brief, failed});
    const auto file = open(folder / "c.jsonl", kManifest, kRetryFailed);
    CHECK(file->num_found() == 2);
    CHECK(find(*file, clip, "짧게").kind == Kind::kFinished);
    CHECK(find(*file, clip, "길게").kind == Kind::kNone);
    CHECK(find(*file, clip).kind == Kind::kNone);
  }

  TEST_CASE("a retry may change the settings it names, and records say which they were made with") {
    const Folder folder;
    const auto path = folder / "c.jsonl";
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film a");
    const Manifest manifest{{{"generation.max_new_tokens", "8"}, {"prompt", "p"}}};
    Record cut = record_of(clip);
    cut.status = Status::kTruncated;
    open(path, manifest)->append(cut);
    const Retry retry{.statuses = {Status::kTruncated}, .changeable = {"generation."}};
    const Manifest longer{{{"generation.max_new_tokens", "64"}, {"prompt", "p"}}};
    CHECK_THROWS_WITH_AS(open(path, longer), doctest::Contains("max_new_tokens"), Error);
    const Manifest other_prompt{{{"generation.max_new_tokens", "8"}, {"prompt", "q"}}};
    CHECK_THROWS_WITH_AS(open(path, other_prompt, retry), doctest::Contains("prompt"), Error);
    {
      const auto file = open(path, longer, retry);
      CHECK(find(*file, clip).kind == Kind::kNone);
      file->append(record_of(clip));
      file->finish();
    }
    const auto noted = read_manifest(manifest_path(path));
    REQUIRE(noted.has_value());
    CHECK(to_json(*noted).find("\"retried_with." + settings_key(longer) +
                               "\": \"truncated: generation.max_new_tokens=64\"") !=
          std::string::npos);
    CHECK(records_in(path).at(0).settings == settings_key(longer));
    open(path, longer, retry);  // the same retry is noted only once
    CHECK(read_manifest(manifest_path(path)) == noted);
    CHECK(find(*open(path, manifest), clip).kind == Kind::kFinished);  // the record is accepted
  }

  TEST_CASE("an output whose manifest has another form is continued in its own form") {
    const Folder folder;
    const auto path = folder / "c.jsonl";
    const ClipIdentity a = make_clip(folder / "a.mp4", "film a");
    const ClipIdentity b = make_clip(folder / "b.mp4", "film b");
    const Manifest old{{{"kv", "auto"}, {"seed", "20"}, {"prompt", "p"}}};
    Manifest now{{{"kv", "bf16"}, {"prompt", "p"}}};
    CHECK_FALSE(describe_differences(old, now).empty());
    // The seed has no effect, and auto is bf16.
    now.make_comparable = [](ManifestSettings& there, ManifestSettings& here) {
      for (ManifestSettings* settings : {&there, &here}) {
        std::erase_if(*settings, [](const auto& one) { return one.first == "seed"; });
        for (auto& [name, value] : *settings) {
          if (name == "kv" && value == "auto") value = "bf16";
        }
      }
    };
    CHECK(describe_differences(old, now).empty());
    for (const Existing existing : {Existing::kResume, Existing::kOverwrite}) {
      CAPTURE(static_cast<int>(existing));
      const fs::path written =
          existing == Existing::kResume ? path : fs::path(path.string() + ".new");
      open(path, old, {}, existing)->append(record_of(a));
      Manifest other = now;
      other.settings.front().second = "f32";
      CHECK_THROWS_WITH_AS(open(path, other, {}, existing), doctest::Contains("kv"), Error);
      {
        const auto file = open(path, now, {}, existing);
        CHECK(find(*file, a).kind == Kind::kFinished);
        CHECK(find(*file, b).kind == Kind::kNone);
        file->append(record_of(b));
      }
      const std::optional<Manifest> kept = read_manifest(manifest_path(written));
      REQUIRE(kept.has_value());
      CHECK(describe_differences(*kept, old).empty());
      for (const Record& record : records_in(written)) {
        CHECK(record.settings == settings_key(old));
      }
      for (const Manifest& either : {old, now}) {
        const auto file = open(path, either, {}, existing);
        CHECK(find(*file, a).kind == Kind::kFinished);
        CHECK(find(*file, b).kind == Kind::kFinished);
      }
    }
  }

  TEST_CASE("records made with other settings than the manifest's do not count") {
    const Folder folder;
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film a");
    write_records(folder / "c.jsonl", {record_of(clip)});
    // Records of another run are placed next to this manifest.
    const Manifest other{{{"seed", "21"}}};
    open(folder / "d.jsonl", other)->append(record_of(clip));
    fs::rename(folder / "d.jsonl", folder / "c.jsonl");
    CHECK(find(*open(folder / "c.jsonl"), clip).kind == Kind::kNone);
  }

  TEST_CASE("two runs cannot write one file") {
    const Folder folder;
    const auto file = open(folder / "c.jsonl");
    file->append(sample_record("a.mp4"));
    for (const Existing existing : {Existing::kResume, Existing::kOverwrite}) {
      CHECK(refusal(folder / "c.jsonl", Format::kJsonl, kManifest, existing)
                .starts_with("output_conflict"));
    }
  }

  TEST_CASE("clips that could not be looked for leave the overwritten file where it is") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(path, {sample_record("a.mp4")});
    const auto file = open(path, kManifest, {}, Existing::kOverwrite);
    file->append(record_of(make_clip(folder / "a.mp4", "film a")));
    file->note_unread();
    CHECK(file->finish() == RecordFile::Ending::kOldFileStays);
  }

  TEST_CASE("another configuration is refused with the difference named, and overwritten on wish") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(path, {sample_record("a.mp4")});
    const std::string before = read_file(path);
    const Manifest other{{{"seed", "21"}, {"prompt", "설명"}}};
    const std::string text = refusal(path, Format::kJsonl, other);
    CHECK(text.starts_with("output_conflict"));
    CHECK(text.find("seed is \"20\" there and \"21\" now") != std::string::npos);
    const ClipIdentity a = make_clip(folder / "a.mp4", "film a");
    const ClipIdentity b = make_clip(folder / "b.mp4", "film b");
    {
      const auto file = open(path, other, {}, Existing::kOverwrite);
      CHECK(file->is_beside());
      file->append(failed_record_of(b));
      CHECK(read_file(path) == before);
      CHECK(file->finish() == RecordFile::Ending::kOldFileStays);  // no caption was made
      CHECK(read_file(path) == before);
    }
    {
      const auto file = open(path, other, {}, Existing::kOverwrite);  // starts from an empty file
      CHECK(file->num_found() == 0);
      file->append(record_of(a));
      file->append(record_of(b));
      file->append(failed_record("gone.mp4"));
      CHECK(file->finish() == RecordFile::Ending::kOldFileStays);  // a clip was not read
    }
    {
      const auto file = open(path, other, {}, Existing::kOverwrite);  // continues, without clip b
      CHECK(file->num_found() == 3);
      CHECK(find(*file, a).kind == Kind::kFinished);
      CHECK(read_file(path) == before);
      CHECK(file->finish() == RecordFile::Ending::kInPlace);
    }
    CHECK(records_in(path).size() == 1);
    CHECK_FALSE(fs::exists(path.string() + ".new"));
    CHECK(refusal(path, Format::kJsonl, other) == "");
  }

  TEST_CASE("a manifest that is none is named in a short line, and nothing is changed") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(path, {sample_record("a.mp4")});
    const std::string before = read_file(path);
    for (const auto& [content, what] :
         {std::pair("{}", "holds no settings, so it is no manifest of an output; mend it, or "),
          std::pair("{\"name\": \"package\"}",
                    "has no setting that a run has, so it is no manifest of an output; move ")}) {
      CAPTURE(std::string(content));
      write_file(manifest_path(path), content);
      const std::string text = refusal(path, Format::kJsonl, kManifest);
      CHECK(text.starts_with("output_conflict"));
      CHECK(text.find(manifest_path(path).string() + ": " + what) != std::string::npos);
      CHECK(read_file(path) == before);
      CHECK(read_file(manifest_path(path)) == content);
    }
  }

  TEST_CASE("captions of an interrupted overwrite are not lost to another configuration") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const fs::path beside = path.string() + ".new";
    write_records(path, {sample_record("a.mp4")});
    const Manifest one{{{"seed", "21"}}};
    const Manifest other{{{"seed", "22"}}};
    open(path, one, {}, Existing::kOverwrite)->append(sample_record("b.mp4"));
    const std::string kept = read_file(beside);
    const std::string text = refusal(path, Format::kJsonl, other, Existing::kOverwrite);
    CHECK(text.starts_with("output_conflict"));
    CHECK(text.find("holds 1 caption of an --overwrite that was interrupted") != std::string::npos);
    CHECK(text.find("seed is \"21\" there and \"22\" now") != std::string::npos);
    CHECK_THROWS_AS(OutputPreview(path, Format::kJsonl, other, Existing::kOverwrite), Error);
    CHECK(read_file(beside) == kept);
    fs::remove(manifest_path(beside));
    CHECK(refusal(path, Format::kJsonl, other, Existing::kOverwrite)
              .find("has no manifest, so it is not known what they were made with; delete this "
                    "file to start anew") != std::string::npos);
    CHECK(read_file(beside) == kept);
    fs::remove(beside);
    CHECK(refusal(path, Format::kJsonl, other, Existing::kOverwrite) == "");
  }

  TEST_CASE("an overwriting run that was killed between its renames is finished by the next") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const fs::path beside = path.string() + ".new";
    write_records(path, {sample_record("a.mp4")});
    const Manifest other{{{"seed", "21"}}};
    open(path, other, {}, Existing::kOverwrite)->append(sample_record("b.mp4"));
    fs::rename(beside, path);
    CHECK(refusal(path, Format::kJsonl, other) == "");
    CHECK(read_manifest(manifest_path(path)) == other);
    // A manifest that does not belong to the records is not used.
    write_manifest(manifest_path(beside), kManifest);
    CHECK(refusal(path, Format::kJsonl, other) == "");
    CHECK(read_manifest(manifest_path(path)) == other);
  }

  TEST_CASE("files that are not ours are left alone") {
    const Folder folder;
    write_file(folder / "notes.txt", "my notes, without a newline");
    for (const Existing existing : {Existing::kResume, Existing::kOverwrite}) {
      CHECK(refusal(folder / "notes.txt", Format::kJsonl, kManifest, existing) != "");
      CHECK(read_file(folder / "notes.txt") == "my notes, without a newline");
    }
    write_records(folder / "c.jsonl", {});
    write_file(folder / "c.jsonl", "{\"video\": \"a\"}\n");
    CHECK(refusal(folder / "c.jsonl", Format::kJsonl, kManifest).find("c.jsonl:1:") !=
          std::string::npos);

    fs::create_directory(folder / "folder");
    CHECK(refusal(folder / "folder", Format::kJsonl, kManifest).find("a folder") !=
          std::string::npos);
    REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
    CHECK(refusal(folder / "fifo", Format::kJsonl, kManifest).starts_with("usage"));
    CHECK(refusal(folder / "no/such/c.jsonl", Format::kJsonl, kManifest).starts_with("io_error"));
  }

  TEST_CASE("an output that is deleted, replaced or cut meanwhile is an error") {
    struct Case {
      const char* name;
      void (*disturb)(const fs::path&);
    };
    const Case cases[] = {
        {"deleted", [](const fs::path& path) { fs::remove(path); }},
        {"replaced",
         [](const fs::path& path) {
           write_file(path.string() + "x", "{}\n");
           fs::rename(path.string() + "x", path);
         }},
        {"cut", [](const fs::path& path) { fs::resize_file(path, 10); }},
        {"moved", [](const fs::path& path) { fs::rename(path, path.string() + "y"); }},
        {"its folder removed", [](const fs::path& path) { fs::remove_all(path.parent_path()); }},
    };
    for (const Case& c : cases) {
      CAPTURE(c.name);
      const Folder folder;
      const auto file = open(folder / "c.jsonl");
      file->append(sample_record("a.mp4"));
      c.disturb(folder / "c.jsonl");
      CHECK_THROWS_WITH_AS(file->append(sample_record("b.mp4")),
                           doctest::Contains("while it was written"), Error);
      CHECK_THROWS_WITH_AS(file->finish(), doctest::Contains("while it was written"), Error);
    }
  }

  TEST_CASE("csv and txt start anew or not at all, and know the clips of their own run") {
    const Folder folder;
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film");
    const ClipIdentity same = make_clip(folder / "b.mp4", "film");
    {
      RecordFile file(folder / "c.csv", Format::kCsv, kManifest, Existing::kResume);
      CHECK(find(file, clip).kind == Kind::kNone);
      file.append(record_of(clip));
      CHECK(find(file, same).kind == Kind::kElsewhere);
      // Two different videos may have the same size and time.
      ClipIdentity first = clip;
      first.id.clear();
      file.append(record_of(first));
      ClipIdentity second = first;
      second.file.path += "x";
      CHECK(find(file, second).kind == Kind::kNone);
    }
    CHECK(read_file(folder / "c.csv").starts_with("\xEF\xBB\xBFvideo,"));
    CHECK(refusal(folder / "c.csv", Format::kCsv, kManifest).find("cannot be resumed") !=
          std::string::npos);
    CHECK(refusal(folder / "c.csv", Format::kCsv, kManifest, Existing::kOverwrite) == "");
    // Without its manifest a csv is recognised by its header, with or without a byte order mark.
    for (const std::string& header :
         {format_header(Format::kCsv), format_file_header(Format::kCsv)}) {
      write_file(folder / "alone.csv", header);
      fs::remove(folder / "alone.csv.manifest.json");
      CHECK(refusal(folder / "alone.csv", Format::kCsv, kManifest, Existing::kOverwrite) == "");
    }
    write_file(folder / "foreign.csv", "name,age\r\n");
    CHECK(refusal(folder / "foreign.csv", Format::kCsv, kManifest, Existing::kOverwrite) != "");
  }

  TEST_CASE("a link to the output stays a link") {
    const Folder folder;
    const ClipIdentity clip = make_clip(folder / "a.mp4", "film");
    write_records(folder / "real.jsonl", {failed_record_of(clip)});
    fs::create_symlink(folder / "real.jsonl", folder / "link.jsonl");
    write_records(folder / "link.jsonl", {record_of(clip)}, kRetryFailed);
    CHECK(fs::is_symlink(folder / "link.jsonl"));
    CHECK(read_file(folder / "real.jsonl") == line_of(record_of(clip)));
  }
}

}  // namespace
}  // namespace caption::records
