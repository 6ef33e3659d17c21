// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/stored_array.h"

#include "lockstep/io/detail/sparse.h"

namespace lockstep::io {
namespace {

// What was not read from a file is a caller's mistake.
template <class Work>
auto as_argument(Work&& work) {
  try {
    return work();
  } catch (const Corrupt& error) {
    throw InvalidArgument("{}", error.what());
  }
}

}  // namespace

std::string_view name_of(Storage storage) {
  switch (storage) {
    case Storage::dense: return "default";
    case Storage::row_sparse: return "row_sparse";
    case Storage::csr: return "csr";
  }
  fail_check("unknown storage");
}

StoredArray stored(Tensor tensor) {
  const Shape shape = tensor.shape();
  return {Storage::dense, shape, std::move(tensor), {}};
}

Tensor to_dense(const StoredArray& array, const std::string& what, std::uint64_t limit) {
  const detail::Place place{what, "the array"};
  return as_argument([&] {
    detail::check_sparse(place, array);
    return detail::dense_of(place, array, limit);
  });
}

void check(const StoredArray& array, const std::string& what) {
  as_argument([&] { detail::check_sparse({what, "the array"}, array); });
}

}  // namespace lockstep::io
