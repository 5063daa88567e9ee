"""Reads configurations of LossScaleOptimizers: of ampcore, Keras 3, tf_keras, TensorFlow 2.3."""

from typing import Any

import keras

from ampcore.precision.loss_scale_arguments import check_inner_arguments

_ARGUMENTS = ("dynamic", "initial_scale", "dynamic_growth_steps", "minimum", "maximum")


def arguments_of(config: dict[str, Any], custom_objects: Any = None) -> dict[str, Any]:
    """The arguments of compat.LossScaleOptimizer in a configuration.

    Args:
        config: What `get_config` returned: here, in Keras 3, in tf_keras, or in TensorFlow 2.3 and
            before, with `optimizer` and `loss_scale`.
        custom_objects: The user's classes by name, as for Keras.

    Raises:
        ImportError: The configuration is of Keras 2, and tf_keras is not installed.
        ValueError: It has arguments that are unknown, or a loss scale that does not exist here.
    """
    values = {name: value for name, value in config.items() if name != "name"}
    if "loss_scale" in values:
        values |= _of_tensorflow_2_3(values.pop("loss_scale"))
        values["inner_optimizer"] = values.pop("optimizer")
    inner = deserialize(values.pop("inner_optimizer"), custom_objects)
    check_inner_arguments({name: values[name] for name in values if name not in _ARGUMENTS})
    arguments = {name: values[name] for name in values if name in _ARGUMENTS}
    return {"inner_optimizer": inner, **arguments}


def _of_tensorflow_2_3(loss_scale: dict[str, Any]) -> dict[str, Any]:
    """The arguments for a loss scale of tf.mixed_precision.experimental."""
    kind, constants = loss_scale.get("class_name"), loss_scale.get("config", {})
    if kind == "FixedLossScale":
        return {"dynamic": False, "initial_scale": constants["loss_scale_value"]}
    if kind != "DynamicLossScale":
        raise ValueError(
            f"loss_scale: expected a FixedLossScale or a DynamicLossScale. Received: {kind}."
        )
    if constants["multiplier"] != 2:
        raise ValueError(
            "loss_scale: expected a DynamicLossScale with multiplier 2. "
            f"Received: multiplier={constants['multiplier']}. For another factor use "
            "ampcore.DynamicLossScale(growth_factor=…, backoff_factor=…)."
        )
    return {
        "initial_scale": constants["initial_loss_scale"],
        "dynamic_growth_steps": constants["increment_period"],
    }


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """An optimizer from its configuration, also from one that Keras 2 has saved.

    Args:
        config: What `serialized` or Keras returned; or an optimizer, which is returned itself.
        custom_objects: The user's classes by name, as for Keras.

    Raises:
        ImportError: The configuration is of Keras 2, and tf_keras is not installed.
    """
    if not isinstance(config, dict):
        return config
    inside = config.get("config", {})
    is_legacy = str(config.get("module", "")).endswith(".legacy") or "decay" in inside
    if not is_legacy and "is_legacy_optimizer" not in inside:
        return keras.saving.deserialize_keras_object(config, custom_objects)
    import tf_keras

    return tf_keras.optimizers.deserialize(
        config, custom_objects=custom_objects, use_legacy_optimizer=is_legacy
    )
