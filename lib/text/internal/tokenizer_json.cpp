#include "text/internal/tokenizer_json.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/json_stream.h"
#include "base/mend_advice.h"
#include "text/internal/tokenizer_files.h"

namespace caption::text {
namespace {

// A tokenizer.json whose lists of millions of values are cut out.
struct CutDocument {
  std::string rest;         // the document with an empty value in place of each list
  std::string_view vocab;   // model.vocab; empty when it is absent
  std::string_view merges;  // model.merges
};

// An empty list or object with as many line ends as the text that it replaces, so that the lines of
// messages are those of the file.
std::string blank(std::string_view json) {
  const auto num_lines = static_cast<std::size_t>(std::count(json.begin(), json.end(), '\n'));
  return std::string(json.substr(0, 1)) + std::string(num_lines, '\n') +
         (json.front() == '{' ? "}" : "]");
}

bool is_container(JsonStream::Kind kind) {
  return kind == JsonStream::Kind::kObject || kind == JsonStream::Kind::kArray;
}

CutDocument cut_document(std::string_view text, const std::string& name) {
  CutDocument cut;
  const char* copied = text.data();
  const auto take = [&](JsonStream& stream, std::string_view& part) {
    part = stream.skip_value();
    cut.rest.append(copied, part.data());
    cut.rest += blank(part);
    copied = part.data() + part.size();
  };
  JsonStream stream(text, name, ErrorCode::kBadModel);
  std::string key;
  stream.begin_object();
  while (stream.next_key(&key)) {
    if (key != "model" || stream.peek() != JsonStream::Kind::kObject) {
      stream.skip_value();
      continue;
    }
    stream.begin_object();
    while (stream.next_key(&key)) {
      const bool is_vocab = key == "vocab" && cut.vocab.empty();
      const bool is_merges = key == "merges" && cut.merges.empty();
      if ((is_vocab || is_merges) && is_container(stream.peek())) {
        take(stream, is_vocab ? cut.vocab : cut.merges);
      } else {
        stream.skip_value();
      }
    }
  }
  stream.finish();
  cut.rest.append(copied, text.data() + text.size());
  return cut;
}

std::string model_type(const JsonObject& model) {
  std::string type = model.get_string("type", "");
  if (type.empty() && model.has("merges")) type = "BPE";
  if (type.empty() && model.has("unk_id")) type = "Unigram";
  return type;
}

JsonObject require_model(const JsonObject& document) {
  auto model = document.get_object("model");
  if (!model) fail_bad_file(document.name() + ": model: is missing");
  return *model;
}

void insert_token(JsonStream& stream, Vocabulary& vocabulary, std::string_view token, TokenId id) {
  switch (vocabulary.insert(token, id)) {
    case Vocabulary::Inserted::kYes: return;
    case Vocabulary::Inserted::kTextIsKnown:
      stream.fail("model.vocab: " + json_quote(token) + " is there twice");
    case Vocabulary::Inserted::kIdIsTaken:
      stream.fail("model.vocab: " + json_quote(token) + " has the id " + std::to_string(id) +
                  " of another token");
  }
}

// A lower bound of the number of elements, to make room for them.
std::size_t estimate_elements(std::string_view json) {
  return static_cast<std::size_t>(std::count(json.begin(), json.end(), ','));
}

void parse_merges(std::string_view json, const std::string& name, const Vocabulary& vocabulary,
                  std::vector<BpeSpec::Merge>& merges) {
  JsonStream stream(json, name + ": model.merges", ErrorCode::kBadModel);
  std::string left_scratch;
  std::string right_scratch;
  std::size_t number = 0;
  stream.begin_array();
  for (; stream.next_element(); ++number) {
    const auto where = [&] { return name + ": model.merges[" + std::to_string(number) + "]"; };
    if (stream.peek() == JsonStream::Kind::kString) {
      const std::string_view pair = stream.read_string(&left_scratch);
      if (pair.starts_with("#version")) continue;
      const std::size_t space = pair.find(' ');
      if (space == std::string_view::npos || pair.find(' ', space + 1) != std::string_view::npos) {
        fail_bad_file(where() +
                      ": expected two tokens with a space between "
                      "them, found " +
                      json_quote(pair));
      }
      add_merge(pair.substr(0, space), pair.substr(space + 1), where(), vocabulary, merges);
      continue;
    }
    stream.begin_array();
    std::string_view left;
    std::string_view right;
    std::size_t count = 0;
    for (; stream.next_element(); ++count) {
      if (count == 0) left = stream.read_string(&left_scratch);
      if (count == 1) right = stream.read_string(&right_scratch);
      if (count > 1) stream.skip_value();
    }
    if (count != 2) {
      fail_bad_file(where() + ": expected two tokens, found " + std::to_string(count));
    }
    add_merge(left, right, where(), vocabulary, merges);
  }
  stream.finish();
}

void refuse(const JsonObject& object, const std::string& key, const std::string& what) {
  fail_unsupported(object.name() + "." + key + ": " + what + " is not supported by this build");
}

BpeSpec parse_bpe(const JsonObject& model, const CutDocument& cut, PipelineSpec& spec) {
  BpeSpec bpe;
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::string affix = model.get_string(key, "");
    if (!affix.empty()) refuse(model, key, json_quote(affix));
  }
  if (model.get_double("dropout", 0.0) != 0.0) refuse(model, "dropout", "dropout of merges");
  bpe.fuses_unknown = model.get_bool("fuse_unk", false);
  bpe.falls_back_to_bytes = model.get_bool("byte_fallback", false);
  bpe.ignores_merges = model.get_bool("ignore_merges", false);
  if (cut.vocab.empty() || cut.merges.empty()) {
    fail_bad_file(model.name() + ": has no vocab or no merges");
  }
  parse_bpe_vocabulary(cut.vocab, spec.name, spec.vocabulary);
  parse_merges(cut.merges, spec.name, spec.vocabulary, bpe.merges);
  if (model.has("unk_token")) {
    const std::string unknown = model.require_string("unk_token");
    bpe.unknown_id = spec.vocabulary.find(unknown);
    if (!bpe.unknown_id) {
      fail_bad_file(model.name() + ".unk_token: " + json_quote(unknown) +
                    " is not in the vocabulary");
    }
  }
  return bpe;
}

// [["<unk>", 0.0], ["a", -1.5], ...]; the index is the id.
UnigramSpec parse_unigram(const JsonObject& model, const CutDocument& cut, PipelineSpec& spec) {
  UnigramSpec unigram;
  unigram.falls_back_to_bytes = model.get_bool("byte_fallback", false);
  if (cut.vocab.empty()) fail_bad_file(model.name() + ".vocab: is missing");
  JsonStream stream(cut.vocab, spec.name + ": model.vocab", ErrorCode::kBadModel);
  spec.vocabulary.reserve(std::min<std::size_t>(estimate_elements(cut.vocab) / 2, kMaxTokenId));
  std::string scratch;
  stream.begin_array();
  while (stream.next_element()) {
    if (std::ssize(unigram.scores) > kMaxTokenId) stream.fail("more tokens than this build reads");
    std::size_t count = 0;
    stream.begin_array();
    for (; stream.next_element(); ++count) {
      if (count == 0) {
        insert_token(stream, spec.vocabulary, stream.read_string(&scratch),
                     static_cast<TokenId>(unigram.scores.size()));
      } else if (count == 1) {
        unigram.scores.push_back(stream.read_double());
      } else {
        stream.skip_value();
      }
    }
    if (count != 2) stream.fail("expected a token and its score");
  }
  stream.finish();
  // The reference stops at the first unknown character when there is no unk_id.
  unigram.unknown_id =
      static_cast<TokenId>(model.require_int("unk_id", 0, std::ssize(unigram.scores) - 1));
  return unigram;
}

void parse_added_tokens(const JsonObject& document, PipelineSpec& spec) {
  for (const JsonObject& object : document.get_objects("added_tokens")) {
    const auto id = static_cast<TokenId>(object.require_int("id", 0, kMaxTokenId));
    add_token(spec, read_added_token(object, id), object.name());
  }
}

}  // namespace

