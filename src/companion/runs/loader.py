"""YAML as parameters are written in it. The one module of the command that needs PyYAML."""

import re

import yaml


class Loader(yaml.SafeLoader):
    """YAML 1.1 reads 1e-4 as a string, 010 as 8 and 1:30 as 90; here numbers are what they look like.

    And of a name that stands twice it takes the last; here that is an error.
    """

    def construct_mapping(self, node, deep=False):
        if not isinstance(node, yaml.MappingNode):
            return super().construct_mapping(node, deep)  # which says so
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        for place, name in enumerate(names):
            if name in names[:place]:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{name} stands there twice", node.value[place][0].start_mark
                )
        return super().construct_mapping(node, deep)


_REPLACED = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp")}
Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?(0|[1-9]\d*)$"), list("-+0123456789")
)
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?$|^[-+]?\.(inf|Inf|INF)$"),
    list("-+0123456789."),
)


def loaded(text):
    """What the text says. Raises ValueError for what is no YAML."""
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
