// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/mxnet_arrays.h"

#include <algorithm>
#include <array>
#include <set>

#include "lockstep/base/file.h"
#include "lockstep/base/memory_error.h"
#include "lockstep/io/detail/input_file.h"
#include "lockstep/io/detail/npy_bytes.h"
#include "lockstep/io/detail/npz_arrays.h"
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
  explicit Reader(const InputFile& file) : file_(file), cursor_(file) {}

  MxnetArrays all() {
    if (cursor_.left() < 24 || cursor_.number<std::uint64_t>() != kListMagic)
      file_.fail("is no .params file of MXNet");
    cursor_.number<std::uint64_t>();
    MxnetArrays list;
    for (std::size_t left = count("arrays", sizeof(std::uint32_t)); left > 0; --left) {
      place_.tensor = "tensor " + std::to_string(list.arrays.size());
      list.arrays.push_back(array());
    }
    list.names = names(list.arrays.size());
    check_end();
    return list;
  }

  StoredArray one() {
    StoredArray only = array();
    check_end();
    return only;
  }

 private:
  // How many follow, each of `least` bytes or more.
  std::size_t count(const char* what, std::uint64_t least) {
    const auto value = cursor_.number<std::uint64_t>();
    if (value > cursor_.left() / least)
      file_.fail("says it has {} {}, but only {} bytes are left", value, what, cursor_.left());
    return value;
  }

  void check_end() const {
    if (cursor_.left() > 0) file_.fail("has {} bytes after its end", cursor_.left());
  }

  std::vector<std::string> names(std::size_t arrays) {
    const std::size_t names = count("names", sizeof(std::uint64_t));
    if (names != 0 && names != arrays) file_.fail("has {} arrays and {} names", arrays, names);
    std::vector<std::string> list;
    std::set<std::string> seen;
    while (list.size() < names) {
      list.push_back(cursor_.text(count("bytes of a name", 1)));
      if (!seen.insert(list.back()).second) file_.fail("two tensors are named '{}'", list.back());
    }
    return list;
  }

  StoredArray array() {
    const auto magic = cursor_.number<std::uint32_t>();
    if (magic == kVersion2 || magic == kVersion3) return with_storage(magic == kVersion3);
    if (magic != kVersion1 && magic > kMostAxes)
      place_.fail("is of an unknown version ({:#x})", magic);
    const std::vector<std::int64_t> extents =
        magic == kVersion1 ? axes(cursor_.number<std::int32_t>()) : old_axes(magic);
    if (extents.empty()) return empty();
    skip_device();
    return stored(values(type(), shape_from(place_, extents)));
  }

  StoredArray with_storage(bool numpy_shape) {
    const auto storage = cursor_.number<std::int32_t>();
    if (storage < -1 || storage > kCsr || (numpy_shape && storage > kDense))
      place_.fail("has the storage type {}, expected 0 (dense), 1 (row_sparse) or 2 (csr)",
                  storage);
    std::vector<std::int64_t> values_extents;
    if (storage > kDense) values_extents = axes(cursor_.number<std::int32_t>());
    const auto rank = cursor_.number<std::int32_t>();
    const std::vector<std::int64_t> extents = axes(rank);
    const bool is_unknown =
        std::any_of(extents.begin(), extents.end(), [](std::int64_t n) { return n < 0; });
    if (numpy_shape ? rank < 0 || is_unknown : rank <= 0) return empty();
    skip_device();
    const Shape shape = shape_from(place_, extents);
    if (storage <= kDense) return stored(values(type(), shape));
    return sparse(storage, shape, shape_from(place_, values_extents));
  }

  StoredArray sparse(std::int32_t storage, const Shape& shape, const Shape& values_shape) {
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
    StoredArray array{static_cast<Storage>(storage), shape, values(data_type, values_shape), {}};
    for (const Index& index : indices) array.indices.push_back(values(index.type, index.shape));
    check_sparse(place_, array);
    return array;
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

  static StoredArray empty() { return stored(Tensor::zeros({0})); }

  const InputFile& file_;
  FileCursor cursor_;
  Place place_{file_.path(), "the array"};
};

