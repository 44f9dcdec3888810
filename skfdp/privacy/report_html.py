"""The privacy report as HTML."""

from __future__ import annotations

import html

from skfdp.privacy import statement as wording
from skfdp.privacy import unit_texts
from skfdp.privacy.assumptions import ONE_STEP
from skfdp.privacy.report_facts import ReportFacts


def to_html(report: ReportFacts) -> str:
    """Return the report as an HTML fragment; every value is escaped."""
    rows = {
        "epsilon": wording.epsilon_text(report),
        "delta": f"{report.delta:g}",
        "relation": report.neighboring_relation or "none",
        "unit": unit_texts.unit_text(report),
        "private": wording.private_text(report),
        "public": wording.public_text(report),
        "noise": "integer seed" if report.seeded else "cryptographic generator",
    }
    if renamed := wording.renamed_text(report):
        rows["public"] = f"{rows['public']}. {renamed}"
    if why := [*map(wording.leak_text, report.leaks), *wording.refuted_texts(report)]:
        rows = {"VOID": " ".join(why), **rows}
    elif unseen := wording.unseen_text(report):
        rows = {"NOT CHECKED": unseen, **rows}
    if any(one.text == ONE_STEP for one in report.assumptions):
        rows["Pipeline"] = ONE_STEP
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    return (
        "<div class='skfdp-privacy-report'>"
        f"<table><caption>Privacy of {html.escape(report.subject)}</caption>"
        f"<tbody>{cells}</tbody></table>"
        "<details><summary>Privacy statement</summary>"
        f"<pre>{html.escape(wording.statement(report))}</pre></details></div>"
    )
