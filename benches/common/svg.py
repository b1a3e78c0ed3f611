# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A line chart as SVG."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 820, 460
LEFT, RIGHT, TOP, BOTTOM = 72, 220, 44, 56  # margins; the legend is on the right
# Okabe and Ito's colours, which the colour-blind can tell apart
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]


def ticks(top, wanted=6):
    """Round numbers from 0 to at least top."""
    if top <= 0:
        return [0, 1]
    rough = top / wanted
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    return [i * step for i in range(math.ceil(top / step - 1e-9) + 1)]


def chart(title, x_label, y_label, lines):
    """Of lines (name, [(x, y)], colour's number, dashed); the axes begin at 0."""
    points = [p for _, some, _, _ in lines for p in some]
    if not points:
        raise ValueError("a chart needs points")
    xs, ys = ticks(max(x for x, _ in points)), ticks(max(y for _, y in points))
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    x_at = lambda x: LEFT + (right - LEFT) * x / xs[-1]
    y_at = lambda y: bottom - (bottom - TOP) * y / ys[-1]
    text = lambda x, y, words, more="": f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'
    out = ["<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->",
           f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
           'font-family="sans-serif" font-size="13" fill="#222" role="img">',
           f"<title>{escape(title)}</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
           text(LEFT, 24, title, 'font-size="16" font-weight="bold"')]
    for y in ys:
        out.append(f'<path d="M{LEFT} {y_at(y):.1f}H{right}" stroke="#ddd"/>')
        out.append(text(LEFT - 8, y_at(y) + 4, f"{y:g}", 'text-anchor="end"'))
    for x in xs:
        out.append(f'<path d="M{x_at(x):.1f} {bottom}v5" stroke="#222"/>')
        out.append(text(x_at(x), bottom + 20, f"{x:g}", 'text-anchor="middle"'))
    out.append(f'<path d="M{LEFT} {TOP}V{bottom}H{right}" stroke="#222" fill="none"/>')
    out.append(text((LEFT + right) / 2, HEIGHT - 14, x_label, 'text-anchor="middle"'))
    middle = (TOP + bottom) / 2
    out.append(text(18, middle, y_label, f'text-anchor="middle" transform="rotate(-90 18 {middle:.1f})"'))
    for at, (name, some, colour, dashed) in enumerate(lines):
        stroke = f'stroke="{COLOURS[colour % len(COLOURS)]}" stroke-width="1.8" fill="none"' + ' stroke-dasharray="6 4"' * dashed
        path = "L".join(f"{x_at(x):.1f} {y_at(y):.1f}" for x, y in some)
        out.append(f'<path d="M{path}" {stroke}/>')
        y = TOP + 10 + 20 * at
        out += [f'<path d="M{right + 14} {y}h26" {stroke}/>', text(right + 46, y + 4, name)]
    return "\n".join([*out, "</svg>"]) + "\n"
