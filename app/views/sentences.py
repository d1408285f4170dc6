"""Findings on the page: sentences with a mark, and a button for each cure. They may hold words of a user's data, so
they are text, never markdown."""

import html

import streamlit as st

from app import controls, words
from lab import findings

MARKS = {"ok": "✓", "note": "ℹ", "warning": "⚠"}
"""What stands before a sentence of each level, so that colour is never alone."""


def tell(found: list[findings.Finding], place: str, about: str = ""):
    """Sentences, each with a button for its cure; a cure is offered once. `about` stands before each."""
    offered = set()
    for finding in found:
        before = f"<strong>{html.escape(about)}</strong> " if about else ""
        text = (
            f'<p class="finding {finding.level}"><span role="img" aria-label="{finding.level}">{MARKS[finding.level]}'
            f"</span> {before}{html.escape(finding.text)}</p>"
        )
        cure = " ".join(f"{name}={value}" for name, value in finding.cure.items())
        if not cure or cure in offered:
            st.html(text)
            continue
        offered.add(cure)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.html(text, width="content")
            if st.button(words.TRY.format(words=cure), key=f"cure_{place}_{len(offered)}"):
                controls.choose(finding.cure, place="cure")
                st.rerun()
