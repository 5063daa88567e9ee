"""Alerts and dashboard for Prometheus and Grafana, with promtool and the server's metrics."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.kubernetes_tools import ROOT, VALUES, find, manifests
from tests.waiting import DEADLINE_S

MONITORING: Final = ROOT / "deploy" / "monitoring"
ALERTS: Final = MONITORING / "alerts.yaml"
DASHBOARD: Final = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))
EXPRESSIONS: Final = [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]
]
GUIDE: Final = ROOT / "docs/guides/operating.md"
NAME: Final = re.compile(r"\bampcore_[a-z_]+")
SUFFIX: Final = re.compile(r"_(total|bucket|count)$")
OF_RELEASE: Final = re.compile(r'namespace="trainers",service="ampcore-api",?')
"""What an alert of the chart selects besides: the servers of its release."""


def promtool(*arguments: str, folder: Path) -> None:
    program = shutil.which("promtool")
    assert program is not None
    done = subprocess.run(
        [program, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return list(group["rules"])


@pytest.mark.needs("promtool")
def test_each_alert_fires_when_it_should_and_not_before(tmp_path: Path) -> None:
    for file in (ALERTS, Path(__file__).with_name("alerts_test.yaml")):
        shutil.copy(file, tmp_path)
    promtool("check", "rules", "alerts.yaml", folder=tmp_path)
    promtool("test", "rules", "alerts_test.yaml", folder=tmp_path)
    tested = yaml.safe_load((tmp_path / "alerts_test.yaml").read_text(encoding="utf-8"))["tests"]
    fired = {
        case["alertname"]
        for test in tested
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }
    assert fired == {rule["alert"] for rule in rules()}


@pytest.mark.needs("promtool")
def test_prometheus_reads_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    recorded = [
        {"record": f"query:{number}", "expr": _without_variables(expression)}
        for number, expression in enumerate(EXPRESSIONS)
    ]
    groups = {"groups": [{"name": "queries", "rules": recorded}]}
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump(groups), encoding="utf-8")
    promtool("check", "rules", "queries.yaml", folder=tmp_path)


def _without_variables(expression: str) -> str:
    return expression.replace("$__rate_interval", "5m").replace("$job", ".+")


def test_all_metrics_in_alerts_and_dashboard_are_those_of_a_server(api: Any) -> None:
    text = api.client.get("/metrics").text
    reported = {SUFFIX.sub("", family.name) for family in text_string_to_metric_families(text)}
    used = {
        SUFFIX.sub("", name)
        for expression in [*EXPRESSIONS, *(rule["expr"] for rule in rules())]
        for name in NAME.findall(expression)
    }
    assert used - reported == set()
    assert {name for name in reported if name.startswith("ampcore_")} - used == set()


@pytest.mark.xdist_group("helm")
def test_the_chart_has_the_same_alerts() -> None:
    [values] = [path for path in VALUES if path.stem == "monitoring"]
    of_chart = find(manifests(values), "PrometheusRule", "ampcore")["spec"]["groups"][0]["rules"]
    for rule in of_chart:
        rule["expr"] = OF_RELEASE.sub("", rule["expr"]).replace("{}", "")
    assert of_chart[:-1] == rules()  # the last one is that of the values


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    cells = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
