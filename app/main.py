"""The page's entry: look, navigation. Run by `app.server`."""

from pathlib import Path

import streamlit as st

from app import words

LOGO = Path(__file__).parents[1] / "assets" / "logo.svg"

st.set_page_config(page_title=words.TITLE, page_icon=str(LOGO), layout="wide")
st.html(Path(__file__).with_name("page.css"))


def lab():
    from app.views.lab import page

    page()


st.navigation([st.Page(lab, title="Lab", default=True)], position="hidden").run()
