"""Findings on the page: sentences with an icon, and a button for each cure."""

import streamlit as st

from app import controls, words
from lab import findings

ICONS = {
    "ok": ":green[:material/check_circle:]",
    "note": ":blue[:material/info:]",
    "warning": ":orange[:material/warning:]",
}


def tell(found: list[findings.Finding], place: str):
    """Sentences, each with a button for its cure; a cure is offered once."""
    offered = set()
    for finding in found:
        text = f"{ICONS[finding.level]} {finding.text}"
        cure = " ".join(f"{name}={value}" for name, value in finding.cure.items())
        if not cure or cure in offered:
            st.markdown(text)
            continue
        offered.add(cure)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(text, width="content")
            if st.button(words.TRY.format(words=cure), key=f"cure_{place}_{len(offered)}"):
                controls.choose(finding.cure, place="cure")
                st.rerun()
