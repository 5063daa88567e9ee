"""All rules across the sections of a spec; each rule checks only sections that are valid."""

from typing import Final

from ampspec.jobs.checked import Rule
from ampspec.rules.best_evaluation import best_evaluation_exists
from ampspec.rules.data_rules import batch_fits_data, one_data_source, path_is_a_valid_url
from ampspec.rules.layer_rules import (
    layers_are_connected,
    layers_fit_data,
    names_of_inputs_and_outputs,
)
from ampspec.rules.model_rules import (
    heads_divide_dim,
    image_shape,
    keys_fit_table,
    model_takes_data,
    resnet_depth,
    tables_fit_ranks,
)
from ampspec.rules.package_rules import one_package, package_fits_queue
from ampspec.rules.task_rules import (
    losses_and_metrics_fit_task,
    metrics_have_names,
    task_fits_data,
    task_fits_model,
)
from ampspec.rules.training_rules import (
    averages_need_builtin_optimizers,
    float16_exchange_needs_a_loss_scale,
    loss_scale_bounds,
    nesterov_needs_momentum,
    one_rank_for_custom_code,
    one_weights_source,
    optimizers_name_networks,
    ranks_are_possible,
)

RULES: Final[tuple[Rule, ...]] = (
    loss_scale_bounds,
    nesterov_needs_momentum,
    averages_need_builtin_optimizers,
    batch_fits_data,
    one_data_source,
    path_is_a_valid_url,
    model_takes_data,
    task_fits_model,
    task_fits_data,
    losses_and_metrics_fit_task,
    metrics_have_names,
    image_shape,
    keys_fit_table,
    tables_fit_ranks,
    resnet_depth,
    heads_divide_dim,
    layers_are_connected,
    names_of_inputs_and_outputs,
    layers_fit_data,
    optimizers_name_networks,
    one_weights_source,
    best_evaluation_exists,
    one_package,
    package_fits_queue,
    ranks_are_possible,
    one_rank_for_custom_code,
    float16_exchange_needs_a_loss_scale,
)
