"""What the numbers mean, in sentences. Every number in a sentence is computed from a run or one of its updates."""

from lab.findings.orders import PLACES, agrees, degrees, of_orders
from lab.findings.run import of_run
from lab.findings.sentence import Finding, largest_text
from lab.findings.stages import Stage, stages_of
from lab.findings.update import AGREES, of_census, of_update, tolerance
from lab.wording import number, percent, plural

__all__ = [
    "AGREES", "PLACES", "Finding", "Stage", "agrees", "degrees", "largest_text", "number", "of_census",
    "of_orders", "of_run", "of_update", "percent", "plural", "stages_of", "tolerance",
]  # fmt: skip
