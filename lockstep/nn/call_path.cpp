// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/detail/call_path.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "lockstep/base/error.h"

namespace lockstep::nn::detail {
namespace {

struct Calls {
  std::vector<const Block*> open = {};  // outermost first
  std::string failed = {};
  bool has_failed = false;
};

thread_local Calls calls;

// Calls of one block inside each other, and how often they are counted.
constexpr std::ptrdiff_t kDeepest = 1000;
constexpr std::size_t kLookEvery = 1024;

// By names, from `root` to `block`; none when it is not in there.
std::optional<std::string> path_to(const Block& root, const Block& block) {
  if (&root == &block) return "";
  for (const Block::Child& child : root.children()) {
    const auto rest = path_to(*child.block, block);
    if (rest) return rest->empty() ? child.name : child.name + "." + *rest;
  }
  return {};
}

std::string place_of(const Block& block) {
  const auto path = path_to(*calls.open.front(), block);
  if (!path || path->empty()) return block.description();
  return fmt::format("{} ({})", *path, block.description());
}

std::string innermost_path() {
  const Block& block = *calls.open.back();
  const auto path = path_to(*calls.open.front(), block);
  return path && !path->empty() ? place_of(block) + ": " : "";
}

void note_failure() noexcept {
  try {
    calls.failed = innermost_path();
  } catch (...) {  // no memory for a better message
    calls.failed.clear();
  }
}

// The stack has an end, and a program that runs into it says nothing.
void check_ends(const Block& block) {
  if (std::count(calls.open.begin(), calls.open.end(), &block) < kDeepest) return;
  throw InvalidArgument("{}: its forward calls the block itself, {} times inside each other",
                        block.description(), kDeepest);
}

}  // namespace

CallScope::CallScope(const Block& block) : exceptions_(std::uncaught_exceptions()) {
  if (calls.open.empty()) calls.has_failed = false;
  if ((calls.open.size() + 1) % kLookEvery == 0) check_ends(block);
  calls.open.push_back(&block);
}

// The first scope that an exception leaves knows the place; one that is left in peace shows that
// somebody has dealt with whatever was thrown inside of it.
CallScope::~CallScope() {
  const bool fails = std::uncaught_exceptions() > exceptions_;
  if (fails && !calls.has_failed) note_failure();
  calls.has_failed = fails;
  calls.open.pop_back();
}

bool CallScope::is_outermost() const { return calls.open.size() == 1; }

std::string CallScope::failed_path() { return calls.has_failed ? calls.failed : ""; }

std::string missing_child() {
  for (std::size_t i = 1; i < calls.open.size(); ++i) {
    if (path_to(*calls.open.front(), *calls.open[i])) continue;
    return fmt::format(
        "{}: calls {}, which was not added to it: hold what add_child() returns, so that its "
        "parameters are the model's",
        place_of(*calls.open[i - 1]), calls.open[i]->description());
  }
  return {};
}

}  // namespace lockstep::nn::detail
