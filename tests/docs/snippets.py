# SPDX-License-Identifier: Apache-2.0
"""The C++ of the documentation as one program: snippets.py OUTPUT PAGE...

Blocks of ```cpp under one heading are one function; a block of <!--cpp ... --> is a part of it that
readers do not see. Includes go to the top. A block of ```text is what the code before it prints;
"..." in it stands for anything.
"""
import re
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Block:
    page: str
    line: int  # of its first line of code
    kind: str  # cpp, hidden or text
    lines: list


def sections_of(page):
    """Lists of blocks, one for each heading that has any."""
    sections, block = [[]], None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if block is not None:
            if line in ("```", "-->"):
                block = None
            elif isinstance(block, Block):
                block.lines.append(line)
        elif line in ("```cpp", "```text", "<!--cpp"):
            kind = {"```cpp": "cpp", "```text": "text", "<!--cpp": "hidden"}[line]
            block = Block(page.name, number + 1, kind, [])
            sections[-1].append(block)
        elif line.startswith("```"):
            block = "another language"
        elif line.startswith("#"):
            sections.append([])
    return [section for section in sections if section]


def goes_to_the_top(line):
    return re.match(r"#include |using namespace ", line)


def body_of(section):
    for block in section:
        if block.kind == "text":
            continue
        if block.kind == "cpp":
            yield f'  std::printf("\\n@%s:%d\\n", "{block.page}", {block.line});'
        yield f'#line {block.line} "{block.page}"'
        yield from ("" if goes_to_the_top(line) else line for line in block.lines)


def program_of(pages):
    sections = [section for page in pages for section in sections_of(page)]
    code = [line for section in sections for block in section if block.kind != "text"
            for line in block.lines]
    top = sorted({line for line in code if goes_to_the_top(line)})
    text = ["#include <cstdio>", *top]
    for number, section in enumerate(sections):
        text += [f"static void section_{number}() {{", *body_of(section), "}"]
    calls = [f"  section_{number}();" for number in range(len(sections))]
    return "\n".join([*text, "int main() {", *calls, "}", ""])


def main(output, *pages):
    Path(output).write_text(program_of([Path(page) for page in pages]))


if __name__ == "__main__":
    main(*sys.argv[1:])
