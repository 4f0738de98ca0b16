// Random schedules with drafts, branches, preemptions, cancellations and shared prefixes: budgets
// are never exceeded, pages are conserved, tokens are computed in order and once (except after a
// preemption), a sequence reads only its own tokens, a page that the prefix cache or the tier knows
// holds the prompt's tokens that its hash stands for and never a draft in their place, and every
// sequence ends.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "scheduler/scheduler.h"

namespace caption::scheduler {
namespace {

// Represents a token's K and V.
using Tag = std::uint64_t;
using PageTags = std::array<Tag, kv::kPageTokens>;

Tag prompt_tag(std::int64_t family, std::int64_t token) {
  return static_cast<Tag>(family * 1'000 + token);
}

// The tokens that content hashes stand for: those of a page, or the first ones of it.
using Contents = std::map<Hash128, std::vector<Tag>>;

void expect(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);  // far cheaper than a REQUIRE per step
}

// The contents of the pages, and a tier of two that sometimes have lost what was stored: the disk
// is given complete pages, the host's memory evicted ones.
class Memory final : public kv::PageTier {
 public:
  Memory(std::int64_t num_pages, std::mt19937_64& rng, const Contents& contents)
      : pages_(static_cast<std::size_t>(num_pages)), rng_(rng), contents_(contents) {}

  Tag& at(std::int32_t slot) {
    return pages_[static_cast<std::size_t>(slot / kv::kPageTokens)]
                 [static_cast<std::size_t>(slot % kv::kPageTokens)];
  }
  void copy(const kv::PageCopy& copy) { page(copy.to) = page(copy.from); }
  bool holds(kv::PageId id, const std::vector<Tag>& tags) {
    return std::equal(tags.begin(), tags.end(), page(id).begin());
  }

  void store(const Hash128& content, kv::PageId id) override {
    expect(holds(id, contents_.at(content)), "the tier gets other tokens than the hash's");
    on_disk_[content] = page(id);
  }
  void evict(const kv::KnownPage& known) override {
    expect(holds(known.page, contents_.at(known.content)), "an evicted page has other tokens");
    in_memory_[known.content] = page(known.page);
    if (known.part.has_value()) in_memory_[*known.part] = page(known.page);
  }
  kv::TierHit restore(const Hash128& content, kv::PageId id) override {
    page(id).fill(0);
    if (restore_from(in_memory_, content, id)) return kv::TierHit::kHostMemory;
    return restore_from(on_disk_, content, id) ? kv::TierHit::kDisk : kv::TierHit::kNone;
  }

 private:
  using Kept = std::map<Hash128, PageTags>;

  PageTags& page(kv::PageId id) { return pages_[static_cast<std::size_t>(id)]; }
  bool restore_from(Kept& kept, const Hash128& content, kv::PageId id) {
    if (rng_() % 4 == 0) kept.erase(content);
    const auto found = kept.find(content);
    if (found == kept.end()) return false;
    page(id) = found->second;
    return true;
  }

  std::vector<PageTags> pages_;
  Kept on_disk_;
  Kept in_memory_;
  std::mt19937_64& rng_;
  const Contents& contents_;
};

// The test's model of a sequence, independent of the scheduler's state.
struct Expected {
  std::vector<Tag> prompt;
  std::vector<std::vector<Tag>> outputs;  // indexed by branch; one until the first fork
  std::int32_t num_branches = 1;
  PromptEnd prompt_end = PromptEnd::kPlain;
  std::int64_t num_wanted = 0;  // number of tokens after which the sequence ends
  std::int64_t most_slots = 0;  // tokens that the sequence may ever have in its pages
  std::vector<Tag> drafts;      // offered for the step
  std::int64_t num_computed = 0;
  std::int64_t num_saved = 0;

