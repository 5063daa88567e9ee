"""The job specs of the dashboard's tests: small, and one with skipped steps."""

from typing import Any

HEALTHY: dict[str, Any] = {
    "name": "healthy",
    "labels": {"team": "vision"},
    "model": {"kind": "mlp", "hidden": [16]},
    "data": {"kind": "digits", "batch_size": 32},
    "optimizer": {"kind": "adam", "learning_rate": 0.002},
    "train": {"steps": 1500, "seed": 1},
    "runtime": {"profile": {"start": 10, "steps": 5}},
}
SKIPPING: dict[str, Any] = {
    **HEALTHY,
    "name": "skipping",
    "runtime": {},
    "precision": {"policy": "mixed_float16"},
    # 2^24 is too high: the first steps overflow; growing every 200 steps it overflows again.
    "loss_scale": {"mode": "dynamic", "initial": 2.0**24, "growth_interval": 200},
    "telemetry": {"ranges": {"first_steps": 2, "growth": 4.0, "max_time_share": None}},
}
LIVE: dict[str, Any] = {
    **SKIPPING,
    "name": "live",
    "optimizer": {"kind": "adam", "learning_rate": 1e-6},  # so small that steps keep overflowing
    "train": {"steps": 1_000_000_000, "seed": 1},
}
