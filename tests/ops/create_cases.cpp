// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/create_attrs.h"
#include "tests/ops/coordinates.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using F = std::function<double(const Ints&)>;

OpCase made(const std::string& op, const std::string& label, const Attrs& attrs, const Shape& shape,
            DType dtype, const F& f) {
  return {op, label, {}, attrs, [=](const std::vector<Tensor>&) {
            Array result(shape, dtype);
            for_each_coordinate(shape, [&](const Ints& at) { result(at) = f(at); });
            return std::vector{result.tensor()};
          }};
}

}  // namespace

std::vector<OpCase> create_cases() {
  std::vector<OpCase> rows;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string label(name_of(dtype));
    rows.push_back(made("full", label, Attrs::of(FullAttrs{{3, 37}, 1.0, dtype}), {3, 37}, dtype,
                        [](const Ints&) { return 1.0; }));
    rows.push_back(made("eye", label, Attrs::of(EyeAttrs{3, 5, 1, dtype}), {3, 5}, dtype,
                        [](const Ints& at) { return at[1] == at[0] + 1 ? 1.0 : 0.0; }));
    if (dtype == DType::boolean) continue;
    rows.push_back(made("arange", label, Attrs::of(ArangeAttrs{2, 11, 2, dtype}), {5}, dtype,
                        [](const Ints& at) { return 2.0 + 2.0 * static_cast<double>(at[0]); }));
    rows.push_back(made("linspace", label, Attrs::of(LinspaceAttrs{0, 100, 5, dtype}), {5}, dtype,
                        [](const Ints& at) { return 25.0 * static_cast<double>(at[0]); }));
  }
  const DType f32 = DType::float32;
  const auto any = [](const Ints&) { return 2.5; };
  rows.push_back(made("full", "scalar", Attrs::of(FullAttrs{{}, 2.5}), {}, f32, any));
  rows.push_back(made("full", "size 0", Attrs::of(FullAttrs{{0, 3}, 2.5}), {0, 3}, f32, any));
  rows.push_back(made("arange", "down", Attrs::of(ArangeAttrs{1, -1, -0.25}), {8}, f32,
                      [](const Ints& at) { return 1.0 - 0.25 * static_cast<double>(at[0]); }));
  rows.push_back(made("arange", "nothing", Attrs::of(ArangeAttrs{3, 1}), {0}, f32, any));
  rows.push_back(made("linspace", "one", Attrs::of(LinspaceAttrs{2.5, 9, 1}), {1}, f32, any));
  rows.push_back(made("linspace", "none", Attrs::of(LinspaceAttrs{2.5, 9, 0}), {0}, f32, any));
  rows.push_back(made("eye", "square", Attrs::of(EyeAttrs{4}), {4, 4}, f32,
                      [](const Ints& at) { return at[0] == at[1] ? 1.0 : 0.0; }));
  rows.push_back(made("eye", "below", Attrs::of(EyeAttrs{4, 2, -2}), {4, 2}, f32,
                      [](const Ints& at) { return at[0] == at[1] + 2 ? 1.0 : 0.0; }));
  rows.push_back(made("eye", "size 0", Attrs::of(EyeAttrs{0, 2}), {0, 2}, f32, any));
  return rows;
}

}  // namespace lockstep::testing
