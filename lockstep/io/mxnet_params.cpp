// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/mxnet_params.h"

#include <algorithm>
#include <array>
#include <set>

#include "lockstep/base/file.h"
#include "lockstep/base/memory_error.h"
#include "lockstep/io/detail/input_file.h"
#include "lockstep/io/detail/names.h"
#include "lockstep/io/detail/sparse.h"

// The file, in little-endian numbers:
//   u64 0x112, u64 0, u64 count, the arrays, u64 count of names (0: a list), the names
// A name is a u64 length and bytes. A shape is an i32 number of axes and an i64 for each. An array:
//   u32 version, i32 storage (0 dense, 1 row_sparse, 2 csr), [sparse: the values' shape], shape,
//   i32 and i32 that say on which device it was, i32 type, [sparse, for each index array: i32 type,
//   shape], the values, [sparse: the index arrays]
// Before version 2 there is no storage, and before version 1 the version's place has the number of
// axes, which are u32. An array without axes is MXNet's empty one and ends with its shape, until
// version 3 (NumPy mode), where that is a scalar and the empty one has -1 axes or extents.
namespace lockstep::io {
namespace {

using detail::FileCursor;
using detail::InputFile;
using detail::Place;
using detail::StoredType;

constexpr std::uint64_t kListMagic = 0x112;
constexpr std::uint32_t kVersion1 = 0xF993fac8, kVersion2 = 0xF993fac9, kVersion3 = 0xF993faca;
constexpr std::int32_t kDense = 0, kRowSparse = 1, kCsr = 2, kCpu = 1;
constexpr std::uint32_t kMostAxes = 64;  // beyond that a number is no number of axes

// By MXNet's number.
constexpr std::array<StoredType, 13> kTypes{{{DType::float32},
                                             {DType::float64},
                                             {DType::float16},
                                             {DType::uint8},
                                             {DType::int32},
                                             {DType::int8},
                                             {DType::int64},
                                             {DType::boolean},
                                             {DType::int16},
                                             detail::kUint16,
                                             detail::kUint32,
                                             detail::kUint64,
                                             {DType::bfloat16}}};

std::int32_t number_of(DType dtype) {
  for (std::size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].dtype == dtype && kTypes[i].unsigned_bytes == 0)
      return static_cast<std::int32_t>(i);
  fail_check("a dtype without a number in .params files");
}

class Reader {
 public:
  Reader(const InputFile& file, const ReadOptions& options)
      : file_(file),
        cursor_(file),
        dense_left_(std::max(static_cast<std::uint64_t>(options.max_inflated), file.size())) {}

  std::vector<NamedTensor> all() {
    if (cursor_.left() < 24 || cursor_.number<std::uint64_t>() != kListMagic)
      file_.fail("is no .params file of MXNet");
    cursor_.number<std::uint64_t>();
    std::vector<NamedTensor> tensors;
    for (std::size_t left = count("arrays", sizeof(std::uint32_t)); left > 0; --left) {
      const std::string number = std::to_string(tensors.size());
      place_.tensor = "tensor " + number;
      tensors.emplace_back(number, array());
    }
    read_names(tensors);
    if (cursor_.left() > 0) file_.fail("has {} bytes after its end", cursor_.left());
    return tensors;
  }

 private:
  // How many follow, each of `least` bytes or more.
  std::size_t count(const char* what, std::uint64_t least) {
    const auto value = cursor_.number<std::uint64_t>();
    if (value > cursor_.left() / least)
      file_.fail("says it has {} {}, but only {} bytes are left", value, what, cursor_.left());
    return value;
  }

  void read_names(std::vector<NamedTensor>& tensors) {
    const std::size_t names = count("names", sizeof(std::uint64_t));
    if (names != 0 && names != tensors.size())
      file_.fail("has {} arrays and {} names", tensors.size(), names);
    std::set<std::string> seen;
    for (std::size_t i = 0; i < names; ++i) {
      tensors[i].first = cursor_.text(count("bytes of a name", 1));
      if (!seen.insert(tensors[i].first).second)
        file_.fail("two tensors are named '{}'", tensors[i].first);
    }
  }

  Tensor array() {
    const auto magic = cursor_.number<std::uint32_t>();
    if (magic == kVersion2 || magic == kVersion3) return with_storage(magic == kVersion3);
    if (magic != kVersion1 && magic > kMostAxes)
      place_.fail("is of an unknown version ({:#x})", magic);
    const std::vector<std::int64_t> extents =
        magic == kVersion1 ? axes(cursor_.number<std::int32_t>()) : old_axes(magic);
    if (extents.empty()) return empty();
    skip_device();
    return values(type(), shape_from(place_, extents));
  }

