"""Write points.npz: points of three spiral arms, and which arm each belongs to."""

import numpy as np

POINTS = 1500
ARMS = 3

random = np.random.default_rng(0)
arm = random.integers(ARMS, size=POINTS)
radius = random.uniform(0.2, 1.0, POINTS)
angle = 4.0 * radius + 2 * np.pi * arm / ARMS + random.normal(0, 0.12, POINTS)
points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
np.savez("points.npz", x=points.astype(np.float32), y=arm.astype(np.int32))
