// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/cli.h"

#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/machine_limits.h"
#include "lockstep/base/nearest.h"
#include "lockstep/base/print_error.h"
#include "lockstep/base/version.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/elastic_commands.h"
#include "lockstep/cli/help.h"
#include "lockstep/cli/plan_command.h"
#include "lockstep/cli/simulate_command.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/cluster/membership/place.h"

namespace lockstep::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  lockstep train mnist-lenet                        train; the data is fetched the first time
  lockstep train cifar-cnn --data synthetic --steps 50   a look, without any files
  lockstep train mnist-lenet --out run && lockstep train mnist-lenet --out run --resume
  lockstep launch --hosts a:2,b:2 -- lockstep train cifar-cnn   on several machines
  lockstep eval run                                 the trained model on the test data
  lockstep predict run digit.png                    what does it see?
  lockstep models                                   the recipes, and what is in them
  lockstep convert run net.safetensors              its parameters for other frameworks
  source <(lockstep completion bash)                let the Tab key help

lockstep COMMAND --help shows a command's options.)";

void add_commands(CLI::App& app, Action& action) {
  add_train_command(app, action);
  add_launch_command(app, action);
  add_status_command(app, action);
  add_jobs_command(app, action);
  add_stop_command(app, action);
  add_attach_command(app, action);
  add_scale_command(app, action);
  add_leave_command(app, action);
  add_join_command(app, action);
  add_eval_command(app, action);
  add_predict_command(app, action);
  add_data_command(app, action);
  add_models_command(app, action);
  add_convert_command(app, action);
  add_bench_command(app, action);
  add_doctor_command(app, action);
  add_plan_command(app, action);
  add_simulate_command(app, action);
  add_completion_command(app, action);
}

// Of all options and commands, that is the one that scripts ask for on every host, and the one that
// needs none of the others.
bool asks_for_version(int argc, const char* const* argv) {
  return argc == 2 && std::string_view(argv[1]) == "--version";
}

// A command below another inherits its heading, which says what the one above is for.
void head_subcommands(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands(nullptr))
    for (CLI::App* below : command->get_subcommands(nullptr))
      if (!below->get_group().empty()) below->group("Commands");
}

// The deepest command that was named: whose help helps.
const CLI::App* named_command(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::string command_line(const CLI::App* app) {
  const CLI::App* parent = app->get_parent();
  return parent == nullptr ? app->get_name() : command_line(parent) + " " + app->get_name();
}

std::vector<std::string> names_below(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* below : command.get_subcommands(nullptr))
    if (!below->get_group().empty()) names.push_back(below->get_name());
  return names;
}

// Options of a command that are shown, by their long names.
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string what_is_unknown(const CLI::App& command, const std::string& word) {
  const bool is_option = word.starts_with('-');
  const std::vector<std::string> names = is_option ? option_names(command) : names_below(command);
  const std::string meant = nearest(word, names);
  const std::string what =
      fmt::format("unknown {} '{}'", is_option || names.empty() ? "argument" : "command", word);
  return meant.empty() ? what : fmt::format("{}; did you mean {}?", what, meant);
}

// Words that nobody took, the named command's own before those that it left to the program. The
// mark before another program's words is none of them.
std::vector<std::string> unknown_words(const CLI::App& app, const CLI::App& command) {
  std::vector<std::string> words = command.remaining();
  for (const std::string& word : app.remaining(true)) words.push_back(word);
  std::erase(words, "--");
  return words;
}

std::string complaint(const CLI::App& app, const CLI::App& command, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = unknown_words(app, command);
  if (!unknown.empty()) return what_is_unknown(command, unknown.front());
  const bool lacks_command = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
                             command.get_require_subcommand_min() > 0;
  if (!lacks_command) return error.what();
  return fmt::format("no command was given: there are {}", fmt::join(names_below(command), ", "));
}

