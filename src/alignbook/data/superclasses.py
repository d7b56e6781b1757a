"""Superclasses of the colour image sets: classes that are kinds of one thing.

The twenty of CIFAR-100 are those of its authors (Krizhevsky 2009), five classes each; the archive holds the
fine labels alone. Those of ``photos`` are its halves.
"""

from .halves import HALVES

SUPERCLASSES = {
    "cifar100": {
        "aquatic mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
        "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
        "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
        "food containers": ("bottle", "bowl", "can", "cup", "plate"),
        "fruit and vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
        "household electrical devices": ("clock", "keyboard", "lamp", "telephone", "television"),
        "household furniture": ("bed", "chair", "couch", "table", "wardrobe"),
        "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
        "large carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
        "large man-made outdoor things": ("bridge", "castle", "house", "road", "skyscraper"),
        "large natural outdoor scenes": ("cloud", "forest", "mountain", "plain", "sea"),
        "large omnivores and herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
        "medium-sized mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
        "non-insect invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
        "people": ("baby", "boy", "girl", "man", "woman"),
        "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
        "small mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
        "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
        "vehicles 1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
        "vehicles 2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
    },
    "photos": HALVES["photos"],
}
