"""Write cells.npz: noisy images of bright discs, and a mask of 0 and 1 for each."""

import numpy as np

SIDE = 24
COUNT = 240


def main() -> None:
    """image (n, 24, 24, 1) and mask (n, 24, 24), both uint8."""
    random = np.random.default_rng(0)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    images, masks = [], []
    for _ in range(COUNT):
        mask = np.zeros((SIDE, SIDE), np.uint8)
        for _ in range(random.integers(1, 4)):
            row, column, radius = *random.integers(4, SIDE - 4, 2), random.integers(2, 6)
            mask[(rows - row) ** 2 + (columns - column) ** 2 <= radius**2] = 1
        image = 60 + 110 * mask + random.normal(0, 30, mask.shape)
        images.append(image.clip(0, 255).astype(np.uint8)[..., np.newaxis])
        masks.append(mask)
    np.savez("cells.npz", image=np.stack(images), mask=np.stack(masks))


if __name__ == "__main__":
    main()
