# SPDX-License-Identifier: Apache-2.0
"""Vectors of words: of files that are here. Nothing is fetched from the network."""

import os

import numpy as np

from lockstep.errors import Corrupt, NotFound
from lockstep.mxnet import ndarray as nd
from lockstep.mxnet.contrib.text import vocab

_registry = {}


def register(embedding_cls):
    """Makes a class known to create() by its name."""
    _registry[embedding_cls.__name__.lower()] = embedding_cls
    return embedding_cls


def create(embedding_name, **kwargs):
    """A set of vectors by name: glove, fasttext, customembedding."""
    name = embedding_name.lower()
    if name not in _registry:
        raise KeyError(f"Cannot find `embedding_name` {embedding_name}: there are "
                       f"{sorted(_registry)}")
    return _registry[name](**kwargs)


_FILES = {
    "glove": [f"glove.{corpus}.{size}d.txt" for corpus, sizes in (
        ("6B", (50, 100, 200, 300)), ("42B", (300,)), ("840B", (300,)),
        ("twitter.27B", (25, 50, 100, 200))) for size in sizes],
    "fasttext": ["wiki.en.vec", "wiki.simple.vec", "crawl-300d-2M.vec"],
}


def get_pretrained_file_names(embedding_name=None):
    """The files that are known, by name, or of one."""
    if embedding_name is None:
        return dict(_FILES)
    if embedding_name.lower() not in _FILES:
        raise KeyError(f"Cannot find `embedding_name` {embedding_name}: there are {sorted(_FILES)}")
    return _FILES[embedding_name.lower()]


class _TokenEmbedding(vocab.Vocabulary):
    """A vocabulary whose tokens have vectors."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._vec_len, self._idx_to_vec = 0, None

    @property
    def vec_len(self):
        """How long the vectors are."""
        return self._vec_len

    @property
    def idx_to_vec(self):
        """The vectors by number."""
        return self._idx_to_vec

    def _load(self, path, delimiter, init_unknown, encoding="utf8"):
        if not os.path.isfile(path):
            raise NotFound(f"{path}: there is no such file; put the vectors there, nothing is "
                           "fetched")
        vectors, tokens, unknown = [], set(self._idx_to_token), None
        with open(path, encoding=encoding) as file:
            for number, line in enumerate(file, 1):
                fields = line.rstrip().split(delimiter)
                if number == 1 and len(fields) == 2:
                    continue  # how many there are, and how long
                try:
                    vector = np.array(fields[1:], dtype=np.float32)
                except ValueError:
                    raise Corrupt(f"{path}:{number}: expected a token and numbers") from None
                if self._vec_len in (0, vector.size):
                    self._vec_len = vector.size
                else:
                    raise Corrupt(f"{path}:{number}: {vector.size} numbers, expected "
                                  f"{self._vec_len}")
                if fields[0] == self.unknown_token:
                    unknown = vector
                elif fields[0] not in tokens:
                    tokens.add(fields[0])
                    self._token_to_idx[fields[0]] = len(self._idx_to_token)
                    self._idx_to_token.append(fields[0])
                    vectors.append(vector)
        reserved = len(self._idx_to_token) - len(vectors)
        table = np.zeros((len(self._idx_to_token), self._vec_len), np.float32)
        for i in range(reserved):
            made = init_unknown(shape=(self._vec_len,))
            table[i] = made.asnumpy() if hasattr(made, "asnumpy") else made
        if unknown is not None:
            table[0] = unknown
        if vectors:
            table[reserved:] = vectors
        self._idx_to_vec = nd.array(table)

    def _restrict(self, vocabulary):
        """Only the tokens of a vocabulary, in its order."""
        table = self._vectors_of(vocabulary)
        self._take_tokens(vocabulary)
        self._idx_to_vec = nd.array(table)

    def _take_tokens(self, vocabulary):
        self._idx_to_token = list(vocabulary.idx_to_token)
        self._token_to_idx = dict(vocabulary.token_to_idx)
        self._unknown_token = vocabulary.unknown_token
        self._reserved_tokens = vocabulary.reserved_tokens

    def _vectors_of(self, vocabulary):
        """A vocabulary's, in its order; that of its unknown token is the unknown one's here."""
        known = self.get_vecs_by_tokens(vocabulary.idx_to_token[1:]).asnumpy()
        return np.concatenate([self._idx_to_vec.asnumpy()[:1], known.reshape(-1, self._vec_len)])

    def get_vecs_by_tokens(self, tokens, lower_case_backup=False):
        """The vector of a token, or those of a list."""
        single = not isinstance(tokens, (list, tuple))
        numbers = []
        for token in [tokens] if single else tokens:
            if token not in self._token_to_idx and lower_case_backup:
                token = token.lower()
            numbers.append(self._token_to_idx.get(token, vocab.UNKNOWN_INDEX))
        vectors = self._idx_to_vec.asnumpy()[numbers]
        return nd.array(vectors[0] if single else vectors)

    def update_token_vectors(self, tokens, new_vectors):
        """Other vectors for tokens."""
        tokens = tokens if isinstance(tokens, (list, tuple)) else [tokens]
        missing = [token for token in tokens if token not in self._token_to_idx]
        if missing:
            raise ValueError(f"Token {missing[0]} is unknown. To update the embedding vector for "
                             "the unknown token, please specify it explicitly.")
        table = self._idx_to_vec.asnumpy()
        table[[self._token_to_idx[token] for token in tokens]] = new_vectors.asnumpy().reshape(
            len(tokens), -1)
        self._idx_to_vec = nd.array(table)


def _of_files(name):
    class Pretrained(_TokenEmbedding):
        def __init__(self, pretrained_file_name=_FILES[name][0], embedding_root=None,
                     init_unknown_vec=nd.zeros, vocabulary=None, **kwargs):
            super().__init__(**kwargs)
            if pretrained_file_name not in _FILES[name]:
                raise KeyError(f"Cannot find pretrained file {pretrained_file_name} for {name}: "
                               f"there are {_FILES[name]}")
            root = os.path.expanduser(embedding_root or os.path.join("~", ".mxnet", "embeddings"))
            self._load(os.path.join(root, name, pretrained_file_name), " ", init_unknown_vec)
            if vocabulary is not None:
                self._restrict(vocabulary)

    Pretrained.__doc__ = f"Vectors of {name}, of a file under the root's folder '{name}'."
    return Pretrained


GloVe = _of_files("glove")
GloVe.__name__ = "GloVe"
FastText = _of_files("fasttext")
FastText.__name__ = "FastText"
register(GloVe)
register(FastText)


@register
class CustomEmbedding(_TokenEmbedding):
    """Vectors of a file of one's own: a token and its numbers a line."""

    def __init__(self, pretrained_file_path, elem_delim=" ", encoding="utf8",
                 init_unknown_vec=nd.zeros, vocabulary=None, **kwargs):
        super().__init__(**kwargs)
        self._load(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        if vocabulary is not None:
            self._restrict(vocabulary)


class CompositeEmbedding(_TokenEmbedding):
    """A vocabulary whose vectors are those of several sets, one behind the other."""

    def __init__(self, vocabulary, token_embeddings):
        super().__init__()
        sets = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        self._take_tokens(vocabulary)
        table = np.concatenate([one._vectors_of(vocabulary) for one in sets], axis=1)
        self._vec_len, self._idx_to_vec = table.shape[1], nd.array(table)
