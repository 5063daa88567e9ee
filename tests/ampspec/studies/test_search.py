"""Searches on a function with a known best point, without jobs."""

import json
import math
import random
from dataclasses import replace

import pytest

from ampspec.api.study_requests import SearchOptions
from ampspec.jobs import JobSpec, Reason, State
from ampspec.studies.plan import JobResult, NoAnswer, StudyContext
from ampspec.studies.search.samplers import Observation, Sampler
from ampspec.studies.search.search import SearchKind

SPEC = {
    "model": {"kind": "mlp", "hidden": [8]},
    "data": {"kind": "digits", "batch_size": 64},
    "train": {"steps": 270, "seed": 4},
}
RATE, BATCH = "optimizer.learning_rate", "data.batch_size"
SPACE = {RATE: {"log_uniform": [1e-5, 1.0]}, BATCH: {"choice": [32, 64, 128]}}
BEST_RATE = 1e-2
ASHA = {"min_steps": 30, "reduction_factor": 3}


def accuracy(spec):
    """Best at a learning rate of 0.01 and, less important, a batch of 64; grows with the steps."""
    distance = abs(math.log10(spec.optimizer.learning_rate / BEST_RATE))
    batch = 0.01 * (spec.data.batch_size != 64)
    return 0.9 - 0.1 * distance - batch - 1.0 / spec.train.steps


class Searching:
    """Advances a search as a server does: the entries of its jobs are all that it keeps."""

    def __init__(self, space=SPACE, spec=SPEC, end=None, **options):
        parsed_options = SearchOptions.model_validate({"space": space, **options})
        self.question = StudyContext(spec, parsed_options)
        self.end = end or (lambda spec: {"val_accuracy": accuracy(spec)})
        self.results, self.jobs = {}, {}

    def plan(self):
        """One round; the changes pass through JSON, as through the database."""
        for job in SearchKind().jobs(self.question, self.results):
            self.jobs.setdefault(job.key, job)
        stored = {key: json.loads(json.dumps(dict(job.changes))) for key, job in self.jobs.items()}
        self.question = replace(self.question, planned=stored)
        return [job for key, job in self.jobs.items() if key not in self.results]

    def finish(self, job):
        found = self.end(JobSpec.parse(job.document(self.question, "s")))
        number = len(self.results)
        if isinstance(found, dict):
            result = JobResult(f"job-{number}", State.SUCCEEDED, metrics=found)
        else:
            result = JobResult(f"job-{number}", State.FAILED, found, "It says so.")
        self.results[job.key] = result

    def run(self, order=lambda waiting: waiting):
        while waiting := self.plan():
            self.finish(order(waiting)[0])
        return self

    @property
    def values(self):
        return [job.changes for key, job in self.jobs.items() if job.extends is None]

    def answer(self):
        return SearchKind().answer(self.question, self.results)


def test_a_grid_tries_every_combination_once():
    space = {RATE: {"log_uniform": [1e-4, 1e-2], "points": 3}, BATCH: {"choice": [32, 64]}}
    search = Searching(space, method="grid")
    assert len(search.plan()) == 6
    answer = search.run().answer()
    assert [tuple(run.values.values()) for run in answer.runs] == [
        (32, 1e-4), (32, 1e-3), (32, 1e-2), (64, 1e-4), (64, 1e-3), (64, 1e-2),
    ]  # fmt: skip
    assert answer.best == 6
    assert answer.write == {"optimizer": {"learning_rate": 1e-2}, "data": {"batch_size": 64}}
    assert (answer.steps, answer.steps_saved) == (6 * 270, None)


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_drawn_values_lie_in_the_space_and_never_repeat(method):
    space = {BATCH: {"int_uniform": [8, 12]}, "train.seed": {"choice": [1, 2]}}
    search = Searching(space, method=method, runs=50).run()
    found = [tuple(values.values()) for values in search.values]
    assert sorted(found) == [(batch, seed) for batch in range(8, 13) for seed in (1, 2)]


def test_the_order_of_the_space_does_not_matter():
    """PostgreSQL returns the keys of a JSON object in another order."""
    turned = dict(reversed(SPACE.items()))
    assert Searching(turned, runs=12).run().values == Searching(runs=12).run().values


