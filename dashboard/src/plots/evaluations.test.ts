import assert from "node:assert/strict";
import { test } from "node:test";
import type { Evaluation } from "../api/types.ts";
import { jobPanels, pointAt } from "./curves.ts";
import { evaluationsInRange, hasEveryEvaluation, metricCurve, metricLines, metricLinesOf, withMetrics } from "./evaluations.ts";

const evaluations = [
  { epoch: 0, step: 1, val_accuracy: 0.5, val_loss: 2 },
  { epoch: 1, step: 4, val_accuracy: 0.75, val_loss: "NaN" },
] as unknown as Evaluation[];

test("the validation loss is a curve beside the loss, and other metrics have panels after it", () => {
  const steps = { step: [0, 2, 4], loss: [3, 2, 1], grad_norm: [1, 1, 1] };
  const { x, panels } = withMetrics(jobPanels(steps), steps.step, metricLines(evaluations));
  assert.deepEqual(x, [0, 1, 2, 4]);
  assert.deepEqual(panels.map(({ key }) => key), ["loss", "val_accuracy", "grad_norm"]);
  assert.equal(panels[1]!.title, "Validation accuracy");
  const [loss, validation] = panels[0]!.curves;
  assert.deepEqual(loss!.mean, [3, undefined, 2, 1]);
  assert.equal(validation!.name, "validation");
  assert.deepEqual(validation!.mean, [undefined, 2, undefined, null]);
  assert.ok(Number.isNaN(validation!.nonFinite.get(3)));
  assert.deepEqual(panels[1]!.curves[0]!.mean, [undefined, 0.5, undefined, 0.75]);
});

test("the best evaluation is marked on the curve of every metric", () => {
  const marked = [{ ...evaluations[0]!, best: true }, evaluations[1]!] as unknown as Evaluation[];
  const steps = { step: [0, 2, 4], loss: [3, 2, 1] };
  const { panels } = withMetrics(jobPanels(steps), steps.step, metricLines(marked));
  assert.deepEqual(panels.map(({ curves }) => curves.at(-1)!.best), [1, 1]);
  assert.equal(panels[0]!.curves[0]!.best, undefined);
});

test("bands and infinite values of steps move with their steps", () => {
  const steps = { step: [0, 4], "loss.mean": [3, "Infinity" as const], "loss.min": [1, 1], "loss.max": [4, 5] };
  const { panels } = withMetrics(jobPanels(steps), steps.step, metricLines(evaluations));
  const [loss] = panels[0]!.curves;
  assert.deepEqual(loss!.low, [1, undefined, 1]);
  assert.deepEqual([...loss!.nonFinite], [[2, Infinity]]);
});

test("without evaluations the panels of steps stay as they are", () => {
  const panels = jobPanels({ step: [0, 1], loss: [3, 2] });
  assert.deepEqual(withMetrics(panels, [0, 1], metricLines([])), { x: [0, 1], panels });
});

test("without steps each metric still has a panel", () => {
  const { x, panels } = withMetrics([], [], metricLines(evaluations));
  assert.deepEqual([x, panels.map(({ key }) => key)], [[1, 4], ["val_loss", "val_accuracy"]]);
});

test("columns of a comparison have lines over steps or over time", () => {
  const columns = { step: [1, 4], epoch: [0, 1], elapsed_s: [0.5, 2], val_loss: [2, 1] };
  assert.deepEqual([...metricLinesOf(columns, "elapsed_s")], [["val_loss", { x: [0.5, 2], y: [2, 1] }]]);
  assert.deepEqual([...metricLinesOf({}, "step")], []);
});

test("under the cursor a metric keeps its last value, and a line ends with its last point", () => {
  const points = metricCurve({ x: [1], y: [7] }, [0, 1, 2], "metric");
  assert.deepEqual([0, 1, 2].map((index) => pointAt(points, index)), [-1, 1, 1]);
  const line = { ...points, mean: [5, undefined, 6, undefined], hasPoints: false };
  assert.deepEqual([0, 1, 2, 3].map((index) => pointAt(line, index)), [0, 0, 2, -1]);
});

test("evaluations in a range include those at its ends", () => {
  assert.deepEqual(evaluationsInRange(evaluations, [1, 3]).map(({ step }) => step), [1]);
  assert.deepEqual(evaluationsInRange(evaluations, [1, 4]).map(({ step }) => step), [1, 4]);
  assert.deepEqual(evaluationsInRange(evaluations, [2, 3]), []);
});

test("a sample of too many evaluations is told from all of them", () => {
  const MAX = 10;
  for (let total = 0; total < 200; total++) {
    const stride = Math.max(1, Math.ceil(total / MAX)); // as store/telemetry/evaluations.py: sample
    const sample = Array.from({ length: Math.ceil(total / stride) }, () => evaluations[0]!);
    if (hasEveryEvaluation(sample, MAX)) assert.equal(stride, 1, `${total} evaluations`);
  }
  assert.ok(hasEveryEvaluation([], MAX));
});
