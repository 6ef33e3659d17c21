# SPDX-License-Identifier: Apache-2.0
"""Counting tokens."""

import collections
import re


def count_tokens_from_str(source_str, token_delim=" ", seq_delim="\n", to_lower=False,
                          counter_to_update=None):
    """How often each token stands in a text; delimiters are regular expressions."""
    pieces = re.split(f"{token_delim}|{seq_delim}", source_str)
    tokens = [piece.lower() if to_lower else piece for piece in pieces if piece]
    if counter_to_update is None:
        return collections.Counter(tokens)
    counter_to_update.update(tokens)
    return counter_to_update
