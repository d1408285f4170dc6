"""One colour, one meaning, in every chart; hues by Okabe and Ito (2008). `chart.js` lightens them on a dark page.

Colour never stands alone: dash and marker tell the same thing.
"""

YOURS = "#0072B2"
"""The run on screen."""
COMPARED = "#D55E00"
"""A compared run, or a trap."""
REFERENCE = "#7F7F7F"
"""What plain full-batch mathematics gives."""
ON_BAR = "#FFFFFF"
"""Text inside a bar."""

APART_TO_SAME = [[0, "#EFA77A"], [0.5, "#F4F4F4"], [1, "#7FB9DA"]]
"""Cosines from -1 to 1 on a heatmap, light on any page."""
NONE_TO_ALL = [[0, "#F4F4F4"], [1, "#7FB9DA"]]
"""Counts from 0 on a heatmap."""
CLASSES = [[0, "#E8BFD6"], [0.5, "#F4F4F4"], [1, "#A9DCC9"]]
"""Probabilities of a class on a heatmap, light on any page."""
CHEAP_TO_DEAR = [[0, "#F6F6F6"], [1, "#E08A4F"]]
"""Losses on a heatmap, light on any page."""
CLASS_MARKS = (("circle", "#9C3D76"), ("diamond", "#00694D"))
"""How the points of two classes are marked on it."""
ON_HEAT = "#111111"
"""Text on a heatmap."""

LINE = {"color": YOURS, "width": 2}
DASHED = {"color": YOURS, "width": 1.5, "dash": "dash"}
OTHER = {"color": COMPARED, "width": 2, "dash": "dashdot"}
PLANNED = {"color": REFERENCE, "width": 2, "dash": "dot"}

LAYOUT = {
    "margin": {"l": 62, "r": 14, "t": 26, "b": 42},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"size": 13},
    "hovermode": "x unified",
    "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)"},
    "dragmode": "zoom",
}
"""What all figures share; the browser adds text and grid colours of the theme it shows."""
