"""What can go wrong, as exceptions. Each says in one line what was asked, what was found, and what to do."""


class Error(Exception):
    """A resource refused a call, which then changed nothing."""


class OutOfMemory(Error, MemoryError):
    """There would be memory if blocks were freed."""
