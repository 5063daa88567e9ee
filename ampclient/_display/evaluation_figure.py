"""The figure of an evaluation's report, drawn with matplotlib."""

from collections.abc import Callable, Mapping
from typing import Any

Part = Mapping[str, Any]
"""What a report says of an output, as docs/reference/evaluation.md describes it."""
ClassName = Callable[[int], str]


def evaluation_figure(part: Part, class_name: ClassName) -> Any:
    """The confusions and curves of an output, or the errors of its numbers.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError("a figure needs matplotlib: pip install matplotlib") from None

    plots: list[Callable[[Any, Part, ClassName], None]] = []
    if "confusion" in part:
        plots.append(_confusion)
    if part.get("curves"):
        plots += [_roc, _precision_recall]
    if "numbers" in part:
        plots += [_points, _errors]
    figure = Figure(figsize=(5 * max(1, len(plots)), 4.5), layout="constrained")
    for place, plot in enumerate(plots, start=1):
        plot(figure.add_subplot(1, len(plots), place), part, class_name)
    return figure


def _confusion(axes: Any, part: Part, class_name: ClassName) -> None:
    image = axes.imshow(part["confusion"], cmap="Blues")
    names = [class_name(number) for number in range(len(part["confusion"]))]
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="predicted", ylabel="class", title="examples")
    axes.figure.colorbar(image, ax=axes, shrink=0.8)


def _roc(axes: Any, part: Part, class_name: ClassName) -> None:
    _curves(axes, part, class_name, "roc", "auc")
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":")
    axes.set(xlabel="false positive rate", ylabel="true positive rate", title="ROC, and the area")


def _precision_recall(axes: Any, part: Part, class_name: ClassName) -> None:
    _curves(axes, part, class_name, "precision_recall", "average_precision")
    axes.set(xlabel="recall", ylabel="precision", title="average precision")


def _curves(axes: Any, part: Part, class_name: ClassName, name: str, figure: str) -> None:
    for curve in part["curves"]:
        x, y = zip(*curve[name], strict=True)
        axes.plot(x, y, label=f"{class_name(curve['class'])}: {curve[figure]:.3f}")
    axes.legend(fontsize="small")


def _points(axes: Any, part: Part, _: ClassName) -> None:
    for place, number in enumerate(part["numbers"], start=1):
        targets, predictions = zip(*number["points"], strict=True)
        axes.plot(targets, predictions, ".", label=f"number {place}")
    low, high = axes.get_xlim()
    axes.plot([low, high], [low, high], color="grey", linestyle=":")
    axes.set(xlabel="target", ylabel="prediction")
    axes.legend(fontsize="small")


def _errors(axes: Any, part: Part, _: ClassName) -> None:
    for place, number in enumerate(part["numbers"], start=1):
        histogram = number["histogram"]
        axes.stairs(histogram["counts"], histogram["edges"], label=f"number {place}")
    axes.set(xlabel="prediction minus target", ylabel="examples")
    axes.legend(fontsize="small")