def test_tpe_draws_better_values_than_chance():
    """The mean loss of the last half of the runs, over five seeds, against random draws."""

    def mean_accuracy(method):
        found = []
        for seed in range(5):
            runs = Searching(method=method, runs=24, seed=seed).run().answer().runs
            found += [run.value for run in runs[12:]]
        return sum(found) / len(found)

    chance, tpe = mean_accuracy("random"), mean_accuracy("tpe")
    assert 0.9 - tpe < 0.8 * (0.9 - chance)


def test_tpe_finds_more_than_the_worst_third_and_the_importance_is_of_the_learning_rate():
    answer = Searching(runs=24).run().answer()
    ranked = sorted(run.value for run in answer.runs)
    best = answer.runs[answer.best - 1]
    assert best.value == ranked[-1] > ranked[8]
    assert abs(math.log10(best.values[RATE] / BEST_RATE)) < 0.5
    batch, rate = answer.parameters
    assert rate.importance > 0.6 > batch.importance
    assert rate.importance + batch.importance == pytest.approx(1)
    assert str(best.values[RATE]) in answer.summary


def test_at_most_so_many_jobs_are_open_at_once():
    search = Searching(runs=9, parallel=3)
    assert [job.key for job in search.plan()] == ["run-1", "run-2", "run-3"]
    assert len(search.plan()) == 3
    search.finish(search.jobs["run-2"])
    assert [job.key for job in search.plan()] == ["run-1", "run-3", "run-4"]


@pytest.mark.parametrize("more", [{}, {"asha": ASHA}], ids=["whole runs", "asha"])
def test_a_restart_in_the_middle_asks_for_the_same_next_runs(more):
    """A second server, with nothing but the entries and results, plans what the first one does."""
    first, rounds = Searching(runs=12, parallel=2, **more), 0
    while True:
        again = Searching(runs=12, parallel=2, **more)
        again.question, again.results = first.question, dict(first.results)
        waiting = first.plan()
        assert again.plan() == waiting
        if not waiting:
            break
        first.finish(waiting[-1])
        rounds += 1
    assert rounds == len(first.jobs) >= len(first.answer().runs) == 12


def test_the_seed_decides_about_the_draws():
    one, same, other = (Searching(runs=6, seed=seed).run().values for seed in (1, 1, 2))
    assert one == same != other


def test_asha_trains_the_best_third_on_at_each_rung():
    search = Searching(method="random", runs=27, parallel=27, asha=ASHA)
    while waiting := search.plan():
        for job in waiting:  # all of a rung, before the next decision
            search.finish(job)
    answer = search.answer()
    stopped = {steps: [run for run in answer.runs if run.steps == steps] for steps in (30, 90, 270)}
    assert [len(runs) for runs in stopped.values()] == [18, 6, 3]
    everyone = sorted(answer.runs, key=lambda run: -run.evaluations[0].value)
    assert {run.number for run in everyone[:9]} == {
        run.number for run in (*stopped[90], *stopped[270])
    }
    best = answer.runs[answer.best - 1]
    assert (best.state, best.steps, best.number) == ("finished", 270, everyone[0].number)
    assert {run.state for run in stopped[30]} == {"stopped"}
    assert [evaluation.steps for evaluation in best.evaluations] == [30, 90, 270]
    assert len(best.jobs) == 3
    assert answer.steps == 18 * 30 + 6 * 90 + 3 * 270
    assert answer.steps_saved == 18 * 240 + 6 * 180
    assert "saved 74 % of the steps" in answer.summary


def test_asha_extends_the_job_of_the_rung_before():
    search = Searching(method="random", runs=6, asha=ASHA).run()
    extensions = [job for job in search.jobs.values() if job.extends is not None]
    assert extensions
    for job in extensions:
        before = search.jobs[job.extends]
        assert {**before.changes, "train.steps": 3 * before.changes["train.steps"]} == job.changes