class Writer {
 public:
  explicit Writer(const std::string& path) : file_(path) {}
  template <class T>
  void number(T value) {
    file_.write(std::as_bytes(std::span(&value, 1)));
  }
  void array(const StoredArray& array, bool in_numpy_mode) {
    const bool is_sparse = array.storage != Storage::dense;  // NumPy's mode has no such arrays
    number(in_numpy_mode && !is_sparse ? kVersion3 : kVersion2);
    number(static_cast<std::int32_t>(array.storage));
    if (is_sparse) shape(array.data.shape());
    shape(array.shape);
    number(kCpu);
    number(std::int32_t{0});
    number(number_of(array.data.dtype()));
    for (const Tensor& index : array.indices) {
      number(number_of(index.dtype()));
      shape(index.shape());
    }
    values(array.data);
    for (const Tensor& index : array.indices) values(index);
  }
  void name(const std::string& name) {
    number(std::uint64_t{name.size()});
    file_.write(std::as_bytes(std::span(name)));
  }
  void commit() { file_.commit(); }

 private:
  void shape(const Shape& shape) {
    number(std::int32_t{shape.rank()});
    for (const std::int64_t extent : shape) number(extent);
  }
  void values(const Tensor& tensor) {
    const Tensor dense = detail::to_write(tensor);
    file_.write(detail::bytes_of(dense));
  }

  AtomicFile file_;
};

void check_names(const std::string& path, const MxnetArrays& list) {
  std::set<std::string_view> seen;
  for (const std::string& name : list.names)
    if (!seen.insert(name).second)
      throw InvalidArgument("{}: two tensors are named '{}'", path, name);
  if (!list.names.empty() && list.names.size() != list.arrays.size())
    throw InvalidArgument("{}: {} names for {} arrays", path, list.names.size(),
                          list.arrays.size());
}

MxnetArrays of_npz(const InputFile& file, const ReadOptions& options) {
  MxnetArrays list;
  for (auto& [name, array] : detail::npz_arrays(file, options).arrays) {
    list.names.push_back(name);
    list.arrays.push_back(std::move(array));
  }
  return list;
}

MxnetArrays of_file(const InputFile& file, const ReadOptions& options) {
  const std::string head = file.text_at(0, std::min<std::uint64_t>(file.size(), 6));
  if (head.starts_with("PK\3\4") || head.starts_with("PK\5\6")) return of_npz(file, options);
  if (head == "\x93NUMPY")
    return {{stored(detail::npy_from_bytes(file.text_at(0, file.size()), file.path()))}, {}};
  return Reader(file).all();
}

}  // namespace

MxnetArrays read_mxnet_arrays(const std::string& path, const ReadOptions& options) {
  const InputFile file(path);
  return with_memory_for(path, [&] { return of_file(file, options); });
}

MxnetArrays read_mxnet_list(const std::string& path) {
  const InputFile file(path);
  return with_memory_for(path, [&] { return Reader(file).all(); });
}

MxnetArrays mxnet_arrays_from_bytes(std::string_view bytes, const std::string& name,
                                    const ReadOptions& options) {
  const InputFile file(name, bytes);
  return with_memory_for(name, [&] { return of_file(file, options); });
}

StoredArray mxnet_array_from_bytes(std::string_view bytes, const std::string& name) {
  const InputFile file(name, bytes);
  return with_memory_for(name, [&] { return Reader(file).one(); });
}

void write_mxnet_arrays(const std::string& path, const MxnetArrays& list) {
  check_names(path, list);
  // MXNet reads either version in one mode, so a file is of one.
  const bool in_numpy_mode =
      std::any_of(list.arrays.begin(), list.arrays.end(), [](const StoredArray& array) {
        return array.storage == Storage::dense &&
               (array.shape.rank() == 0 || array.shape.numel() == 0);
      });
  Writer writer(path);
  writer.number(kListMagic);
  writer.number(std::uint64_t{0});
  writer.number(std::uint64_t{list.arrays.size()});
  for (const StoredArray& array : list.arrays) writer.array(array, in_numpy_mode);
  writer.number(std::uint64_t{list.names.size()});
  for (const std::string& name : list.names) writer.name(name);
  writer.commit();
}

}  // namespace lockstep::io