  Tag tag(std::int32_t branch, std::int64_t token) const {
    const auto idx = static_cast<std::size_t>(token);
    if (idx < prompt.size()) return prompt[idx];
    const std::vector<Tag>& output = outputs[static_cast<std::size_t>(branch)];
    if (idx - prompt.size() < output.size()) return output[idx - prompt.size()];
    return drafts[idx - prompt.size() - output.size()];
  }
  std::int64_t num_known() const { return std::ssize(prompt) + std::ssize(outputs[0]); }
  void start_again() {
    num_computed = 0;
    num_saved = 0;
    if (num_branches > 1) outputs.assign(1, {});
  }
};

class Simulation {
 public:
  Simulation(const SchedulerOptions& options, std::int64_t num_pages, unsigned seed)
      : options_(options),
        rng_(seed),
        has_tier_(rng_() % 2 == 0),
        pool_(num_pages),
        memory_(num_pages, rng_, contents_),
        scheduler_(options, pool_, has_tier_ ? &memory_ : nullptr) {}

  void submit() {
    const std::int64_t most = pool_.num_pages() * kv::kPageTokens;
    SequenceSpec spec;
    spec.id = SequenceId{next_id_++};
    spec.num_prompt_tokens = 1 + uniform(std::min<std::int64_t>(most - 1, 60));
    spec.max_new_tokens = 1 + uniform(std::min<std::int64_t>(most - spec.num_prompt_tokens, 160));
    spec.priority = static_cast<std::int32_t>(uniform(4));
    if (uniform(3) == 0) spec.num_branches = static_cast<std::int32_t>(1 + uniform(4));
    // Half of the prompts start with one of two texts and share it up to their length.
    const bool is_shared = uniform(2) == 0;
    const std::int64_t family = is_shared ? 1 + uniform(2) : 10 + next_id_;
    // Half of these diverge from the text at a position inside a page.
    const std::int64_t part_end = 16 + 7 * family;
    const bool goes_on_alone = is_shared && uniform(2) == 0;
    const std::int64_t last_family = goes_on_alone ? 10 + next_id_ : family;
    Expected expected;
    for (std::int64_t t = 0; t < spec.num_prompt_tokens; ++t) {
      expected.prompt.push_back(prompt_tag(t < part_end ? family : last_family, t));
    }
    // shrink() writes to the pages, so they must not be shared; and it needs full attention.
    const bool may_shrink = !is_shared && options_.window_tokens == 0;
    if (may_shrink && uniform(3) == 0) spec.prompt_end = PromptEnd::kOwnStep;
    expected.prompt_end = spec.prompt_end;
    if (is_shared) {
      for (std::int64_t i = 0; i < spec.num_prompt_tokens / kv::kPageTokens; ++i) {
        const std::int64_t of = (i + 1) * kv::kPageTokens <= part_end ? family : last_family;
        spec.prompt_pages.push_back(
            {static_cast<std::uint64_t>(of), static_cast<std::uint64_t>(i)});
        const auto page = expected.prompt.begin() + i * kv::kPageTokens;
        contents_[spec.prompt_pages.back()].assign(page, page + kv::kPageTokens);
      }
      if (part_end <= spec.num_prompt_tokens) {
        spec.prompt_part = {.content = {static_cast<std::uint64_t>(family), 1'000},
                            .num_tokens = part_end};
        contents_[spec.prompt_part.content].assign(
            expected.prompt.begin() + spec.prompt_part.page() * kv::kPageTokens,
            expected.prompt.begin() + part_end);
      }
    }
    expected.num_branches = spec.num_branches;
    expected.outputs.resize(1);
    expected.num_wanted = 1 + uniform(spec.max_new_tokens);
    expected.most_slots = spec.num_prompt_tokens + spec.max_new_tokens - 1;
    const SequenceId id = spec.id;
    try {
      scheduler_.submit(std::move(spec));
    } catch (const Error&) {
      expect(expected.num_branches > 1, "a sequence that fits was refused");
      return;
    }
    sequences_[id] = std::move(expected);
  }

  void cancel() {
    if (sequences_.empty()) return;
    const auto chosen = std::next(sequences_.begin(), uniform(std::ssize(sequences_)));
    scheduler_.finish(chosen->first);
    sequences_.erase(chosen);
  }

  void step(bool fails) {
    offer_drafts();
    const StepPlan& plan = scheduler_.plan();
    for (const SequenceId id : plan.preempted) sequences_.at(id).start_again();
    for (const kv::PageCopy& copy : plan.copies) memory_.copy(copy);
    check_plan(plan);
    if (fails) return;
    compute(plan);
    scheduler_.commit();
    // Branches are adjacent in the plan, so only the last one of a sequence is examined.
    for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
      const PlannedSequence& planned = plan.sequences[i];
      const bool is_last_branch =
          i + 1 == plan.sequences.size() || plan.sequences[i + 1].id != planned.id;
      if (!is_last_branch) continue;
      Expected& sequence = sequences_.at(planned.id);
      sequence.num_computed += planned.num_tokens - planned.num_drafts;
      if (sequence.prompt_end == PromptEnd::kOwnStep &&
          sequence.num_computed == std::ssize(sequence.prompt) && sequence.num_saved == 0) {
        // Models compression: the last two thirds of the slots are kept and move to the front.
        sequence.num_saved = sequence.num_computed / 3;
        const kv::PageTable& pages = scheduler_.pages_of(planned.id);
        for (std::int64_t t = sequence.num_saved; t < sequence.num_computed; ++t) {
          memory_.at(pages.slot(t - sequence.num_saved)) = sequence.tag(0, t);
        }
        scheduler_.shrink(planned.id, sequence.num_computed - sequence.num_saved);
        ++num_shrunk_;
      }
      if (planned.is_last_known) choose_tokens(planned.id, planned.num_drafts);
    }
    if (uniform(32) == 0) check_contents();
  }

