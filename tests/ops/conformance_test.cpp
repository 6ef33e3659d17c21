// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/dispatch.h"
#include "tests/ops/check_cases.h"
#include "tests/tensor/test_device.h"

namespace lockstep::testing {
namespace {

constexpr DType kFloats[] = {DType::float64, DType::float32, DType::float16, DType::bfloat16};

// The cases of a family, on the host or on a device that shares nothing with it.
struct Setting {
  CaseFamily family;
  bool on_host = true;
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.family.name; }

class Conformance : public ::testing::TestWithParam<Setting> {
 protected:
  static const CaseFamily& family() { return GetParam().family; }
  Device device() const { return device_ ? device_->device() : Device(); }
  Tensors there(const Tensors& tensors) const { return on_device(tensors, device()); }
  // What the op gives there, here.
  Tensors run(const OpDef& op, const Tensors& inputs, const Attrs& attrs) const {
    return on_device(apply_on(device(), op, inputs, attrs), cpu());
  }

 private:
  std::shared_ptr<TestDevice> device_ = GetParam().on_host ? nullptr : TestDevice::make();
};

std::vector<Setting> settings(bool on_host) {
  std::vector<Setting> result;
  for (const CaseFamily& family : case_families()) result.push_back({family, on_host});
  return result;
}

std::string name_of_setting(const ::testing::TestParamInfo<Setting>& setting) {
  return setting.param.family.name;
}

std::vector<DType> dtypes_of(const OpCase& c) {
  if (!has_floating(c.inputs)) return {DType::float64};
  std::vector<DType> result;
  for (DType dtype : kFloats)
    if (c.dtypes.has(dtype)) result.push_back(dtype);
  return result;
}

void expect_close(const Tensors& got, const Tensors& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!want[i].defined()) continue;
    EXPECT_EQ(difference(got[i], want[i], tolerance), "") << "output " << i;
  }
}

void expect_bits(const Tensors& got, const Tensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(bit_difference(got[i], want[i]), "") << "output " << i;
}

// The reference sees the values as the dtype has rounded them.
Tensors reference_of(const OpCase& c, const Tensors& inputs) {
  return c.reference(with_dtype(inputs, DType::float64));
}

TEST_P(Conformance, EveryKernelEqualsTheReferenceInEachDtype) {
  // One op for each kernel. They stay where they are: prepared kernels are cached by address.
  static std::deque<OpDef> single;
  for_each_case(family(), [&](const OpDef& op, const OpCase& c) {
    if (!c.reference) return;
    for (DType dtype : dtypes_of(c)) {
      SCOPED_TRACE(name_of(dtype));
      const Tensors inputs = with_dtype(c.inputs, dtype);
      const Tensors want = reference_of(c, inputs);
      expect_close(run(op, inputs, c.attrs), want, tolerance_of(c, dtype));
      for (const KernelCandidate& kernel : op.cpu) {
        if (op.cpu.size() == 1) continue;
        SCOPED_TRACE(kernel.name);
        single.push_back(op);
        single.back().cpu = std::span(&kernel, 1);
        single.back().view = nullptr;
        try {
          expect_close(run(single.back(), inputs, c.attrs), want, tolerance_of(c, dtype));
        } catch (const Unsupported&) {
        }
      }
    }
  });
}

TEST_P(Conformance, ADecompositionEqualsTheReference) {
  for_each_case(family(), [&](const OpDef& op, const OpCase& c) {
    if (!c.reference || op.decompose == nullptr) return;
    expect_close(on_device(op.decompose(there(c.inputs), c.attrs), cpu()),
                 reference_of(c, c.inputs), tolerance_of(c, DType::float64));
  });
}

TEST_P(Conformance, StridedInputsGiveTheResultOfDenseOnes) {
  for_each_case(family(), [&](const OpDef& op, const OpCase& c) {
    for (DType dtype : dtypes_of(c)) {
      const Tensors inputs = with_dtype(c.inputs, dtype);
      const Tensors want = run(op, inputs, c.attrs);
      const Tensors got = apply(op, strided_copies(there(inputs)), c.attrs);
      expect_close(on_device(got, cpu()), want, tolerance_of(c, dtype));
    }
  });
}

TEST_P(Conformance, TheTapeChangesNoBit) {
  for_each_case(family(), [&](const OpDef& op, const OpCase& c) {
    for (DType dtype : dtypes_of(c)) {
      const Tensors inputs = there(with_dtype(c.inputs, dtype));
      const Tensors want = run(op, inputs, c.attrs);
      for (const Tensor& x : inputs)
        if (is_floating(x.dtype())) autograd::attach_grad(x);
      autograd::RecordScope record;
      expect_bits(on_device(apply(op, inputs, c.attrs), cpu()), want);
    }
  });
}

