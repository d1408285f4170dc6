"""Records -> charts. Pure: no Streamlit, no state."""

from app.figures.base import Chart
from app.figures.precision import gradient_range, loss_scale, rounding, unmoved
from app.figures.run import divergence, learning_rate, loss
from app.figures.update import accumulator, reductions

__all__ = [
    "Chart", "accumulator", "divergence", "gradient_range", "learning_rate", "loss", "loss_scale", "reductions",
    "rounding", "unmoved",
]  # fmt: skip
