// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/group.h"

#include "lockstep/comm/errors.h"

namespace lockstep::kvstore {
namespace {

class GroupOfOne final : public Group {
 public:
  const Membership& membership() const override { return membership_; }
  int rank() const override { return 0; }
  std::vector<std::string> share(const std::string& own) override { return {own}; }
  std::string from_first(const std::string& own) override { return own; }
  Vote gather(const Vote& own, std::int64_t, std::span<float>) override { return own; }
  std::vector<float> collect(std::span<const float> own) override {
    return {own.begin(), own.end()};
  }

 private:
  Membership membership_ = alone();
};

constexpr char kGood = '+', kBad = '-';

// What went wrong first is what counts, even when nobody is left to hear it.
void tell_failure(Group& group, const std::string& what) {
  try {
    group.from_first(kBad + what);
  } catch (const std::exception&) {
  }
}

std::string do_and_tell(Group& group, const std::function<std::string()>& work) {
  std::string result;
  try {
    result = work();
  } catch (const std::exception& error) {
    tell_failure(group, error.what());
    throw;
  }
  group.from_first(kGood + result);
  return result;
}

}  // namespace

Vote combine(const Vote& a, const Vote& b) {
  return {.finite = a.finite && b.finite,
          .stop = a.stop || b.stop,
          .shape = a.shape == b.shape ? a.shape : Vote::kShapesDiffer};
}

std::unique_ptr<Group> group_of_one() { return std::make_unique<GroupOfOne>(); }

std::string first_does(Group& group, const std::function<std::string()>& work) {
  if (group.is_first()) return do_and_tell(group, work);
  const std::string told = group.from_first("");
  if (told.starts_with(kGood)) return told.substr(1);
  throw comm::Aborted("worker 0 gave up: " + told.substr(1), 0, "", "train");
}

}  // namespace lockstep::kvstore
