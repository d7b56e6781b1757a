"""The features that are compared, by name, and how a figure calls them."""

UNTRAINED, TRANSFERRED = "untrained", "transferred"
REVIVED = "revived"
REALIGNED, SHUFFLED = "realigned", "shuffled"
ADDED, DOUBLED = "added", "doubled"
ARMS = {
    UNTRAINED: "untrained",
    TRANSFERRED: "transferred",
    REVIVED: "silent units revived",
    REALIGNED: "alignment restored",
    SHUFFLED: "singular values shuffled",
    ADDED: "untrained units added",
    DOUBLED: "untrained, twice as many",
}
TASKS = ("related", "unrelated")
