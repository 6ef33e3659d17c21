# SPDX-License-Identifier: Apache-2.0
"""What notebooks show."""

import html


def block_html(table):
    """A summary's table; its columns are two spaces or more apart."""
    return f"<pre style='line-height:1.3'>{html.escape(table)}</pre>"
