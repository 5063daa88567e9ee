import pytest
from typer.testing import CliRunner

from server.cli.app import app
from server.migrate import migrate
from store.access import audit, projects, tokens
from store.database import Database
from tests.tables import every_row


def run(*arguments, url):
    """The outcome of a command, in this process."""
    return CliRunner().invoke(app, arguments, env={"AMPCORE_DATABASE_URL": url})


@pytest.fixture
def migrated(tmp_path):
    """The address of a database with tables."""
    url = f"sqlite:///{tmp_path / 'ampcore.sqlite'}"
    migrate(url)
    return url


def read(url, query):
    """The result of a query on the database."""
    database = Database(url)
    with database.read() as session:
        answer = query(session)
    database.close()
    return answer


def make_token(url, *arguments):
    outcome = run("token", "create", *arguments, url=url)
    assert outcome.exit_code == 0, outcome.stderr
    secret = outcome.stdout.strip()
    assert outcome.output.count(secret) == 1
    return secret, read(url, lambda session: tokens.get_by_secret(session, secret))


def test_a_token_is_created_with_a_role_a_project_and_an_expiry(migrated):
    _, row = make_token(migrated, "ada")
    assert (row.name, row.role, row.project, row.expires_at) == ("ada", "member", "default", None)
    options = ["--role", "viewer", "--project", "vision", "--expires-in", "30d"]
    secret, row = make_token(migrated, "bob", *options)
    assert (row.role, row.project) == ("viewer", "vision")
    remaining_s = read(migrated, lambda session: tokens.find_valid(session, row.digest).remaining_s)
    assert 30 * 86_400 - 60 < remaining_s <= 30 * 86_400
    assert (
        read(migrated, lambda session: tokens.find_valid(session, tokens.digest_of(secret)))
        is not None
    )


@every_row(
    "options",
    [
        ["--scope", "jobs:run-code", "--scope", "jobs:run-code"],
        ["--right", "code", "--right", "code"],  # as in version 0.5
    ],
)
def test_a_token_is_created_with_a_scope_that_the_list_shows(migrated, options):
    _, row = make_token(migrated, "ada", *options)
    assert row.scopes == ["jobs:run-code"]
    listed = run("token", "list", url=migrated).stdout.splitlines()[1].split()
    assert listed[2:4] == ["member", "jobs:run-code"]


@every_row(
    "options",
    [
        ["--role", "god"],
        ["--scope", "god"],
        ["--right", "god"],
        ["--project", "../etc"],
        ["--expires-in", "3y"],
        ["--expires-in", "0d"],
        ["--expires-in", ""],
    ],
)
def test_invalid_options_create_no_token(migrated, options):
    outcome = run("token", "create", "ada", *options, url=migrated)
    assert outcome.exit_code in (1, 2)
    assert outcome.stdout == ""
    assert "expected" in outcome.stderr.lower() or "is not one of" in outcome.stderr
    assert "Value error" not in outcome.stderr
    assert read(migrated, tokens.listing) == []


def test_tokens_are_listed_without_their_secrets_and_revoked_by_id(migrated):
    root, _ = make_token(migrated, "root", "--role", "admin")
    ada, row = make_token(migrated, "ada")
    revoked = run("token", "revoke", row.id, url=migrated)
    assert (revoked.exit_code, revoked.stdout) == (0, f"Revoked {row.id}.\n")
    assert read(migrated, lambda session: tokens.find_valid(session, tokens.digest_of(ada))) is None
    listed = run("token", "list", url=migrated)
    output = listed.stdout
    assert not any(secret in listed.output + revoked.output for secret in (root, ada))
    header, first, second = output.splitlines()
    assert header.split() == ["ID", "NAME", "ROLE", "SCOPES", "PROJECT", "STATE", "OWNER"]
    assert first.startswith(f"{row.id}  ada ")
    assert "revoked 20" in first
    assert second.split()[-2:] == ["valid", "nobody"]


def test_revoking_the_last_admin_or_an_unknown_token_fails(migrated):
    _, root = make_token(migrated, "root", "--role", "admin")
    for token_id, message in {root.id: "last valid admin", "0123456789ab": "There is no"}.items():
        outcome = run("token", "revoke", token_id, url=migrated)
        assert (outcome.exit_code, outcome.stdout) == (1, "")
        assert message in outcome.stderr


def test_quotas_are_set_one_by_one_and_listed(migrated):
    created = run("project", "set", "vision", "--max-queued", "10", url=migrated)
    assert created.stderr.endswith("\nCreated the project vision.\n")
    outcome = run("project", "set", "vision", "--max-running", "2", url=migrated)
    assert outcome.stdout == run("project", "list", url=migrated).stdout
    assert "Created" not in outcome.stderr
    row = "vision 0 10 0 2 0 - 0.0 - 0 - 0 - 1 0.00"
    assert outcome.stdout.splitlines()[-1].split() == row.split()
    run("project", "set", "vision", "--max-devices", "64", "--weight", "2.5", url=migrated)
    run("project", "set", "vision", "--max-device-hours", "100.5", url=migrated)
    run("project", "set", "vision", "--max-dataset-bytes", "1000000000000", url=migrated)
    run(
        "project",
        "set",
        "vision",
        "--max-queued",
        "none",
        "--max-artifact-bytes",
        "7",
        url=migrated,
    )
    row = read(migrated, lambda session: projects.get(session, "vision"))
    assert (row.max_queued, row.max_running, row.max_dataset_bytes) == (None, 2, 10**12)
    assert row.max_artifact_bytes == 7
    assert (row.max_devices, row.max_device_hours, row.weight) == (64, 100.5, 2.5)


@pytest.mark.parametrize(
    "arguments", [("Vision!",), ("vision", "--max-queued", "-1")], ids=" ".join
)
def test_invalid_arguments_create_no_project(migrated, arguments):
    outcome = run("project", "set", *arguments, url=migrated)
    assert outcome.exit_code in (1, 2)
    names = [row.name for row in read(migrated, projects.listing)]
    assert names == ["default"]


def test_commands_are_recorded_in_the_audit_log(migrated):
    _, row = make_token(migrated, "root", "--role", "admin")
    run("project", "set", "vision", url=migrated)
    entries = read(migrated, lambda session: audit.page(session, limit=10))
    assert [(entry.action, entry.target) for entry in entries] == [
        ("project.update", "vision"),
        ("token.create", row.id),
    ]
    assert {entry.token_name for entry in entries} == {"ampserver (command line)"}
