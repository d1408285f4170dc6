"""The page's entry: look, navigation. Run by `app.server`."""

from pathlib import Path

import streamlit as st

from app import words

ASSETS = Path(__file__).parents[1] / "assets"

st.set_page_config(page_title=words.TITLE, page_icon=str(ASSETS / "logo.svg"), layout="wide")
st.logo(str(ASSETS / "wordmark.svg"), size="medium", icon_image=str(ASSETS / "logo.svg"))
st.html(Path(__file__).with_name("page.css"))


def lab():
    from app.views.lab import page

    page()


st.navigation([st.Page(lab, title="Lab", default=True)], position="hidden").run()
