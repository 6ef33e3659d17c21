// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/shm_signature.h"

#include <initializer_list>

namespace lockstep::comm {
namespace {

std::uint64_t mix(std::uint64_t hash, std::int64_t number) {
  hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

std::string describe(const ShmSignature& signature) {
  return signature.bytes == 0 ? "a barrier" : fmt::format("{} bytes", signature.bytes);
}

}  // namespace

std::uint64_t hash_plan(const TreeCall& tree, std::span<const ShardRange> ranges) {
  std::uint64_t hash = 1;
  for (const std::int64_t number :
       {tree.shards, static_cast<std::int64_t>(tree.element),
        static_cast<std::int64_t>(tree.reduction), static_cast<std::int64_t>(ranges.size())})
    hash = mix(hash, number);
  for (const ShardRange& range : ranges) {
    const bool is_empty = range.lo >= range.hi;  // wherever
    hash = mix(mix(hash, is_empty ? 0 : range.lo), is_empty ? 0 : range.hi);
  }
  return hash;
}

void fail_signatures(const ShmCall& call, int peer, const ShmSignature& own,
                     const ShmSignature& other) {
  const bool is_first = call.rank < peer;
  const int first = call.waiter.name(is_first ? call.rank : peer);
  const int second = call.waiter.name(is_first ? peer : call.rank);
  if (own.bytes == other.bytes)
    fail_all(call, fmt::format("rank {} and rank {} do not add up the same: their elements, "
                               "reductions, shards or ranges differ, or one gives no ranges",
                               first, second));
  fail_all(call,
           fmt::format("rank {} brings {} and rank {} {}, expected the same of all ranks", first,
                       describe(is_first ? own : other), second, describe(is_first ? other : own)));
}

void fail_all(const ShmCall& call, const std::string& text) {
  call.waiter.fail(ShmFailure::Kind::aborted, call.waiter.name(call.rank), text);
  call.waiter.check_failure(call.operation);
  // Another rank is just writing its own failure.
  throw Aborted(fmt::format("{}: {}", call.operation, text), call.waiter.name(call.rank), "",
                std::string(call.operation));
}

}  // namespace lockstep::comm
