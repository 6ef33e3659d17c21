// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lockstep/base/base64.h"
#include "lockstep/base/error.h"
#include "lockstep/observe/detail/html.h"
#include "lockstep/observe/text.h"

namespace lockstep::observe {
namespace {

constexpr std::size_t kMostClasses = 40;  // a larger matrix is a carpet: its mistakes are listed
constexpr std::size_t kMostMistakes = 12;
constexpr std::size_t kMostPictures = 48;

struct Mistake {
  std::size_t truth = 0, predicted = 0;
  std::int64_t count = 0;
};

std::int64_t count_at(const ConfusionMatrix& matrix, std::size_t truth, std::size_t predicted) {
  return matrix.counts[truth * matrix.classes.size() + predicted];
}

std::int64_t row_total(const ConfusionMatrix& matrix, std::size_t truth) {
  const auto row = matrix.counts.begin() + static_cast<long>(truth * matrix.classes.size());
  return std::accumulate(row, row + static_cast<long>(matrix.classes.size()), std::int64_t{0});
}

std::int64_t column_total(const ConfusionMatrix& matrix, std::size_t predicted) {
  std::int64_t total = 0;
  for (std::size_t t = 0; t < matrix.classes.size(); ++t) total += count_at(matrix, t, predicted);
  return total;
}

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? fmt::format("{:.1f}%", 100 * share(part, whole)) : "-";
}

std::vector<Mistake> mistakes_of(const ConfusionMatrix& matrix) {
  std::vector<Mistake> found;
  for (std::size_t t = 0; t < matrix.classes.size(); ++t)
    for (std::size_t p = 0; p < matrix.classes.size(); ++p)
      if (t != p && count_at(matrix, t, p) > 0) found.push_back({t, p, count_at(matrix, t, p)});
  std::ranges::stable_sort(found, std::ranges::greater{}, &Mistake::count);
  if (found.size() > kMostMistakes) found.resize(kMostMistakes);
  return found;
}

// Mistakes are a few percent of a row: their colour is by the largest of them, or none was seen.
std::string cell(const ConfusionMatrix& matrix, std::size_t truth, std::size_t predicted,
                 std::int64_t total, std::int64_t most) {
  const std::int64_t count = count_at(matrix, truth, predicted);
  if (count == 0) return "<td class=\"none\">0</td>";
  const bool right = truth == predicted;
  const double depth = right ? share(count, total) : 0.12 + 0.6 * share(count, most);
  return fmt::format(
      "<td class=\"{}{}\" style=\"--p:{:.3f}\" title=\"{} taken for {}: {}\">{}</td>",
      right ? "right" : "wrong", right && depth > 0.45 ? " full" : "", depth,
      escape_html(matrix.classes[truth]), escape_html(matrix.classes[predicted]),
      percent(count, total), count);
}

std::string matrix_row(const ConfusionMatrix& matrix, std::size_t truth, std::int64_t most) {
  const std::int64_t total = row_total(matrix, truth);
  std::string html =
      fmt::format("<tr><th scope=\"row\">{}</th>", escape_html(matrix.classes[truth]));
  for (std::size_t p = 0; p < matrix.classes.size(); ++p)
    html += cell(matrix, truth, p, total, most);
  return html + fmt::format("<td class=\"sum\">{}</td></tr>\n",
                            percent(count_at(matrix, truth, truth), total));
}

std::string matrix_table(const ConfusionMatrix& matrix) {
  std::string html = "<div class=\"scroll\"><table class=\"confusion\"><thead><tr><th></th>";
  for (const std::string& name : matrix.classes)
    html += fmt::format("<th scope=\"col\">{}</th>", escape_html(name));
  html += "<th>recall</th></tr></thead><tbody>\n";
  const std::vector<Mistake> mistakes = mistakes_of(matrix);
  const std::int64_t most = mistakes.empty() ? 0 : mistakes.front().count;
  for (std::size_t t = 0; t < matrix.classes.size(); ++t) html += matrix_row(matrix, t, most);
  html += "</tbody><tfoot><tr><th>precision</th>";
  for (std::size_t p = 0; p < matrix.classes.size(); ++p)
    html += fmt::format("<td class=\"sum\">{}</td>",
                        percent(count_at(matrix, p, p), column_total(matrix, p)));
  return html + "<td></td></tr></tfoot></table></div>\n";
}

std::string mistake_list(const ConfusionMatrix& matrix) {
  const std::vector<Mistake> found = mistakes_of(matrix);
  if (found.empty()) return "<p class=\"quiet\">No mistakes.</p>\n";
  std::string html = "<p class=\"quiet\">Most frequent mistakes</p><ul class=\"chips\">";
  for (const Mistake& mistake : found)
    html +=
        fmt::format("<li>{} \u2192 {} <b>{}</b></li>", escape_html(matrix.classes[mistake.truth]),
                    escape_html(matrix.classes[mistake.predicted]), format_count(mistake.count));
  return html + "</ul>\n";
}

void expect_square(const ConfusionMatrix& matrix) {
  const std::size_t expected = matrix.classes.size() * matrix.classes.size();
  if (matrix.counts.size() != expected)
    throw InvalidArgument("report: the confusion matrix has {} counts, expected {} for {} classes",
                          matrix.counts.size(), expected, matrix.classes.size());
  const auto negative = std::ranges::find_if(matrix.counts, [](std::int64_t n) { return n < 0; });
  if (negative != matrix.counts.end())
    throw InvalidArgument("report: the confusion matrix has the count {}, expected 0 or more",
                          *negative);
}

std::string picture(const ReportPrediction& prediction) {
  const bool right = prediction.label == prediction.predicted;
  const std::string truth = escape_html(prediction.label);
  const std::string said = escape_html(prediction.predicted);
  const std::string caption =
      right ? fmt::format("<b>{}</b>", said) : fmt::format("<b>{}</b> <s>{}</s>", said, truth);
  return fmt::format(
      "<figure class=\"{}\"><img src=\"data:image/png;base64,{}\" alt=\"{}\" />"
      "<figcaption title=\"predicted {}, is {}\">{} <i>{:.0f}%</i></figcaption></figure>",
      right ? "right" : "wrong", to_base64(prediction.png), truth, said, truth, caption,
      100 * prediction.confidence);
}

std::string picture_grid(const char* title, std::vector<const ReportPrediction*> chosen) {
  if (chosen.empty()) return "";
  std::ranges::stable_sort(chosen, std::ranges::greater{}, &ReportPrediction::confidence);
  if (chosen.size() > kMostPictures) chosen.resize(kMostPictures);
  std::string html = fmt::format("<p class=\"quiet\">{}</p><div class=\"pictures\">", title);
  for (const ReportPrediction* prediction : chosen) html += picture(*prediction) + "\n";
  return html + "</div>\n";
}

}  // namespace

std::string render_confusion(const ConfusionMatrix& matrix) {
  expect_square(matrix);
  if (matrix.classes.empty()) return "";
  const bool small = matrix.classes.size() <= kMostClasses;
  return "<section class=\"card wide\"><h2>Confusion</h2>" +
         (small ? "<p class=\"quiet\">Rows: what it is. Columns: what the model says.</p>" +
                      matrix_table(matrix)
                : std::string()) +
         mistake_list(matrix) + "</section>\n";
}

std::string render_predictions(std::span<const ReportPrediction> predictions) {
  if (predictions.empty()) return "";
  std::vector<const ReportPrediction*> right, wrong;
  for (const ReportPrediction& p : predictions)
    (p.label == p.predicted ? right : wrong).push_back(&p);
  return "<section class=\"card wide\"><h2>Predictions</h2>" +
         picture_grid("Wrong, the surest first: what it says, what it is", wrong) +
         picture_grid("Right", right) + "</section>\n";
}

}  // namespace lockstep::observe
