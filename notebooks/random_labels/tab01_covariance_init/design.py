"""What is varied: details that the paper leaves open, and other ways to pre-train for Table 7."""

# What a variation changes, and the cells (initialisation, layers) and iterations where it is tried.
VARIATIONS = [
    ({"schedule": "constant"}, [("standard", 0), ("f2", 3)], None),  # None: all iteration counts
    ({"padding": "valid"}, [("standard", 0), ("f2", 3)], None),
    ({"pool": "valid"}, [("standard", 0), ("f2", 3)], 1),
    ({"init_scale": 0.5}, [("standard", 0), ("f2", 3)], 1),
    ({"filter_scale": "he"}, [("f2", 1), ("f2", 3), ("shifted", 1)], 1),
    ({"filter_scale": "he"}, [("f3", 3), ("sampled", 3), ("smallest", 3)], None),
    ({"filter_scale": "raw"}, [("f1", 3), ("sampled", 3)], 1),
    ({"centred": False}, [("f2", 3), ("shifted", 1)], 1),
    ({"patch_stride": 1}, [("f2", 3), ("shifted", 1), ("shifted", 3)], 1),
    ({"first_number": 0}, [("shifted", 1), ("shifted", 2), ("shifted", 3)], None),
    ({"pretrain_epochs": 10}, [("pretrained", 3)], 1),
    ({"pretrain_epochs": 120}, [("pretrained", 3)], None),
    ({"precision": "float32"}, [("standard", 0)], 1),
    ({"precision": "float32"}, [("f2", 3), ("smallest", 2), ("smallest", 3)], None),
]

# Other ways to pre-train for Table 7, with three layers: name of the jobs -> (what changes, whether the
# layers are scaled back before they are handed over). The rate 0.01 and the scale 0.518 are those of A.10.
PRETRAINING = {
    "rate": ({"pretrain_rate": 0.01}, [False, True]),
    "unscaled": ({}, [False]),
    "joint": ({"schedule": "constant", "init_scale": 0.518}, [True]),
}
TABLE_7 = "table7-"  # what the names of their jobs begin with
