"""A run as one HTML file that opens offline."""

from app.look import Look
from lab.run import Run


def write(run: Run, look: Look) -> str:
    return ""
