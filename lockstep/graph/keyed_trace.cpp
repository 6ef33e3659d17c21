// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/detail/keyed_trace.h"

#include "lockstep/ops/random_ops.h"
#include "lockstep/tensor/philox.h"

namespace lockstep::detail {

Graph trace_with_key(const TensorFunction& function, const Infos& infos) {
  Infos with_key = infos;
  with_key.push_back({{3}, DType::int64, infos.empty() ? Device() : infos[0].device});
  return trace(
      [&](const std::vector<Tensor>& all) {
        const RandomScope draws(all.back());
        return function({all.begin(), all.end() - 1});
      },
      with_key);
}

bool draws_numbers(const Graph& graph) {
  return count_uses(graph)[static_cast<std::size_t>(graph.inputs().back().node)][0] > 0;
}

Tensor key_for_call() {
  const RandomScope::Draw draw = RandomScope::next();
  const std::vector<std::int64_t> key = draw.key.to(cpu()).to_vector<std::int64_t>();
  const auto words = philox({.seed = static_cast<std::uint64_t>(key[0]),
                             .step = static_cast<std::uint32_t>(key[1]),
                             .shard = static_cast<std::uint32_t>(key[2]),
                             .use = static_cast<std::uint32_t>(draw.use)},
                            0xffffffffu);
  return random_key(std::uint64_t{words[0]} << 32 | words[1], static_cast<std::uint32_t>(key[1]),
                    static_cast<std::uint32_t>(key[2]));
}

}  // namespace lockstep::detail
