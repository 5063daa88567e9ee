"""Draw a folder of pictures: circles, squares and triangles of random colours and sizes."""

import random
from pathlib import Path

from PIL import Image, ImageDraw

SIDE = 40
COUNT = 60
"""Pictures of each class, in each of the two folders train and validation a share."""
VALIDATION = 15


def draw_shape(kind: str, draw: random.Random) -> Image.Image:
    """A picture with one shape on a dark ground."""
    image = Image.new("RGB", (SIDE, SIDE), tuple(draw.randrange(60) for _ in range(3)))
    pen, colour = ImageDraw.Draw(image), tuple(draw.randrange(120, 256) for _ in range(3))
    size = draw.randrange(16, 30)
    left, top = (draw.randrange(SIDE - size) for _ in range(2))
    right, bottom = left + size, top + size
    if kind == "circle":
        pen.ellipse((left, top, right, bottom), fill=colour)
    elif kind == "square":
        pen.rectangle((left, top, right, bottom), fill=colour)
    else:
        pen.polygon(((left + right) // 2, top, right, bottom, left, bottom), fill=colour)
    return image


def main() -> None:
    """Write shapes/train/CLASS/N.png and shapes/validation/CLASS/N.png."""
    draw = random.Random(0)  # noqa: S311 - the same data in each run
    for kind in ("circle", "square", "triangle"):
        for number in range(COUNT):
            part = "validation" if number < VALIDATION else "train"
            folder = Path("shapes") / part / kind
            folder.mkdir(parents=True, exist_ok=True)
            draw_shape(kind, draw).save(folder / f"{number}.png")


if __name__ == "__main__":
    main()
