// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/print_error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/data_limits.h"
#include "lockstep/cli/options.h"
#include "lockstep/io/edit_tensors.h"
#include "lockstep/train/parameter_file.h"

namespace lockstep::cli {
namespace {

struct ConvertOptions {
  std::string in, out;
  std::string from, to;
  std::vector<std::string> renames;
  std::string dtype;
  bool list = false, module_names = false;
  std::int64_t max_inflated = kMaxInflated / kMegabyte;
};

using Tensors = std::vector<io::NamedTensor>;

std::optional<io::FileFormat> format_of(const std::string& name) {
  if (name.empty()) return {};
  return io::format_from_name(name);
}

// What will be written, before anything is read.
io::FileFormat format_to_write(const ConvertOptions& options) {
  if (!options.to.empty()) return io::format_from_name(options.to);
  if (const auto format = io::format_of_ending(options.out)) return *format;
  throw WrongUsage(fmt::format(
      "convert: {}: its ending does not say what to write: use .lockstep, .params, .safetensors or "
      ".npz, or give --to",
      options.out));
}

// The last = divides: regular expressions have some of their own.
void rename(Tensors& tensors, const std::string& text) {
  const std::size_t at = text.rfind('=');
  io::rename(tensors, text.substr(0, at), text.substr(at + 1));
}

void check_rename(const std::string& text) {
  if (text.rfind('=') == std::string::npos || text.starts_with('='))
    throw WrongUsage(fmt::format("convert: --rename {}: expected PATTERN=TO", text));
}

// MXNet's own files keep its prefixes; nobody else has them.
void change_prefixes(Tensors& tensors, bool to_mxnet, bool module_names) {
  for (auto& [name, tensor] : tensors) {
    if (!to_mxnet) name = io::without_mxnet_prefix(name);
    if (to_mxnet && module_names) name = io::with_mxnet_prefix(name);
  }
}

std::string size_text(std::size_t bytes) {
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  if (bytes >= 1'000) return fmt::format("{:.1f} KB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{} bytes", bytes);
}

std::string summary(const Tensors& tensors) {
  std::size_t bytes = 0;
  std::int64_t elements = 0;
  for (const auto& [name, tensor] : tensors) {
    bytes += tensor.info().bytes();
    elements += tensor.numel();
  }
  return fmt::format("{} tensor{}, {} element{}, {}", tensors.size(),
                     tensors.size() == 1 ? "" : "s", elements, elements == 1 ? "" : "s",
                     size_text(bytes));
}

// A name may hold anything; what a terminal would act on is shown as a question mark.
std::string shown(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return name;
}

void print_table(const Tensors& tensors) {
  std::size_t name_width = 4, shape_width = 5;
  for (const auto& [name, tensor] : tensors) {
    name_width = std::max(name_width, name.size());
    shape_width = std::max(shape_width, tensor.shape().str().size());
  }
  fmt::print("{:<{}}  {:<{}}  dtype\n", "name", name_width, "shape", shape_width);
  for (const auto& [name, tensor] : tensors)
    fmt::print("{:<{}}  {:<{}}  {}\n", shown(name), name_width, tensor.shape().str(), shape_width,
               name_of(tensor.dtype()));
  fmt::print("{}\n", summary(tensors));
}

int convert(const ConvertOptions& options) {
  if (options.out.empty() && !options.list)
    throw WrongUsage("convert: no OUT was given: name the file to write, or give --list");
  std::optional<io::FileFormat> to;
  if (!options.out.empty()) to = format_to_write(options);
  for (const std::string& text : options.renames) check_rename(text);
  Tensors tensors =
      train::load_parameters(options.in, format_of(options.from),
                             {.max_inflated = options.max_inflated * kMegabyte}, print_warning);
  if (to) change_prefixes(tensors, *to == io::FileFormat::params, options.module_names);
  for (const std::string& text : options.renames) rename(tensors, text);
  if (!options.dtype.empty()) io::cast_floats(tensors, dtype_from_name(options.dtype));
  if (to) io::save_tensors(options.out, tensors, to);
  if (options.list) print_table(tensors);
  if (to && !options.list)
    fmt::print("{}: {} ({})\n", options.out, summary(tensors), io::name_of(*to));
  return 0;
}

constexpr const char* kFooter = R"(Examples:
  lockstep convert model-0010.params net.safetensors     MXNet's parameters for others
  lockstep convert runs/mnist-lenet-1 net.npz            the newest checkpoint, for NumPy
  lockstep convert net.safetensors --list                what is in it
  lockstep convert net.safetensors net.lockstep --rename '^backbone\.=' --dtype bfloat16)";

}  // namespace

void add_convert_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert", "Parameters from one kind of file to another; --list shows what is in one");
  command->group(kToolGroup);
  command->add_option("in", options->in, "A file of tensors, a run's folder or a checkpoint")
      ->type_name("IN")
      ->required();
  command->add_option("out", options->out, "The file to write; its ending says the format")
      ->type_name("OUT");
  const char* group = "Options";
  add(*command, group, "--from", options->from, "FORMAT", "Of IN, where its first bytes mislead")
      ->check(CLI::IsMember(io::format_names()));
  add(*command, group, "--to", options->to, "FORMAT", "Of OUT, whatever its ending")
      ->check(CLI::IsMember(io::format_names()));
  add(*command, group, "--rename", options->renames, "PATTERN=TO",
      "What the regular expression matches in a name becomes TO ($1: its first group); any number "
      "of them, one after the other")
      ->allow_extra_args(false);
  add(*command, group, "--dtype", options->dtype, "DTYPE", "Of floating tensors; others stay")
      ->check(CLI::IsMember({"float32", "float64", "float16", "bfloat16"}));
  command->add_flag("--list", options->list, "A table of names, shapes and dtypes");
  command->add_flag("--module-names", options->module_names,
                    "In .params: arg: and aux: before the names, as MXNet's Module wants them");
  add_count(*command, group, "--max-inflated", options->max_inflated, "MB",
            "Of compressed and sparse arrays, all together", 1, kMostMegabytes)
      ->capture_default_str();
  command->footer(kFooter);
  command->callback([&action, options] { action = [options] { return convert(*options); }; });
}

}  // namespace lockstep::cli
