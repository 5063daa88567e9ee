"""The graph engine: feeds the compiled loop and turns each call into a StepBlock."""

import time
from typing import Any

from ampcore import precision
from ampcore.data import Dataset
from ampcore.series import StepBlock
from ampcore.spec import JobSpec
from ampcore.train import optimizers
from ampcore.train.feed import Feed
from ampcore.train.loop import Loop
from ampcore.train.pacing import Pacing
from ampcore.train.plan import Plan
from ampcore.train.report import step_block
from ampcore.train.step import TrainStep


class Engine:
    """Trains `model` block by block; a block never crosses the end of an epoch."""

    name = "graph"

    def __init__(self, spec: JobSpec, model: Any, dataset: Dataset, plan: Plan) -> None:
        self._plan, self._batch_size = plan, spec.data.batch_size
        self._feed = Feed(dataset, shuffle=spec.data.shuffle, seed=spec.train.seed)
        self._epoch = self._feed.epoch(0)
        self._pacing = Pacing()
        scale = precision.from_spec(spec.loss_scale)
        step = TrainStep(
            model=model,
            optimizer=_built_optimizer(spec, model),
            loss_scale=scale,
            clip_norm=spec.optimizer.clip_norm,
            clip_value=spec.optimizer.clip_value,
        )
        self.loop = Loop(step, scale.init(), self._epoch, self._batch_size)

    @property
    def loss_scale(self) -> float:
        """The loss scale of the next step."""
        return float(self.loop.state.scale)

    def run_block(self, first_step: int) -> StepBlock:
        """Train the next steps, as many as take about half a second."""
        epoch, batch = self._plan.place(first_step)
        if batch == 0 and epoch > 0:
            self._epoch = self._feed.epoch(epoch)
        count = self._pacing.next_size(self._plan.left_in_epoch(first_step))
        start = time.perf_counter()
        rows = self.loop.run(self._epoch, batch, count)
        seconds = time.perf_counter() - start
        self._pacing.observe(count, seconds)
        return step_block(first_step, rows, seconds, self._batch_size)


def _built_optimizer(spec: JobSpec, model: Any) -> Any:
    optimizer = optimizers.build(spec.optimizer)
    # Slots must exist before the loop is traced.
    optimizer.build(model.trainable_variables)
    return optimizer
