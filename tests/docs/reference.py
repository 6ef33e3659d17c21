# SPDX-License-Identifier: Apache-2.0
"""docs/reference.md from the public headers: reference.py SOURCE_FOLDER > docs/reference.md

Declarations at the top level of a namespace, with the comment before them (or behind them, on the
same line): functions, structs of options with their fields, classes with public constructors.
"""
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

# Heading, headers, and what a row is: the type that functions return, or the base of classes.
SECTIONS = [
    ("Layers", "nn/layers/*.h", r"std::shared_ptr<\w+>|BlockPtr", None),
    ("Losses", "nn/loss*.h", None, r"\w*Loss\w*"),
    ("Metrics", "nn/metric*.h", None, r"\w*Metric\w*|MSE|CrossEntropy"),
    ("Initialisers", "nn/initializer.h", r"Initializer", None),
    ("Models", "nn/models/*.h", r"BlockPtr", None),
    ("Optimisers", "optim/optimizers.h", r"OptimizerPtr", None),
    ("Schedules", "optim/schedule.h", r"Schedule", None),
    ("Transforms", "data/transform.h", r"Transform", None),
    ("Samplers", "data/sampler.h", r"SamplerPtr", None),
    ("Callbacks", "train/*.h", r"CallbackPtr", None),
]

INTRODUCTION = """# Reference

Layers, losses, metrics and what else makes a training run, with their options. `make docs` writes this page from the declarations and comments of the public headers; edit those. [Ops](ops.md) have a page of their own.

Options are given by name: `nn::dense(10, {.activation = "relu"})`.
"""


@dataclass
class Option:
    name: str
    type: str
    default: str
    comment: str


@dataclass
class Item:
    kind: str  # function, struct or class
    name: str
    comment: str = ""
    returns: str = ""    # of functions
    signature: str = ""  # of functions and constructors
    base: str = ""       # of classes
    options: list = field(default_factory=list)
    constructors: list = field(default_factory=list)
    is_abstract: bool = False


def split_comment(line):
    code, mark, comment = line.partition("//")
    return code.rstrip(), comment.strip() if mark else ""


def without_tail(text):
    """Without what follows a constructor's parameters."""
    depth = 0
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == ")" and depth == 0:
            return text[:place + 1]
    return text


def tidy(text):
    text = re.sub(r"\s+", " ", text.strip().rstrip(";").strip())
    return re.sub(r"\( ", "(", text)


def plain(type_name):
    return re.sub(r"std::|const |&", "", type_name).strip()


def option_of(line, comment):
    found = re.fullmatch(r"\s*([\w:<>, ()*]+?[\s&>])(\w+)(?: = (.+?)|(\{.*\}))?;", line)
    if not found or found.group(1).strip() in ("using", "return"):
        return None
    return Option(found.group(2), plain(found.group(1)), found.group(3) or found.group(4) or "",
                  comment)


def fields_of(body):
    options, before = [], []
    for line in body:
        code, comment = split_comment(line)
        if not code.strip():
            before = [*before, comment] if comment else []
            continue
        option = option_of(code, " ".join([*before, comment] if comment else before))
        if option:
            options.append(option)
        before = []
    return options


def read_class(item, body):
    public = item.kind == "struct"
    for number, line in enumerate(body):
        code, _ = split_comment(line)
        stripped = code.strip()
        if stripped in ("public:", "protected:", "private:"):
            public = stripped == "public:"
        item.is_abstract |= re.search(r"\)( const)? = 0;$", stripped) is not None
        begin = re.match(rf"(explicit )?{item.name}\(", stripped)
        if public and begin and not re.match(rf"{item.name}\(const {item.name}&\)", stripped):
            text = " ".join(split_comment(other)[0].strip() for other in body[number:])
            item.constructors.append(tidy(without_tail(re.sub(r"^explicit ", "", text))))
    item.options = fields_of(body) if item.kind == "struct" else []


def opens(line, depth):
    return depth + line.count("{") - line.count("}")