  void check() const { scheduler_.check_invariants(); }
  bool idle() const { return sequences_.empty(); }
  std::int64_t uniform(std::int64_t bound) {
    return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(bound));
  }
  std::int64_t num_free_pages() const { return pool_.num_free(); }
  std::int64_t num_preemptions() const { return num_preemptions_; }
  std::int64_t num_copies() const { return num_copies_; }
  std::int64_t num_shrunk() const { return num_shrunk_; }
  std::int64_t num_parts() const { return num_parts_; }
  std::int64_t num_released() const { return num_released_; }
  std::int64_t num_accepted() const { return num_accepted_; }
  std::int64_t num_refused() const { return num_refused_; }
  std::int64_t num_dropped() const { return num_dropped_; }
  std::int64_t num_contents() const { return num_contents_; }
  std::int64_t num_after_prompts() const { return num_after_prompts_; }
  const PrefixStats& prefix_stats() const { return scheduler_.prefix_stats(); }

 private:
  void offer_drafts() {
    const bool offers = uniform(4) != 0;
    for (auto& [id, sequence] : sequences_) {
      sequence.drafts.clear();
      if (!offers || !scheduler_.can_draft(id) || uniform(3) == 0) continue;
      offer(id, uniform(uniform(8) == 0 ? 40 : 9));
    }
    for (const SequenceId id : scheduler_.may_end_prompt()) {
      expect(!scheduler_.can_draft(id), "a sequence decodes and ends its prompt");
      if (offers && uniform(3) != 0) offer(id, uniform(40));
    }
  }

  // Every draft is a token that nothing else has: a right one becomes part of the output.
  void offer(SequenceId id, std::int64_t count) {
    Expected& sequence = sequences_.at(id);
    for (std::int64_t i = 0; i < count; ++i) sequence.drafts.push_back(next_tag_++);
    scheduler_.propose(id, count);
  }

  // What the prefix cache finds under a hash holds the tokens that the hash stands for.
  void check_contents() {
    for (const auto& [content, tags] : contents_) {
      const std::optional<kv::PageId> page = pool_.find(content);
      if (!page.has_value()) continue;
      expect(memory_.holds(*page, tags), "a page holds other tokens than its hash's");
      ++num_contents_;
    }
  }

