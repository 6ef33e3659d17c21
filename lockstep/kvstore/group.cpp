// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/group.h"

#include <exception>

#include "lockstep/comm/errors.h"
#include "lockstep/kvstore/long_work.h"

namespace lockstep::kvstore {
namespace {

class GroupOfOne final : public Group {
 public:
  const Membership& membership() const override { return membership_; }
  int rank() const override { return 0; }
  std::vector<std::string> share(const std::string& own) override { return {own}; }
  std::string from(int /*rank*/, const std::string& own) override { return own; }
  Vote gather(const Vote& own, std::int64_t, std::span<float>) override { return own; }
  std::vector<float> collect(std::span<const float> own) override {
    return {own.begin(), own.end()};
  }

 private:
  Membership membership_ = alone();
};

constexpr char kGood = '+', kBad = '-';
// What the first one does may take its time, for a large checkpoint; a file that does not answer
// for so long will not.
constexpr auto kStandstill = std::chrono::minutes(10);

struct Outcome {
  std::string result = {};
  std::exception_ptr error = nullptr;
  std::string why = {};
};

Outcome attempt(const std::function<std::string()>& work) {
  try {
    return {work()};
  } catch (const std::exception& error) {
    return {{}, std::current_exception(), error.what()};
  }
}

// What went wrong first is what counts, even when nobody is left to hear it.
void tell_failure(Group& group, const std::string& what) {
  try {
    group.from_first(kBad + what);
  } catch (const std::exception&) {
  }
}

std::string tell(Group& group, const Outcome& outcome) {
  if (outcome.error) {
    tell_failure(group, outcome.why);
    std::rethrow_exception(outcome.error);
  }
  group.from_first(kGood + outcome.result);
  return outcome.result;
}

}  // namespace

void Group::redeal(std::vector<std::int64_t> /*weights*/) {
  throw Unsupported("group: one process has all parts, there is nothing to deal");
}

Vote combine(const Vote& a, const Vote& b) {
  return {.finite = a.finite && b.finite,
          .stop = a.stop || b.stop,
          .pause = a.pause || b.pause,
          .shape = a.shape == b.shape ? a.shape : Vote::kShapesDiffer};
}

std::unique_ptr<Group> group_of_one() { return std::make_unique<GroupOfOne>(); }

std::string first_does(Group& group, const std::function<std::string()>& work) {
  Outcome outcome;
  work_together(group, kStandstill, "worker 0's part", [&] {
    if (group.is_first()) outcome = attempt(work);
  });
  if (group.is_first()) return tell(group, outcome);
  const std::string told = group.from_first("");
  if (told.starts_with(kGood)) return told.substr(1);
  throw comm::Aborted("worker 0 gave up: " + told.substr(1), 0, "", "train");
}

}  // namespace lockstep::kvstore
