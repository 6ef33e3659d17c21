// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/net_size.h"

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/options.h"
#include "lockstep/recipes/recipe.h"

namespace lockstep::cli {

void add_net_size(CLI::App& command, const char* group, std::optional<std::int64_t>& width,
                  std::optional<std::int64_t>& blocks) {
  constexpr std::int64_t kWidest = 1 << 20;
  add_count(command, group, "--width", width, "N",
            "Of char-gpt, gpt-wide and vit-small: how wide the net is", 1, kWidest);
  add_count(command, group, "--blocks", blocks, "N", "And how many blocks it has", 1, 1 << 12);
}

void check_net_size(const recipes::RunConfig& config) try {
  recipes::with_size(recipes::find_recipe(config.recipe),
                     {.width = config.width, .blocks = config.blocks});
} catch (const InvalidArgument& error) {
  throw WrongUsage(fmt::format(
      "{}{}: {}", config.width > 0 ? fmt::format("--width {}", config.width) : "",
      config.blocks > 0 ? fmt::format(" --blocks {}", config.blocks) : "", error.what()));
}

}  // namespace lockstep::cli
