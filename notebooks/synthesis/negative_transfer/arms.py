"""The features that are compared, by name, and how a figure calls them."""

UNTRAINED, TRANSFERRED = "untrained", "transferred"
REVIVED = "revived"
REALIGNED, SHUFFLED = "realigned", "shuffled"
JOINED, DOUBLED = "joined", "doubled"
ARMS = {
    UNTRAINED: "untrained",
    TRANSFERRED: "transferred",
    REVIVED: "silent units revived",
    REALIGNED: "alignment restored",
    SHUFFLED: "singular values shuffled",
    JOINED: "untrained units added",
    DOUBLED: "untrained, twice as many",
}
TASKS = ("related", "unrelated")