  void check_plan(const StepPlan& plan) {
    num_preemptions_ += std::ssize(plan.preempted);
    num_copies_ += std::ssize(plan.copies);
    std::int64_t num_tokens = 0;
    std::int64_t num_drafts = 0;
    std::map<SequenceId, std::int32_t> num_branches;
    for (const PlannedSequence& planned : plan.sequences) {
      Expected& sequence = sequences_.at(planned.id);
      const std::int64_t num_known = sequence.num_known();
      const std::int64_t end = planned.first_token + planned.num_tokens - planned.num_drafts;
      if (sequence.num_computed == 0) {  // just admitted; a prefix may have been found
        if (planned.first_token % kv::kPageTokens != 0) ++num_parts_;
        expect(planned.first_token == scheduler_.cached_tokens_of(planned.id), "a gap");
        sequence.num_computed = planned.first_token;
      }
      expect(planned.num_tokens > planned.num_drafts, "nothing to compute");
      expect(planned.num_drafts <= std::ssize(sequence.drafts) &&
                 (planned.num_drafts == 0 || end == num_known) &&
                 end + planned.num_drafts <= sequence.most_slots,
             "drafts that nobody offered, or beyond the longest output");
      expect(planned.num_drafts == 0 || plan.preempted.empty(), "pages of others went to drafts");
      num_dropped_ += std::ssize(sequence.drafts) - planned.num_drafts;
      num_drafts += planned.num_drafts;
      if (planned.num_tokens - planned.num_drafts > 1) num_after_prompts_ += planned.num_drafts;
      expect(planned.first_token == sequence.num_computed, "tokens skipped or computed twice");
      expect(end <= num_known, "unknown tokens planned");
      expect(planned.is_last_known == (end == num_known), "logits wanted of the wrong step");
      const auto num_prompt = std::ssize(sequence.prompt);
      expect(planned.num_saved == sequence.num_saved, "slots of another size");
      expect(scheduler_.pages_of(planned.id, planned.branch).num_tokens() ==
                 end + planned.num_drafts - planned.num_saved,
             "no page for a planned token");
      const bool ends_alone = sequence.prompt_end == PromptEnd::kOwnStep;
      expect(!ends_alone || planned.first_token >= num_prompt || end <= num_prompt,
             "a step on both sides of the prompt's end");
      expect(options_.prefill == PrefillMode::kChunked || end == num_known ||
                 (ends_alone && end == num_prompt),
             "a prompt was split");
      expect(planned.branch == num_branches[planned.id]++, "branches are not side by side");
      const kv::PageTable& pages = scheduler_.pages_of(planned.id, planned.branch);
      const std::int64_t num_seen = planned.first_token - options_.window_tokens + 1;
      expect(pages.num_released() ==
                 (options_.window_tokens == 0 || num_seen < 0 ? 0 : num_seen / kv::kPageTokens),
             "pages before the window were kept, or pages in it released");
      num_released_ += pages.num_released();
      num_tokens += planned.num_tokens;
    }
    for (const auto& [id, count] : num_branches) {
      expect(count == std::ssize(sequences_.at(id).outputs), "some of the branches run alone");
    }
    expect(num_tokens == plan.num_tokens, "the sum of the tokens is off");
    expect(num_drafts <= options_.max_drafts_per_step, "more drafts than a step may have");
    expect(std::ssize(plan.sequences) <= options_.max_num_seqs, "too many sequences");
    expect(num_tokens <= options_.max_num_batched_tokens ||
               (options_.prefill == PrefillMode::kWhole && plan.sequences.size() == 1),
           "too many tokens");
    expect(plan.preempted.empty() || options_.mode == BatchMode::kContinuous,
           "a static preemption");
    expect(sequences_.empty() || !plan.sequences.empty(), "no progress");
  }

