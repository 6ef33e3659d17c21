# SPDX-License-Identifier: Apache-2.0
"""gluon.contrib.nn."""

from lockstep.mxnet.gluon.nn import (Concatenate, Embedding, HybridConcatenate, Identity,
                                     PixelShuffle1D, PixelShuffle2D, PixelShuffle3D, SyncBatchNorm)

Concurrent, HybridConcurrent = Concatenate, HybridConcatenate


class SparseEmbedding(Embedding):
    """Embedding whose gradient MXNet keeps by rows."""

    def __init__(self, input_dim, output_dim, dtype="float32", weight_initializer=None, **kwargs):
        super().__init__(input_dim, output_dim, dtype, weight_initializer, True, **kwargs)


__all__ = ["Concurrent", "HybridConcurrent", "Identity", "PixelShuffle1D", "PixelShuffle2D",
           "PixelShuffle3D", "SparseEmbedding", "SyncBatchNorm"]
