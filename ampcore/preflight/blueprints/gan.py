"""The two networks of `ampcore.models.gan`."""

from ampcore.preflight.blueprints.images import images
from ampcore.preflight.data import Shapes
from ampcore.preflight.layer import Shape, Table
from ampcore.preflight.sketch import Sketch
from ampcore.spec.model import Gan

UPSAMPLINGS = 2
KERNEL = 5


def gan(spec: Gan, data: Shapes) -> tuple[Table, ...]:
    """The generator, and the discriminator that sees its images and the real ones."""
    shape = images(data).shape
    return _generator(spec, shape), _discriminator(spec, shape)


def _generator(spec: Gan, shape: Shape) -> Table:
    sketch = Sketch("generator", (spec.latent,))
    small = (*(side // 2**UPSAMPLINGS for side in shape[:2]), spec.generator[0])
    sketch.dense("dense", small[0] * small[1] * small[2], inputs="/model/latent")
    sketch.add("reshape", "Reshape", small)
    for index, filters in enumerate(spec.generator, start=1):
        sketch.batch_norm(f"norm_{index}")
        pointer = f"/model/generator/{index - 1}"
        sketch.conv(f"conv_{index}", filters, KERNEL, pointer, same=True)
        if index <= UPSAMPLINGS:
            height, width, channels = sketch.shape
            sketch.add(f"up_{index}", "UpSampling2D", (2 * height, 2 * width, channels))
    sketch.batch_norm("norm_image")
    sketch.conv("image", shape[-1], KERNEL, same=True)
    return sketch.table()


def _discriminator(spec: Gan, shape: Shape) -> Table:
    sketch = Sketch("discriminator", shape)
    for index, filters in enumerate(spec.discriminator, start=1):
        pointer = f"/model/discriminator/{index - 1}"
        sketch.conv(f"conv_{index}", filters, KERNEL, pointer, same=True)
        sketch.pool(f"pool_{index}")
        sketch.add(f"dropout_{index}", "Dropout")
    sketch.flatten("flatten")
    sketch.dense("verdict", 1)
    return sketch.table()