// mpirun and srun mostly give the same words to many processes, and mpirun ends all when one ends:
// then the first complains for all. The others wait for that, and not longer: the first may have
// other words, or start late.
bool is_one_of_many() {
  using Launcher = cluster::Place::Launcher;
  try {
    const auto place = cluster::find_place();
    if (!place || place->id() == 0) return false;
    if (place->launcher != Launcher::mpi && place->launcher != Launcher::slurm) return false;
  } catch (const Error&) {
    return false;
  }
  return true;
}

int refuse(const std::string& what) {
  if (is_one_of_many()) std::this_thread::sleep_for(std::chrono::seconds(2));
  print_error("lockstep: {}\n", what);
  return kWrongUsage;
}

// CLI11 throws for --help and --version too; those succeed.
int report(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    std::ostringstream out;
    app.exit(error, out, out);
    std::fputs(out.str().c_str(), stdout);  // finish() looks whether it could
    return 0;
  }
  const CLI::App* command = named_command(&app);
  return refuse(fmt::format("{} ({} --help shows the usage)", complaint(app, *command, error),
                            command_line(command)));
}

// Whoever has read enough (`| head`) wants to hear nothing about it.
int cannot_print(int error, int status) {
  if (error != EPIPE)
    print_error("lockstep: standard output: cannot be written: {}\n", std::strerror(error));
  return status == 0 ? kFailure : status;
}

// Why a write failed whose errno nobody kept.
int earlier_error() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0 ? EPIPE : EIO;
}

// What was printed must have arrived: a full disk is a failure, not a success with half a result.
int finish(int status) {
  errno = 0;
  const bool arrived = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return arrived ? status : cannot_print(errno == 0 ? earlier_error() : errno, status);
}

// Whoever asks for much names it; this is for all the rest.
int report_no_memory(const CLI::App& command) {
  const std::string limits = memory_limits_text();
  print_error("lockstep: {}: there is not enough memory{}{}\n", command.get_name(),
              limits.empty() ? "" : ": ", limits);
  return kFailure;
}

int parse_and_run(CLI::App& app, Action& action, int argc, const char* const* argv) {
  try {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (!words.empty() && words[0] == "train") words = join_resume_auto(std::move(words));
    // As CLI11 wants them: the last one first.
    std::reverse(words.begin(), words.end());
    app.parse(words);
    return action();
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  } catch (const WrongUsage& error) {
    return refuse(error.what());
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::broken_pipe) return cannot_print(EPIPE, kFailure);
    print_error("lockstep: {}\n", error.what());
    return kFailure;
  } catch (const std::bad_alloc&) {
    return report_no_memory(*named_command(&app));
  } catch (const std::exception& error) {
    print_error("lockstep: {}\n", error.what());
    return kFailure;
  }
}

}  // namespace

std::string program_name() { return program_invocation_name; }

std::vector<std::string> own_words() {
  const std::string bytes = read_file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\0', begin), bytes.size());
    words.push_back(bytes.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string shell_word(const std::string& word) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("-_./=:@%+,", c) != nullptr;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line, before;
  for (std::string word : words) {
    const std::size_t begin = word.starts_with("--env=") ? 6 : 0;
    if (before == "--env" || begin > 0) word.resize(std::min(word.size(), word.find('=', begin)));
    line += (line.empty() ? "" : " ") + shell_word(word);
    before = word;
  }
  return line;
}

int run(int argc, const char* const* argv) {
  Action action;
  CLI::App app{"Lockstep: distributed deep learning, the same bits on any number of workers",
               "lockstep"};
  app.set_version_flag("--version", std::string("lockstep ") + version());
  app.require_subcommand(1);
  app.formatter(help_formatter());
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  if (!asks_for_version(argc, argv)) add_commands(app, action);
  head_subcommands(app);
  app.footer(kExamples);  // last: commands inherit what is there when they are added
  return finish(parse_and_run(app, action, argc, argv));
}

}  // namespace lockstep::cli
