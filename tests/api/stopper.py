"""A processor of one's own, as an installation would name it in its settings."""

from memory.processors.base import ProcessInputArgs


class Stopper:
    """Ends every run before its first call."""

    id = "stopper"
    name = "Stopper"

    def process_input(self, args: ProcessInputArgs) -> None:
        args.abort("not on a Sunday")
