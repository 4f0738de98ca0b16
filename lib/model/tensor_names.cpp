#include "model/internal/tensor_names.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "weights/renamed_source.h"

namespace caption::model {
namespace {

constexpr std::array<std::string_view, 3> kParts = {"vision", "projector", "llm"};

struct Entry {
  std::string text;
  std::optional<std::size_t> part;  // index of kParts; without: every file
  weights::NamePrefix prefix;
};

[[noreturn]] void throw_malformed(const std::string& text, const std::string& what) {
  throw Error(
      ErrorCode::kBadPreset,
      "model.tensor_names: \"" + text + "\" " + what +
          "; an entry is THEIRS=OURS or PART:THEIRS=OURS, both the beginning of names, such "
          "as \"projector:module.mm_projector.=\"");
}

Entry parse_entry(const std::string& text) {
  Entry entry{.text = text, .part = std::nullopt, .prefix = {}};
  std::string_view names = text;
  if (const std::size_t colon = names.find(':'); colon != std::string_view::npos) {
    const auto part = std::find(kParts.begin(), kParts.end(), names.substr(0, colon));
    if (part == kParts.end()) {
      throw_malformed(text, "names a part other than vision, projector and llm");
    }
    entry.part = static_cast<std::size_t>(part - kParts.begin());
    names.remove_prefix(colon + 1);
  }
  const std::size_t equals = names.find('=');
  if (equals == std::string_view::npos || names.find('=', equals + 1) != std::string_view::npos) {
    throw_malformed(text, "does not have one =");
  }
  entry.prefix = {.from = std::string(names.substr(0, equals)),
                  .to = std::string(names.substr(equals + 1))};
  if (entry.prefix.from == entry.prefix.to) throw_malformed(text, "changes nothing");
  return entry;
}

// The beginnings of names that end in a dot, and the names.
std::vector<std::string> list_beginnings(const weights::Source& source) {
  std::set<std::string> found;
  for (const std::string& name : source.names()) {
    found.insert(name);
    for (std::size_t dot = name.find('.'); dot != std::string::npos;
         dot = name.find('.', dot + 1)) {
      found.insert(name.substr(0, dot + 1));
    }
  }
  return {found.begin(), found.end()};
}

[[noreturn]] void throw_unused(const Entry& entry, const ComposedSources& sources) {
  std::string files;
  std::vector<std::string> beginnings;
  for (std::size_t part = 0; part < sources.size(); ++part) {
    if (entry.part.value_or(part) != part) continue;
    files += (files.empty() ? "" : ", ") + sources[part]->name();
    for (std::string& name : list_beginnings(*sources[part])) beginnings.push_back(std::move(name));
  }
  throw Error(ErrorCode::kBadModel, "model.tensor_names: \"" + entry.text + "\": no tensor of " +
                                        files + " begins so" +
                                        did_you_mean(entry.prefix.from, beginnings));
}

}  // namespace

ComposedSources rename_tensors(ComposedSources sources, const std::vector<std::string>& texts) {
  std::vector<Entry> entries;
  for (const std::string& text : texts) entries.push_back(parse_entry(text));
  std::vector<bool> is_used(entries.size(), false);
  ComposedSources renamed;
  for (std::size_t part = 0; part < sources.size(); ++part) {
    std::vector<weights::NamePrefix> prefixes;
    std::vector<std::size_t> of_entry;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].part.value_or(part) != part) continue;
      prefixes.push_back(entries[i].prefix);
      of_entry.push_back(i);
    }
    if (sources[part] == nullptr) {
      for (const std::size_t i : of_entry) is_used[i] = true;
      continue;
    }
    if (prefixes.empty()) {
      renamed[part] = std::move(sources[part]);
      continue;
    }
    auto source = std::make_unique<weights::RenamedSource>(std::move(sources[part]), prefixes);
    for (std::size_t i = 0; i < of_entry.size(); ++i) {
      if (source->is_used(i)) is_used[of_entry[i]] = true;
    }
    renamed[part] = std::move(source);
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!is_used[i]) throw_unused(entries[i], renamed);
  }
  return renamed;
}

}  // namespace caption::model
