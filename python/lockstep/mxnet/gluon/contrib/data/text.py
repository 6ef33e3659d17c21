# SPDX-License-Identifier: Apache-2.0
"""Texts for language models: samples are (words, the words that follow them), as numbers."""

import os
import zipfile
from collections import Counter

import numpy as np

from lockstep.mxnet.contrib import text
from lockstep.mxnet.gluon.data.dataset import SimpleDataset
from lockstep.mxnet.gluon.utils import download
from lockstep.mxnet.ndarray import array

__all__ = ["WikiText103", "WikiText2"]
_HOME = os.path.join("~", ".mxnet", "datasets")
_SOURCE = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/gluon/dataset/"


class _WikiText(SimpleDataset):
    """Articles of Wikipedia, cut into sequences of seq_len words."""

    _archive = _folder = None
    _end = "<eos>"

    def __init__(self, root, segment, vocab, seq_len):
        self._root, self._segment = os.path.expanduser(root), segment
        self._vocab, self._seq_len = vocab, seq_len
        self._counter = None
        super().__init__(self._samples(self._words()))

    @property
    def vocabulary(self):
        """The words' numbers."""
        return self._vocab

    @property
    def frequencies(self):
        """How often each word occurs."""
        return self._counter

    def _path(self):
        name = {"train": "wiki.train.tokens", "validation": "wiki.valid.tokens",
                "test": "wiki.test.tokens"}[self._segment]
        for folder in (self._root, os.path.join(self._root, self._folder)):
            if os.path.exists(os.path.join(folder, name)):
                return os.path.join(folder, name)
        archive = download(f"{_SOURCE}{self._folder}/{self._archive}", path=os.path.join(
            self._root, self._archive))
        with zipfile.ZipFile(archive) as packed:
            inside = next(n for n in packed.namelist() if n.endswith(name))
            contents = packed.read(inside)
        with open(os.path.join(self._root, name), "wb") as file:
            file.write(contents)
        return os.path.join(self._root, name)

    def _words(self):
        with open(self._path(), encoding="utf8") as file:
            lines = [line.strip().split() for line in file]
        return [word for line in lines if line for word in (*line, self._end)]

    def _samples(self, words):
        self._counter = Counter(words)
        if self._vocab is None:
            self._vocab = text.vocab.Vocabulary(self._counter, reserved_tokens=[self._end])
        numbers = np.array(self._vocab.to_indices(words), dtype="int32")
        count = (len(numbers) - 1) // self._seq_len * self._seq_len
        data, label = (numbers[at:at + count].reshape(-1, self._seq_len) for at in (0, 1))
        return list(zip(array(data, dtype="int32"), array(label, dtype="int32")))


class WikiText2(_WikiText):
    """Two million words."""

    _archive, _folder = "wikitext-2-v1.zip", "wikitext-2"

    def __init__(self, root=os.path.join(_HOME, "wikitext-2"), segment="train", vocab=None,
                 seq_len=35):
        super().__init__(root, segment, vocab, seq_len)


class WikiText103(_WikiText):
    """A hundred million words."""

    _archive, _folder = "wikitext-103-v1.zip", "wikitext-103"

    def __init__(self, root=os.path.join(_HOME, "wikitext-103"), segment="train", vocab=None,
                 seq_len=35):
        super().__init__(root, segment, vocab, seq_len)
