"""How many jobs a bisecting study needs: 40 layers, two of them bad; one JSON line.

Each bad layer squares numbers of several hundred, whose squares float16 does not have. The study
runs on `ampserver up`, once with the range samples of its first jobs and once without. Jobs are
counted; the seconds depend on the load of the machine.
"""

import time
from typing import Any

from compare import report
from startup_latency import stack, wait_until

LAYERS = 40
BAD = (11, 29)
"""The places of the bad layers. A normalization after each makes the numbers small again."""


def spec(*, has_ranges: bool) -> dict[str, Any]:
    """A network of 40 layers that float16 computes, and the dense layer of its logits."""
    layers: list[dict[str, Any]] = [{"layer": "Flatten", "name": "flat"}]
    while len(layers) < LAYERS:
        place = len(layers)
        before = layers[-1]["name"]
        if place in BAD:
            layers.append({"layer": "Multiply", "name": f"bad_{place}", "inputs": [before] * 2})
        elif place - 1 in BAD:
            layers.append({"layer": "LayerNormalization", "name": f"norm_{place}"})
        else:
            large = {"name": "random_normal", "stddev": 400.0}
            initializer = large if place + 1 in BAD else {"name": "he_normal"}
            dense = {"layer": "Dense", "name": f"dense_{place}", "units": 32}
            layers.append({**dense, "activation": "relu", "kernel_initializer": initializer})
    layers.append({"layer": "Dense", "name": "logits", "units": "classes"})
    return {
        "model": {"kind": "layers", "layers": layers},
        "data": {"kind": "digits", "batch_size": 64},
        "telemetry": {"ranges": {"enabled": has_ranges}},
    }


def main() -> None:
    """Measure, and print."""
    found = {}
    with stack() as running:
        wait_until(running.is_standby_idle)
        for name, has_ranges in (("with_ranges", True), ("without_ranges", False)):
            begin = time.monotonic()
            study = running.client.studies.bisect(spec(has_ranges=has_ranges), steps=20)
            study = running.client.studies.wait(study)
            if study.answer is None:
                raise SystemExit(f"{study.state}: {study.message}")
            found[name] = {
                "jobs": len(study.jobs),
                "seconds": round(time.monotonic() - begin, 1),
                "layers": [one.path for one in study.answer.layers],
                "candidates": study.answer.candidates,
            }
    report("bisect_study", goal_jobs=25, bad=[f"bad_{place}" for place in BAD], **found)


if __name__ == "__main__":
    main()
