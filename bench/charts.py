"""Bar charts of a run as plain SVG."""

from html import escape

from results import best, best_peer, measured, ratio, speed

LABEL, BAR, VALUE, LINE = 230, 420, 150, 20
COLOURS = {"swath": "#1b6ca8", "peer": "#b8b8b8", "limit": "#d98c1f"}
STYLE = "font: 12px sans-serif; fill: #333"


def text(x: float, y: float, content: str, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" style="{STYLE}">{escape(content)}</text>'


def bar(x: float, y: float, width: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.0f}" width="{max(width, 1):.1f}" height="{LINE - 6}" fill="{colour}"/>'


def document(height: int, parts: list[str]) -> str:
    width = LABEL + BAR + VALUE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    white = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    return "\n".join([head, white, *parts, "</svg>"]) + "\n"


def ratios(title: str, rows: list[dict]) -> str:
    """One bar per row: how many times faster than the best peer. A line marks 1."""
    found = [(row, value) for row in rows if (value := ratio(row))]
    most = max((value for _, value in found), default=1.0)
    scale = BAR / max(most, 1.0)
    parts = [text(8, 18, title)]
    y = 30
    for row, value in found:
        label = f"{row['title']}, {row['threads']} thread{'s' * (row['threads'] > 1)}"
        parts.append(text(LABEL - 8, y + 11, label, "end"))
        parts.append(bar(LABEL, y, value * scale, COLOURS["swath"] if value >= 1 else "#c0392b"))
        parts.append(text(LABEL + value * scale + 6, y + 11, f"{value:.2f} x {best_peer(row)}"))
        y += LINE
    one = LABEL + scale
    parts.append(f'<line x1="{one:.1f}" x2="{one:.1f}" y1="26" y2="{y}" stroke="#333" stroke-dasharray="3 3"/>')
    return document(y + 10, parts)


def speeds(title: str, row: dict) -> str:
    """One bar per contestant of a row."""
    roles = {name: role for role in COLOURS for name in measured(row, role)}
    seconds = {name: best(row, name) for name in roles}
    fastest = min(seconds.values())
    parts = [text(8, 18, title)]
    y = 30
    for name, value in sorted(seconds.items(), key=lambda item: item[1]):
        width = BAR * fastest / value
        parts.append(text(LABEL - 8, y + 11, name, "end"))
        parts.append(bar(LABEL, y, width, COLOURS[roles[name]]))
        parts.append(text(LABEL + width + 6, y + 11, f"{speed(row, value)} {row['unit']}"))
        y += LINE
    return document(y + 10, parts)


