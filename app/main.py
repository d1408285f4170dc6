"""The page's entry: look, navigation. Run by `app.server`."""

from pathlib import Path

import streamlit as st

from app import look, visit, words

ASSETS = Path(__file__).parents[1] / "assets"
STYLES = Path(__file__).parent / "styles"

seen, _ = look.read(visit.given(), bool(st.context.is_embedded))
st.set_page_config(
    page_title=words.TITLE, page_icon=str(ASSETS / "logo.svg"), layout="wide",
    initial_sidebar_state="collapsed" if seen.present or seen.embed else "auto",
)  # fmt: skip
st.html(STYLES / "page.css")
if seen.present:
    st.html(STYLES / "present.css")
if seen.embed:
    st.html(STYLES / "embed.css")
else:
    st.logo(str(ASSETS / "wordmark.svg"), size="medium", icon_image=str(ASSETS / "logo.svg"))


def lab():
    from app.views.lab import page

    page()


def loops():
    from app.views.loops import page

    page()


views = [st.Page(lab, title=words.LAB, default=True), st.Page(loops, title=words.LOOPS, url_path="loops")]
chosen = st.navigation(views, position="hidden")
visit.turn_to(chosen.url_path)
if not (seen.embed or seen.present):
    with st.container(horizontal=True, key="pages"):
        for view in views:
            st.page_link(view, query_params=visit.query())
chosen.run()