def read_block(lines, start):
    """The lines between the braces that open in line `start`, and the line after them."""
    depth, at = 0, start
    while True:
        depth = opens(split_comment(lines[at])[0], depth)
        at += 1
        if depth == 0:
            return lines[start + 1:at - 1], at


def function_of(text, comment):
    text = tidy(text)
    found = re.match(r"(?:inline )?([\w:<>*& ,]+?)[ ](\w+)\(", text)
    if not found or found.group(1).startswith(("using", "return", "typedef", "static_assert")):
        return None
    return Item("function", found.group(2), comment, found.group(1), text[found.start(2):])


def read_header(path):
    """The items of one header, in its order."""
    lines = path.read_text().splitlines()
    items, comment, at = [], [], 0
    while at < len(lines):
        code, behind = split_comment(lines[at])
        stripped = code.strip()
        if not stripped:
            comment = [*comment, behind] if behind else []
            at += 1
            continue
        head = re.match(r"(struct|class) (\w+)(?: final)?(?: : public ([\w:<>]+))? \{", stripped)
        if head:
            item = Item(head.group(1), head.group(2), " ".join(comment), base=head.group(3) or "")
            body, at = ([], at + 1) if stripped.endswith("};") else read_block(lines, at)
            read_class(item, body)
            items.append(item)
        elif stripped.startswith(("#", "namespace", "}", "using", "template", "enum")):
            at += 1
        else:
            text = [stripped]
            while not text[-1].endswith((";", "{", "}")):
                at += 1
                more, tail = split_comment(lines[at])
                behind = behind or tail
                text.append(more.strip())
            at += 1
            item = function_of(" ".join(text), " ".join([*comment, behind]).strip())
            if item:
                items.append(item)
        comment = []
    return items


def cell(text):
    return text.replace("|", "\\|")


def shown(signature):
    return re.sub(r"\bstd::|\bconst |&", "", signature)


def named_types(text, structs):
    return [name for name in re.findall(r"\w+", text) if name in structs]


def meaning(item, structs, classes):
    """Its own comment, or that of the block it makes, or of its options."""
    if item.comment:
        return item.comment
    for name in re.findall(r"\w+", item.returns):
        if name in classes and classes[name].comment:
            return classes[name].comment
    for name in named_types(item.signature, structs):
        if structs[name].comment:
            return structs[name].comment
    return ""


def rows_of(items, returns, base):
    for item in items:
        if returns and item.kind == "function" and re.fullmatch(returns, item.returns):
            yield item
        elif base and item.kind == "class" and re.fullmatch(base, item.base) and not item.is_abstract:
            for signature in item.constructors or [item.name + "()"]:
                yield Item("class", item.name, item.comment, signature=signature)


def section_text(title, files, returns, base):
    items = [item for path in files for item in read_header(path)]
    structs = {item.name: item for item in items if item.kind == "struct" and item.options}
    classes = {item.name: item for item in items if item.kind == "class"}
    rows = list(rows_of(items, returns, base))
    used = [name for name in structs if name != returns and
            any(name in named_types(r.signature, structs) for r in rows)]
    text = [f"## {title}", "", "| | |", "| --- | --- |"]
    text += [f"| `{cell(shown(r.signature))}` | {cell(meaning(r, structs, classes))} |"
             for r in rows]
    for name in used:
        text += ["", f"`{name}`:", "", "| option | type | default | |", "| --- | --- | --- | --- |"]
        text += [f"| `{o.name}` | `{cell(o.type)}` | {f'`{cell(o.default)}`' if o.default else ''} "
                 f"| {cell(o.comment)} |" for o in structs[name].options]
    return "\n".join(text) + "\n"


def page_of(source):
    library = Path(source) / "lockstep"
    text = [INTRODUCTION]
    for title, pattern, returns, base in SECTIONS:
        text.append(section_text(title, sorted(library.glob(pattern)), returns, base))
    return "\n".join(text)


if __name__ == "__main__":
    sys.stdout.write(page_of(sys.argv[1]))
