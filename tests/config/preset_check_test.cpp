// Tests that presets are held against their plans: the program's own agree, and every kind of
// contradiction is found.
#include "config/preset_check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/load_preset.h"
#include "plan/cards.h"

namespace caption::config {
namespace {

namespace fs = std::filesystem;

Machine small_machine() {
  Machine machine;
  machine.cpu_model = "a small machine";
  machine.num_cpus = 2;
  machine.memory_bytes = 2LL << 30;
  return machine;
}

std::string preset_text(const std::string& name) {
  std::ifstream file(fs::path(CAPTION_SOURCE_DIR) / "presets" / (name + ".yaml"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Checks `text` as a preset of this name.
std::vector<std::string> contradictions(const std::string& name, const std::string& text) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "preset_check";
  fs::create_directories(folder);
  const fs::path path = folder / (name + ".yaml");
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  std::vector<std::string> lines = check_preset(path.string(), {}, small_machine()).contradictions;
  for (std::string& line : lines) {
    REQUIRE(line.starts_with(path.string() + ":"));
    line.erase(0, path.string().size() + 1);
  }
  return lines;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  CAPTURE(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Replaces the figure of this name.
std::string with_figure(const std::string& text, const std::string& name,
                        const std::string& figure) {
  const std::size_t at = text.find("\n#   " + name + "  ");
  CAPTURE(name);
  REQUIRE(at != std::string::npos);
  const std::size_t end = text.find('\n', at + 1);
  return text.substr(0, at) + "\n#   " + name + "  " + figure + text.substr(end);
}

// The smallest text that is a preset for a card, with the figures given.
std::string small_preset(const std::string& figures) {
  return "# Plan for t4\n" + figures +
         "device: {type: cuda}\nmodel: Qwen/Qwen3-0.6B\nquantization: {weights: bf16}\n";
}

TEST_SUITE("config/preset_check") {
  TEST_CASE("the program's presets are as planned, with every figure, on any machine") {
    int num_cards = 0;
    for (const PresetFile& file : list_presets({})) {
      CAPTURE(file.name);
      const PresetCheck check = check_preset(file.path.string(), {}, small_machine());
      CHECK(check.contradictions == std::vector<std::string>{});
      CHECK_FALSE(check.subject.empty());
      if (!plan::find_card(file.name).has_value()) continue;
      ++num_cards;
      const std::string text = preset_text(file.name);
      for (const char* name : {"may be used", "weights", "KV per token", "activations",
                               "vision activations", "KV pages", "together", "tokens", "pages",
                               "at a time", "prefill", "decode", "videos"}) {
        CAPTURE(name);
        // A figure that is wrong would be noticed.
        CHECK(contradictions(file.name, with_figure(text, name, "1 kg")).size() == 1);
      }
    }
    CHECK(num_cards == 4);  // an H200 has no preset of its own
  }

  TEST_CASE("each card is given the preset that is made for it, and an H200 that of an H100") {
    for (const std::string_view name : plan::card_names()) {
      CAPTURE(name);
      Machine machine = small_machine();
      machine.cuda_devices = {{.name = "card",
                               .compute_major = 8,
                               .compute_minor = 0,
                               .memory_bytes = plan::find_card(name)->memory_bytes}};
      const std::string_view preset = name == "h200" ? "h100" : name;
      CHECK(choose_preset(machine, true) == preset);
      CHECK(choose_preset(machine, false) == "cpu");
      CHECK(check_preset("auto", {}, machine).subject ==
            "takes " + std::string(preset) + " on this machine");
    }
  }

  TEST_CASE("a preset that gives no option a value is not as planned") {
    for (const char* text : {"", "# A comment alone.\n", "speculative:\n"}) {
      CAPTURE(text);
      const std::vector<std::string> lines = contradictions("none", text);
      REQUIRE(lines.size() == 1);
      CHECK(lines.front().starts_with(" has no keys"));
    }
    CHECK(contradictions("one", "engine: {max_num_seqs: 2}\n").empty());
  }

  TEST_CASE("options of which a run would refuse one are not as planned") {
    for (const char* option : {"temperature: 1", "num_logprobs: 0", "stop: [\"끝\"]"}) {
      CAPTURE(option);
      const std::string generation = "generation: {num_beams: 4, " + std::string(option) + "}\n";
      CHECK(contradictions("beams", generation).size() == 1);
    }
  }

  TEST_CASE("what is no file is refused with what a preset is") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "preset_check_no_file";
    fs::create_directories(folder / "a_folder");
    for (const char* name : {"a_folder", "missing.yaml"}) {
      CAPTURE(name);
      std::string message;
      try {
        check_preset((folder / name).string(), {}, small_machine());
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kBadPreset);
        message = error.what();
      }
      CHECK(message.ends_with(
          "; give a preset's YAML file, or a name that `caption-cli presets` lists"));
    }
  }

  TEST_CASE("what contradicts a plan is one line with its place and the plan's figure") {
    const std::string l4 = preset_text("l4");
    const auto says = [](const std::string& name, const std::string& text,
                         const std::string& part) {
      const std::vector<std::string> lines = contradictions(name, text);
      CAPTURE(part);
      const bool is_said = std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
        return line.find(part) != std::string::npos && line.find('\n') == std::string::npos;
      });
      CHECK(is_said);
    };
    says("l4", with_figure(l4, "weights", "6.0 GB"), "weights: the comment says \"6.0 GB\", the ");
    says("l4", with_figure(l4, "at a time", "13"),
         "at a time: the comment says \"13\", the plan 12");
    says("l4", with_figure(l4, "decode", "12"), "decode: the comment says \"12\", the plan ");
    says("l4", replaced(l4, "#   videos  ", "#   speed  "), "\"speed\" is no figure of a plan");
    says("l4", replaced(l4, "max_num_seqs: 12", "max_num_seqs: 64"), "max_num_seqs 64 cannot be ");
    says("l4", replaced(l4, "# Plan for l4", "# Plan for t4"), "its plan is for t4");
    says("l4", replaced(l4, "# Plan for l4", "# Plan for b200"), "no card is known as \"b200\"");
    says("l4", replaced(l4, "# Plan for l4", "# A plan"), "is for a card, and no comment ");
    says("mine", replaced(l4, "# Plan for l4", "# A plan"), "is for a card, and no comment ");
    says("l4", replaced(l4, "weights: awq", "weights: awq\n  double_quant: true"),
         " is for weights of nf4");
    says("l4", l4 + "speculative:\n  draft_model: Qwen/Qwen3-VL-2B-Instruct\n",
         "--drafts model guesses with it");
    says("cpu", preset_text("cpu") + "# Plan for l4\n", "has a plan for l4, and runs on the CPU");
  }

  TEST_CASE("a preset that does not fit its card or its model says so") {
    const auto all = [](const std::vector<std::string>& lines) {
      std::string text;
      for (const std::string& line : lines) text += line + "\n";
      return text;
    };
    const std::string h100 = preset_text("h100");
    const std::string in_16_bits = replaced(h100, "weights: awq", "weights: bf16");
    CHECK(all(contradictions("h100", in_16_bits)).find("one video needs 481 KV pages") !=
          std::string::npos);
    const std::string on_l4 = replaced(h100, "# Plan for h100", "# Plan for l4");
    CHECK(all(contradictions("mine", replaced(on_l4, "weights: awq", "weights: bf16")))
              .find("weights alone and those of the draft model take 71.0 GB of the 21.7 GB") !=
          std::string::npos);
    CHECK(all(contradictions("t4", replaced(preset_text("t4"), "num_frames: 8", "num_frames: 80")))
              .find("the model holds 10240; use ") != std::string::npos);
    CHECK(all(contradictions("t4", replaced(preset_text("t4"), "max_num_batched_tokens: 2048",
                                            "max_num_batched_tokens: 512")))
              .find("exceeds max_num_batched_tokens 512") != std::string::npos);
    CHECK(all(contradictions("cpu", replaced(preset_text("cpu"), "samples/demo-model",
                                             "Qwen/Qwen3-VL-8B-Instruct")))
              .find("weights alone take") != std::string::npos);
  }

  TEST_CASE("weights that the planned device does not multiply by contradict a preset") {
    const std::string fp8 = "model: Qwen/Qwen3-0.6B\nquantization: {weights: fp8}\n";
    CHECK(contradictions("own", fp8) ==
          std::vector<std::string>{
              " --dtype fp8 needs a GPU of compute capability 8.9 or later (Ada, Hopper); on the "
              "CPU use --dtype w8a8"});
    const std::string card = "device: {type: cuda}\n";
    const std::vector<std::string> on_t4 = contradictions("own", "# Plan for t4\n" + card + fp8);
    REQUIRE(on_t4.size() == 1);
    CHECK(on_t4.front().find("on a GPU of 7.5 use --dtype w8a8") != std::string::npos);
    CHECK(contradictions("own", "# Plan for l4\n" + card + fp8).empty());
  }

  TEST_CASE("a figure may have as few digits as it likes, and any unit of sizes") {
    // K and V of 28 layers with 8 heads of 128 in bf16 are 114,688 bytes.
    struct Case {
      const char* figure;
      bool is_right;
    };
    constexpr Case kCases[] = {{"114688 B", true}, {"114.7 kB", true},  {"115 kB", true},
                               {"112KiB", true},   {"0.1 MB", true},    {"0.115 MB", true},
                               {"114 kB", false},  {"114689 B", false}, {"0.12 MB", false},
                               {"114688", false},  {"-1 B", false},     {"many", false},
                               {"", false},        {"114688 KV", false}};
    for (const Case& c : kCases) {
      CAPTURE(c.figure);
      const std::string text = small_preset("#   KV per token   " + std::string(c.figure) + "\n");
      CHECK(contradictions("mine", text).empty() == c.is_right);
    }
    // Text after two spaces is free, and a line that is no figure ends the figures.
    CHECK(contradictions("mine", small_preset("#   KV per token   115 kB  9 kB of it\n# x  9 kB\n"))
              .empty());
  }

  TEST_CASE("a preset that cannot be read, or of a model that nobody knows, is an error") {
    CHECK_THROWS_AS(contradictions("mine", "device: {type: gpu}\n"), Error);
    CHECK_THROWS_AS(contradictions("mine", "model: nobody/knows\n"), Error);
    CHECK_THROWS_AS(check_preset("no-such-preset", {}, small_machine()), Error);
  }
}

}  // namespace
}  // namespace caption::config
