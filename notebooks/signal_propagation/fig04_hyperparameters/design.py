"""Which networks are trained: families, learning rates and batch sizes."""

# family -> (name on the page, architecture, optimiser)
FAMILIES = {
    "dense": ("fully connected", None, "sgd"),
    "vgg19": ("VGG-19", "vgg19", "sgd"),
    "vgg19-adam": ("VGG-19 (Adam)", "vgg19", "adam"),
    "resnet18": ("ResNet-18", "resnet18", "sgd"),
    "resnet18-adam": ("ResNet-18 (Adam)", "resnet18", "adam"),
    "vgg19-second": ("VGG-19", "vgg19", "sgd"),
    "resnet18-second": ("ResNet-18", "resnet18", "sgd"),
}
SECOND = ("vgg19-second", "resnet18-second")  # on the second images


def conditions(parameters):
    """[(family, learning rate, batch size)], in the order of the figures; each once."""
    p = parameters
    wanted = [("dense", rate, batch) for rate in p["dense_rates"] for batch in p["dense_batches"]]
    wanted += [("vgg19", rate, p["batch_size"]) for rate in p["vgg_rates"]]
    wanted += [("vgg19", p["vgg_rate"], batch) for batch in p["vgg_batches"]]
    wanted += [("vgg19-adam", rate, p["batch_size"]) for rate in p["adam_rates"]]
    wanted += [("resnet18", rate, p["batch_size"]) for rate in p["resnet_rates"]]
    wanted += [("resnet18", p["resnet_rate"], batch) for batch in p["resnet_batches"]]
    wanted += [("resnet18-adam", rate, p["batch_size"]) for rate in p["resnet_adam_rates"]]
    wanted += [("resnet18-second", rate, p["batch_size"]) for rate in p["resnet_second_rates"]]
    wanted += [("vgg19-second", rate, p["batch_size"]) for rate in p["second_rates"]]
    return list(dict.fromkeys(wanted))
