// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/fused.h"

#include <algorithm>
#include <charconv>

#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/cpu/fused.h"
#include "lockstep/ops/cpu/tile_ops.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/families.h"

namespace lockstep {
namespace {

constexpr const char* kName = "fused_elementwise";

[[noreturn]] void fail_program(std::string_view text, const char* why) {
  throw InvalidArgument("{}: the program '{}' is malformed: {}", kName, text, why);
}

// Attributes as numbers; anything else cannot be a parameter of a tile function.
bool to_number(const AttrValue& value, double& number) {
  if (const auto* b = std::get_if<bool>(&value))
    number = *b ? 1.0 : 0.0;
  else if (const auto* i = std::get_if<std::int64_t>(&value))
    number = static_cast<double>(*i);
  else if (const auto* d = std::get_if<double>(&value))
    number = *d;
  else
    return false;
  return true;
}

AttrValue from_number(double number, const AttrValue& like) {
  if (std::holds_alternative<bool>(like)) return number != 0.0;
  if (std::holds_alternative<std::int64_t>(like)) return convert_element<std::int64_t>(number);
  return number;
}

Attrs attrs_of(const FusedInstruction& instruction) {
  if (instruction.op->schema.defaults == nullptr) return {};
  std::vector<AttrField> fields = instruction.op->schema.defaults();
  check(fields.size() == instruction.params.size(), "a fused op has a wrong parameter count");
  for (std::size_t i = 0; i < fields.size(); ++i)
    fields[i].value = from_number(instruction.params[i], fields[i].value);
  return instruction.op->schema.make(instruction.op->name, fields);
}

// Reads one "name(operands|params)" per call.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ >= text_.size(); }

  FusedInstruction next() {
    const std::size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) fail_program(text_, "no '('");
    FusedInstruction instruction;
    instruction.op = find_op(text_.substr(at_, open - at_));
    if (instruction.op == nullptr || kernels::tile_function(instruction.op->name) == nullptr)
      fail_program(text_, "not an op that can be fused");
    at_ = open + 1;
    while (!done(")|")) instruction.operands.push_back(number<int>());
    if (text_[at_++] == '|') {
      while (!done(")")) instruction.params.push_back(number<double>());
      ++at_;
    }
    if (!at_end() && text_[at_++] != ' ') fail_program(text_, "no space between instructions");
    return instruction;
  }

 private:
  bool done(std::string_view stops) {
    if (at_end()) fail_program(text_, "it ends early");
    if (text_[at_] == ',') ++at_;
    if (at_end()) fail_program(text_, "it ends early");
    return stops.find(text_[at_]) != std::string_view::npos;
  }

