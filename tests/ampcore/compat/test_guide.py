"""The loop in the guide to existing loops runs as written."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "existing-loops.md"


def test_the_loop_of_the_guide_trains(capsys):
    [code] = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    exec(compile(code, str(GUIDE), "exec"), {})  # noqa: S102 - the code of the document is tested
    *losses, last = capsys.readouterr().out.splitlines()
    assert len(losses) == 3
    assert last == "32768.0 3 0"
