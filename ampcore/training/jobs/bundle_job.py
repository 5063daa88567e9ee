"""The job of a spec whose model is built by the code of a bundle."""

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import keras

from ampcore.data import Dataset, local_path
from ampcore.data.local import LocalDataset, zero_example
from ampcore.keras_internals import flatten_layers
from ampcore.models.augmentation import with_augmentation
from ampcore.models.example_call import call_on_example
from ampcore.models.objectives import default_task
from ampcore.models.objectives import objectives as task_objectives
from ampcore.models.supervised import Objective, SupervisedTask, flat_outputs
from ampcore.models.task import Task
from ampcore.precision import LayerPolicies
from ampcore.precision.layers.dtype_conflict import explain_dtype_conflict
from ampcore.precision.layers.layer_paths import is_network
from ampcore.training.jobs.bundle_data import DATA_FIELDS, bundle_data, check_like, errors_named
from ampcore.training.jobs.from_keras import check_model, objectives, output_names
from ampcore.training.jobs.job import SpecJob
from ampcore.training.jobs.keras_model_state import GivenModel
from ampcore.user_code.module import explain, explained_errors, load_function
from ampcore.user_code.signature import BundleSignature, Input, Target
from ampspec.errors import CodeFailed, InvalidModel, TrainingError
from ampspec.jobs import JobSpec
from ampspec.models.model import Bundle
from ampspec.objectives.task import Outputs

FIELDS: Final = ("model", "loss", "loss_weights", "metrics", *DATA_FIELDS)
"""What the function may return, as the arguments of `Trainer.from_keras`."""
INPUT: Final = "input"
"""The name of the only input of most data."""


@dataclass(frozen=True)
class _Built:
    """A model, the objectives of its outputs, and data."""

    model_state: GivenModel
    objectives: Mapping[str, Objective]
    data: LocalDataset | None
    """The examples of the bundle; None: those of the spec."""
    has_loss: bool


class BundleJob(SpecJob):
    """A job whose model comes from the function that `model.build` names.

    The function is called once, and its model is trained itself.

    Args:
        spec: The spec.
        data_root: As of SpecJob.
        datasets: As of SpecJob.
        bundle: The folder with the code.
        init: As of SpecJob.

    Raises:
        CodeFailed: There is no folder.
    """

    def __init__(
        self,
        spec: JobSpec,
        data_root: Path | None,
        datasets: Mapping[str, Path] | None,
        bundle: Path | None,
        *,
        init: Path | None = None,
    ) -> None:
        super().__init__(spec, data_root, datasets, init=init)
        if bundle is None or not bundle.is_dir():
            raise CodeFailed(
                "model.bundle: expected the folder with the code, as in --code FOLDER; "
                f"received {'none' if bundle is None else bundle}."
            )
        self._folder = bundle
        self._built: _Built | None = None

    def load_data(self) -> Dataset:
        """The data that the function of the bundle returns, or else that of the spec."""
        loaded = self._load_spec_data()
        if self._built is None:
            self._built = self._build(loaded)
        else:
            # An earlier run has trained it.
            self._built.model_state.put_back()
        returned_data = self._built.data
        if returned_data is None:
            self._check_fills_step(loaded)
            return loaded
        # The layers that prepare the spec's data do not fit it; with a loss of the bundle, nor do
        # the targets.
        signature = None if self._built.has_loss else loaded.signature
        return replace(returned_data.dataset(), signature=signature)

    def build_task(self, dataset: Dataset, policies: LayerPolicies) -> Task:
        """The model with the policy's dtypes while it is called, its losses and metrics."""
        built = self._built
        if built is None:
            raise TypeError("A bundle is built by load_data, which comes first.")
        return self.freeze(SupervisedTask(built.model_state.network(policies), built.objectives))

    def reason_for(self, error: Exception) -> TrainingError | None:
        """An error in the code of the bundle, for example in the call of a layer."""
        model = None if self._built is None else self._built.model_state.model
        conflict = None if model is None else explain_dtype_conflict(model, error)
        return conflict or explain(error, self._folder)

    def _build(self, dataset: Dataset) -> _Built:
        section = self.spec.model
        assert isinstance(section, Bundle)  # noqa: S101 - Trainer makes this job only for one
        # Layers without a name are numbered from the start, whatever this process did before.
        keras.backend.clear_session(free_memory=False)
        keras.utils.set_random_seed(self.spec.train.seed)
        function = load_function(self._folder, section.build)
        path = local_path(self.spec.data, self._data_root, self._datasets or {})
        with explained_errors(self._folder):
            returned_value = function(dict(section.options), public_signature(dataset, path))
        fields = _fields(returned_value, section.build)
        data = bundle_data(fields, self.spec, section.build, self._folder)
        has_loss = fields.get("loss") is not None
        if data is not None and not has_loss:
            check_like(data, dataset, section.build)
        train = dataset.train if data is None else data.train
        example = zero_example(train)
        model = fields["model"]
        with explained_errors(self._folder):
            _create_variables(model, example)
        check_model(model)
        _check_registered(model, self._folder)
        with explained_errors(self._folder):
            model = self._augmented(model)
            with errors_named(f"data of {section.build}") if data is not None else nullcontext():
                by_output = self._objectives(model, example, dataset, train.spec.y, fields)
            return _Built(GivenModel(model, example), by_output, data, has_loss)

    def _augmented(self, model: Any) -> Any:
        augmentation = getattr(self.spec.data, "augmentation", ())
        if augmentation and not is_network(model):
            raise InvalidModel(
                "data.augmentation",
                expected="a functional or sequential model",
                received=type(model).__name__,
            )
        return with_augmentation(model, augmentation)

    def _objectives(
        self, model: Any, example: Any, dataset: Dataset, y: Any, fields: Mapping[str, Any]
    ) -> dict[str, Objective]:
        """Those of the bundle if it returns a loss, else those of the spec's task."""
        loss, task = fields.get("loss"), self.spec.task
        if loss is not None:
            _check_one_loss(task)
            return objectives(
                model,
                example,
                y,
                loss=loss,
                loss_weights=fields.get("loss_weights"),
                metrics=fields.get("metrics") or (),
            )
        if extra := [name for name in ("loss_weights", "metrics") if fields.get(name)]:
            raise InvalidModel(
                "model.build",
                expected="a loss with its weights and metrics, or neither of them, for those of "
                "the task",
                received=f"{' and '.join(extra)} without a loss",
            )
        signature = dataset.require_signature()
        _check_outputs(model, example, public_signature(dataset))
        return task_objectives(task or default_task(signature), model, signature)


