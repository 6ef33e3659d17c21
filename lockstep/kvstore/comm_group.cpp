// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/kvstore/group.h"

namespace lockstep::kvstore {
namespace {

// Of what may be as large as a checkpoint: each part has the whole of a call's time.
constexpr std::size_t kPart = 16 << 20;
constexpr std::uint64_t kLongest = std::uint64_t{1} << 40;  // more is no length

class CommGroup final : public Group {
 public:
  CommGroup(comm::Communicator& communicator, Membership membership,
            std::chrono::milliseconds timeout)
      : communicator_(communicator), membership_(std::move(membership)) {
    options_.timeout = timeout;
    if (membership_.count(Role::worker) != communicator.size())
      throw InvalidArgument("group: the membership has {} workers, the communicator {} ranks",
                            membership_.count(Role::worker), communicator.size());
  }

  const Membership& membership() const override { return membership_; }
  void redeal(std::vector<std::int64_t> weights) override {
    membership_ = membership_.weighted(std::move(weights));
  }
  int rank() const override { return communicator_.rank(); }
  const comm::Meter* meter() const override { return communicator_.meter(); }

  std::vector<std::string> share(const std::string& own) override {
    return comm::share_texts(communicator_, own, options_);
  }

  std::string from(int root, const std::string& own) override {
    std::uint64_t length = own.size();
    communicator_.broadcast(std::as_writable_bytes(std::span(&length, 1)), root, options_);
    if (length > kLongest)
      throw comm::PeerLost(
          fmt::format("from_first: rank {} on {} says {} bytes, expected at most {}: "
                      "the ranks' calls do not match",
                      root, communicator_.host(root), length, kLongest),
          root, communicator_.host(root), "from_first");
    std::string bytes = own;
    bytes.resize(length);
    const auto all = std::as_writable_bytes(std::span(bytes));
    for (std::size_t begin = 0; begin < all.size(); begin += kPart)
      communicator_.broadcast(all.subspan(begin, std::min(kPart, all.size() - begin)), root,
                              options_);
    return bytes;
  }

  // Ranges are uneven: everybody sends as many rows as the largest has, behind its vote.
  Vote gather(const Vote& own, std::int64_t parts, std::span<float> rows) override {
    const std::vector<ShardRange> ranges = membership_.deal(parts);
    std::int64_t most = 0;
    for (const ShardRange& range : ranges) most = std::max(most, range.hi - range.lo);
    const std::size_t row = rows.size() / static_cast<std::size_t>(parts) * sizeof(float);
    const std::size_t message = sizeof(Vote) + row * static_cast<std::size_t>(most);
    sent_.resize(message);
    received_.resize(message * ranges.size());
    auto* const table = reinterpret_cast<std::byte*>(rows.data());
    std::memcpy(sent_.data(), &own, sizeof own);
    const ShardRange& mine = ranges[static_cast<std::size_t>(rank())];
    copy(table + row * index(mine.lo), row * index(mine.hi - mine.lo), sent_.data() + sizeof(Vote));
    communicator_.all_gather(sent_, received_, options_);
    Vote all = own;
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      const std::byte* from = received_.data() + r * message;
      Vote its;
      std::memcpy(&its, from, sizeof its);
      all = combine(all, its);
      copy(from + sizeof(Vote), row * index(ranges[r].hi - ranges[r].lo),
           table + row * index(ranges[r].lo));
    }
    return all;
  }

  std::vector<float> collect(std::span<const float> own) override {
    const std::size_t most = std::max<std::size_t>(1, kPart / sizeof(float) / ranks());
    std::vector<float> all(rank() == 0 ? own.size() * ranks() : 0);
    for (std::size_t begin = 0; begin < own.size(); begin += most)
      collect_part(own, begin, std::min(most, own.size() - begin), all);
    return all;
  }

 private:
  static std::size_t index(std::int64_t number) { return static_cast<std::size_t>(number); }
  static void copy(const std::byte* from, std::size_t bytes, std::byte* to) {
    if (bytes > 0) std::memmove(to, from, bytes);
  }
  std::size_t ranks() const { return static_cast<std::size_t>(communicator_.size()); }

  void collect_part(std::span<const float> own, std::size_t begin, std::size_t count,
                    std::vector<float>& all) {
    std::vector<float> parts(all.empty() ? 0 : count * ranks());
    communicator_.gather(std::as_bytes(own.subspan(begin, count)),
                         std::as_writable_bytes(std::span(parts)), 0, options_);
    for (std::size_t r = 0; r * count < parts.size(); ++r)
      std::copy_n(parts.data() + r * count, count, all.data() + r * own.size() + begin);
  }

  comm::Communicator& communicator_;
  Membership membership_;
  comm::CallOptions options_;
  std::vector<std::byte> sent_, received_;
};

}  // namespace

std::unique_ptr<Group> group_of(comm::Communicator& communicator, const Membership& membership,
                                std::chrono::milliseconds timeout) {
  return std::make_unique<CommGroup>(communicator, membership, timeout);
}

}  // namespace lockstep::kvstore
