"""The HTML that notebooks show."""

from html.parser import HTMLParser

import pytest

from ampclient import Comparison, StepSample
from ampclient._http.paging import MAX_ROWS_SHOWN

MARKUP = "<script>alert('x')</script> & \"co\""


class Cells(HTMLParser):
    """Parses HTML into the texts of its cells and the set of its tags."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.tags, self._inside = [], set(), False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag in ("td", "th"):
            self._inside = True
            self.texts.append("")

    def handle_endtag(self, tag):
        self._inside = self._inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self._inside:
            self.texts[-1] += data


TABLE = {"table", "thead", "tbody", "tr", "th", "td", "p"}


def test_a_job_is_a_table_and_its_texts_are_escaped(client, server, latest):
    server.add_job("a", name=MARKUP, state="running", message=MARKUP, latest=latest, step=7)
    job = client.jobs.get("a")
    cells = Cells(job._repr_html_())
    assert cells.tags <= TABLE
    assert cells.texts.count(MARKUP) == 2
    assert {"running", "7", "2^15", "0.25", "12,345"} <= set(cells.texts)


def test_a_list_of_jobs_shows_its_first_rows_and_consumes_none(sync_client, server):
    for number in range(MAX_ROWS_SHOWN + 5):
        server.add_job(f"job{number:02}", name=MARKUP)
    jobs = sync_client.jobs.list()
    cells = Cells(jobs._repr_html_())
    assert cells.tags <= TABLE
    assert cells.texts[:3] == ["name", "id", "state"]
    assert cells.texts.count(MARKUP) == MAX_ROWS_SHOWN
    assert "… and more" in jobs._repr_html_()
    assert len(list(jobs)) == MAX_ROWS_SHOWN + 5
    assert "… and more" not in sync_client.jobs.list(limit=MAX_ROWS_SHOWN)._repr_html_()


def test_jobs_that_were_waited_for_are_a_table(sync_client, server):
    server.add_job("a", state="succeeded")
    waited = sync_client.jobs.wait([sync_client.jobs.get("a")])
    assert [job.id for job in waited] == ["a"]
    assert "succeeded" in Cells(waited._repr_html_()).texts


def test_an_empty_list_of_jobs_shows_none(sync_client):
    assert sync_client.jobs.list()._repr_html_() == "<p>none</p>"


def test_a_sample_shows_its_first_points():
    sample = StepSample.from_json(
        {
            "data": {
                "step": [*range(0, 80, 8)],
                "count": [8] * 10,
                "skipped": [0] * 10,
                "loss.mean": ["NaN", *[0.5] * 9],
            },
            "steps_per_point": 8,
            "skipped_steps": {"total": 3, "steps": [1, 2, 3]},
            "scale_changes": {"total": 0, "step": [], "before": [], "after": [], "column": []},
            "attempts": [],
        }
    )
    text = sample._repr_html_()
    cells = Cells(text)
    assert cells.texts[:4] == ["step", "count", "skipped", "loss.mean"]
    assert cells.texts[4:8] == ["0", "8", "0", "nan"]
    assert "10 points of 8 steps each; 3 steps skipped" in text


@pytest.fixture
def comparison(server):
    single, mixed = (
        server.add_job(name, name=name, state="succeeded") for name in ("single", MARKUP)
    )
    data = {"step": [0, 16], "count": [16, 4], "skipped": [0, 1], "elapsed_s": [0.5, 1e9 + 0.5]}
    data |= {"loss.mean": [0.5, "NaN"]}
    skipped = {"total": 1, "steps": [17]}
    shared = {"data": data, "skipped_steps": skipped}
    server.comparison = {
        "baseline": "single",
        "steps_per_point": 16,
        "jobs": [
            {"job": single, "speedup": 1.0, "loss_drift": 0.0, **shared},
            {"job": mixed, "speedup": 1.75, "loss_drift": None, **shared},
        ],
        "spec": [{"pointer": "/precision/policy", "values": ["float32", None]}],
        "results": [{"name": "final_loss", "values": [0.25, "NaN"]}],
    }
    return server.comparison


def test_a_comparison_is_a_table_of_differences(client, comparison):
    cells = Cells(client.compare(["single", MARKUP])._repr_html_())
    assert cells.tags <= TABLE
    assert cells.texts == [
        *("", "single (baseline)", MARKUP),
        *("/precision/policy", "float32", ""),
        *("final_loss", "0.25", "nan"),
        *("speedup", "1.0", "1.75"),
        *("loss_drift", "0.0", ""),
    ]


def test_a_comparison_is_read_in_full(client, comparison, server):
    job = client.jobs.get("single")
    compared = client.compare([job, "other"], baseline=job, columns=["loss"], max_points=50)
    assert isinstance(compared, Comparison)
    [request] = [r for r in server.requests if r.url.path.endswith("/compare")]
    expected = {"jobs": "single,other", "baseline": "single", "columns": "loss", "max_points": "50"}
    assert dict(request.url.params) == expected
    first, second = compared.jobs
    assert (first.job.id, second.speedup, second.loss_drift) == ("single", 1.75, None)
    assert first.skipped_steps.steps.tolist() == [17]
    assert first.data["elapsed_s"].tolist() == [0.5, 1e9 + 0.5]
    assert str(first.data["loss.mean"].dtype) == "float32"
    assert (compared.baseline, compared.steps_per_point) == ("single", 16)
    assert compared.spec[0].values == ["float32", None]
    assert compared.to_json() == comparison
    frame = compared.to_pandas()
    assert frame.loc["single", "final_loss"] == 0.25
    assert frame["speedup"].tolist() == [1.0, 1.75]
