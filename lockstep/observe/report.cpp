// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/report.h"

#include <fmt/format.h>

#include "lockstep/observe/detail/html.h"

namespace lockstep::observe {
namespace {

std::string head(const ReportData& data) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\" />\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n"
      "<title>{0}</title>\n<style>{1}</style></head>\n<body>\n",
      escape_html(data.title), report_style());
}

std::string header(const ReportData& data) {
  const std::string below =
      data.subtitle.empty() ? "" : fmt::format("<p>{}</p>", escape_html(data.subtitle));
  return fmt::format("<header><h1>{}</h1>{}</header>\n", escape_html(data.title), below);
}

std::string tiles(const std::vector<ReportTile>& all) {
  if (all.empty()) return "";
  std::string html = "<div class=\"tiles\">";
  for (const ReportTile& tile : all)
    html += fmt::format("<div class=\"card tile\"><span>{}</span><b>{}</b>{}</div>\n",
                        escape_html(tile.label), escape_html(tile.value),
                        tile.note.empty() ? "" : "<span>" + escape_html(tile.note) + "</span>");
  return html + "</div>\n";
}

// The promise of the framework, where one can check it.
std::string proof(const ReportData& data) {
  std::string html;
  if (!data.params_sha256.empty())
    html += fmt::format("<p><span class=\"quiet\">parameters SHA-256</span> <code>{}</code></p>",
                        escape_html(data.params_sha256));
  if (!data.command.empty())
    html += fmt::format("<p><span class=\"quiet\">the same bits again</span> <code>{}</code></p>",
                        escape_html(data.command));
  return html.empty() ? "" : "<div class=\"card proof\">" + html + "</div>\n";
}

std::string samples(const std::vector<ReportSample>& all) {
  if (all.empty()) return "";
  std::string html = "<section class=\"card wide\"><h2>What it writes</h2>";
  for (const ReportSample& sample : all)
    html += fmt::format("<pre class=\"sample\"><b>{}</b>{}</pre>\n", escape_html(sample.prompt),
                        escape_html(sample.text));
  return html + "</section>\n";
}

std::string configuration(const std::vector<std::pair<std::string, std::string>>& rows) {
  if (rows.empty()) return "";
  std::string html = "<section class=\"card wide\"><h2>Configuration</h2><table class=\"config\">";
  for (const auto& [key, value] : rows)
    html += fmt::format("<tr><td>{}</td><td class=\"mono\">{}</td></tr>\n", escape_html(key),
                        escape_html(value));
  return html + "</table></section>\n";
}

}  // namespace

std::string render_report(const ReportData& data) {
  std::string html = head(data) + header(data) + tiles(data.tiles) + proof(data) + "<main>\n";
  for (const ReportChart& chart : data.charts) html += render_chart(chart);
  html += render_confusion(data.confusion) + render_predictions(data.predictions);
  html += samples(data.samples) + configuration(data.config) + "</main>\n";
  return html + fmt::format("<script>{}</script>\n</body></html>\n", report_script());
}

}  // namespace lockstep::observe
