"""How much memory operations take."""

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Largest(TorchDispatchMode):
    """``bytes`` of the largest new memory that an operation takes, that of ``tensors`` left out."""

    def __init__(self, *tensors):
        super().__init__()
        self.known, self.bytes = {tensor.untyped_storage().data_ptr() for tensor in tensors}, 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        for tensor in tree_leaves(result):
            storage = getattr(tensor, "untyped_storage", lambda: None)()
            if storage is not None and storage.data_ptr() not in self.known:
                self.bytes = max(self.bytes, storage.nbytes())
        return result
