// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "lockstep/base/file.h"
#include "lockstep/base/memory_error.h"
#include "lockstep/io/detail/input_file.h"
#include "lockstep/io/detail/names.h"
#include "lockstep/io/detail/stored_tensor.h"

// The file: a u64, that many bytes of JSON, the data. The JSON has an entry for each tensor,
//   "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}
// with offsets that count from the first byte after it, and "__metadata__", a dictionary of texts.
// The tensors cover the data, none twice and without gaps.
namespace lockstep::io {
namespace {

using detail::InputFile;
using detail::Place;
using detail::StoredType;
using nlohmann::json;

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the library's own bound
constexpr int kDeepest = 3;                            // an extent in a shape in an entry
constexpr const char* kMetadata = "__metadata__";

struct Kind {
  std::string_view name;
  StoredType type;
};
constexpr std::array<Kind, 13> kKinds{{{"F32", {DType::float32}},
                                       {"F64", {DType::float64}},
                                       {"F16", {DType::float16}},
                                       {"BF16", {DType::bfloat16}},
                                       {"I8", {DType::int8}},
                                       {"U8", {DType::uint8}},
                                       {"I16", {DType::int16}},
                                       {"I32", {DType::int32}},
                                       {"I64", {DType::int64}},
                                       {"BOOL", {DType::boolean}},
                                       {"U16", detail::kUint16},
                                       {"U32", detail::kUint32},
                                       {"U64", detail::kUint64}}};

std::string_view kind_of(DType dtype) {
  for (const Kind& kind : kKinds)
    if (kind.type.dtype == dtype && kind.type.unsigned_bytes == 0) return kind.name;
  fail_check("a dtype without a name in safetensors files");
}

StoredType type_from(const Place& place, const std::string& name) {
  for (const Kind& kind : kKinds)
    if (kind.name == name) return kind.type;
  if (name.starts_with("F8") || name.starts_with("F4"))
    throw Unsupported("{}: {} holds {}, which tensors do not have", place.path, place.tensor, name);
  place.fail("holds '{}', which is no dtype", name);
}

struct Entry {
  Place place;
  std::string name;
  StoredType type;
  Shape shape;
  std::uint64_t begin = 0, end = 0;  // in the data
};

// Nested no deeper than it should be, and no name twice, of which JSON would keep one.
json parse_header(const InputFile& file, const std::string& text) {
  std::set<std::string> names;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kDeepest) file.fail("its header nests deeper than {}", kDeepest);
    if (event == json::parse_event_t::key && depth == 1 &&
        !names.insert(value.get<std::string>()).second)
      file.fail("two tensors are named '{}'", value.get<std::string>());
    return true;
  };
  return json::parse(text, check);
}

// JSON would make them of fractions, too.
template <class T>
std::vector<T> whole_numbers(const Place& place, const char* what, const json& values) {
  std::vector<T> numbers;
  for (const json& value : values) {
    if (!value.is_number_unsigned()) place.fail("has {} {}", what, value.dump());
    numbers.push_back(value.get<T>());
  }
  return numbers;
}

Entry entry_from(const InputFile& file, const std::string& name, const json& value,
                 std::uint64_t data_bytes) {
  Entry entry{{file.path(), fmt::format("tensor '{}'", name)}, name, {}, {}};
  const Place& place = entry.place;
  entry.type = type_from(place, value.at("dtype").get<std::string>());
  entry.shape =
      shape_from(place, whole_numbers<std::int64_t>(place, "an extent of", value.at("shape")));
  const auto offsets =
      whole_numbers<std::uint64_t>(place, "a data offset of", value.at("data_offsets"));
  if (offsets.size() != 2) place.fail("has {} data offsets, expected 2", offsets.size());
  entry.begin = offsets[0], entry.end = offsets[1];
  if (entry.begin > entry.end || entry.end > data_bytes)
    place.fail("is at {} to {} of {} bytes", entry.begin, entry.end, data_bytes);
  const std::uint64_t bytes = bytes_of(place, entry.shape, entry.type.item(), data_bytes);
  if (bytes != entry.end - entry.begin)
    place.fail("of shape {} needs {} bytes, has {}", entry.shape.str(), bytes,
               entry.end - entry.begin);
  return entry;
}

