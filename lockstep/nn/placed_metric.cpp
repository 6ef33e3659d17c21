// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/nn/metric.h"

namespace lockstep::nn {
namespace {

const Tensor& at(const std::string& metric, const char* what, const std::vector<Tensor>& tensors,
                 std::size_t index) {
  if (index >= tensors.size())
    throw InvalidArgument("{}: looks at {} {}, there are {}", metric, what, index, tensors.size());
  return tensors[index];
}

class PlacedMetric final : public Metric {
 public:
  PlacedMetric(MetricPtr metric, MetricPlace place)
      : Metric(place.name.empty() ? metric->name() : place.name),
        metric_(std::move(metric)),
        place_(std::move(place)) {}

  void update(const Tensor& label, const Tensor& prediction) override {
    metric_->update(label, prediction);
  }
  void update_all(const std::vector<Tensor>& labels, const std::vector<Tensor>& outputs) override {
    metric_->update(at(name(), "label", labels, place_.label),
                    at(name(), "output", outputs, place_.output));
  }
  void reset() override { metric_->reset(); }
  Value get() const override { return {name(), metric_->get().second}; }
  // Further values of the metric go under its name, behind this one's.
  std::vector<Value> get_all() const override {
    std::vector<Value> values = metric_->get_all();
    if (values.size() == 1) return {get()};
    for (Value& value : values)
      if (!place_.name.empty()) value.first = name() + "." + value.first;
    return values;
  }

 private:
  MetricPtr metric_;
  MetricPlace place_;
};

}  // namespace

void Metric::update_all(const std::vector<Tensor>& labels, const std::vector<Tensor>& outputs) {
  update(at(name_, "label", labels, 0), at(name_, "output", outputs, 0));
}

MetricPtr metric_of(MetricPtr metric, MetricPlace place) {
  if (metric == nullptr) throw InvalidArgument("metric_of: the metric is null");
  return std::make_unique<PlacedMetric>(std::move(metric), std::move(place));
}

}  // namespace lockstep::nn
