// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/fetch_set.h"

#include <algorithm>

#include "lockstep/data/catalogue.h"

namespace lockstep::recipes {

std::string fetch_set(const std::string& name, const std::string& cache,
                      observe::Progress& progress, bool verify) {
  std::string shown;
  data::GetOptions options{.cache_dir = cache, .verify = verify};
  options.progress = [&](std::int64_t done, std::int64_t total, std::string_view what) {
    if (what != shown)
      progress.begin({.label = std::string(shown = what),
                      .total = std::max<std::int64_t>(total, 0),
                      .unit = observe::ProgressUnit::kBytes});
    progress.update(done);
  };
  std::string folder = data::get(name, options);
  if (!shown.empty()) progress.finish();
  return folder;
}

}  // namespace lockstep::recipes