TEST_P(Conformance, CompiledEqualsEager) {
  for_each_case(family(), [&](const OpDef& op, const OpCase& c) {
    const auto function = [&](const Tensors& x) { return apply(op, x, c.attrs); };
    for (DType dtype : dtypes_of(c)) {
      const Tensors inputs = there(with_dtype(c.inputs, dtype));
      const Tensors want = on_device(function(inputs), cpu());
      const Tensors plain = run_compiled(function, inputs, Compiled::plain);
      const Tensors optimised = run_compiled(function, inputs, Compiled::optimised);
      expect_bits(on_device(plain, cpu()), want);
      expect_close(on_device(optimised, cpu()), want, 2 * tolerance_of(c, dtype));
    }
  });
}

TEST_P(Conformance, InputsAreLeftAsTheyWere) {
  for_each_case(family(), [&](const OpDef& op, const OpCase& c) {
    Tensors before;
    for (const Tensor& x : c.inputs) before.push_back(x.copy());
    const Tensors inputs = there(c.inputs);
    apply(op, inputs, c.attrs);
    expect_bits(on_device(inputs, cpu()), before);
  });
}

TEST_P(Conformance, ZeroPreservingOpsMapZerosToZeros) {
  for_each_case(family(), [&](const OpDef& op, const OpCase& c) {
    if (!op.zero_preserving) return;
    Tensors zeros;
    for (const Tensor& x : c.inputs) zeros.push_back(Tensor::zeros(x.shape(), x.dtype()));
    for (const Tensor& y : run(op, zeros, c.attrs))
      EXPECT_EQ(difference(y, Tensor::zeros(y.shape(), y.dtype()), 0.0), "");
  });
}

TEST_P(Conformance, AttributesCanBeMadeFromTheirFields) {
  for_each_case(family(), [&](const OpDef& op, const OpCase& c) {
    if (c.attrs.empty()) return;
    ASSERT_NE(op.schema.make, nullptr);
    EXPECT_EQ(op.schema.make(op.name, c.attrs.fields()), c.attrs);
  });
}

TEST_P(Conformance, TheDeviceChangesNoBit) {
  for_each_case(family(), [&](const OpDef& op, const OpCase& c) {
    for (DType dtype : dtypes_of(c)) {
      const Tensors inputs = with_dtype(c.inputs, dtype);
      expect_bits(run(op, inputs, c.attrs), apply(op, inputs, c.attrs));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ops, Conformance, ::testing::ValuesIn(settings(true)), name_of_setting);
INSTANTIATE_TEST_SUITE_P(TestDevice, Conformance, ::testing::ValuesIn(settings(false)),
                         name_of_setting);

// Names of the ops that `required` holds for and no case `serves`.
template <class Op, class Case>
std::string ops_without(const Op& required, const Case& serves) {
  std::set<std::string> covered;
  for (const CaseFamily& family : case_families())
    for (const OpCase& c : family.cases())
      if (serves(c)) covered.insert(c.op);
  std::string missing;
  for (const OpDef* op : all_ops())
    if (required(*op) && !covered.count(std::string(op->name)))
      missing += " " + std::string(op->name);
  return missing;
}

TEST(Catalogue, EveryOpHasACaseWithAReference) {
  EXPECT_EQ(ops_without([](const OpDef&) { return true; },
                        [](const OpCase& c) { return c.reference != nullptr; }),
            "");
}

// The exception takes the forward op's results, which cannot be moved alone; the second gradient of
// the forward op covers it.
TEST(Catalogue, EveryDifferentiableOpHasACaseWithGradients) {
  const auto required = [](const OpDef& op) {
    return op.differentiable() && op.name != "rnn_layer_backward";
  };
  EXPECT_EQ(ops_without(required,
                        [](const OpCase& c) { return c.check_gradient && has_floating(c.inputs); }),
            "");
}

TEST(Catalogue, EveryOpThatTakesFloatsHasACaseInEachDtypeItsKernelsTake) {
  for (DType dtype : kFloats) {
    const auto takes = [&](const OpDef& op) {
      return std::any_of(op.cpu.begin(), op.cpu.end(),
                         [&](const KernelCandidate& k) { return k.dtypes.has(dtype); });
    };
    const auto serves = [&](const OpCase& c) {
      return c.inputs.empty() || (has_floating(c.inputs) ? c.dtypes.has(dtype) : true);
    };
    EXPECT_EQ(ops_without(takes, serves), "") << name_of(dtype);
  }
}

TEST(Catalogue, EveryOpHasInferenceAndKernels) {
  for (const OpDef* op : all_ops()) {
    EXPECT_NE(op->infer, nullptr) << op->name;
    EXPECT_FALSE(op->cpu.empty()) << op->name;
    for (const KernelCandidate& kernel : op->cpu)
      EXPECT_NE(kernel.direct != nullptr, kernel.prepare != nullptr)
          << op->name << ": " << kernel.name;
    EXPECT_TRUE(op->max_inputs < 0 || op->max_inputs >= op->min_inputs) << op->name;
  }
}

}  // namespace
}  // namespace lockstep::testing