void parse_bpe_vocabulary(std::string_view json, const std::string& name, Vocabulary& vocabulary) {
  JsonStream stream(json, name, ErrorCode::kBadModel);
  vocabulary.reserve(std::min<std::size_t>(estimate_elements(json) + 1, kMaxTokenId));
  stream.begin_object();
  for (std::string key; stream.next_key(&key);) {
    insert_token(stream, vocabulary, key, static_cast<TokenId>(stream.read_int(0, kMaxTokenId)));
  }
  stream.finish();
}

void add_merge(std::string_view left, std::string_view right, const std::string& where,
               const Vocabulary& vocabulary, std::vector<BpeSpec::Merge>& merges) {
  const auto id_of = [&](std::string_view token) {
    const auto id = vocabulary.find(token);
    if (!id) {
      fail_bad_file(where + ": " + json_quote(token) + " is not in the vocabulary");
    }
    return *id;
  };
  merges.push_back({.left = id_of(left),
                    .right = id_of(right),
                    .merged = id_of(std::string(left).append(right))});
}

PipelineSpec parse_tokenizer_json(std::string_view text, const std::string& name) {
  const CutDocument cut = cut_document(text, name);
  const JsonObject document = JsonObject::parse(cut.rest, name, ErrorCode::kBadModel);
  const JsonObject model = require_model(document);
  PipelineSpec spec;
  spec.name = name;
  const std::string type = model_type(model);
  if (type == "BPE") {
    spec.model = parse_bpe(model, cut, spec);
  } else if (type == "Unigram") {
    spec.model = parse_unigram(model, cut, spec);
  } else {
    throw Error(ErrorCode::kUnavailable, model.name() + ".type: " + json_quote(type) +
                                             " is not supported by this build, which reads BPE and "
                                             "Unigram");
  }
  parse_pipeline_steps(document, spec);
  parse_added_tokens(document, spec);
  return spec;
}

std::string model_type_of_tokenizer_json(std::string_view text, const std::string& name) {
  const JsonObject document =
      JsonObject::parse(cut_document(text, name).rest, name, ErrorCode::kBadModel);
  return model_type(require_model(document));
}

void add_token(PipelineSpec& spec, AddedToken token, const std::string& where) {
  if (token.content.empty()) return;
  const auto known = spec.added_index.find(token.content);
  auto id = spec.vocabulary.find(token.content);
  if (known != spec.added_index.end()) id = spec.added_tokens[known->second].id;
  if (!id) id = std::max(static_cast<TokenId>(spec.vocabulary.size()), spec.last_added_id + 1);
  if ((token.id >= 0 && token.id != *id) || *id > kMaxTokenId) {
    fail_bad_file(where + ": the added token " + json_quote(token.content) + " has the id " +
                  std::to_string(token.id) +
                  "; by the vocabulary and the tokens before it, it is " + std::to_string(*id));
  }
  token.id = *id;
  spec.last_added_id = std::max(spec.last_added_id, *id);
  if (known == spec.added_index.end()) {
    spec.added_index.emplace(token.content, spec.added_tokens.size());
    spec.added_tokens.push_back(std::move(token));
  } else {
    AddedToken& old = spec.added_tokens[known->second];
    token.is_special = token.is_special || old.is_special;
    old = std::move(token);
  }
}

}  // namespace caption::text
