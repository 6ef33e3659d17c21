# SPDX-License-Identifier: Apache-2.0
"""docs/reference.md is what the public headers say."""
from pathlib import Path

import reference

SOURCE = Path(__file__).resolve().parents[2]


def write_header(folder, text):
    path = folder / "header.h"
    path.write_text(text)
    return path


def test_the_page_is_up_to_date():
    page = (SOURCE / "docs" / "reference.md").read_text().splitlines()
    wanted = reference.page_of(SOURCE).splitlines()
    for number, (is_now, should_be) in enumerate(zip(page, wanted), 1):
        assert is_now == should_be, f"line {number}: run `make docs`"
    assert len(page) == len(wanted), "run `make docs`"


def test_every_row_says_what_the_thing_is():
    for line in reference.page_of(SOURCE).splitlines():
        assert not (line.startswith("| `") and line.count(" | ") == 1 and line.endswith("|  |")), line


def test_functions_have_the_comment_of_what_they_make(tmp_path):
    path = write_header(tmp_path, """namespace n {
struct ThingOptions {
  int size = 3;  // how large
  bool fast = false;
};
// Does things.
class Thing : public Block {
 public:
  explicit Thing(int size);
};
std::shared_ptr<Thing> thing(int number,
                             const ThingOptions& options = {});
std::shared_ptr<Thing> other();  // another | one
}  // namespace n
""")
    text = reference.section_text("Things", [path], r"std::shared_ptr<\w+>", None)
    assert "| `thing(int number, ThingOptions options = {})` | Does things. |" in text
    assert "| `other()` | another \\| one |" in text
    assert "| `size` | `int` | `3` | how large |" in text
    assert "| `fast` | `bool` | `false` |  |" in text


def test_classes_are_rows_by_their_public_constructors(tmp_path):
    path = write_header(tmp_path, """// A base.
class Loss {
 public:
  virtual double value() const = 0;
};
// Squares.
class Square : public Loss {
 public:
  explicit Square(double weight = 1.0) : weight_(weight) {}

 private:
  double weight_ = 0;
};
class Hidden : public Loss {
 public:
  virtual void more() = 0;
};
""")
    text = reference.section_text("Losses", [path], None, "Loss")
    assert "| `Square(double weight = 1.0)` | Squares. |" in text
    assert "Hidden" not in text and "A base" not in text
