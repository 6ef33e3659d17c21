// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/updater.h"

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/io/archive.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/optim/checked_rate.h"
#include "lockstep/optim/rule_driver.h"

namespace lockstep::optim {
namespace {

using nlohmann::json;

Tensor as_float32(const Tensor& x) {
  const autograd::PauseScope pause;
  return x.dtype() == DType::float32 ? x.contiguous() : cast(x.detach(), DType::float32);
}

// Whether `data` is still what the copy gave; not so when somebody has set it since.
bool is_rounded(const Tensor& master, const Tensor& data) {
  if (!master.defined() || master.shape() != data.shape()) return false;
  const Tensor rounded = cast(master, data.dtype());
  return std::memcmp(rounded.raw(), data.contiguous().raw(), rounded.info().bytes()) == 0;
}

std::string slot_name(std::size_t slot, const std::string& parameter) {
  return fmt::format("slot{}/{}", slot, parameter);
}

// In place.
RuleParameter rule_parameter(const nn::ParameterOptions& options, const Tensor& weight,
                             const std::vector<Tensor>& slots) {
  RuleMemory memory{weight.data<float>()};
  for (const Tensor& slot : slots) memory.slots.push_back(slot.data<float>());
  return {.count = static_cast<std::size_t>(weight.numel()),
          .rate_multiplier = options.rate_multiplier,
          .decay_multiplier = options.decay_multiplier,
          .from = memory,
          .to = memory};
}

}  // namespace

// A parameter that this step changes.
struct Updater::Work {
  Entry* entry = nullptr;
  Tensor weight;  // float32, dense: the parameter's own memory, or its float32 copy
  Tensor gradient;
};

Updater::Updater(std::vector<nn::NamedParameter> parameters, OptimizerPtr rule,
                 std::optional<Schedule> schedule, const UpdaterOptions& options)
    : rule_(std::move(rule)), options_(options) {
  if (rule_ == nullptr) throw InvalidArgument("updater: no rule, expected one such as sgd()");
  schedule_ = schedule ? std::move(*schedule) : constant(rule_->options().learning_rate);
  for (nn::NamedParameter& named : parameters)
    entries_.push_back({std::move(named.name), std::move(named.parameter), {}, {}});
}

void Updater::set_learning_rate(double rate) { schedule_ = constant(rate); }

void Updater::prepare(Entry& entry) const {
  const Tensor data = entry.parameter.data();
  if (data.dtype() == DType::float64)
    throw Unsupported("updater: parameter '{}' is float64, expected float32 or a shorter type",
                      entry.name);
  if (data.dtype() != DType::float32 && !is_rounded(entry.master, data))
    entry.master = as_float32(data);
  while (static_cast<int>(entry.slots.size()) < rule_->slots())
    entry.slots.push_back(Tensor::zeros(data.shape()));
}

std::vector<Updater::Work> Updater::gather() {
  std::vector<Work> work;
  for (Entry& entry : entries_) {
    if (!entry.parameter.wants_gradient()) continue;
    const Tensor gradient = entry.parameter.grad();
    if (!gradient.defined() && options_.ignore_missing_gradients) continue;
    if (!gradient.defined())
      throw InvalidArgument(
          "updater: parameter '{}' has no gradient, expected backward() of a recorded loss that "
          "depends on it",
          entry.name);
    prepare(entry);
    const bool direct = !entry.master.defined();
    work.push_back({&entry, direct ? entry.parameter.data() : entry.master, as_float32(gradient)});
  }
  return work;
}

void Updater::step(std::int64_t batch_size) {
  if (batch_size < 1)
    throw InvalidArgument("updater: batch size is {}, expected 1 or more", batch_size);
  const double rate = detail::checked_rate("updater", schedule_, steps_);
  const std::vector<Work> work = gather();
  std::vector<RuleParameter> parameters;
  for (const Work& item : work)
    parameters.push_back(
        rule_parameter(item.entry->parameter.options(), item.weight, item.entry->slots));
  const RuleDriver driver(rule_, std::move(parameters));
  ThreadTeam caller(1);
  driver.run_all(caller, driver.context(steps_ + 1, rate, 1.0 / static_cast<double>(batch_size)),
                 [&](int, std::size_t parameter, const PieceRange& range) {
                   return work[parameter].gradient.data<float>() + range.begin;
                 });
  for (const Work& item : work)
    if (item.entry->master.defined()) item.entry->parameter.data().assign(item.entry->master);
  ++steps_;
}

void Updater::save(const std::string& path) const {
  io::Archive archive;
  archive.metadata = json{{"rule", rule_->name()}, {"steps", steps_}}.dump();
  for (const Entry& entry : entries_) {
    for (std::size_t i = 0; i < entry.slots.size(); ++i)
      archive.tensors.emplace_back(slot_name(i, entry.name), entry.slots[i]);
    if (entry.master.defined()) archive.tensors.emplace_back("master/" + entry.name, entry.master);
  }
  io::write_archive(path, archive);
}

namespace {

// The archive's header of an updater: its rule and number of steps.
std::int64_t read_steps(const std::string& path, const io::Archive& archive,
                        std::string_view rule) {
  const json metadata = json::parse(archive.metadata, nullptr, false);
  if (!metadata.is_object() || !metadata.contains("rule") || !metadata["rule"].is_string() ||
      !metadata.contains("steps") || !metadata["steps"].is_number_unsigned())
    throw Corrupt("{}: no rule and steps, expected what Updater::save wrote", path);
  const auto written = metadata["rule"].get<std::string>();
  if (written != rule)
    throw InvalidArgument("{}: states of the rule {}, expected {}", path, written, rule);
  return metadata["steps"].get<std::int64_t>();
}

// Tensors by name, taken out one by one.
class States {
 public:
  States(const std::string& path, const io::Archive& archive) : path_(path) {
    for (const auto& [name, tensor] : archive.tensors) left_.emplace(name, tensor);
  }

