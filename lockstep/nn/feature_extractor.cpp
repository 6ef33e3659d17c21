// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/feature_extractor.h"

#include "lockstep/base/error.h"
#include "lockstep/nn/detail/call_observer.h"

namespace lockstep::nn {
namespace {

// Keeps what some blocks give; whoever watched before goes on watching.
class Catch final : public detail::CallObserver {
 public:
  explicit Catch(std::vector<const Block*> blocks)
      : blocks_(std::move(blocks)), calls_(blocks_.size(), 0), outputs_(blocks_.size()) {}

  void begin(const Block& block) override {
    if (outer() != nullptr) outer()->begin(block);
  }

  void end(const Block& block, const std::vector<Tensor>& outputs) override {
    if (outer() != nullptr) outer()->end(block, outputs);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i] != &block) continue;
      ++calls_[i];
      outputs_[i] = outputs;
    }
  }

  // Of the only call of each.
  std::vector<Tensor> take(const std::vector<std::string>& paths) const {
    std::vector<Tensor> all;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (calls_[i] != 1)
        throw InvalidArgument("feature_extractor: '{}' was called {} times, expected once",
                              paths[i], calls_[i]);
      all.insert(all.end(), outputs_[i].begin(), outputs_[i].end());
    }
    return all;
  }

 private:
  std::vector<const Block*> blocks_;
  std::vector<int> calls_;
  std::vector<std::vector<Tensor>> outputs_;
};

class FeatureExtractor final : public Block {
 public:
  FeatureExtractor(BlockPtr net, std::vector<std::string> paths) : paths_(std::move(paths)) {
    if (net == nullptr || paths_.empty())
      throw InvalidArgument("feature_extractor: needs a net and the paths of blocks in it");
    net_ = add_child("net", std::move(net));
    blocks();  // all are there
  }

  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override {
    Catch features(blocks());
    if (inputs.size() == 1)
      (*net_)(inputs[0]);
    else
      (*net_)(inputs);
    return features.take(paths_);
  }
  std::string description() const override { return "FeatureExtractor"; }

 private:
  // Looked up in each call: one may have been replaced.
  std::vector<const Block*> blocks() const {
    std::vector<const Block*> found;
    for (const std::string& path : paths_) found.push_back(children()[0].block->child(path).get());
    return found;
  }

  std::vector<std::string> paths_;
  BlockPtr net_;
};

}  // namespace

BlockPtr feature_extractor(BlockPtr net, std::vector<std::string> paths) {
  return std::make_shared<FeatureExtractor>(std::move(net), std::move(paths));
}

}  // namespace lockstep::nn
