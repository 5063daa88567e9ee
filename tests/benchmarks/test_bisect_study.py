"""The benchmark of bisecting studies, without training a job."""

import importlib

from ampspec.api.study_requests import BisectOptions
from ampspec.studies.bisect.layer_parts import layers_in_16_bit
from ampspec.studies.plan import StudyContext


def test_the_network_has_40_layers_in_16_bit_and_the_bad_ones_are_among_them(monkeypatch, request):
    monkeypatch.syspath_prepend(request.config.rootpath / "benchmarks")
    benchmark = importlib.import_module("bisect_study")
    question = StudyContext(benchmark.spec(has_ranges=True), BisectOptions())
    layers = layers_in_16_bit(question, "mixed_float16")
    assert layers is not None
    assert len(layers) == benchmark.LAYERS
    bad = [layer.path for layer in layers if layer.path.startswith("bad_")]
    assert bad == [f"bad_{place}" for place in benchmark.BAD]
