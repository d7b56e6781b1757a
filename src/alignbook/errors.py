"""What a user can mend: the command prints the message as one line and exits with status 2."""


class AlignbookError(RuntimeError):
    """Bad input or a fault outside the code; the message is one clear line."""


def on_one_line(text):
    """What went wrong, as one line of at most 300 characters."""
    return " ".join(str(text).split())[:300]
