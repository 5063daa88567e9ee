"""Split the handwritten digits: many with their names, and a few with their loops counted."""

from importlib.resources import files

import numpy as np

LOOPS = np.array([1, 0, 0, 0, -1, 0, 1, 0, 2, 1], np.int32)
"""The closed loops of each digit; those of a 4 depend on the writer, so it is left out."""
FEW = 6
"""Training examples of each number of loops."""
NAMED = 1200
"""Digits with names; the others have their loops counted."""


def main() -> None:
    """Write names.npz (classes 0 to 9) and loops.npz (classes 0 to 2)."""
    with files("ampcore.data").joinpath("digits.npz").open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        images, digits = archive["images"][..., np.newaxis], archive["labels"].astype(np.int32)
    order = np.random.default_rng(0).permutation(len(digits))
    images, digits = images[order], digits[order]
    is_trained = np.arange(NAMED) >= NAMED // 5
    save("names.npz", images[:NAMED], digits[:NAMED], is_trained)
    images, loops = images[NAMED:], LOOPS[digits[NAMED:]]
    images, loops = images[loops >= 0], loops[loops >= 0]
    # Of each class the first few.
    is_one_of_few = [np.cumsum(loops == number) <= FEW for number in range(LOOPS.max() + 1)]
    save("loops.npz", images, loops, np.choose(loops, is_one_of_few))


def save(name: str, x: np.ndarray, y: np.ndarray, is_trained: np.ndarray) -> None:
    """Write an archive with training and validation examples."""
    rest = ~is_trained
    np.savez(name, x_train=x[is_trained], y_train=y[is_trained], x_test=x[rest], y_test=y[rest])


if __name__ == "__main__":
    main()
