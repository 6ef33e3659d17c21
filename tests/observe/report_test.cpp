// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lockstep/observe/detail/html.h"
#include "tests/message.h"
#include "tests/observe/well_formed.h"

namespace lockstep::observe {
namespace {

using lockstep::testing::message_of;
using lockstep::testing::why_not_well_formed;

bool has(const std::string& page, std::string_view piece) {
  return page.find(piece) != std::string::npos;
}

std::size_t count(std::string_view page, std::string_view piece) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = page.find(piece, at)) != std::string_view::npos; ++at) ++found;
  return found;
}

std::vector<MetricsRow> training(std::int64_t steps) {
  std::vector<MetricsRow> rows;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const double t = static_cast<double>(step);
    rows.push_back({.step = step,
                    .values = {{"loss", 2.3 / t},
                               {"accuracy", 1 - 1 / t},
                               {"learning_rate", 0.1},
                               {"samples_per_s", 5000}}});
    if (step % 100 == 0)
      rows.push_back({.step = step, .values = {{"val_loss", 2 / t}, {"val_accuracy", 0.5}}});
  }
  return rows;
}

ReportData full_report() {
  return {.title = "mnist-lenet",
          .subtitle = "5 epochs",
          .tiles = {{"accuracy", "99.12%", "of 10,000"}, {"time", "0:52", ""}},
          .params_sha256 = "e3b0c442",
          .command = "lockstep train mnist-lenet --seed 0",
          .charts = metric_charts(training(1000)),
          .confusion = {{"cat", "dog"}, {90, 10, 5, 95}},
          .predictions = {{"png1", "cat", "dog", 0.8}, {"png2", "dog", "dog", 0.9}},
          .samples = {{"Call me", " Ishmael."}},
          .config = {{"seed", "0"}}};
}

TEST(Report, IsOneWellFormedPage) {
  const std::string page = render_report(full_report());
  EXPECT_EQ(why_not_well_formed(page), "");
  for (const char* piece : {"<h1>mnist-lenet</h1>", "5 epochs", "99.12%", "of 10,000", "e3b0c442",
                            "--seed 0", "<h3>Loss</h3>", "<h3>Learning rate</h3>", "Confusion",
                            "Predictions", "<b>Call me</b> Ishmael.", "Configuration"})
    EXPECT_TRUE(has(page, piece)) << piece;
}

TEST(Report, NeedsNothingFromOutside) {
  const std::string page = render_report(full_report());
  for (const char* piece : {"http:", "https:", "//", "url(", "@import", "<link", "src=\"/"})
    EXPECT_FALSE(has(page, piece)) << piece;
  EXPECT_EQ(count(page, "src="), count(page, "src=\"data:image/png;base64,"));
}

TEST(Report, FollowsTheReadersColourSchemeAndFitsAPhone) {
  const std::string page = render_report({});
  EXPECT_TRUE(has(page, "prefers-color-scheme: dark"));
  EXPECT_TRUE(has(page, "width=device-width"));
}

TEST(Report, OfNothingIsAPageToo) {
  const std::string page = render_report({});
  EXPECT_EQ(why_not_well_formed(page), "");
  for (const char* piece : {"<section", "<figure", "class=\"tiles\"", "class=\"card"})
    EXPECT_FALSE(has(page, piece)) << piece;
}

// Whatever text comes, wherever it is shown, it stays text.
TEST(Report, EscapesEveryText) {
  const std::string evil = "</script><img src=x onerror=\"alert('1')\">&\x01\xFF";
  const std::vector<CurvePoint> points = {{1, 1}, {2, 2}};
  const ReportData data{
      .title = evil,
      .subtitle = evil,
      .tiles = {{evil, evil, evil}},
      .params_sha256 = evil,
      .command = evil,
      .charts = {{.title = evil,
                  .series = {{.name = evil, .points = points}, {.name = evil, .points = points}},
                  .x_name = evil}},
      .confusion = {{evil, "b"}, {1, 2, 3, 4}},
      .predictions = {{evil, evil, evil + "2", 0.5}, {evil, evil, evil, 0.5}},
      .samples = {{evil, evil}},
      .config = {{evil, evil}}};
  const std::string page = render_report(data);
  EXPECT_EQ(why_not_well_formed(page), "");
  EXPECT_FALSE(has(page, "<img src=x"));
  EXPECT_EQ(count(page, "</script>"), 1u);
  EXPECT_FALSE(has(page, "\x01"));
  EXPECT_FALSE(has(page, "\xFF"));
}

