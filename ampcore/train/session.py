"""Everything that a job has on the device, under one precision: it trains block by block."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore import models, optimizers, precision
from ampcore.checkpoint import all_finite
from ampcore.data import Batch, Dataset
from ampcore.models.task import Network, Task
from ampcore.precision import LayerPolicies
from ampcore.series import StepBlock
from ampcore.spec import JobSpec
from ampcore.spec.optimizer import OptimizerSpec
from ampcore.spec.precision import Precision
from ampcore.train import state
from ampcore.train.cut import view
from ampcore.train.feed import Feed, Window
from ampcore.train.loop import NEVER, EngineName, Halt, Loop, step_seed
from ampcore.train.pacing import Pacing
from ampcore.train.plan import Plan
from ampcore.train.report import step_block
from ampcore.train.step import Clip, TrainStep


class Session:
    """The networks of a job with their optimizers, loss scales and the loop that trains them.

    A block never crosses the end of an epoch, nor that of a window of the feed.
    """

    def __init__(
        self, spec: JobSpec, dataset: Dataset, plan: Plan, feed: Feed, policies: LayerPolicies
    ) -> None:
        self._plan, self._feed, self._seed = plan, feed, spec.train.seed
        self._batch_size, self._model = spec.data.batch_size, spec.model
        self._signature = dataset.signature
        self._pacing = Pacing()
        self._loop: Loop | None = None
        self.policies = policies
        self.task: Task = models.build(spec.model, dataset.signature, policies)
        policies.check_all_matched()
        own = [_optimizer_spec(spec, network) for network in self.task.networks]
        self.optimizers = [optimizers.build(part, plan.total_steps) for part in own]
        for optimizer, network in zip(self.optimizers, self.task.networks, strict=True):
            # Slots must exist before the loop is traced.
            optimizer.build(network.model.trainable_variables)
        settled = precision.settled_scale(spec.loss_scale, policies.compute_dtypes)
        self.scale_spec: dict[str, Any] = settled.model_dump(mode="json")
        scale = precision.from_spec(settled)
        self.scales = [scale] * len(own)
        self.step = TrainStep(
            task=self.task,
            optimizers=self.optimizers,
            loss_scales=self.scales,
            clips=[Clip(part.clip_norm, part.clip_value) for part in own],
            accumulate=spec.train.accumulate,
        )
        self._states = tuple(scale.init() for scale in self.scales)
        self.first_scales = state.capture_scales(self.networks, self._states)
        """The states of the loss scales before the first step."""

    @property
    def networks(self) -> Sequence[Network]:
        """The networks of the task."""
        return self.task.networks

    @property
    def states(self) -> tuple[precision.LossScaleState, ...]:
        """The loss scales' states of the next step."""
        return self._loop.states if self._loop is not None else self._states

    @states.setter
    def states(self, states: tuple[precision.LossScaleState, ...]) -> None:
        self._states = states
        if self._loop is not None:
            self._loop.states = states

    @property
    def loss_scales(self) -> dict[str, float]:
        """The loss scale of the next step, by network."""
        rows = zip(self.networks, self.states, strict=True)
        return {network.name: float(state.scale) for network, state in rows}

    @property
    def loss_scale(self) -> float:
        """The smallest loss scale of the next step."""
        return min(self.loss_scales.values())

    @property
    def checks_finite(self) -> bool:
        """Whether steps with gradients that are not finite are skipped."""
        return any(scale.checks_finite for scale in self.scales)

    @property
    def step_examples(self) -> int:
        """What throughput counts in one step."""
        return self.step.accumulate * self.task.examples(self._batch_size)

    @property
    def engine(self) -> EngineName | None:
        """The engine in use; None before `use`."""
        return self._loop.engine if self._loop is not None else None

    def use(self, engine: EngineName, first_step: int = 0) -> None:
        """Train the next steps with this engine; traces its loop."""
        self.use_loop(self.loop(engine, first_step))

    def use_loop(self, loop: Loop) -> None:
        """Train the next steps with this loop of this session, from the present state on."""
        loop.states = self.states
        self._loop = loop

    def loop(self, engine: EngineName, first_step: int = 0) -> Loop:
        """A loop over this session's variables, beside the one in use."""
        return Loop(
            self.step,
            self.states,
            self.window(first_step).examples,
            batch_size=self._batch_size,
            engine=engine,
            seed=self._seed,
        )

    def float32_task(self) -> Task:
        """The same task in float32, with weights of its own."""
        plain = precision.layer_policies(Precision())
        return models.build(self._model, self._signature, plain)

    def place(self, step: int) -> tuple[int, int]:
        """The epoch of a step, and its batch in that epoch."""
        return self._plan.place(step)

    def examples_of(self, step: int) -> NDArray[np.int64]:
        """The indices of the training examples of a step."""
        return self._feed.order.of_step(*self._plan.place(step))

    def inputs(self, step: int) -> tuple[Batch, Any]:
        """The batch of a step, all its micro-batches, and its seed."""
        _, batch = self._plan.place(step)
        window = self.window(step)
        size = self._batch_size * self.step.accumulate
        examples = view(window.examples, tf.constant(batch - window.first_batch), size)
        return examples, step_seed(self._seed, tf.constant(step, tf.int64))

    def window(self, step: int) -> Window:
        """The examples that a step and those around it train on."""
        return self._feed.window(*self._plan.place(step))

    def run_block(
        self, first_step: int, *, most: int | None = None, halt: Halt = NEVER
    ) -> StepBlock:
        """Train the next steps: as many as take about half a second, `most` of them or fewer."""
        if self._loop is None:
            raise RuntimeError("An engine must be chosen before the first block; see use().")
        # To wait for data, or to put an epoch in order, takes time like any other part of a step.
        began = time.perf_counter()
        _, batch = self._plan.place(first_step)
        window = self.window(first_step)
        left = min(self._plan.left_in_epoch(first_step), window.end_batch - batch)
        left = left if most is None else min(left, most)
        count = self._pacing.next_size(left)
        start = time.perf_counter()
        rows = self._loop.run(
            window.examples,
            batch - window.first_batch,
            first_step,
            count,
            halt=halt,
        )
        ended = time.perf_counter()
        self._pacing.observe(len(rows), ended - start)
        return step_block(first_step, self.step.columns, rows, ended - began, self.step_examples)

    def averaged(self) -> list[list[Any]]:
        """The weights to evaluate and to save: their moving averages where there are such."""
        return [
            optimizers.averaged(optimizer, network.model.trainable_variables)
            for optimizer, network in zip(self.optimizers, self.networks, strict=True)
        ]

    def adopt_averages(self) -> None:
        """Make the moving averages the weights, at the end of the training."""
        for optimizer, network in zip(self.optimizers, self.networks, strict=True):
            optimizers.adopt_averages(optimizer, network.model.trainable_variables)

    def not_finite(self) -> list[str]:
        """What goes into the saved models and is not finite: variables, and averages of them."""
        found: dict[str, bool] = {}
        for network, weights in zip(self.networks, self.averaged(), strict=True):
            model = network.model
            pairs = [(variable, variable.value) for variable in model.variables]
            pairs += zip(model.trainable_variables, weights, strict=True)
            for variable, value in pairs:
                name = f"{network.name}/{state.stable_path(variable)}"
                found[name] = found.get(name, True) and all_finite(np.asarray(value.numpy()))
        return [name for name, is_finite in found.items() if not is_finite]

    def capture(self) -> state.Arrays:
        """Copies on the host of everything that the next step depends on."""
        return state.capture(self.networks, self.optimizers, self.states)

    def wanted(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """The shape and dtype of every variable that `restore` wants, by name."""
        pairs = state.named_variables(self.networks, self.optimizers)
        return {name: (tuple(variable.shape), variable.dtype) for name, variable in pairs}

    def divided(self, arrays: Mapping[str, NDArray[Any]]) -> tuple[state.Arrays, state.Arrays]:
        """What `capture` copied: the variables, and the states of the loss scales."""
        scales = {name: array for name, array in arrays.items() if state.is_scale(name)}
        return {name: array for name, array in arrays.items() if name not in scales}, scales

    def restore(self, arrays: Mapping[str, NDArray[Any]], *, scales: bool = True) -> None:
        """Go back to what `capture` copied; without `scales` the loss scales stay."""
        state.restore(self.networks, self.optimizers, arrays)
        if scales:
            self.restore_scales(arrays)

    def restore_scales(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the states of the loss scales over, within the bounds of their kinds."""
        found = state.scale_states(self.networks, self.states, arrays)
        self.states = tuple(
            scale.limited(state) for scale, state in zip(self.scales, found, strict=True)
        )

    def lower_scales(self, factor: float) -> None:
        """Multiply every loss scale by `factor`, within the bounds of its kind."""
        self.states = tuple(
            scale.limited(state._replace(scale=state.scale * factor))
            for scale, state in zip(self.scales, self.states, strict=True)
        )


def _optimizer_spec(spec: JobSpec, network: Network) -> OptimizerSpec:
    return spec.optimizers.get(network.name, spec.optimizer)


def parameters(task: Task) -> int:
    """Trainable and other weights of all networks."""
    return sum(network.model.count_params() for network in task.networks)