  bool has(const std::string& name) const { return left_.contains(name); }

  Tensor take(const std::string& name, const Shape& shape) {
    const auto found = left_.find(name);
    if (found == left_.end()) throw Corrupt("{}: no tensor '{}'", path_, name);
    const Tensor tensor = found->second;
    if (tensor.shape() != shape || tensor.dtype() != DType::float32)
      throw Corrupt("{}: tensor '{}' is {}{}, expected float32{}", path_, name,
                    name_of(tensor.dtype()), tensor.shape().str(), shape.str());
    left_.erase(found);
    return tensor;
  }

  void finish() const {
    if (!left_.empty())
      throw InvalidArgument("{}: tensor '{}' belongs to no parameter", path_, left_.begin()->first);
  }

 private:
  const std::string& path_;
  std::map<std::string, Tensor> left_;
};

}  // namespace

void Updater::load(const std::string& path) {
  const io::Archive archive = io::read_archive(path);
  const std::int64_t steps = read_steps(path, archive, rule_->name());
  States states(path, archive);
  std::vector<Entry> entries = entries_;
  for (Entry& entry : entries) {
    entry.slots.clear();
    // A parameter that was frozen, or had no gradient, was saved without slots.
    if (rule_->slots() == 0 || !states.has(slot_name(0, entry.name))) continue;
    const Shape& shape = entry.parameter.shape();
    for (std::size_t i = 0; i < static_cast<std::size_t>(rule_->slots()); ++i)
      entry.slots.push_back(states.take(slot_name(i, entry.name), shape));
  }
  for (Entry& entry : entries)
    if (const std::string name = "master/" + entry.name; states.has(name))
      entry.master = states.take(name, entry.parameter.shape());
  states.finish();
  entries_ = std::move(entries);
  steps_ = steps;
}

}  // namespace lockstep::optim
