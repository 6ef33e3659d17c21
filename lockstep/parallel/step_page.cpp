// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "lockstep/parallel/detail/rows_svg.h"
#include "lockstep/parallel/simulator.h"

namespace lockstep::parallel {
namespace {

struct Look {
  const char* colour;
  const char* name;
};

Look look_of(Task::Phase phase) {
  switch (phase) {
    case Task::Phase::forward: return {detail::kForward, "forward"};
    case Task::Phase::backward: return {detail::kBackward, "backward"};
    case Task::Phase::update: break;
  }
  return {detail::kUpdate, "update"};
}

detail::Box box_of(const Span& span) {
  const Look look = look_of(span.phase);
  const std::string shard = span.shard < 0 ? "" : std::to_string(span.shard);
  return {span.begin, span.end, look.colour,
          fmt::format("{}{}, {:.3f} ms", look.name, shard.empty() ? "" : " of shard " + shard,
                      1e3 * (span.end - span.begin)),
          shard};
}

std::string part_row(const char* name, double seconds, double all) {
  return fmt::format("<tr><td>{}</td><td>{:.3f} ms</td><td>{:.1f}%</td></tr>\n", name,
                     1e3 * seconds, 100.0 * seconds / std::max(all, 1e-12));
}

}  // namespace

std::string step_svg(const SimulatedStep& step, std::size_t most) {
  std::vector<detail::Row> rows;
  for (std::size_t w = 0; w < std::min(most, step.spans.size()); ++w) {
    rows.push_back({fmt::format("worker {}", w)});
    for (const Span& span : step.spans[w]) rows.back().boxes.push_back(box_of(span));
  }
  return detail::rows_svg(rows, step.seconds);
}

std::string step_page(const std::string& title, const StepEstimate& estimate,
                      const SimulatedStep& step) {
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n"
             "<style>body{{font-family:sans-serif;margin:2em;max-width:75em}}"
             "td{{padding:0.2em 1em 0.2em 0;text-align:right}}"
             "td:first-child{{text-align:left}}</style></head><body>\n<h1>{0}</h1>\n"
             "<p>A step takes {1:.3f} ms ({2:.3f} to {3:.3f}, 10th to 90th percentile), {4:.1f}% "
             "of "
             "it computing. What bounds it: {5}.</p>\n<table>\n",
             title, 1e3 * estimate.seconds, 1e3 * estimate.p10, 1e3 * estimate.p90,
             100.0 * estimate.efficiency(), estimate.bound()) +
         part_row("computing", estimate.computing, estimate.seconds) +
         part_row("bubble", estimate.bubble, estimate.seconds) +
         part_row("communication", estimate.communication, estimate.seconds) +
         part_row("stragglers", estimate.stragglers, estimate.seconds) + "</table>\n" +
         "<p>Blue: forward, red: backward, olive: update; empty: waiting.</p>\n" + step_svg(step) +
         "</body></html>\n";
}

}  // namespace lockstep::parallel
