// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/help.h"

// The scripts are made from the parsed program's own description, so a new option needs no second
// place. A command is known by its path: "" is the program, " data get" a command of a command.
namespace lockstep::cli {
namespace {

using Words = std::vector<std::string>;

struct OptionFacts {
  std::string name;  // "--json"; empty: an argument by its place
  std::string what;
  bool takes_value = false;
  Words choices;
};

struct CommandFacts {
  std::string path;
  std::string what;
  std::vector<CommandFacts> commands;
  std::vector<OptionFacts> options;
};

OptionFacts option_facts(const CLI::Option& option) {
  const bool positional = option.get_positional();
  return {positional ? "" : "--" + option.get_lnames().front(), option.get_description(),
          option.get_items_expected_max() > 0, choices_of(option)};
}

bool is_shown(const CLI::Option* option) {
  return !option->get_group().empty() &&
         (option->get_positional() || !option->get_lnames().empty());
}

CommandFacts command_facts(const CLI::App& app, const std::string& path) {
  CommandFacts facts{path, app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options(is_shown))
    facts.options.push_back(option_facts(*option));
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); }))
    facts.commands.push_back(command_facts(*command, path + " " + command->get_name()));
  return facts;
}

template <class F>
void for_each_command(const CommandFacts& facts, const F& visit) {
  visit(facts);
  for (const CommandFacts& command : facts.commands) for_each_command(command, visit);
}

std::string last_word(const std::string& path) { return path.substr(path.rfind(' ') + 1); }

// Everything that may stand after a command.
Words words_after(const CommandFacts& facts) {
  Words words;
  for (const CommandFacts& command : facts.commands) words.push_back(last_word(command.path));
  for (const OptionFacts& option : facts.options) {
    if (option.name.empty())
      words.insert(words.end(), option.choices.begin(), option.choices.end());
    else
      words.push_back(option.name);
  }
  return words;
}

// Shell code common to bash and zsh: case branches that find the path, an option's choices and a
// command's words.
std::string path_branch(const CommandFacts& root) {
  Words paths;
  for_each_command(root, [&](const CommandFacts& facts) {
    if (!facts.path.empty()) paths.push_back('"' + facts.path + '"');
  });
  return fmt::format("{}) command=\"$command $word\" ;;", fmt::join(paths, "|"));
}

std::string value_branches(const CommandFacts& root) {
  std::string text;
  for_each_command(root, [&](const CommandFacts& facts) {
    for (const OptionFacts& option : facts.options)
      if (!option.name.empty() && option.takes_value)
        text += fmt::format("    \"{} {}\") choices=\"{}\"; value=1 ;;\n", facts.path, option.name,
                            fmt::join(option.choices, " "));
  });
  return text;
}

std::string word_branches(const CommandFacts& root) {
  std::string text;
  for_each_command(root, [&](const CommandFacts& facts) {
    text += fmt::format("    \"{}\") choices=\"{}\" ;;\n", facts.path,
                        fmt::join(words_after(facts), " "));
  });
  return text;
}

std::string choose(const CommandFacts& root, const char* words, const char* previous) {
  return fmt::format(R"(  local command="" choices="" value="" word
  for word in {0}; do
    case "$command $word" in
      {1}
    esac
  done
  case "$command {2}" in
{3}  esac
  [[ -n $value ]] || case "$command" in
{4}  esac
)",
                     words, path_branch(root), previous, value_branches(root), word_branches(root));
}

std::string bash_script(const CommandFacts& root) {
  return fmt::format(
      R"(# bash completion for lockstep: source <(lockstep completion bash)
_lockstep() {{
{}  COMPREPLY=($(compgen -W "$choices" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _lockstep lockstep
)",
      choose(root, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"", "${COMP_WORDS[COMP_CWORD-1]}"));
}

std::string zsh_script(const CommandFacts& root) {
  return fmt::format(R"(#compdef lockstep
# zsh completion for lockstep: source <(lockstep completion zsh)
_lockstep() {{
{}  [[ -n $choices ]] && compadd -- ${{=choices}}
  _files
}}
(( $+functions[compdef] )) && compdef _lockstep lockstep
)",
                     choose(root, "${words[2,CURRENT-1]}", "${words[CURRENT-1]}"));
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("\\'") : std::string(1, c);
  return result + "'";
}

// fish asks which commands were seen, and which of their own commands were not.
std::string fish_condition(const CommandFacts& facts) {
  if (facts.path.empty()) return "__fish_use_subcommand";
  std::string condition;
  for (const std::string& word : CLI::detail::split(facts.path.substr(1), ' '))
    condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
  Words own;
  for (const CommandFacts& command : facts.commands) own.push_back(last_word(command.path));
  if (!own.empty())
    condition += fmt::format("; and not __fish_seen_subcommand_from {}", fmt::join(own, " "));
  return condition;
}

std::string fish_option(const std::string& condition, const OptionFacts& option) {
  std::string line = fmt::format("complete -c lockstep -n '{}'", condition);
  if (!option.name.empty()) line += " -l " + option.name.substr(2);
  if (!option.name.empty() && option.takes_value) line += " -r";
  if (!option.choices.empty()) line += fmt::format(" -f -a '{}'", fmt::join(option.choices, " "));
  if (option.name.empty() && option.choices.empty()) return "";
  return line + " -d " + quoted(option.what) + "\n";
}

std::string fish_script(const CommandFacts& root) {
  std::string text = "# fish completion for lockstep: lockstep completion fish | source\n";
  for_each_command(root, [&](const CommandFacts& facts) {
    const std::string condition = fish_condition(facts);
    for (const CommandFacts& command : facts.commands)
      text += fmt::format("complete -c lockstep -n '{}' -f -a {} -d {}\n", condition,
                          last_word(command.path), quoted(command.what));
    for (const OptionFacts& option : facts.options) text += fish_option(condition, option);
  });
  return text;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  const CommandFacts root = command_facts(app, "");
  if (shell == "bash") return bash_script(root);
  if (shell == "zsh") return zsh_script(root);
  if (shell == "fish") return fish_script(root);
  throw NotFound("completion: there is no shell '{}', expected bash, zsh or fish", shell);
}

void add_completion_command(CLI::App& app, Action& action) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "A completion script for your shell");
  command->group(kToolGroup);
  command->add_option("shell", *shell, "Which shell")
      ->type_name("SHELL")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer("For this session:  source <(lockstep completion bash)");
  command->callback([&app, &action, shell] {
    action = [&app, shell] {
      fmt::print("{}", completion_script(app, *shell));
      return 0;
    };
  });
}

}  // namespace lockstep::cli
