// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/plain.h"
#include "lockstep/ops/slice_ops.h"

namespace lockstep {

// What may be asked of a layer whose op can be split: by the units that it makes (rows of a table),
// by those that it reads, or not at all; or what suits what comes in.
enum class SplitWay { automatic, none, columns, rows };

// A parameter of which nobody knows yet whether it is cut.
struct UndecidedParameter {
  std::string name;
  SplitWay way = SplitWay::automatic;
  // How its first axis may be cut: alike stretches, and what each has that stays together (heads).
  // 0 units: each element.
  std::int64_t groups = 1, units = 0;
  // The slices' parts, or the whole alone: called once.
  std::function<std::vector<Tensor>(const std::optional<SliceCut>& cut)> decide;
};

// While a step is traced: computes what reads cut parameters slice by slice. A tensor that is cut
// stands for its slices' parts, which ops outside know; it has the whole's shape, so that a model's
// text does not change. An op by parts has a rule (graph/slice_rules.h); before any other op, and
// where a rule declines, the parts are brought together.
class SliceTracer final : public OpInterceptor {
 public:
  explicit SliceTracer(std::int64_t slices)
      : slices_(slices), own_([this](const Tensor& x) { return plain(x); }) {}

  std::int64_t slices() const { return slices_; }
  Tensor cut(const TensorInfo& whole, const SliceCut& cut, std::vector<Tensor> parts);
  Tensor undecided(const TensorInfo& whole, UndecidedParameter parameter);

  std::vector<Tensor> intercept(const OpDef& op, std::span<const Tensor> inputs,
                                const Attrs& attrs) override;
  // What x stands for, outside of rules.
  Tensor plain(const Tensor& x);

  // For rules.
  bool is_cut(const Tensor& x) const;
  const SliceCut& cut_of(const Tensor& x) const;
  std::vector<Tensor> parts_of(const Tensor& x);
  // x as it is without slices.
  Tensor whole(const Tensor& x);
  // x for each slice: constants as they are.
  std::vector<Tensor> spread(const Tensor& x);
  // x's parts by this cut, however it is cut now.
  std::vector<Tensor> parts_by(const Tensor& x, const SliceCut& cut);
  // Null where x is none.
  const UndecidedParameter* undecided_parameter(const Tensor& x) const;
  // With `axis` cut, as evenly as it goes. Throws InvalidArgument where there is too little.
  void decide_even(const Tensor& x, int axis);
  void decide(const Tensor& x, const std::optional<SliceCut>& cut);

  // The ops that read each parameter that was undecided, by its name.
  const std::map<std::string, std::set<std::string_view>>& readers() const { return readers_; }

 private:
  struct Value {
    TensorInfo info;
    SliceCut cut = {};
    std::vector<Tensor> parts = {};
    Tensor whole = {};  // where it was asked for, or nothing was cut
    std::unique_ptr<UndecidedParameter> undecided = {};
    std::string parameter = {};  // its name
  };
  Tensor add(Value value);
  Value* find(const Tensor& x) const;
  std::vector<Tensor> run_whole(const OpDef& op, std::span<const Tensor> inputs,
                                const Attrs& attrs);

  std::int64_t slices_;
  OwnTensorScope own_;
  std::shared_ptr<const void> recording_ = std::make_shared<char>();
  std::vector<std::unique_ptr<Value>> values_;
  // By recording, node, output, history, and whether there is a tape.
  using SpreadKey = std::tuple<const void*, std::int32_t, std::int32_t, int, bool>;
  std::map<SpreadKey, std::vector<Tensor>> spread_;
  std::map<std::string, std::set<std::string_view>> readers_;
};

}  // namespace lockstep
