# SPDX-License-Identifier: Apache-2.0
"""Tokens, vocabularies and embeddings of words."""

from lockstep.mxnet.contrib.text import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
