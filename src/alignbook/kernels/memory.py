"""Keep freed memory inside the process: a speed setting that leaves every result as it is."""

import ctypes

# Parameter numbers of mallopt(3) in the GNU C library.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def keep_freed_memory():
    """Tell the C library to reuse large freed blocks; returns whether it listened.

    By default it maps every large tensor anew and unmaps it after use. A convolution's activations
    (256 images, 256 filters: 134 MB in bfloat16) are then paid for in page faults, which took more
    than half of a training step on two CPU cores. Does nothing where mallopt does not exist.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(M_MMAP_MAX, 0)) and bool(mallopt(M_TRIM_THRESHOLD, 2**31 - 1))