TEST(Report, LongCurvesAreShortenedWithoutLosingTheirPeaks) {
  ReportChart chart{.title = "x", .series = {{.name = "a", .points = {}}}};
  for (int i = 0; i < 200000; ++i)
    chart.series[0].points.push_back({double(i), i == 77777 ? 123456.0 : std::sin(i)});
  const std::string html = render_chart(chart);
  EXPECT_LT(html.size(), 60000u);
  EXPECT_TRUE(has(html, "[77777,1.2346e+05]"));
}

TEST(Report, ValuesThatAreNotFiniteAreCountedNotDrawn) {
  const ReportChart chart{
      .title = "Loss",
      .series = {{.name = "a", .points = {{1, 1}, {2, NAN}, {3, INFINITY}, {4, 2}}}}};
  const std::string html = render_chart(chart);
  EXPECT_TRUE(has(html, "2 not finite, not drawn"));
  EXPECT_FALSE(has(html, "nan"));
  EXPECT_FALSE(has(html, "inf"));
  EXPECT_EQ(render_chart({.title = "x", .series = {{.name = "a", .points = {{1, NAN}}}}}), "");
}

TEST(Report, OneValueAndEqualValuesAreDrawn) {
  for (const double y : {0.0, 1.0, -3e-200, 1e200})
    for (const bool log_y : {false, true}) {
      ReportChart chart{
          .title = "x", .series = {{.name = "a", .points = {{5, y}}}}, .log_y = log_y};
      std::string html = render_chart(chart);
      EXPECT_EQ(why_not_well_formed(html), "");
      EXPECT_FALSE(has(html, "nan") || has(html, "inf")) << html;
      chart.series[0].points = {{5, y}, {6, y}, {7, y}};
      html = render_chart(chart);
      EXPECT_FALSE(has(html, "nan") || has(html, "inf")) << html;
    }
}

TEST(MetricCharts, TheLossComesFirstAndTheRunsOwnFiguresLast) {
  const std::vector<ReportChart> charts = metric_charts(training(200));
  ASSERT_EQ(charts.size(), 4u);
  EXPECT_EQ(charts[0].title, "Loss");
  EXPECT_EQ(charts[1].title, "Accuracy");
  EXPECT_EQ(charts[2].title, "Learning rate");
  EXPECT_EQ(charts[3].title, "Throughput, samples/s");
  EXPECT_EQ(charts[0].series[0].name, "training");
  EXPECT_EQ(charts[0].series[0].points.size(), 200u);
  EXPECT_EQ(charts[0].series[1].name, "validation");
  EXPECT_EQ(charts[0].series[1].points.size(), 2u);
  EXPECT_EQ(charts[0].series[1].points[1].x, 200);
  EXPECT_EQ(charts[0].series[1].points[1].y, 0.01);
}

TEST(MetricCharts, ALossThatFallsFarHasALogarithmicAxis) {
  EXPECT_TRUE(metric_charts(training(200))[0].log_y);
  EXPECT_FALSE(metric_charts(training(10))[0].log_y);
  EXPECT_TRUE(metric_charts({}).empty());
}

TEST(Confusion, ShowsCountsRecallPrecisionAndTheWorstMistakes) {
  const std::string html = render_confusion({{"cat", "dog"}, {90, 10, 5, 95}});
  EXPECT_TRUE(has(html, ">90</td>") && has(html, ">10</td>") && has(html, ">95</td>"));
  EXPECT_TRUE(has(html, "<td class=\"sum\">90.0%</td>"));  // recall of cat
  EXPECT_TRUE(has(html, "<td class=\"sum\">94.7%</td>"));  // precision of cat
  EXPECT_LT(html.find("cat \u2192 dog <b>10</b>"), html.find("dog \u2192 cat <b>5</b>"));
}

TEST(Confusion, AClassWithoutSamplesHasNoRecall) {
  const std::string html = render_confusion({{"cat", "dog"}, {3, 0, 0, 0}});
  EXPECT_TRUE(has(html, "<td class=\"sum\">-</td>"));
  EXPECT_TRUE(has(html, "No mistakes."));
}

