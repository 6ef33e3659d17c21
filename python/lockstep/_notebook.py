# SPDX-License-Identifier: Apache-2.0
"""A run's progress in a notebook: a bar that is drawn anew a few times a second."""

import html
import sys
import time

_EVERY = 0.25


def in_notebook():
    """Whether this process is a notebook's kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _time(seconds):
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


class NotebookProgress:
    """A callback of `fit`."""

    wants_predictions = False

    def __init__(self):
        self._place, self._next, self._told = None, 0.0, []

    def _show(self, done, total, words):
        from IPython.display import HTML, display

        bar = (f"<progress value='{done}' max='{max(total, 1)}' style='width:40%'></progress> "
               f"{html.escape(f'{done}/{total} {words}')}")
        page = HTML("<br>".join([bar, *map(html.escape, self._told)]))
        if self._place is None:
            self._place = display(page, display_id=True)
        else:
            self._place.update(page)

    def on_train_begin(self, context):
        """An empty bar."""
        self._show(context.first_step, context.total_steps, "")

    def on_step_end(self, context, event):
        """How far it is, and how long it will take."""
        now = time.monotonic()
        if now < self._next and event.step < context.total_steps:
            return
        self._next = now + _EVERY
        left = (context.total_steps - event.step) * context.global_batch / (
            event.samples_per_s or 1.0)
        self._show(event.step, context.total_steps,
                   f"loss {event.loss:.4f}, {event.samples_per_s:.0f} samples/s, {_time(left)} left")

    def on_evaluation(self, context, evaluation):
        """A line below the bar."""
        self._told.append(f"step {context.step}: {evaluation!r}")

    def on_warning(self, context, line):
        """A line below the bar."""
        self._told.append(line)

    def on_train_end(self, context, result):
        """The last word."""
        self._show(result.steps, context.total_steps,
                   f"loss {result.train_loss:.4f}, {result.samples_per_s:.0f} samples/s, "
                   f"{_time(result.seconds)}")
