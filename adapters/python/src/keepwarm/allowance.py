"""The bytes Keepwarm may still send, on one stream or on the connection (spec/wire.md §6)."""

from keepwarm import wire
from keepwarm.errors import Fault


class Allowance:
    """`spend` when bytes arrive, `pay` when they have left this process; `pay` says how much credit to give back now.

    Credit goes back in steps of a quarter of the first value. `left + owed` plus what is in memory is always that value.
    """

    __slots__ = ("left", "owed", "step")

    def __init__(self, first):
        self.left = first
        self.owed = 0
        self.step = first // 4

    def spend(self, size):
        """Raises `Fault` when Keepwarm sends more than it may."""
        self.left -= size
        if self.left < 0:
            raise Fault("credit_spent", "more bytes than the credit allows")

    def pay(self, size):
        """0, or the credit to give back."""
        self.owed += size
        if self.owed < self.step:
            return 0
        amount, self.owed = self.owed, 0
        self.left += amount
        return amount


def added(credit, amount):
    """A credit of ours after a CREDIT of `amount`."""
    credit += amount
    if credit > wire.MAX_CREDIT:
        raise Fault("credit_overflow", "a credit above 2^31-1")
    return credit
