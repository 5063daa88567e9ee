"""Networks, and the tasks that they are trained on."""

from ampcore.models import builders
from ampcore.models.registry import BUILDERS, build
from ampcore.models.task import Network, Task

__all__ = ["BUILDERS", "Network", "Task", "build", "builders"]