  template <class T>
  T number() {
    T value{};
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail_program(text_, "not a number");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Infos infer_fused(const InferArgs& args) {
  parse_fused(args.attrs.as<FusedAttrs>().program, args.inputs.size());
  TensorInfo output = args.inputs[0];
  for (const TensorInfo& input : args.inputs) {
    if (!is_floating(input.dtype) || input.dtype != output.dtype)
      throw InvalidArgument("{}: takes floating inputs of one dtype, got {} and {}", args.op,
                            name_of(output.dtype), name_of(input.dtype));
    output.shape = broadcast_shapes(args.op, output.shape, input.shape);
  }
  for (const TensorInfo& input : args.inputs)
    if (input.shape.numel() != 1 && !(input.shape == output.shape))
      throw InvalidArgument("{}: inputs are {} and {}; they must be equal or have one element",
                            args.op, input.str(), output.str());
  return {output};
}

std::vector<Tensor> decompose_fused(std::span<const Tensor> inputs, const Attrs& attrs) {
  std::vector<Tensor> registers(inputs.begin(), inputs.end());
  for (const FusedInstruction& instruction :
       parse_fused(attrs.as<FusedAttrs>().program, inputs.size())) {
    std::vector<Tensor> operands;
    for (int r : instruction.operands) operands.push_back(registers[static_cast<std::size_t>(r)]);
    registers.push_back(apply(*instruction.op, operands, attrs_of(instruction))[0]);
  }
  return {registers.back()};
}

}  // namespace

std::string to_text(const std::vector<FusedInstruction>& instructions) {
  std::string text;
  for (const FusedInstruction& instruction : instructions) {
    text += (text.empty() ? "" : " ") + std::string(instruction.op->name) + "(";
    for (std::size_t i = 0; i < instruction.operands.size(); ++i)
      text += (i ? "," : "") + std::to_string(instruction.operands[i]);
    for (std::size_t i = 0; i < instruction.params.size(); ++i)
      text += fmt::format("{}{}", i ? "," : "|", instruction.params[i]);
    text += ")";
  }
  return text;
}

std::vector<FusedInstruction> parse_fused(const std::string& text, std::size_t inputs) {
  std::vector<FusedInstruction> instructions;
  Parser parser(text);
  while (!parser.at_end()) {
    instructions.push_back(parser.next());
    const FusedInstruction& last = instructions.back();
    const auto defined = static_cast<int>(inputs + instructions.size() - 1);
    if (last.operands.empty() || static_cast<int>(last.operands.size()) != last.op->min_inputs)
      fail_program(text, "wrong number of operands");
    for (int r : last.operands)
      if (r < 0 || r >= defined) fail_program(text, "an operand is not defined yet");
    const std::size_t params =
        last.op->schema.defaults == nullptr ? 0 : last.op->schema.defaults().size();
    if (params != last.params.size()) fail_program(text, "wrong number of parameters");
  }
  if (instructions.empty()) fail_program(text, "it is empty");
  return instructions;
}

constexpr ArgumentDoc kChain[] = {
    {"inputs", "registers 0, 1, ... of the program; they broadcast", Presence::repeated}};
constexpr ArgumentDoc kChainOutput[] = {{"y", "what the last op gives"}};
constexpr OpDocs kFusedElementwiseDocs{
    "A chain of element-wise ops in one loop over memory, made by the compiler.", kChain,
    kChainOutput};

const OpDef& fused_elementwise_op() {
  static const OpDef op{.name = kName,
                        .docs = kFusedElementwiseDocs,
                        .min_inputs = 1,
                        .max_inputs = -1,
                        .kind = OpKind::elementwise,
                        .schema = attr_schema<FusedAttrs>(),
                        .infer = infer_fused,
                        .decompose = decompose_fused,
                        .cpu = kernels::fused_elementwise_kernels()};
  return op;
}

bool is_fusable(const OpDef& op, const Attrs& attrs) {
  if (op.kind != OpKind::elementwise || kernels::tile_function(op.name) == nullptr) return false;
  double ignored = 0;
  for (const AttrField& field : attrs.fields())
    if (!to_number(field.value, ignored)) return false;
  return true;
}

FusedInstruction make_instruction(const OpDef& op, const Attrs& attrs, std::vector<int> operands) {
  FusedInstruction instruction{&op, std::move(operands), {}};
  for (const AttrField& field : attrs.fields()) {
    double number = 0;
    check(to_number(field.value, number), "an attribute is not a number");
    instruction.params.push_back(number);
  }
  return instruction;
}

bool preserves_zero(const OpDef& op, const Attrs& attrs, const std::vector<bool>& single) {
  const auto zero_result = [](const OpDef& step, bool any_single) {
    return any_single ? step.zero_with_singles : step.zero_preserving;
  };
  const auto is_single = [](bool s) { return s; };
  if (&op != &fused_elementwise_op())
    return zero_result(op, std::any_of(single.begin(), single.end(), is_single));
  std::vector<bool> nonzero = single;  // by register
  for (const FusedInstruction& step : parse_fused(attrs.as<FusedAttrs>().program, single.size())) {
    int singles = 0;
    bool computed = false;  // and perhaps infinite: then even its product with zero is not zero
    for (int r : step.operands) {
      const auto at = static_cast<std::size_t>(r);
      singles += at < single.size() && single[at] ? 1 : 0;
      computed = computed || (at >= single.size() && nonzero[at]);
    }
    const bool all = singles == static_cast<int>(step.operands.size());
    nonzero.push_back(all || computed || !zero_result(*step.op, singles > 0));
  }
  return !nonzero.back();
}

namespace families {

Family fused() { return {&fused_elementwise_op()}; }

}  // namespace families
}  // namespace lockstep
