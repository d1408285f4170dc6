"""What a control is, what its value does to the run on screen, and where to read more. Knows no page and no JAX."""

import re
from typing import NamedTuple

from app.explain import batch, optimizer, task, update
from app.explain.sources import Source, source
from lab.settings import Settings, about_key

SENTENCES = {**task.SENTENCES, **batch.SENTENCES, **optimizer.SENTENCES, **update.SENTENCES}
"""Key -> settings -> what its value does now. No sentence quotes a text of the user's: they hold numbers and counts."""


class Explained(NamedTuple):
    """Plain text, a sentence each.

    Attributes:
        what: what the setting is.
        now: what its value does to the run of these settings.
        more: where to read more.
    """

    what: str
    now: str
    more: Source


def explain(name: str, settings: Settings) -> Explained:
    """The setting `name` among these settings, which must use it (`settings.used()`)."""
    return Explained(about_key(name).help, SENTENCES[name](settings), source(name, settings))


def tooltip(name: str, settings: Settings, also: tuple[str, ...] = ()) -> str:
    """The explanation as markdown, with further sentences `also` after what the setting is.

    Nothing in it asks the network for anything: a link is followed when it is clicked.
    """
    explained = explain(name, settings)
    text, link = explained.more
    more = f"[{literal(text)}]({link})" if link else literal(text)
    return "  \n".join(
        [
            f"**{literal(name)}**: {literal(' '.join((explained.what, *also)))}",
            f"**Now:** {literal(explained.now)}",
            f"Read more: {more}",
        ]
    )


def literal(text: str) -> str:
    """Text as markdown that shows it as it is."""
    return re.sub(r"([\\`*_\[\]<>$~#|])", r"\\\1", text)
