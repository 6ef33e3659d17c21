// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/graph/graph.h"
#include "tests/graph/random_graphs.h"

namespace lockstep::testing {

// One layer of a net: `parameters` counts the net's. Statistics that no gradient makes (batch
// norm's) are added to the list.
struct RandomLayer {
  using Body =
      std::function<Tensor(const Tensor& x, const Tensors& parameters, Tensors& statistics)>;
  std::vector<std::size_t> parameters;
  Body body;
};

// A classifier of small images. Its graph's inputs are data, labels, parameters.
struct RandomNet {
  static constexpr std::size_t kFirstParameter = 2;

  Tensor data, labels;
  Tensors parameters;
  std::vector<RandomLayer> layers;

  Tensors inputs() const;
  // The mean loss, then the statistics.
  Tensors operator()(const Tensors& inputs) const;
  // The mean loss, the statistics, the parameters' gradients.
  Graph with_gradients() const;
};

// Draws nets of convolutions, dense layers, norms, activations, pools and sums; some layers stand
// in a net twice.
class NetDrawer {
 public:
  explicit NetDrawer(std::uint64_t seed) : draw_(seed) {}
  RandomNet draw();
  ProgramDrawer& source() { return draw_; }

 private:
  void add(RandomLayer layer);
  // Adds an image layer, or does nothing where none fits.
  void add_image_layer();
  RandomLayer convolution();
  RandomLayer norm();
  RandomLayer activation();
  RandomLayer pool();
  RandomLayer join();
  RandomLayer dense_layer(std::int64_t outputs);
  std::size_t parameter(const Shape& shape, double scale, double offset = 0.0);

  ProgramDrawer draw_;
  RandomNet net_;
  Tensor x_;  // what the layers so far give
};

}  // namespace lockstep::testing
