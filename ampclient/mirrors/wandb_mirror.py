"""Mirrors a run to a folder of offline files of W&B, which `wandb sync` uploads."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ampclient.mirrors.mirror import NOT_MIRRORED, MirrorEnd, MirrorRow, MirrorStart, need_package

MAX_TAG: Final = 64


class WandbMirror:
    """Writes a run to offline files of W&B: settings as config, columns as history, labels as tags.

    Nothing is sent: `wandb sync FOLDER/wandb/offline-run-…` does that, whenever you like.

    Args:
        folder: The folder in which `wandb/offline-run-…` is created.
        project: The name of the project.

    Raises:
        ModuleNotFoundError: The package wandb is not installed.
    """

    def __init__(self, folder: str | Path = ".", project: str = "ampcore") -> None:
        need_package("wandb", "W&B", "wandb")
        self._folder, self._project = Path(folder), project
        self._run: Any = None
        self._step = 0

    @property
    def place(self) -> str:
        """Where the run is."""
        return f"W&B offline files in {self.path or self._folder}"

    @property
    def command(self) -> str:
        """The options of `ampctl run mirror`."""
        return f"--to wandb --folder {self._folder} --project {self._project}"

    @property
    def path(self) -> Path | None:
        """The folder `offline-run-…`; None before it is created."""
        return None if self._run is None else Path(self._run.settings.sync_dir)

    def begin(self, start: MirrorStart) -> None:
        """Create the files, without a wandb.run of this process being changed."""
        import wandb

        self._folder.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            mode="offline",
            dir=str(self._folder),
            project=self._project,
            name=start.name,
            config={**start.params, "ampcore.not_mirrored": NOT_MIRRORED},
            tags=[f"{name}={value}"[:MAX_TAG] for name, value in start.labels.items()],
            reinit="create_new",
            # It records this run alone: not the process, its output, its code or its machine.
            settings=wandb.Settings(
                console="off",
                silent=True,
                disable_code=True,
                disable_git=True,
                x_disable_meta=True,
                x_disable_stats=True,
                x_save_requirements=False,
            ),
        )

    def write(self, rows: Sequence[MirrorRow]) -> None:
        """Add rows; what belongs to an earlier step is at the last one, since W&B would drop it."""
        for row in rows:
            self._step = max(self._step, row.step)
            self._run.log({**row.values, "_timestamp": row.time_s}, step=self._step)

    def end(self, end: MirrorEnd) -> None:
        """Add the results, and set the exit code: 0 of a run that succeeded, else 1."""
        facts = {"ampcore.run_id": end.run_id, "ampcore.url": end.url, "ampcore.state": end.state}
        results = {f"result/{name}": value for name, value in end.results.items()}
        self._run.summary.update({**facts, **results})
        self._run.finish(exit_code=0 if end.state in ("succeeded", "running") else 1)
