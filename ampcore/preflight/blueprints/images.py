"""The networks of `ampcore.models` that tell images apart: mlp, cnn, lenet5, resnet."""

from ampcore.preflight.data import Shapes
from ampcore.preflight.layer import Table
from ampcore.preflight.sketch import Sketch
from ampcore.spec.model import Cnn, LeNet5, Mlp, ResNet

LENET_SIZE = (32, 32)
RESNET_STAGES = 3


def mlp(spec: Mlp, data: Shapes) -> tuple[Table, ...]:
    """Flatten → (Dense → Dropout)… → logits."""
    sketch = Sketch("model", data.example)
    if len(data.example) > 1:
        sketch.flatten("flatten")
    _dense_stack(sketch, spec.hidden, spec.dropout, "/model/hidden", inputs=data.pointer)
    return _classifier(sketch, data)


def cnn(spec: Cnn, data: Shapes) -> tuple[Table, ...]:
    """Valid convolutions → pool → Dropout → (Dense → Dropout)… → logits."""
    sketch = images(data)
    for index, filters in enumerate(spec.filters):
        pointer = f"/model/filters/{index}"
        sketch.conv(f"conv_{index + 1}", filters, spec.kernel, pointer)
    sketch.pool("pool")
    if spec.dropout:
        sketch.add("dropout", "Dropout")
    sketch.flatten("flatten")
    _dense_stack(sketch, spec.dense, spec.dense_dropout, "/model/dense")
    return _classifier(sketch, data)


def lenet5(spec: LeNet5, data: Shapes) -> tuple[Table, ...]:
    """Conv 6 → pool → Conv 16 → pool → 120 → 84 → logits."""
    sketch = images(data)
    if data.example[:2] != LENET_SIZE:
        sketch.add("resize", "Resizing", (*LENET_SIZE, sketch.shape[-1]))
    for index, filters in enumerate((6, 16), start=1):
        sketch.conv(f"conv_{index}", filters, 5, "/model/kind")
        sketch.pool(f"pool_{index}")
    sketch.flatten("flatten")
    for index, units in enumerate((120, 84), start=1):
        sketch.dense(f"dense_{index}", units, "/model/kind")
    return _classifier(sketch, data)


def resnet(spec: ResNet, data: Shapes) -> tuple[Table, ...]:
    """Conv → three stages of n blocks → mean → logits."""
    sketch = images(data)
    _conv_norm(sketch, spec.width, "stem")
    sketch.add("stem_relu", "ReLU")
    for stage in range(RESNET_STAGES):
        for block in range((spec.depth - 2) // 6):
            strides = 2 if stage > 0 and block == 0 else 1
            name = f"stage_{stage + 1}_block_{block + 1}"
            _residual_block(sketch, spec.width * 2**stage, strides, name)
    sketch.add("pool", "GlobalAveragePooling2D", sketch.shape[-1:])
    return _classifier(sketch, data)


def images(data: Shapes) -> Sketch:
    """Examples as (height, width, channels)."""
    sketch = Sketch("model", data.example)
    if len(data.example) == 2:
        sketch.add("channel", "Reshape", (*data.example, 1))
    return sketch


def _dense_stack(
    sketch: Sketch,
    units: tuple[int, ...],
    dropout: float,
    pointer: str,
    *,
    inputs: str | None = None,
) -> None:
    for index, width in enumerate(units):
        first = inputs if index == 0 else None
        sketch.dense(f"dense_{index + 1}", width, f"{pointer}/{index}", inputs=first)
        if dropout:
            sketch.add(f"dense_dropout_{index + 1}", "Dropout")


def _classifier(sketch: Sketch, data: Shapes) -> tuple[Table, ...]:
    sketch.dense("predictions", data.classes)
    return (sketch.table(),)


def _residual_block(sketch: Sketch, filters: int, strides: int, name: str) -> None:
    before = sketch.shape
    _conv_norm(sketch, filters, f"{name}_1", strides)
    sketch.add(f"{name}_1_relu", "ReLU")
    _conv_norm(sketch, filters, f"{name}_2")
    if strides != 1 or before[-1] != filters:
        sketch.shape = before  # the shortcut begins where the block did
        _conv_norm(sketch, filters, f"{name}_shortcut", strides, kernel=1)
    sketch.add(f"{name}_add", "Add")
    sketch.add(f"{name}_relu", "ReLU")


def _conv_norm(sketch: Sketch, filters: int, name: str, strides: int = 1, kernel: int = 3) -> None:
    sketch.conv(
        f"{name}_conv", filters, kernel, "/model/width", strides=strides, same=True, bias=False
    )
    sketch.batch_norm(f"{name}_norm")
