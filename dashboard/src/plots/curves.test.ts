import assert from "node:assert/strict";
import { test } from "node:test";
import type { Steps } from "../api/types.ts";
import { skipMarkers, markerLabel } from "./skip-markers.ts";
import { jobPanels } from "./curves.ts";

test("single steps are curves without a band, and non-finite values are gaps", () => {
  const panels = jobPanels({ step: [0, 1], loss: [1.5, "NaN"], examples: [64, 64], step_time_s: [0.5, 0] });
  assert.deepEqual(panels.map((panel) => panel.key), ["loss", "examples_per_s"]);
  assert.deepEqual(panels[0]?.curves, [{ name: "loss", mean: [1.5, null], low: null, high: null, nonFinite: new Map([[1, NaN]]) }]);
  assert.deepEqual(panels[1]?.curves[0]?.mean, [128, null]);
});

test("points of several steps have a band, and each network has a curve", () => {
  const data = {
    step: [0], "loss.mean": [2], "loss.min": [1], "loss.max": [3],
    "loss/generator.mean": [4], "loss/generator.min": [4], "loss/generator.max": ["Infinity" as const],
  };
  const [loss] = jobPanels(data);
  assert.deepEqual(loss?.curves.map((curve) => curve.name), ["loss", "generator"]);
  assert.deepEqual(loss?.curves[0]?.low, [1]);
  assert.deepEqual(loss?.curves[1]?.high, [null]);
  assert.deepEqual([...loss!.curves[1]!.nonFinite], [[0, Infinity]]);
});

test("a column without a title of its own has a panel, too", () => {
  const data = { step: [0], last_step: [9], loss: [1], "loss/a": [1], accuracy: [0.5], "accuracy/a": [0.5], "top/5": [0.75] };
  const panels = jobPanels(data);
  assert.deepEqual(panels.map((panel) => panel.title), ["Loss", "accuracy", "top/5"]);
  assert.deepEqual(panels[1]?.curves.map((curve) => curve.name), ["accuracy", "a"]);
});

const response = (parts: Partial<Steps>): Steps =>
  ({ data: {}, steps_per_point: 1, attempts: [], next: null, more: false, ...parts }) as Steps;

test("every skipped step has a marker, and close ones share it", () => {
  const steps = response({ skipped_steps: { total: 3, steps: [0, 1, 900] } });
  const markers = skipMarkers(steps, [0, 1000], 100);
  assert.deepEqual(markers, [{ first: 0, last: 1, count: 2 }, { first: 900, last: 900, count: 1 }]);
  assert.equal(markerLabel(markers[0]!), "2 skipped steps between 0 and 1");
  assert.equal(markerLabel(markers[1]!), "Skipped step 900");
});

test("skipped steps outside of the range have no marker", () => {
  const steps = response({ skipped_steps: { total: 4, steps: [99, 100, 200, 201] } });
  assert.deepEqual(skipMarkers(steps, [100, 200], 100).map(({ first }) => first), [100, 200]);
});

test("more skipped steps than the API lists are marked by the points that contain them", () => {
  const steps = response({
    data: { step: [0, 100, 200], count: [100, 100, 50], skipped: [0, 7, 2000] },
    skipped_steps: { total: 2007, steps: [100] },
  });
  assert.deepEqual(skipMarkers(steps, [0, 250], 250).map(({ first, last, count }) => [first, last, count]), [
    [100, 199, 7], [200, 249, 2000],
  ]);
});

test("a quantity of which no value is finite still has a panel", () => {
  const panels = jobPanels({ step: [0], grad_norm: ["Infinity"] });
  assert.deepEqual(panels.map((panel) => panel.key), ["grad_norm"]);
});
