"""Format a privacy report as HTML. Every text is escaped; no resource is loaded."""

from __future__ import annotations

import html
from collections.abc import Sequence

from skfdp.privacy.report_text import (
    CHECK,
    ITEM,
    Report,
    Section,
    annex,
    attack_power,
    detections,
    marked,
    page,
    title,
)

_STYLE = """\
.skfdp-privacy-report table {border-collapse: collapse; width: 100%}
.skfdp-privacy-report th, .skfdp-privacy-report td {
  text-align: left; vertical-align: top; padding: .4em .8em;
  border-bottom: 1px solid #8886}
.skfdp-privacy-report th {white-space: nowrap}
.skfdp-privacy-report p, .skfdp-privacy-report ul {margin: 0 0 .4em}
.skfdp-privacy-report ul {padding-left: 1.2em}
.skfdp-privacy-report td {overflow-wrap: anywhere}
.skfdp-privacy-report svg {width: 100%; max-width: 24em; display: block}
@media (max-width: 40em) {
  .skfdp-privacy-report th[scope=row], .skfdp-privacy-report th[scope=row] + td {
    display: block; padding: .4em 0}
  .skfdp-privacy-report th[scope=row] {border: 0; padding-bottom: 0}}"""
_PAGE_STYLE = """\
:root {color-scheme: light dark}
body {font: 16px/1.5 system-ui, sans-serif; max-width: 50em; margin: 2em auto;
  padding: 0 1em}
h1 {font-size: min(1.4em, 5vw); overflow-wrap: anywhere}
h2 {font-size: min(1.2em, 4.5vw); margin-top: 2em}"""
# False-alarm rates at which the trade-off curve is drawn, denser near 0. With Poisson
# batches each rate takes half a second.
_FALSE_ALARMS = [(j / 15) ** 2 for j in range(1, 16)]


def fragment(report: Report) -> str:
    """Return the statement and its annex as an HTML fragment."""
    return (
        f"<div class='skfdp-privacy-report'><style>{_STYLE}</style>"
        f"<p><strong>{_escaped(title(report))}</strong></p>{_table(page(report))}"
        f"<details><summary>Annex</summary>{_table(annex(report))}</details></div>"
    )


def document(report: Report) -> str:
    """Return an HTML page: statement, trade-off curve and annex."""
    name = _escaped(title(report))
    curve = ""
    if report.guarantee and report.events:
        curve = f"<h2>What an attacker can find out</h2>{_svg(report)}"
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{name}</title><style>{_PAGE_STYLE}\n{_STYLE}</style></head>"
        f"<body class='skfdp-privacy-report'><h1>{name}</h1>{_table(page(report))}"
        f"{curve}<h2>Annex</h2>{_table(annex(report))}</body></html>\n"
    )


def _escaped(text: str) -> str:
    return html.escape(marked(text)[1])


def _table(sections: Sequence[Section]) -> str:
    bullets, rows = {CHECK: "&#9744; ", ITEM: "&bull; ", "": ""}, []
    for name, texts in sections:
        cell = [
            f"<p>{bullets[m]}{html.escape(text)}</p>" for m, text in map(marked, texts)
        ]
        rows.append(
            f"<tr><th scope='row'>{_escaped(name)}</th><td>{''.join(cell)}</td></tr>"
        )
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def _svg(report: Report) -> str:
    """Return an SVG figure of the largest detection rate by false-alarm rate."""
    rates = [0.0, *_FALSE_ALARMS]
    found = [attack_power(report, max(rate, 1e-6)) for rate in rates]
    rightly = detections(report)  # the point that the statement names

    def place(x: float, y: float) -> tuple[str, str]:
        return f"{40 + 200 * x:.1f}", f"{220 - 200 * y:.1f}"

    line = " ".join(",".join(place(*pair)) for pair in zip(rates, found, strict=True))
    x, y = place(0.01, rightly / 100)
    return (
        "<svg viewBox='0 0 260 260' role='img' font-size='10' fill='currentColor' "
        "aria-label='Trade-off curve'>"
        "<path d='M40 20V220H240' fill='none' stroke='currentColor'/>"
        "<path d='M40 220L240 20' stroke='currentColor' stroke-dasharray='4'/>"
        f"<polyline points='{line}' fill='none' stroke='#c33' stroke-width='2'/>"
        f"<circle cx='{x}' cy='{y}' r='4' fill='#c33'/>"
        f"<text x='{x}' y='{y}' dx='24' dy='-4'>1 &rarr; {rightly}</text>"
        "<text x='140' y='250' text-anchor='middle'>of 100 accused wrongly"
        "</text><text x='12' y='120' text-anchor='middle' "
        "transform='rotate(-90 12 120)'>of 100 found rightly, at most</text>"
        "<text x='40' y='234'>0</text><text x='226' y='234'>100</text>"
        "<text x='18' y='26'>100</text></svg>"
        "<p>Dashed line: guessing. Red line: the most that any attacker can achieve "
        "with the released results. Point: the numbers of the statement.</p>"
    )