TEST(Confusion, OfManyClassesIsAListOfMistakes) {
  ConfusionMatrix matrix{std::vector<std::string>(100, "c"), std::vector<std::int64_t>(10000, 1)};
  const std::string html = render_confusion(matrix);
  EXPECT_FALSE(has(html, "<table"));
  EXPECT_EQ(count(html, "<li>"), 12u);
}

TEST(Confusion, MustBeSquareAndCountFromZero) {
  EXPECT_EQ(message_of([] {
              render_confusion({{"a", "b"}, {1, 2, 3}});
            }),
            "report: the confusion matrix has 3 counts, expected 4 for 2 classes");
  EXPECT_EQ(message_of([] {
              render_confusion({{"a"}, {-7}});
            }),
            "report: the confusion matrix has the count -7, expected 0 or more");
}

TEST(Predictions, WrongOnesComeFirstAndTheSurestOfThemBeforeAll) {
  const std::vector<ReportPrediction> all = {
      {"p", "a", "a", 0.99}, {"p", "b", "c", 0.5}, {"p", "d", "e", 0.8}};
  const std::string html = render_predictions(all);
  EXPECT_LT(html.find("<b>e</b>"), html.find("<b>c</b>"));
  EXPECT_LT(html.find("<b>c</b>"), html.find("<b>a</b>"));
  EXPECT_TRUE(has(html, "<b>e</b> <s>d</s> <i>80%</i>"));
  EXPECT_EQ(why_not_well_formed(html), "");
}

TEST(EscapeHtml, KeepsUtf8AndReplacesWhatIsNot) {
  EXPECT_EQ(escape_html("a<b>&\"c"), "a&lt;b&gt;&amp;&quot;c");
  EXPECT_EQ(escape_html("naïve \u2192 \U0001F600\n\t"), "naïve \u2192 \U0001F600\n\t");
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(escape_html("\xE9"), bad);                                // Latin-1
  EXPECT_EQ(escape_html("\xC3"), bad);                                // cut off
  EXPECT_EQ(escape_html("\xC0\xAF"), bad + bad);                      // overlong
  EXPECT_EQ(escape_html("\xED\xA0\x80"), bad + bad + bad);            // a surrogate
  EXPECT_EQ(escape_html("\xF4\x90\x80\x80"), bad + bad + bad + bad);  // beyond Unicode
  EXPECT_EQ(escape_html(std::string_view("\0\x1B", 2)), bad + bad);
}

TEST(ConfigRows, AreFlatAndWithoutQuotes) {
  const auto rows = config_rows(R"({"recipe": "a \"b\"", "data": {"batch": 64}, "x": null})");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0], (std::pair<std::string, std::string>("data.batch", "64")));
  EXPECT_EQ(rows[1], (std::pair<std::string, std::string>("recipe", "a \"b\"")));
  EXPECT_EQ(rows[2], (std::pair<std::string, std::string>("x", "null")));
  EXPECT_EQ(message_of<Corrupt>([] { config_rows("[1]"); }), "config.json: not a JSON object");
}

TEST(WellFormed, SeesEachWayOfBreakingAPage) {
  for (const char* page :
       {"<p>", "<p></b>", "</p>", "<a b=c></a>", "<a b=\"c></a>", "a & b", "<a <b></b></a>"})
    EXPECT_NE(why_not_well_formed(page), "") << page;
  EXPECT_EQ(why_not_well_formed("<!DOCTYPE html><p a=\"1\">x &amp; y<br /></p>"), "");
}

TEST(MetricCharts, OfManyRowsAreFewPointsWithTheSameEndsAndPeaks) {
  MetricCharts charts;
  for (std::int64_t step = 1; step <= 200000; ++step)
    charts.add({.step = step,
                .epoch = 1,
                .values = {{"loss", step == 100000 ? 50.0 : 1000.0 / (1000.0 + double(step))},
                           {"learning_rate", 0.5}}});
  const std::vector<ReportChart> made = charts.charts();
  ASSERT_EQ(made.size(), 2u);
  const ReportSeries& loss = made[0].series.at(0);
  EXPECT_LE(loss.points.size(), 16384u);
  EXPECT_LE(loss.extremes.size(), 2u * 16384 + 1);
  EXPECT_TRUE(std::ranges::any_of(loss.extremes,
                                  [](const CurvePoint& p) { return p.x == 100000 && p.y == 50; }));
  EXPECT_EQ(loss.extremes.back().x, 200000);
  EXPECT_NE(render_report({.charts = made}).find("200k"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::observe
