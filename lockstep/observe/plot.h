// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "lockstep/observe/curve.h"

namespace lockstep::observe {

struct PlotOptions {
  int columns = 60;  // of the whole plot, labels included
  int rows = 8;      // of the curve; one more line has the ends of the x axis
  std::string x_name = "step";
};

// A curve drawn with Braille dots, eight in a character; each column of dots spans the values that
// fall into it. Empty when there is nothing finite to draw.
std::string plot_curve(std::span<const CurvePoint> points, const PlotOptions& options = {});

}  // namespace lockstep::observe
