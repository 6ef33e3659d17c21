// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>

#include "lockstep/data/text/tokenizer.h"

namespace lockstep::data {

// Byte-pair encoding (Sennrich, Haddow, Birch: "Neural machine translation of rare words with
// subword units", 2016) on bytes: tokens 0 to 255 are the bytes, token 256 + k joins the two of
// merge k. Every text can be written, and decodes to itself. No token reaches over a word's end; a
// word begins with the space before it.
class BytePairEncoding final : public Tokenizer {
 public:
  using Merge = std::pair<std::int64_t, std::int64_t>;

  // Throws InvalidArgument when a merge joins tokens that come later, or a pair that is there
  // already.
  explicit BytePairEncoding(std::vector<Merge> merges = {});
  // Joins the most frequent pair (of several the one with the smallest numbers) until there are
  // `size` tokens or no pair is there twice. A function of the text alone.
  static BytePairEncoding train(std::string_view corpus, std::int64_t size);

  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  const std::vector<Merge>& merges() const { return merges_; }
  std::vector<std::int64_t> encode(std::string_view text) const;
  // Throws InvalidArgument when there is no such token.
  std::string decode(std::span<const std::int64_t> numbers) const;
  std::vector<std::string> tokens(std::string_view text) const override;

  std::string format() const;
  // Throws Corrupt that begins with `name` and the line.
  static BytePairEncoding parse(std::string_view text, const std::string& name);
  void save(const std::string& path) const;
  static BytePairEncoding load(const std::string& path);

 private:
  std::string add(const Merge& merge);
  void encode_word(std::string_view word, std::vector<std::int64_t>& result) const;

  std::vector<Merge> merges_;
  std::vector<std::string> bytes_;                          // of each token
  std::unordered_map<std::uint64_t, std::int64_t> joined_;  // pair -> token
};

}  // namespace lockstep::data
