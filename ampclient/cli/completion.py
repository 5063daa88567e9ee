"""`ampctl completion`: what makes a shell complete ampctl's words."""

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """The shells that can."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", show_default=False)],
) -> None:
    """Print what completes ampctl's commands, options, job ids and states in a shell.

    bash, in ~/.bashrc: eval "$(ampctl completion bash)".
    zsh, in ~/.zshrc behind compinit: eval "$(ampctl completion zsh)".
    fish: ampctl completion fish > ~/.config/fish/completions/ampctl.fish
    """
    from typer.completion import shell_complete

    root = context.find_root().command
    shell_complete(root, {}, "ampctl", "_AMPCTL_COMPLETE", f"source_{shell}")
