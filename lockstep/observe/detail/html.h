// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/observe/report.h"

namespace lockstep::observe {

// For text and for attributes in double quotes. Control characters, which HTML does not have, and
// bytes that are not UTF-8 become U+FFFD.
std::string escape_html(std::string_view text);

// Pieces of the page.
std::string render_chart(const ReportChart& chart);
std::string render_confusion(const ConfusionMatrix& matrix);
std::string render_predictions(std::span<const ReportPrediction> predictions);

// How the page looks, and what shows the values under the pointer. Neither has a '<' or an '&', so
// that the page is well-formed XML too.
std::string_view report_style();
std::string_view report_script();

}  // namespace lockstep::observe
