# SPDX-License-Identifier: Apache-2.0
"""Numbers for tokens."""

import collections

UNKNOWN_INDEX = 0


class Vocabulary:
    """The most frequent tokens have the smallest numbers; 0 is the unknown one, then come the
    reserved ones. Those that are as frequent stand in the order of the alphabet."""

    def __init__(self, counter=None, most_freq_count=None, min_freq=1, unknown_token="<unk>",
                 reserved_tokens=None):
        if min_freq < 1:
            raise ValueError(f"Vocabulary: min_freq is {min_freq}, expected 1 or more")
        reserved = list(reserved_tokens or [])
        if unknown_token in reserved or len(set(reserved)) != len(reserved):
            raise ValueError("Vocabulary: reserved tokens are different from each other and from "
                             "the unknown one")
        self._unknown_token = unknown_token
        self._reserved_tokens = reserved or None
        self._idx_to_token = [unknown_token] + reserved
        if counter is not None:
            self._take(counter, most_freq_count, min_freq)
        self._token_to_idx = {token: i for i, token in enumerate(self._idx_to_token)}

    def _take(self, counter, most, least):
        if not isinstance(counter, collections.Counter):
            raise TypeError("Vocabulary: counter is a collections.Counter")
        known = set(self._idx_to_token)
        order = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
        limit = len(known) + (len(counter) if most is None else most)
        for token, count in order:
            if count < least or len(self._idx_to_token) == limit:
                break
            if token not in known:
                self._idx_to_token.append(token)

    def __len__(self):
        return len(self._idx_to_token)

    @property
    def token_to_idx(self):
        """Numbers by token."""
        return self._token_to_idx

    @property
    def idx_to_token(self):
        """Tokens by number."""
        return self._idx_to_token

    @property
    def unknown_token(self):
        return self._unknown_token

    @property
    def reserved_tokens(self):
        return self._reserved_tokens

    def to_indices(self, tokens):
        """The number of a token, or those of a list; of what is unknown 0."""
        if isinstance(tokens, (list, tuple)):
            return [self._token_to_idx.get(token, UNKNOWN_INDEX) for token in tokens]
        return self._token_to_idx.get(tokens, UNKNOWN_INDEX)

    def to_tokens(self, indices):
        """The token of a number, or those of a list."""
        several = isinstance(indices, (list, tuple))
        made = []
        for index in indices if several else [indices]:
            if not isinstance(index, int) or not 0 <= index < len(self):
                raise ValueError(f"Token index {index} in the provided `indices` is invalid.")
            made.append(self._idx_to_token[index])
        return made if several else made[0]
