// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <queue>
#include <string>
#include <unordered_map>

#include "lockstep/data/detail/words.h"

namespace lockstep::data::detail {

namespace {

enum class Kind { space, letter, mark };

Kind kind_of(char byte) {
  const auto b = static_cast<unsigned char>(byte);
  if (b == ' ' || (b >= '\t' && b <= '\r')) return Kind::space;
  const bool letter = (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9');
  return letter || b >= 0x80 ? Kind::letter : Kind::mark;
}

// A space that another kind follows belongs to what follows.
std::size_t word_length(std::string_view text) {
  const std::size_t limit = std::min(text.size(), kMaxWord);
  std::size_t at = limit > 1 && text[0] == ' ' && kind_of(text[1]) != Kind::space ? 1 : 0;
  const Kind kind = kind_of(text[at]);
  while (at < limit && kind_of(text[at]) == kind) ++at;
  const bool leaves_space = kind == Kind::space && at > 1 && at < text.size() &&
                            text[at - 1] == ' ' && kind_of(text[at]) != Kind::space;
  return leaves_space ? at - 1 : at;
}

// The corpus as its different words, how often each is there and which tokens it has now.
struct Word {
  std::vector<std::int64_t> tokens;
  std::int64_t count;
};

std::vector<Word> count_words(std::string_view corpus) {
  std::unordered_map<std::string_view, std::int64_t> counts;
  for (std::string_view word : split_words(corpus)) ++counts[word];
  std::vector<Word> words;
  for (const auto& [text, count] : counts) {
    words.push_back({{}, count});
    for (char byte : text) words.back().tokens.push_back(static_cast<unsigned char>(byte));
  }
  return words;
}

// How often each pair stands in the corpus, kept true from merge to merge by looking only at the
// words that have the pair. Sums and sets of words do not depend on the words' order.
class PairCounts {
 public:
  explicit PairCounts(std::vector<Word> words) : words_(std::move(words)) {
    for (std::size_t i = 0; i < words_.size(); ++i) change(i, 1);
    for (const auto& [key, pair] : pairs_) heap_.push({pair.count, key});
  }

  // The most frequent pair's key, of several the smallest; kNone when none is there twice.
  std::uint64_t best() {
    while (!heap_.empty()) {
      const Entry top = heap_.top();
      if (pairs_[top.key].count == top.count) return top.count >= 2 ? top.key : kNone;
      heap_.pop();
    }
    return kNone;
  }

  void join(std::uint64_t key, std::int64_t token) {
    std::vector<std::size_t> words = std::move(pairs_[key].words);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    changed_.clear();
    for (std::size_t word : words) {
      change(word, -1);
      join_pair(words_[word].tokens, {key >> 32, key & 0xffffffff}, token);
      change(word, 1);
    }
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (std::uint64_t pair : changed_) heap_.push({pairs_[pair].count, pair});
  }

  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

 private:
  struct Pair {
    std::int64_t count = 0;
    std::vector<std::size_t> words;  // that had it at some time
  };
  struct Entry {
    std::int64_t count;
    std::uint64_t key;
    bool operator<(const Entry& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };

  // Adds the word's pairs, or takes them away.
  void change(std::size_t word, std::int64_t sign) {
    const std::vector<std::int64_t>& tokens = words_[word].tokens;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const std::uint64_t key = pair_key(tokens[i], tokens[i + 1]);
      Pair& pair = pairs_[key];
      pair.count += sign * words_[word].count;
      if (sign > 0) pair.words.push_back(word);
      changed_.push_back(key);
    }
  }

  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Pair> pairs_;
  std::vector<std::uint64_t> changed_;
  std::priority_queue<Entry> heap_;
};

}  // namespace

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    words.push_back(text.substr(0, word_length(text)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

void join_pair(std::vector<std::int64_t>& tokens, const TokenPair& pair, std::int64_t token) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < tokens.size(); ++from) {
    const bool here =
        from + 1 < tokens.size() && tokens[from] == pair.first && tokens[from + 1] == pair.second;
    tokens[to++] = here ? token : tokens[from];
    from += here ? 1 : 0;
  }
  tokens.resize(to);
}

std::vector<TokenPair> train_merges(std::string_view corpus, std::int64_t count) {
  PairCounts pairs(count_words(corpus));
  std::vector<TokenPair> merges;
  while (static_cast<std::int64_t>(merges.size()) < count) {
    const std::uint64_t key = pairs.best();
    if (key == PairCounts::kNone) break;
    pairs.join(key, 256 + static_cast<std::int64_t>(merges.size()));
    merges.emplace_back(key >> 32, key & 0xffffffff);
  }
  return merges;
}

}  // namespace lockstep::data::detail
