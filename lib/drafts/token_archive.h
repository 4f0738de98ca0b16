// drafts/token_archive.h: which tokens followed a context in the texts of an archive.
//
// Texts are sequences of token ids. All their positions are kept in the order of the tokens before
// them, read backwards: the suffix array of the reversed texts (Manber and Myers, SIAM J. Comput.
// 1993), with the numbers of tokens that neighbours share. A hash table has the range of that order
// that a context has, for as many contexts as leave few positions to compare, and another one what
// follows the contexts of many positions, so that a look-up reads few cache lines, most of them at
// the same time. The arrays are runs of growing size, of which similar ones are merged, as in a
// log-structured merge tree (O'Neil et al., Acta Informatica 1996), so that a text is added in
// O(log n) amortised steps per token. Large runs are merged in pieces, one with each text that is
// added, and read until the merged run is complete: no text takes long. They take 21 bytes per
// token and 4 per text, at most 32 for the first table and at most 6 for the second: less than 64.
//
// The longest context is often that of one text, whose next token says little; a shorter one that
// many texts have can say more (the back-off of Katz, IEEE Trans. ASSP 1987, between n-grams).
//
// Archives of captions for drafts: Oliaro et al. (SuffixDecoding), arXiv:2411.04975, count in a
// suffix tree; He et al. (REST), arXiv:2311.08252, search a suffix array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

namespace caption::drafts {

// A token that may come next, and what speaks for it.
struct Guess {
  std::int32_t token = 0;
  std::int32_t match_length = 0;  // tokens of context before it that equal the archive's
  std::int32_t count = 0;         // places where it follows them, of those looked at
  std::int32_t total = 0;         // places that were looked at, >= count
};

struct TokenRun;

// Thread-safe.
class TokenArchive {
 public:
  // Holds at most max_bytes, and as many again while texts are merged. Before they are full, the
  // oldest half of the texts is forgotten.
  explicit TokenArchive(std::int64_t max_bytes);
  ~TokenArchive();
  TokenArchive(const TokenArchive&) = delete;
  TokenArchive& operator=(const TokenArchive&) = delete;

  // Ids are >= 0. An empty text is ignored, and so is one that could not be held alone. guess()
  // does not wait while texts are merged, nor does another add(): its text is then held by a later
  // one. Takes at most some 1 ms and 20 us per token, whatever the archive holds, but for texts
  // that come faster than the oldest are forgotten.
  void add(std::span<const std::int32_t> text);

  // Goes on for some 1 ms with the merges that add() has begun, of which each later add() would
  // compute a part; returns whether any is left. To be called after many texts were added, while
  // nobody waits. Other threads may call guess() and add() meanwhile, as during an add().
  bool merge_on();

  // Replaces `guesses` by at most `most` tokens that may follow `text`, the beginning of another
  // text, possibly empty: the most frequent next token after the longest context that is known,
  // of up to 24 tokens, then the most frequent one after both, and so on while a text that was
  // looked at goes on. Looks at all places of the context, if there are fewer than kFrequent, and
  // otherwise at those in one run, that which has the most of them: at all, or at 48 of them,
  // evenly spaced.
  void guess(std::span<const std::int32_t> text, std::int64_t most,
             std::vector<Guess>& guesses) const;
  // Besides, replaces `frequent` by the guesses after the longest context that at least kFrequent
  // places have, where the longest known one has fewer places; it is empty where that one has as
  // many, or where no context has.
  void guess(std::span<const std::int32_t> text, std::int64_t most, std::vector<Guess>& guesses,
             std::vector<Guess>& frequent) const;

  static constexpr std::size_t kFrequent = 16;

  std::int64_t num_tokens() const;
  std::int64_t size_bytes() const;

 private:
  // Makes one run of one or two.
  struct Rebuild;

  std::int64_t bytes_of_runs() const;
  bool is_read(std::size_t run) const;  // whether a rebuild reads the run
  // Puts `run` in the place of `count` runs from `first` on; without any text, nothing.
  void replace(std::size_t first, std::size_t count, TokenRun run);
  void forget_half();
  void make_room(std::int64_t num_new);
  void append(TokenRun run);
  void start_rebuilds();
  // Goes on with all rebuilds.
  void rebuild(std::int64_t steps_of_each);
  // Frees an array of a run that was replaced: all at once would take milliseconds.
  void free_array();
  // `frequent` may be null.
  void find_guesses(std::span<const std::int32_t> text, std::int64_t most,
                    std::vector<Guess>& guesses, std::vector<Guess>* frequent) const;

  const std::int64_t max_bytes_;
  std::mutex writing_;               // held by who changes runs_ and rebuilds_
  mutable std::shared_mutex mutex_;  // held besides while runs_ is changed, and by who reads them
  std::vector<TokenRun> runs_;       // sorted from the oldest, which is the longest, on
  std::list<Rebuild> rebuilds_;
  std::vector<TokenRun> replaced_;  // not freed yet
  std::mutex waiting_mutex_;
  std::vector<TokenRun> waiting_;  // texts that were added while another was merged
};

}  // namespace caption::drafts