  // Writes the planned tokens; sometimes reads all tokens before them.
  void compute(const StepPlan& plan) {
    for (const PlannedSequence& planned : plan.sequences) {
      const Expected& sequence = sequences_.at(planned.id);
      const kv::PageTable& pages = scheduler_.pages_of(planned.id, planned.branch);
      for (std::int64_t t = 0; t < planned.num_tokens; ++t) {
        const std::int64_t token = planned.first_token + t;
        memory_.at(pages.slot(token - planned.num_saved)) = sequence.tag(planned.branch, token);
      }
    }
    if (uniform(8) != 0) return;
    for (const PlannedSequence& planned : plan.sequences) {
      const Expected& sequence = sequences_.at(planned.id);
      const kv::PageTable& pages = scheduler_.pages_of(planned.id, planned.branch);
      // The first token of the step sees the earliest ones.
      const std::int64_t window = options_.window_tokens;
      const std::int64_t first = window == 0 ? 0 : planned.first_token - window + 1;
      for (std::int64_t slot = std::max<std::int64_t>(first, 0); slot < pages.num_tokens();
           ++slot) {
        expect(
            memory_.at(pages.slot(slot)) == sequence.tag(planned.branch, slot + planned.num_saved),
            "a sequence reads what is not its own");
      }
    }
  }

  // The first drafts of a random number are right.
  void choose_tokens(SequenceId id, std::int64_t num_drafts) {
    Expected& sequence = sequences_.at(id);
    const std::int64_t num_right = uniform(num_drafts + 1);
    num_accepted_ += num_right;
    num_refused_ += num_drafts - num_right;
    if (std::ssize(sequence.outputs[0]) + num_right + 1 >= sequence.num_wanted) {
      scheduler_.finish(id);
      sequences_.erase(id);
      return;
    }
    if (sequence.num_branches == 1) {
      std::vector<Tag>& output = sequence.outputs[0];
      output.insert(output.end(), sequence.drafts.begin(), sequence.drafts.begin() + num_right);
      output.push_back(next_tag_++);
      sequence.num_computed += num_right;
      sequence.drafts.clear();
      return scheduler_.append_tokens(id, num_right + 1);
    }
    std::vector<std::int32_t> parents;
    std::vector<std::vector<Tag>> outputs;
    for (std::int32_t i = 0; i < sequence.num_branches; ++i) {
      parents.push_back(static_cast<std::int32_t>(uniform(std::ssize(sequence.outputs))));
      outputs.push_back(sequence.outputs[static_cast<std::size_t>(parents.back())]);
      outputs.back().push_back(next_tag_++);
    }
    sequence.outputs = std::move(outputs);
    scheduler_.fork(id, parents);
  }