def test_a_cosine_ends_where_the_whole_run_ends():
    schedule = {"optimizer": {"schedule": {"kind": "cosine"}}}
    search = Searching(spec={**SPEC, **schedule}, runs=3, asha=ASHA).run()
    ends = {job.changes["optimizer.schedule.end_step"] for job in search.jobs.values()}
    assert ends == {270}
    assert len({job.changes["train.steps"] for job in search.jobs.values()}) == 3


def test_few_runs_still_train_one_of_them_to_the_end():
    answer = Searching(runs=2, asha=ASHA).run().answer()
    assert sorted(run.state for run in answer.runs) == ["finished", "stopped"]


def test_runs_that_end_in_any_order_give_one_that_trained_to_its_end():
    for seed in range(5):
        chance = random.Random(seed)
        search = Searching(runs=15, parallel=5, asha=ASHA, seed=seed)
        answer = search.run(lambda waiting, chance=chance: [chance.choice(waiting)]).answer()
        best = answer.runs[answer.best - 1]
        finished = [run.value for run in answer.runs if run.state == "finished"]
        assert (best.state, best.value) == ("finished", max(finished))


@pytest.mark.parametrize("more", [{}, {"asha": ASHA}], ids=["whole runs", "asha"])
def test_failed_and_diverged_runs_do_not_stop_a_search(more):
    def end(spec):
        if spec.optimizer.learning_rate > 0.1:
            return Reason.NON_FINITE_LOSS
        if spec.data.batch_size == 128:
            return Reason.WORKER_LOST
        return {"val_accuracy": accuracy(spec)}

    answer = Searching(runs=20, end=end, **more).run().answer()
    failed = [run for run in answer.runs if run.state == "failed"]
    assert failed
    assert {run.value for run in failed} == {None}
    assert {run.explanation for run in failed} == {"It says so."}
    assert f"{len(failed)} runs failed" in answer.summary


def test_a_search_avoids_values_that_fail():
    """A fifth of the space fails. Without telling TPE so, two thirds of its draws would."""

    def end(spec):
        is_high = spec.optimizer.learning_rate > 0.1
        return Reason.WORKER_LOST if is_high else {"val_accuracy": accuracy(spec)}

    for seed in range(3):
        runs = Searching(runs=40, seed=seed, end=end).run().answer().runs
        assert sum(run.state == "failed" for run in runs[20:]) < 8


def test_a_loss_is_minimised_and_a_direction_can_be_given():
    def end(spec):
        return {"val_loss": spec.optimizer.learning_rate, "val_own": spec.optimizer.learning_rate}

    def best_of(**more):
        answer = Searching(runs=5, method="random", end=end, **more).run().answer()
        rates = [run.values[RATE] for run in answer.runs]
        return rates.index(answer.runs[answer.best - 1].values[RATE]), rates

    best, rates = best_of()
    assert rates[best] == min(rates)
    best, rates = best_of(metric="val_own", direction="max")
    assert rates[best] == max(rates)


def test_a_metric_that_no_job_reports_ends_the_search_after_its_first_jobs():
    search = Searching(runs=20, parallel=2, metric="val_dice").run()
    assert len(search.jobs) <= 3
    with pytest.raises(NoAnswer, match="report no finite val_dice; they report: val_accuracy"):
        search.answer()


def test_a_search_whose_jobs_all_fail_says_why():
    search = Searching(runs=3, end=lambda spec: Reason.INVALID_DATA).run()
    with pytest.raises(NoAnswer, match="Job job-0 is failed \\(invalid_data\\)"):
        search.answer()


def test_one_sampler_draws_what_new_samplers_would():
    """Fails if a draw depends on what the sampler has drawn before."""
    space = {"x": {"uniform": [0.0, 1.0]}, "kind": {"choice": ["a", "b", "c"]}}
    options = SearchOptions.model_validate({"space": space, "runs": 40, "seed": 3})
    runs = [
        Observation({"kind": "abc"[number % 3], "x": number / 20}, {0: float(number)}, True)
        for number in range(12)
    ]
    sampler, together, apart = Sampler(options, runs), [], list(runs)
    for _ in range(6):
        together.append(sampler.next_values())
        apart.append(Observation(Sampler(options, apart).next_values(), {}, False))
    assert together == [run.values for run in apart[len(runs) :]]
