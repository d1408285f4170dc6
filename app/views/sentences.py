"""Findings on the page: sentences with a mark, and a button for each cure. They may hold words of a user's data, so
they are text, never markdown."""

import html

import streamlit as st

from app import visit, words
from lab import findings
from lab.settings import about_key

MARKS = {"ok": "✓", "note": "ℹ", "warning": "⚠"}
"""What stands before a sentence of each level, so that colour is never alone."""


def tell(found: list[findings.Finding], place: str, about: str = ""):
    """Sentences, each with a button for its cure; a cure is offered once, and none that changes a hidden control."""
    offered = set()
    for finding in found:
        text = _marked(finding.level, finding.text, about)
        cure = " ".join(f"{name}={value}" for name, value in finding.cure.items())
        hidden = any(about_key(name).group in st.session_state.look.hide for name in finding.cure)
        if not cure or cure in offered or hidden:
            st.html(text)
            continue
        offered.add(cure)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.html(text, width="content")
            if st.button(words.TRY.format(words=cure), key=f"cure_{place}_{len(offered)}"):
                visit.choose(finding.cure, place="cure")
                st.rerun()


def note(text: str):
    """A sentence about what is shown."""
    st.html(_marked("note", text))


def _marked(level: str, text: str, about: str = "") -> str:
    before = f"<strong>{html.escape(about)}</strong> " if about else ""
    mark = f'<span role="img" aria-label="{level}">{MARKS[level]}</span>'
    return f'<p class="finding {level}">{mark} {before}{html.escape(text)}</p>'