  Tensor with_storage(bool numpy_shape) {
    const auto storage = cursor_.number<std::int32_t>();
    if (storage < -1 || storage > kCsr || (numpy_shape && storage > kDense))
      place_.fail("has the storage type {}, expected 0 (dense), 1 (row_sparse) or 2 (csr)",
                  storage);
    std::vector<std::int64_t> stored;
    if (storage > kDense) stored = axes(cursor_.number<std::int32_t>());
    const auto rank = cursor_.number<std::int32_t>();
    const std::vector<std::int64_t> extents = axes(rank);
    const bool is_unknown =
        std::any_of(extents.begin(), extents.end(), [](std::int64_t n) { return n < 0; });
    if (numpy_shape ? rank < 0 || is_unknown : rank <= 0) return empty();
    skip_device();
    const Shape shape = shape_from(place_, extents);
    if (storage <= kDense) return values(type(), shape);
    return sparse(storage, shape, shape_from(place_, stored));
  }

  Tensor sparse(std::int32_t storage, const Shape& shape, const Shape& stored) {
    const StoredType data_type = type();
    struct Index {
      StoredType type;
      Shape shape;
    };
    std::vector<Index> indices(storage == kRowSparse ? 1 : 2);
    for (Index& index : indices) {
      index.type = type();
      index.shape = shape_from(place_, axes(cursor_.number<std::int32_t>()));
    }
    const Tensor data = values(data_type, stored);
    std::vector<Tensor> numbers;
    for (const Index& index : indices) numbers.push_back(values(index.type, index.shape));
    dense_left_ -= bytes_of(place_, shape, item_size(data.dtype()), dense_left_,
                            "is sparse, and too large as a dense tensor (max_inflated)");
    if (storage == kRowSparse) return dense_of_rows(place_, shape, data, numbers[0]);
    return dense_of_csr(place_, shape, data, numbers[0], numbers[1]);
  }

  std::vector<std::int64_t> axes(std::int32_t rank) {
    if (rank > static_cast<std::int32_t>(kMostAxes)) place_.fail("has {} axes", rank);
    std::vector<std::int64_t> extents(static_cast<std::size_t>(std::max(rank, 0)));
    for (std::int64_t& extent : extents) extent = cursor_.number<std::int64_t>();
    return extents;
  }

  std::vector<std::int64_t> old_axes(std::uint32_t rank) {
    std::vector<std::int64_t> extents(rank);
    for (std::int64_t& extent : extents) extent = cursor_.number<std::uint32_t>();
    return extents;
  }

  void skip_device() { cursor_.number<std::int64_t>(); }

  StoredType type() {
    const auto number = cursor_.number<std::int32_t>();
    if (number < 0 || number >= static_cast<std::int32_t>(kTypes.size()))
      place_.fail("has the type {}, expected 0 to {}", number, kTypes.size() - 1);
    return kTypes[static_cast<std::size_t>(number)];
  }

  Tensor values(const StoredType& type, const Shape& shape) {
    bytes_of(place_, shape, type.item(), cursor_.left());
    return read_stored(place_, type, shape,
                       [this](std::span<std::byte> bytes) { cursor_.read(bytes); });
  }

  static Tensor empty() { return Tensor::zeros({0}); }

  const InputFile& file_;
  FileCursor cursor_;
  Place place_{file_.path(), {}};
  std::uint64_t dense_left_;  // bytes that sparse arrays may still become
};

class Writer {
 public:
  explicit Writer(const std::string& path) : file_(path) {}
  template <class T>
  void number(T value) {
    file_.write(std::as_bytes(std::span(&value, 1)));
  }
  void array(const Tensor& tensor, std::uint32_t version) {
    number(version);
    number(kDense);
    number(std::int32_t{tensor.rank()});
    for (const std::int64_t extent : tensor.shape()) number(extent);
    number(kCpu);
    number(std::int32_t{0});
    number(number_of(tensor.dtype()));
    const Tensor dense = detail::to_write(tensor);
    file_.write(detail::bytes_of(dense));
  }
  void name(const std::string& name) {
    number(std::uint64_t{name.size()});
    file_.write(std::as_bytes(std::span(name)));
  }
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
};

}  // namespace

std::vector<NamedTensor> read_mxnet_params(const std::string& path, const ReadOptions& options) {
  const InputFile file(path);
  return with_memory_for(path, [&] { return Reader(file, options).all(); });
}

void write_mxnet_params(const std::string& path, const std::vector<NamedTensor>& tensors) {
  detail::check_names_differ(path, tensors);
  // MXNet reads either version in one mode, so a file is of one.
  const bool has_none = std::any_of(tensors.begin(), tensors.end(), [](const NamedTensor& named) {
    return named.second.rank() == 0 || named.second.numel() == 0;
  });
  Writer writer(path);
  writer.number(kListMagic);
  writer.number(std::uint64_t{0});
  writer.number(std::uint64_t{tensors.size()});
  for (const auto& [name, tensor] : tensors) writer.array(tensor, has_none ? kVersion3 : kVersion2);
  writer.number(std::uint64_t{tensors.size()});
  for (const auto& [name, tensor] : tensors) writer.name(name);
  writer.commit();
}

}  // namespace lockstep::io
