"""What the numbers mean, in sentences. Every number in a sentence is computed from a run or one of its updates."""

from lab.findings.orders import PLACES, agrees, degrees, of_orders
from lab.findings.run import headline, of_run
from lab.findings.sentence import Finding, largest_text, number, percent, plural
from lab.findings.update import AGREES, of_census, of_update, tolerance

__all__ = [
    "AGREES", "PLACES", "Finding", "agrees", "degrees", "headline", "largest_text", "number", "of_census", "of_orders",
    "of_run", "of_update", "percent", "plural", "tolerance",
]  # fmt: skip
