// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::passes {

// The order of a program's steps while it is made. A step can be put right after any other, and of
// two it is known which comes first, both without a look at the steps between them: each step has a
// label that grows along the order, and all get new ones where no number is left between two
// (Dietz and Sleator: "Two algorithms for maintaining order in a list", 1987, the simple one).
class StepOrder {
 public:
  static constexpr std::size_t kFront = static_cast<std::size_t>(-1);

  // Step number 0, 1, ..., after all others.
  void append();
  // Puts a step right after `place`, which is another step, or kFront: before all.
  void move_after(std::size_t step, std::size_t place);
  bool precedes(std::size_t a, std::size_t b) const { return at(a).label < at(b).label; }
  std::vector<std::size_t> steps() const;
  // How often labels were given to all steps anew.
  std::size_t relabelled() const { return relabelled_; }

 private:
  struct Link {
    std::size_t before = 0, after = 0;  // places: 0 is the front, step s is s + 1
    std::int64_t label = 0;
  };
  const Link& at(std::size_t step) const { return links_[step + 1]; }
  std::int64_t label_after(std::size_t place);
  void insert(std::size_t link, std::size_t place);
  void relabel();

  std::vector<Link> links_ = std::vector<Link>(1);  // a ring through the front
  std::size_t relabelled_ = 0;
};

}  // namespace lockstep::passes
