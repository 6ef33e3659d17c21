# SPDX-License-Identifier: Apache-2.0
"""A Gluon DataLoader as an iterator of batches for Module."""

from lockstep.mxnet.io import DataBatch, DataDesc, DataIter
from lockstep.mxnet import ndarray as nd


class DataLoaderIter(DataIter):
    """Batches of a DataLoader; a smaller last one is filled with zeros and says so in `pad`."""

    def __init__(self, loader, data_name="data", label_name="softmax_label", dtype="float32"):
        super().__init__()
        self._loader, self._iter = loader, iter(loader)
        data, label = next(self._iter)
        self.batch_size, self.dtype = data.shape[0], dtype
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self._current, self.reset = None, self._restart
        self._restart()

    def _restart(self):
        self._iter = iter(self._loader)

    def iter_next(self):
        try:
            self._current = next(self._iter)
        except StopIteration:
            self._current = None
        return self._current is not None

    def _filled(self, array):
        array = array.astype(self.dtype)
        missing = self.getpad()
        if not missing:
            return [array]
        zeros = nd.zeros((missing,) + tuple(array.shape[1:]), dtype=self.dtype)
        return [nd.concat(array, zeros, dim=0)]

    def getdata(self):
        return self._filled(self._current[0])

    def getlabel(self):
        return self._filled(self._current[1])

    def getpad(self):
        return self.batch_size - self._current[0].shape[0]

    def getindex(self):
        return None

    def next(self):
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), None)
