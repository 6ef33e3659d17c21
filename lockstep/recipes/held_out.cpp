// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/held_out.h"

namespace lockstep::recipes {
namespace {

class Part final : public data::Dataset {
 public:
  Part(data::DatasetPtr set, bool held_out) : set_(std::move(set)) {
    for (std::int64_t i = 0; i < set_->size(); ++i)
      if ((i % 5 == 4) == held_out) numbers_.push_back(i);
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(numbers_.size()); }
  data::Fields sample(std::int64_t index) const override {
    return set_->sample(numbers_.at(static_cast<std::size_t>(index)));
  }
  std::vector<std::string> class_names() const override { return set_->class_names(); }

 private:
  data::DatasetPtr set_;
  std::vector<std::int64_t> numbers_;
};

}  // namespace

data::DatasetPtr four_of_five(data::DatasetPtr set) {
  return std::make_shared<Part>(std::move(set), false);
}

data::DatasetPtr every_fifth(data::DatasetPtr set) {
  return std::make_shared<Part>(std::move(set), true);
}

}  // namespace lockstep::recipes
