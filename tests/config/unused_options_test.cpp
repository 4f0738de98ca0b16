// Which options of a command line have no effect beside the others.
#include "config/unused_options.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace caption::config {
namespace {

TEST_SUITE("config/unused_options") {
  TEST_CASE("an option that cannot have an effect is named with the reason") {
    struct Row {
      std::vector<Override> flags;  // applied in this order; the first is the one asked about
      RunFacts facts = {};
      std::string expected = {};  // end of the line about the option; empty: the option counts
    };
    const Override beams = {"generation.num_beams", "2", "--num-beams"};
    const Override warm = {"generation.temperature", "0.5", "--temperature"};
    const Override no_pages = {"engine.prefix_cache", "false", "--prefix-cache"};
    const RunFacts gpu = {.device = Device::cuda(0)};
    const std::vector<Row> rows = {
        {{{"generation.top_p", "0.5", "--top-p"}}, {}, "at --temperature 0"},
        {{{"generation.top_p", "0.5", "--top-p"}, warm}},
        {{{"generation.top_k", "3", "--top-k"}}, {}, "at --temperature 0"},
        {{{"generation.top_k", "3", "--top-k"}, warm}},
        {{{"generation.seed", "3", "--seed"}}, {}, "at --temperature 0"},
        {{{"generation.seed", "3", "--seed"}, warm}},
        {{{"generation.length_penalty", "2", "--length-penalty"}}, {}, "with --num-beams 1"},
        {{{"generation.length_penalty", "2", "--length-penalty"}, beams}},
        {{{"generation.early_stopping", "true", "--early-stopping"}}, {}, "with --num-beams 1"},
        {{{"generation.early_stopping", "true", "--early-stopping"}, beams}},
        {{{"engine.attention_threshold", "0.1", "--attention-threshold"},
          {"engine.attention", "topk-merge", "--attention"}},
         {},
         "without --attention squeezed"},
        {{{"engine.attention_threshold", "0.1", "--attention-threshold"},
          {"engine.attention", "squeezed", "--attention"}}},
        {{{"engine.attention_keep_tokens", "64", "--attention-keep-tokens"}},
         {},
         "without --attention topk-merge"},
        {{{"engine.attention_keep_tokens", "64", "--attention-keep-tokens"},
          {"engine.attention", "topk-merge", "--attention"}}},
        {{{"engine.kv_host_bytes", "1GiB", "--kv-host-bytes"}}, {}, "with --device cpu"},
        {{{"engine.kv_host_bytes", "1GiB", "--kv-host-bytes"}, no_pages},
         gpu,
         "with --prefix-cache false"},
        {{{"engine.kv_host_bytes", "1GiB", "--kv-host-bytes"}}, gpu},
        {{{"engine.kv_cache_dir_bytes", "1GiB", "--kv-cache-dir-bytes"}},
         {},
         "without --kv-cache-dir"},
        {{{"engine.kv_cache_dir_bytes", "1GiB", "--kv-cache-dir-bytes"},
          {"engine.kv_cache_dir", "cache", "--kv-cache-dir"}}},
        {{{"device.memory_utilization", "0.4", "--memory-utilization"},
          {"engine.kv_cache_bytes", "1GiB", "--kv-cache-bytes"}},
         {},
         "on the KV pages, whose size --kv-cache-bytes gives"},
        {{{"device.memory_utilization", "0.4", "--memory-utilization"}}},
        {{{"engine.kv_cache_bytes", "1GiB", "--kv-cache-bytes"}}},
        {{{"quantization.requantize", "true", "--requantize"}}},
        {{{"quantization.requantize", "true", "--requantize"}},
         {.rounds_codes = false},
         "with this --model and --dtype, which round no codes a second time"},
        {{{"quantization.requantize", "false", "--requantize"}}, {.rounds_codes = false}},
        {{{"generation.num_logprobs", "1", "--logprobs"}},
         {.is_jsonl = false},
         "in records of csv and txt"},
        {{{"generation.num_logprobs", "1", "--logprobs"}}},
        {{{"speculative.method", "archive", "--drafts"}, beams}, {}, "on beams"},
        {{{"speculative.method", "none", "--drafts"}, beams}},
        {{{"speculative.method", "archive", "--drafts"}}},
        {{beams}},
    };
    for (const Row& row : rows) {
      Preset preset;
      for (const Override& flag : row.flags) {
        CAPTURE(flag.source + " " + flag.value);
        apply_override(preset, flag);
      }
      std::vector<std::string> expected;
      const std::string& option = row.flags.front().source;
      if (!row.expected.empty()) expected = {option + " has no effect " + row.expected};
      CAPTURE(option);
      CHECK(describe_unused(preset, row.flags, row.facts) == expected);
    }
  }

  TEST_CASE("what a preset sets is not told") {
    Preset preset;
    preset.generation.top_p = 0.5;
    CHECK(describe_unused(preset, {}, {}).empty());
  }
}

}  // namespace
}  // namespace caption::config
