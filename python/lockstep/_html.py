# SPDX-License-Identifier: Apache-2.0
"""What notebooks show."""

import html
import math

_WIDTH, _HEIGHT, _MARGIN = 360, 140, 30


def block_html(table):
    """A summary's table; its columns are two spaces or more apart."""
    return f"<pre style='line-height:1.3'>{html.escape(table)}</pre>"


def _points(steps, values):
    low, high = min(values), max(values)
    first, last = steps[0], steps[-1]
    for step, value in zip(steps, values):
        x = (step - first) / ((last - first) or 1)
        y = (value - low) / ((high - low) or 1)
        yield (f"{_MARGIN + x * (_WIDTH - 2 * _MARGIN):.1f},"
               f"{_HEIGHT - _MARGIN - y * (_HEIGHT - 2 * _MARGIN):.1f}")


def curve_svg(name, steps, values):
    """A line of values over steps, with its ends in words."""
    pairs = [(s, v) for s, v in zip(steps, values) if math.isfinite(v)]
    if not pairs:
        return ""
    steps, values = zip(*pairs)
    title = f"{name}: {values[0]:.4g} to {values[-1]:.4g} (steps {steps[0]} to {steps[-1]})"
    return (f"<svg width='{_WIDTH}' height='{_HEIGHT}' xmlns='http://www.w3.org/2000/svg'>"
            f"<text x='{_MARGIN}' y='18' font-size='12'>{html.escape(title)}</text>"
            f"<polyline fill='none' stroke='#3366aa' stroke-width='1.5' "
            f"points='{' '.join(_points(steps, values))}'/></svg>")


def run_html(result):
    """A run's evaluations as curves."""
    names = list(dict.fromkeys(name for record in result.history for name in record.metrics))
    curves = [curve_svg(name, [r.step for r in result.history if name in r.metrics],
                        [r.metrics[name] for r in result.history if name in r.metrics])
              for name in names]
    return f"<p>{html.escape(repr(result))}</p>" + "".join(curves)