void check_cover(const InputFile& file, const std::vector<Entry>& entries,
                 std::uint64_t data_bytes) {
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) entry.place.fail("is not where the one before it ends");
    at = entry.end;
  }
  if (at != data_bytes) file.fail("has {} bytes of data, its tensors {}", data_bytes, at);
}

std::vector<Entry> entries_from(const InputFile& file, const json& header,
                                std::uint64_t data_bytes) {
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items())
    if (name != kMetadata) entries.push_back(entry_from(file, name, value, data_bytes));
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_cover(file, entries, data_bytes);
  return entries;
}

std::string read_header(const InputFile& file) {
  if (file.size() < sizeof(std::uint64_t))
    file.fail("is no safetensors file: {} bytes", file.size());
  const auto length = detail::number_in<std::uint64_t>(file.text_at(0, sizeof(std::uint64_t)), 0);
  if (length > kLongestHeader || length > file.size() - sizeof length)
    file.fail("is no safetensors file, or ends early: it has {} bytes, its header {}", file.size(),
              length);
  return file.text_at(sizeof length, length);
}

Safetensors read_all(const InputFile& file) {
  const std::string text = read_header(file);
  const std::uint64_t start = sizeof(std::uint64_t) + text.size();
  try {
    const json header = parse_header(file, text);
    if (!header.is_object()) file.fail("its header is malformed");
    Safetensors contents;
    if (header.contains(kMetadata)) header.at(kMetadata).get_to(contents.metadata);
    for (const Entry& entry : entries_from(file, header, file.size() - start))
      contents.tensors.emplace_back(
          entry.name,
          read_stored(entry.place, entry.type, entry.shape, [&](std::span<std::byte> bytes) {
            file.read_at(start + entry.begin, bytes);
          }));
    return contents;
  } catch (const json::exception&) {
    file.fail("its header is malformed");
  }
}

// Larger elements first, so that each tensor begins at a multiple of its own.
std::vector<const NamedTensor*> in_data_order(const std::vector<NamedTensor>& tensors) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& named : tensors) order.push_back(&named);
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return item_size(a->second.dtype()) > item_size(b->second.dtype());
  });
  return order;
}

std::string header_of(const std::string& path, const Safetensors& contents,
                      const std::vector<const NamedTensor*>& order) {
  json header = json::object();
  std::uint64_t offset = 0;
  for (const NamedTensor* named : order) {
    const auto& [name, tensor] = *named;
    if (name == kMetadata) throw InvalidArgument("{}: a tensor is named '{}'", path, kMetadata);
    const std::uint64_t end = offset + tensor.info().bytes();
    header[name] = {{"dtype", kind_of(tensor.dtype())},
                    {"shape", tensor.shape().vector()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  if (!contents.metadata.empty()) header[kMetadata] = contents.metadata;
  try {
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    return text;
  } catch (const json::exception&) {
    throw InvalidArgument("{}: a name or the metadata is not UTF-8", path);
  }
}

}  // namespace

Safetensors read_safetensors(const std::string& path) {
  const InputFile file(path);
  return with_memory_for(path, [&] { return read_all(file); });
}

void write_safetensors(const std::string& path, const Safetensors& contents) {
  detail::check_names_differ(path, contents.tensors);
  const std::vector<const NamedTensor*> order = in_data_order(contents.tensors);
  const std::string header = header_of(path, contents, order);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const NamedTensor* named : order) {
    const Tensor dense = detail::to_write(named->second);
    file.write(detail::bytes_of(dense));
  }
  file.commit();
}

}  // namespace lockstep::io
