"""Records -> charts. Pure: no Streamlit, no state."""

from app.figures.axis import over, placed
from app.figures.base import Chart
from app.figures.devices import dealt, device_agreement, device_gradients, device_losses, spread
from app.figures.memory import memory
from app.figures.names import letters, tokens
from app.figures.precision import gradient_range, loss_scale, rounding, unmoved
from app.figures.run import divergence, learning_rate, loss
from app.figures.stages import stages
from app.figures.surface import surface
from app.figures.update import accumulator, reductions

__all__ = [
    "Chart", "accumulator", "dealt", "device_agreement", "device_gradients", "device_losses", "divergence",
    "gradient_range", "learning_rate", "letters", "loss", "loss_scale", "memory", "over", "placed", "reductions",
    "rounding", "spread", "stages", "surface", "tokens", "unmoved",
]  # fmt: skip
