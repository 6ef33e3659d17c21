// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/gzip.h"
#include "lockstep/data/codec.h"
#include "lockstep/recipes/recipe.h"

namespace lockstep::recipes {

// What a run's bits depend on: config.json of its folder.
struct RunConfig {
  std::string version;
  std::string recipe;
  std::string data;         // "synthetic", a folder, or "" for the cache of `lockstep data`
  std::int64_t epochs = 0;  // one of epochs and steps is not 0
  std::int64_t steps = 0;
  std::int64_t global_batch = 0;
  std::int64_t shards = 0;
  std::uint64_t seed = 0;
  std::string dtype = "float32";  // what is computed in
  bool skip_bad = false;
  std::int64_t max_pixels = data::ImageOptions().max_pixels;  // of an image; more is a bad one
  std::int64_t max_inflated = kMaxInflated;                   // bytes of a gzip file's contents
  std::int64_t eval_every = 0;  // steps; 0: an epoch. Decides which checkpoint is the best
  double dropout = 0.0;
  std::int64_t image_size = 0;  // as asked for: a square's side; 0: the data's
  std::string image = {};       // of a library model: what its net reads, "3x32x32"
  std::string split = "pairs";  // of ratings: how a tenth is held out
  // "local", "allreduce", "ps_sync", "ps_async", "ps_ssp", or "" for what fits the workers.
  std::string kvstore = {};
  std::int64_t servers = 0;    // of the stores that have some
  std::int64_t replicas = 1;   // of each value, on as many servers
  std::int64_t staleness = 0;  // of ps_ssp: steps that a worker may be ahead of the slowest
  // Of ps_async and ps_ssp: "damped" or "whole"; else "".
  std::string stale_gradients = {};
  std::string algorithm = "tree";
  std::string compression = "none";
  std::string isa = {};  // the instruction set that all workers had; empty: an older run's
  Learning learning = {};
  std::int64_t segments = 1;           // that the net is cut into
  std::string cuts = {};               // where: "blocks.1,blocks.2"; empty: by the work
  std::int64_t width = 0, blocks = 0;  // of a net that comes in sizes; 0: the recipe's own
  std::int64_t slices = 1;             // that layers which can be split are computed as
  // How some are split otherwise than usual: "head=none,blocks.*.mlp.fc1=rows".
  std::string slice_layers = {};
};

// The recipe's own, before anything is changed.
RunConfig default_config(const Recipe& recipe);

std::string to_json(const RunConfig& config);
// The keys that older runs lack, with what their lack means: JSON.
std::string older_defaults();
// Throws Corrupt that begins with `name` and names the key that is missing or of another type.
RunConfig config_from_json(const std::string& text, const std::string& name);

}  // namespace lockstep::recipes
