"""Draw docs/request.svg: how a request uses the cache, layer by layer. Run it after a change.

python docs/request.py
"""

from __future__ import annotations

from pathlib import Path

LAYERS = 6
LEFT, UNIT, LANE, BAR = 150, 44, 46, 26
WIDTH = LEFT + 15 * UNIT
BLUE, GREEN, ORANGE, GREY = "#3b6fb6", "#3f8f5f", "#c9772b", "#7d8591"

Box = tuple[float, float, str, str]  # start and length in units of time, colour, label


def load_lane() -> list[Box]:
    """The host part comes back, one layer after the other."""
    return [(0.2 + i, 0.94, BLUE, f"L{i}") for i in range(LAYERS)]


def compute_lane() -> list[Box]:
    """Each layer starts when its own part has landed and the layer before it is done."""
    boxes: list[Box] = []
    free = 0.0
    for layer in range(LAYERS):
        start = max(1.2 + layer, free)
        boxes.append((start, 1.3, GREEN, f"L{layer}"))
        free = start + 1.36
    return [*boxes, (free, 3.2, GREEN, "decode")]


def save_lane() -> list[Box]:
    """New whole pages go to the host while the answer is decoded."""
    first_token = compute_lane()[-1][0]
    return [(first_token + 0.1 + 0.5 * i, 0.44, ORANGE, f"L{i}") for i in range(LAYERS)]


def cold_lane() -> list[Box]:
    """The same prompt without a host copy: every layer of every token again."""
    return [(2.36 * i, 2.3, GREY, f"L{i}, whole prompt") for i in range(LAYERS)]


def lane(top: float, title: str, boxes: list[Box]) -> list[str]:
    """A row of boxes with its title at the left."""
    parts = [f'<text x="{LEFT - 12}" y="{top + 18}" class="lane">{title}</text>']
    for start, length, colour, label in boxes:
        x, width = LEFT + start * UNIT, length * UNIT
        parts.append(
            f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{BAR}" rx="3" '
            f'fill="{colour}"/>'
            f'<text x="{x + width / 2:.1f}" y="{top + 17}" class="box">{label}</text>'
        )
    return parts


def mark(unit: float, top: float, bottom: float, label: str) -> list[str]:
    """A dashed line at a moment in time."""
    x = LEFT + unit * UNIT
    return [
        f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" class="mark"/>',
        f'<text x="{x:.1f}" y="{top - 5}" class="note">{label}</text>',
    ]


def picture() -> str:
    """The whole drawing as SVG."""
    first_token = compute_lane()[-1][0]
    cold_end = cold_lane()[-1][0] + 2.3
    rows = [
        *mark(0, 40, 190, "match, load back"),
        *mark(first_token, 40, 190, "first token, insert"),
        *lane(50, "host → device", load_lane()),
        *lane(50 + LANE, "compute", compute_lane()),
        *lane(50 + 2 * LANE, "device → host", save_lane()),
        *mark(cold_end, 226, 264, "first token"),
        *lane(232, "compute, no cache", cold_lane()),
    ]
    style = (
        "text{font-family:system-ui,sans-serif;font-size:12px;fill:#333}"
        ".lane{text-anchor:end}.box{text-anchor:middle;fill:#fff;font-size:11px}"
        ".note{text-anchor:middle;font-size:11px}.legend{text-anchor:end;font-size:11px;fill:#777}"
        ".mark{stroke:#888;stroke-dasharray:3 3}"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 285" role="img" '
            'aria-label="A load comes back layer by layer while the model already computes">',
            f"<style>{style}</style>",
            f'<rect width="{WIDTH}" height="285" fill="#fff"/>',
            *rows,
            f'<text x="{WIDTH - 8}" y="278" class="legend">A sketch, not to scale. '
            "Time runs to the right; L0 to L5 are the model's layers.</text>",
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    Path(__file__).with_name("request.svg").write_text(picture(), encoding="utf-8")
