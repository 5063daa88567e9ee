"""Warns of classes without training examples, and of numbers that float32 makes equal."""

from collections.abc import Iterator

from ampcore.data import Dataset
from ampspec.documents.text import join_names, plural
from ampspec.preflight import Finding


def data_findings(dataset: Dataset) -> Iterator[Finding]:
    """A warning for each output whose classes do not all occur, and each column that loses values.

    Args:
        dataset: The data of the run; one without a summary gets no warning.
    """
    targets = dataset.signature.targets if dataset.signature is not None else {}
    for output, encoding in targets.items():
        names = encoding.names or range(encoding.size)
        counts = encoding.examples or ()
        missing = [str(name) for name, count in zip(names, counts, strict=False) if not count]
        if missing:
            yield Finding(
                "classes_without_examples",
                "warning",
                "/data",
                f"No training example has {join_names(missing, 10)}, "
                f"{'one' if len(missing) == 1 else 'some'} of the {encoding.size:,} classes of "
                f"{output}: the model learns only never to predict it.",
                {"output": output, "missing": len(missing)},
            )
    collapsed = dataset.summary.collapsed if dataset.summary is not None else {}
    for column, lost in collapsed.items():
        yield Finding(
            "values_equal_in_float32",
            "warning",
            "/data/preprocessing",
            f"{plural(lost, 'different value')} of {column} in the first training rows "
            "become equal to others in float32, in which models compute. Set preprocessing: "
            f"{{{column}: {{normalize: true}}}}, which subtracts the mean first; ids are "
            "categories, or no inputs.",
            {"column": column, "values": lost},
        )