def public_signature(dataset: Dataset, path: Path | None = None) -> BundleSignature:
    """What the function of a bundle learns about the data."""
    signature = dataset.require_signature()
    inputs = {
        name: Input(tuple(field.shape), field.dtype.name)
        for name, field in signature.inputs.items()
    } or {INPUT: Input(tuple(signature.input_shape), signature.input_dtype)}
    targets = {
        name: Target(target.kind, target.size, tuple(target.shape), target.names)
        for name, target in signature.targets.items()
    }
    return BundleSignature(inputs, targets, signature.vocabulary, path)


def _fields(returned_value: Any, entry: str) -> dict[str, Any]:
    """What the function returned, by name. Raises InvalidModel."""
    if isinstance(returned_value, keras.Model):
        return {"model": returned_value}
    if not isinstance(returned_value, Mapping) or "model" not in returned_value:
        raise InvalidModel(
            "model.build",
            expected=f"that {entry} returns a keras.Model, or a dictionary with model, and perhaps "
            "loss, loss_weights, metrics, data, validation_data and steps_per_epoch",
            received=type(returned_value).__name__,
        )
    if unknown := [str(name) for name in returned_value if name not in FIELDS]:
        raise InvalidModel(
            "model.build", expected=f"the keys {', '.join(FIELDS)}", received=", ".join(unknown)
        )
    return dict(returned_value)


def _create_variables(model: Any, example: Any) -> None:
    """Call a model that is not built yet."""
    if isinstance(model, keras.Model) and not model.built:
        model(example)


def _check_registered(model: Any, folder: Path) -> None:
    """Raise InvalidModel for an own class that Keras could not load again with the model."""
    root = folder.resolve()
    layers = [model, *flatten_layers(model, include_self=False)]
    for kind in dict.fromkeys(type(layer) for layer in layers):
        module = sys.modules.get(kind.__module__)
        file = getattr(module, "__file__", None) or ""
        if not Path(file).resolve().is_relative_to(root):
            continue
        name = keras.saving.get_registered_name(kind)
        if keras.saving.get_registered_object(name) is not kind:
            raise InvalidModel(
                "model.build",
                expected="own classes with a decorator, without which model.keras could not be "
                f'loaded: @keras.saving.register_keras_serializable(package="{kind.__module__}")',
                received=f"{kind.__module__}.{kind.__qualname__} without it",
            )


def _check_one_loss(section: Any) -> None:
    outputs = section.outputs.values() if isinstance(section, Outputs) else ()
    tasks = [output.task for output in outputs] or [section]
    for task in tasks:
        if task is not None and (task.loss is not None or task.metrics is not None):
            raise InvalidModel(
                "task",
                expected="no loss and metrics, since the bundle returns a loss",
                received="both",
            )


def _check_outputs(model: Any, example: Any, signature: BundleSignature) -> None:
    """Raise InvalidModel unless each output has a number for each class, label or number."""
    outputs = call_on_example(model, example)
    names = output_names(model, outputs)
    targets = dict(signature.targets)
    if len(targets) == 1 and len(names) == 1:
        targets = {names[0]: next(iter(targets.values()))}
    if set(targets) != set(names):
        raise InvalidModel(
            "model.build",
            expected=f"a model with the outputs {', '.join(targets)}",
            received=", ".join(names),
        )
    for name, output in zip(names, flat_outputs(outputs), strict=True):
        received, expected = tuple(output.shape[1:]), targets[name].output_shape
        if targets[name].kind != "input" and received != expected:
            raise InvalidModel(
                "model.build",
                expected=f"{list(expected)} for each example as {name}: one logit for each class "
                "or label, or one value for each number",
                received=str(list(received)),
            )
