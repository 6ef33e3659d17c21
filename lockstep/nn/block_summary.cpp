// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "lockstep/graph/trace.h"
#include "lockstep/nn/block.h"
#include "lockstep/nn/detail/call_observer.h"

namespace lockstep::nn {

namespace detail {
namespace {
thread_local CallObserver* innermost = nullptr;
}

CallObserver::CallObserver() : outer_(innermost) { innermost = this; }
CallObserver::~CallObserver() { innermost = outer_; }
CallObserver* CallObserver::current() { return innermost; }

}  // namespace detail

namespace {

struct Row {
  std::string layer, output, parameters;
};

// 1234567 as "1,234,567".
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::int64_t count(const std::vector<NamedParameter>& parameters) {
  std::int64_t total = 0;
  for (const NamedParameter& named : parameters) total += named.parameter.shape().numel();
  return total;
}

void name_blocks(const Block& block, const std::string& path,
                 std::map<const Block*, std::string>& names) {
  names.emplace(&block, path);
  for (const Block::Child& child : block.children())
    name_blocks(*child.block, path.empty() ? child.name : path + "." + child.name, names);
}

// A row for each call, in the order of the calls, indented by how deep it was.
class Table final : public detail::CallObserver {
 public:
  explicit Table(const Block& root) { name_blocks(root, "", names_); }

  void begin(const Block& block) override {
    const auto name = names_.find(&block);
    std::string layer(2 * open_.size(), ' ');
    if (name != names_.end() && !name->second.empty()) layer += name->second + " ";
    open_.push_back(rows_.size());
    rows_.push_back({layer + "(" + block.description() + ")", "", ""});
  }

  void end(const Block& block, const std::vector<Tensor>& outputs) override {
    Row& row = rows_[open_.back()];
    open_.pop_back();
    for (const Tensor& output : outputs)
      row.output += (row.output.empty() ? "" : " ") + output.shape().str();
    // A parameter that several layers share is counted where it comes first.
    std::vector<NamedParameter> fresh;
    for (const NamedParameter& named : block.own_parameters())
      if (seen_.emplace(named.parameter.identity(), true).second) fresh.push_back(named);
    row.parameters = grouped(count(fresh));
  }

  std::string str() const {
    Row head{"layer (type)", "output shape", "parameters"};
    std::size_t widths[3] = {0, 0, 0};
    const auto widen = [&](const Row& row) {
      widths[0] = std::max(widths[0], row.layer.size());
      widths[1] = std::max(widths[1], row.output.size());
      widths[2] = std::max(widths[2], row.parameters.size());
    };
    widen(head);
    for (const Row& row : rows_) widen(row);
    const auto line = [&](const Row& row) {
      return fmt::format("{:<{}}  {:<{}}  {:>{}}\n", row.layer, widths[0], row.output, widths[1],
                         row.parameters, widths[2]);
    };
    rule_ = std::string(widths[0] + widths[1] + widths[2] + 4, '-') + "\n";
    std::string text = line(head) + rule_;
    for (const Row& row : rows_) text += line(row);
    return text + rule_;
  }

 private:
  std::map<const Block*, std::string> names_;
  std::map<const void*, bool> seen_;
  std::vector<std::size_t> open_;
  std::vector<Row> rows_;
  mutable std::string rule_;
};

std::string totals(const std::vector<NamedParameter>& parameters) {
  std::int64_t trainable = 0, fixed = 0;
  double bytes = 0.0;
  for (const auto& [name, parameter] : parameters) {
    const std::int64_t size = parameter.shape().numel();
    (parameter.options().trainable ? trainable : fixed) += size;
    bytes += static_cast<double>(size) * static_cast<double>(item_size(parameter.dtype()));
  }
  return fmt::format("parameters: {} ({} trainable, {} fixed), {:.2f} MiB\n",
                     grouped(trainable + fixed), grouped(trainable), grouped(fixed),
                     bytes / (1024.0 * 1024.0));
}

}  // namespace

std::string Block::summary(const std::vector<TensorInfo>& inputs) {
  Table table(*this);
  complete_shapes(inputs);
  return table.str() + totals(parameters());
}

}  // namespace lockstep::nn
