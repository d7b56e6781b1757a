"""Anonymous, ICLR 2020 submission, Towards understanding the transferability of deep representations."""
