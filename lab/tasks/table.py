"""A CSV file: one column is predicted from all the others; see `lab.tables.encode` for how cells become numbers."""

from lab import tables
from lab.settings import Settings
from lab.tables.encode import encode
from lab.task import Task
from lab.tasks import classifier, regressor


def task(settings: Settings) -> Task:
    """x [n, f]; y [n], a class or a standardised number.

    Raises:
        SettingsError: the table is not kept, or holds nothing to learn.
    """
    found = encode(tables.get(settings.table), settings.target)
    features = len(found.features)
    if found.classes:
        learned = classifier.task(settings, features, len(found.classes), found.train, found.held_out)
    else:
        learned = regressor.task(settings, features, found.train, found.held_out)
    return learned._replace(notes=found.notes)
