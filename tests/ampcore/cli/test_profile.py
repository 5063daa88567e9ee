import json

from typer.testing import CliRunner

from ampcore.cli.app import app


def test_a_profile_of_a_job_is_printed_and_kept(spec_file, tmp_path):
    arguments = ["profile", spec_file, "--start", "2", "--steps", "2", "--output", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "steps        2 to 3, " in result.stdout
    assert "update" in result.stdout
    assert json.loads((tmp_path / "report.json").read_bytes())["steps"] == 2


def test_a_profile_of_a_job_that_fails_says_why(spec_file, capfd):
    data = "data={kind: npz, path: none.npz}"
    assert CliRunner().invoke(app, ["profile", spec_file, "--set", data]).exit_code == 1
    assert "none.npz" in capfd.readouterr().err
