// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::observe {

enum class Align { kLeft, kRight };

struct TableColumn {
  std::string title = {};
  Align align = Align::kLeft;
};

// Text in columns, two blanks between them, for a terminal or a file:
//   recipe       parameters  data
//   mnist-mlp       101,770  MNIST
class Table {
 public:
  explicit Table(std::vector<TableColumn> columns);
  // Throws InvalidArgument when the number of cells is not the number of columns.
  void add(std::vector<std::string> row);
  // Lines end without blanks. With no title anywhere there is no line of titles.
  std::string str() const;

 private:
  std::vector<TableColumn> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace lockstep::observe
