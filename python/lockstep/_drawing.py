# SPDX-License-Identifier: Apache-2.0
"""Drawings of graphs: nodes in rows, each above all that it reads."""

import html

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 160, 44, 24, 40


class Box:
    """A node of a drawing: lines of text, a colour, and the boxes below it, each with the words
    that stand beside the way to it."""

    def __init__(self, lines, colour="#fccde5", tip=""):
        self.lines, self.colour, self.tip, self.below = lines, colour, tip, []


def _rows(boxes):
    rank, rows = {}, {}
    for box in boxes:
        rank[id(box)] = 1 + max((rank[id(child)] for child, _ in box.below), default=-1)
        rows.setdefault(rank[id(box)], []).append(box)
    return [rows[key] for key in sorted(rows)]


def _places(rows, width, height):
    place = {}
    for level, row in enumerate(rows):
        left = (width - len(row) * (_WIDTH + _GAP_X) + _GAP_X) / 2
        for column, box in enumerate(row):
            place[id(box)] = (left + column * (_WIDTH + _GAP_X),
                              height - (level + 1) * (_HEIGHT + _GAP_Y))
    return place


def _edge(start, end, words):
    x1, y1, x2, y2 = start[0] + _WIDTH / 2, start[1], end[0] + _WIDTH / 2, end[1] + _HEIGHT
    middle = (y1 + y2) / 2
    parts = [f'<path d="M{x1:g},{y1:g} C{x1:g},{middle:g} {x2:g},{middle:g} {x2:g},{y2:g}" '
             'fill="none" stroke="#888"/>']
    if words:
        parts.append(f'<text x="{(x1 + x2) / 2 + 4:g}" y="{middle:g}" fill="#666">'
                     f'{html.escape(words)}</text>')
    return parts


def _box(box, x, y):
    parts = [f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" '
             f'fill="{box.colour}" stroke="#333">'
             + (f"<title>{html.escape(box.tip)}</title>" if box.tip else "") + "</rect>"]
    for i, line in enumerate(box.lines[:2]):
        parts.append(f'<text x="{x + _WIDTH / 2:g}" y="{y + 18 + 15 * i:g}" '
                     f'text-anchor="middle">{html.escape(str(line))}</text>')
    return parts


def draw(boxes, title):
    """An SVG of boxes; those below a box come before it."""
    rows = _rows(boxes)
    width = max((len(row) for row in rows), default=0) * (_WIDTH + _GAP_X) + _GAP_X
    height = len(rows) * (_HEIGHT + _GAP_Y) + _GAP_Y
    place = _places(rows, width, height)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
             f'font-family="sans-serif" font-size="11"><title>{html.escape(title)}</title>']
    for box in boxes:
        for child, words in box.below:
            parts += _edge(place[id(child)], place[id(box)], words)
    for box in boxes:
        parts += _box(box, *place[id(box)])
    return "\n".join(parts + ["</svg>"])
