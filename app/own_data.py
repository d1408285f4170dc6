"""Controls of a user's own data: the CSV file and its target, and the task file the lab was started with."""

import html
from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from app import words
from lab import tables, user_file
from lab.key import SettingsError
from lab.settings import Settings

Choose = Callable[[Mapping[str, Any], str], bool]
"""(changes, where to say why not) -> whether they were taken."""


def choose_table(settings: Settings, choose: Choose, common: Mapping[str, Any]):
    """Which table is used, and a place to drop another."""
    table = tables.find(settings.table)
    said = words.NO_TABLE
    if table is not None:
        said = words.TABLE.format(name=table.name, rows=table.rows, columns=len(table.columns))
    st.html(f'<p class="own">{html.escape(said)}</p>')

    def take():
        file = st.session_state.csv
        if file is None:
            return
        try:
            choose({"table": tables.add(file.getvalue(), file.name), "target": ""}, "table")
        except SettingsError as refusal:
            st.session_state.refused["table"] = str(refusal)

    def back():
        choose({"table": tables.EXAMPLE, "target": ""}, "table")

    st.file_uploader(words.CHOOSE_TABLE, type=["csv", "tsv", "txt"], key="csv", on_change=take, help=common["help"])
    if settings.table != tables.EXAMPLE:
        st.button(words.EXAMPLE_TABLE, key="example_table", type="tertiary", on_click=back)


def choose_target(settings: Settings, common: Mapping[str, Any]):
    """The column to predict: one of those there are, or its name where the table is not here."""
    table = tables.find(settings.table)
    if table is None:
        st.text_input(**common)
        return
    columns = [column.name for column in table.columns]
    st.session_state[common["key"]] = settings.target or columns[-1]
    st.selectbox(**common, options=columns)


def show_file(settings: Settings, common: Mapping[str, Any]):
    """The name of the task file."""
    st.session_state[common["key"]] = user_file.name(settings.file)
    st.text_input(**common, disabled=True)
