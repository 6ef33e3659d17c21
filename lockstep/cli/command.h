// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

constexpr int kFailure = 1;
constexpr int kWrongUsage = 2;
// What a shell shows for a program that Ctrl-C ended.
constexpr int kInterrupted = 130;

// What the command line asks for: set while it is parsed, run afterwards; returns the exit status.
using Action = std::function<int()>;

// A command line that cannot be meant, found after it was parsed: exit status 2.
class WrongUsage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The headings of `lockstep --help`.
constexpr const char* kModelGroup = "Train and use a model";
constexpr const char* kJobGroup = "Jobs";
constexpr const char* kToolGroup = "Data, models and tools";

// Each adds its commands to the program.
void add_train_command(CLI::App& app, Action& action);
void add_launch_command(CLI::App& app, Action& action);
void add_status_command(CLI::App& app, Action& action);
void add_jobs_command(CLI::App& app, Action& action);
void add_stop_command(CLI::App& app, Action& action);
void add_eval_command(CLI::App& app, Action& action);
void add_predict_command(CLI::App& app, Action& action);
void add_data_command(CLI::App& app, Action& action);
void add_models_command(CLI::App& app, Action& action);
void add_convert_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_doctor_command(CLI::App& app, Action& action);
void add_completion_command(CLI::App& app, Action& action);

// How the program was called, such as build/bin/lockstep: commands that it proposes begin with it.
std::string program_name();
// The words of our own command line.
std::vector<std::string> own_words();
// `word` as a shell reads it back: in quotes where it has anything but letters, digits and
// -_./=:@%+,
std::string shell_word(const std::string& word);

// A command line of such words. What --env sets may be a secret: its value is left out.
std::string shell_line(const std::vector<std::string>& words);

// A script for the shell, made from the program's own commands and options. Throws NotFound for
// another shell than bash, zsh and fish.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace lockstep::cli
