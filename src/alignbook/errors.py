"""What a user can mend: the command prints the message as one line and exits with status 2."""


class AlignbookError(RuntimeError):
    """Bad input or a fault outside the code; the message is one clear line."""