  const SchedulerOptions options_;
  std::mt19937_64 rng_;
  const bool has_tier_;
  kv::PagePool pool_;
  Contents contents_;
  Memory memory_;
  Scheduler scheduler_;
  std::map<SequenceId, Expected> sequences_;
  std::int64_t next_id_ = 0;
  Tag next_tag_ = 1'000'000'000;
  std::int64_t num_preemptions_ = 0;
  std::int64_t num_copies_ = 0;
  std::int64_t num_shrunk_ = 0;
  std::int64_t num_parts_ = 0;          // found prefixes that end inside a page
  std::int64_t num_released_ = 0;       // entries of released pages in all steps
  std::int64_t num_accepted_ = 0;       // drafts
  std::int64_t num_refused_ = 0;        // drafts that were computed and wrong
  std::int64_t num_dropped_ = 0;        // drafts for which a step had no tokens or pages
  std::int64_t num_contents_ = 0;       // pages found under a hash and compared
  std::int64_t num_after_prompts_ = 0;  // drafts in steps that end a prompt
};

SchedulerOptions random_options(std::mt19937_64& rng) {
  SchedulerOptions options;
  options.mode = rng() % 4 == 0 ? BatchMode::kStatic : BatchMode::kContinuous;
  options.prefill = rng() % 2 == 0 ? PrefillMode::kChunked : PrefillMode::kWhole;
  options.max_num_seqs = 1 + static_cast<std::int64_t>(rng() % 12);
  options.max_num_batched_tokens = 1 + static_cast<std::int64_t>(rng() % 70);
  options.ageing_steps = 1 + static_cast<std::int64_t>(rng() % 100);
  if (rng() % 2 == 0) options.max_drafts_per_step = static_cast<std::int64_t>(rng() % 60);
  if (rng() % 3 == 0) options.window_tokens = 1 + static_cast<std::int64_t>(rng() % 60);
  return options;
}

TEST_SUITE("scheduler/properties") {
  TEST_CASE("a million random operations keep every invariant, and then every sequence ends") {
    std::mt19937_64 rng(4);
    std::int64_t num_operations = 0;
    std::int64_t num_preemptions = 0;
    std::int64_t num_copies = 0;
    std::int64_t num_shrunk = 0;
    std::int64_t num_parts = 0;
    std::int64_t num_released = 0;
    std::int64_t num_accepted = 0;
    std::int64_t num_refused = 0;
    std::int64_t num_dropped = 0;
    std::int64_t num_contents = 0;
    std::int64_t num_after_prompts = 0;
    PrefixStats prefix;
    for (unsigned seed = 0; seed < 500; ++seed) {
      CAPTURE(seed);
      const auto num_pages = static_cast<std::int64_t>(2 + rng() % 30);
      Simulation simulation(random_options(rng), num_pages, seed);
      for (int i = 0; i < 2000; ++i) {
        const std::int64_t kind = simulation.uniform(10);
        if (kind == 0) {
          simulation.submit();
        } else if (kind == 1 && simulation.uniform(4) == 0) {
          simulation.cancel();
        } else {
          simulation.step(/*fails=*/kind == 2);
        }
        simulation.check();
        ++num_operations;
      }
      int num_steps = 0;
      while (!simulation.idle()) {
        REQUIRE(++num_steps < 100'000);
        simulation.step(/*fails=*/false);
      }
      CHECK(simulation.num_free_pages() == num_pages);
      num_preemptions += simulation.num_preemptions();
      num_copies += simulation.num_copies();
      num_shrunk += simulation.num_shrunk();
      num_parts += simulation.num_parts();
      num_released += simulation.num_released();
      num_accepted += simulation.num_accepted();
      num_refused += simulation.num_refused();
      num_dropped += simulation.num_dropped();
      num_contents += simulation.num_contents();
      num_after_prompts += simulation.num_after_prompts();
      prefix.hit_tokens += simulation.prefix_stats().hit_tokens;
      prefix.host_tokens += simulation.prefix_stats().host_tokens;
      prefix.disk_tokens += simulation.prefix_stats().disk_tokens;
    }
    CHECK(num_operations == 1'000'000);
    // Checks that the schedules did preempt, branch and share.
    CHECK(num_preemptions > 1'000);
    CHECK(num_copies > 10'000);
    CHECK(num_parts > 1'000);
    CHECK(num_shrunk > 1'000);
    CHECK(num_released > 10'000);
    CHECK(num_accepted > 100'000);
    CHECK(num_refused > 100'000);
    CHECK(num_dropped > 10'000);
    CHECK(num_contents > 100'000);
    CHECK(num_after_prompts > 100'000);
    CHECK(prefix.hit_tokens > 100'000);
    CHECK(prefix.host_tokens > 10'000);
    CHECK(prefix.disk_tokens > 10'000);
    MESSAGE("preemptions ", num_preemptions, ", copies ", num_copies, ", prefix hits ",
            prefix.hit_tokens, " tokens, of these from memory ", prefix.host_tokens, ", from disk ",
            prefix.disk_tokens, ", drafts accepted ", num_accepted, ", refused ", num_refused,
            ", dropped ", num_dropped, ", computed after prompts ", num_after_prompts,
            ", hashed pages compared ", num_contents);
  }

  TEST_CASE("ten thousand queued sequences finish") {
    Simulation simulation({.max_num_seqs = 16, .max_num_batched_tokens = 64}, 100, 1);
    for (int i = 0; i < 10'000; ++i) simulation.submit();
    std::int64_t num_steps = 0;
    while (!simulation.idle()) {
      REQUIRE(++num_steps < 1'000'000);
      simulation.step(/*fails=*/false);
    }
    CHECK(simulation.num_free_pages() == 100);
  }
}

}  // namespace
}  // namespace caption::scheduler
