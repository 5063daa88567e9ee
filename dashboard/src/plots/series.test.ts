import assert from "node:assert/strict";
import { test } from "node:test";
import type { Steps } from "../api/types.ts";
import { marksOf, wordsOf } from "./marks.ts";
import { panelsOf } from "./series.ts";

test("single steps are curves without a band, and what is not finite is a gap", () => {
  const panels = panelsOf({ step: [0, 1], loss: [1.5, "NaN"], examples: [64, 64], step_time_s: [0.5, 0] });
  assert.deepEqual(panels.map((panel) => panel.key), ["loss", "examples_per_s"]);
  assert.deepEqual(panels[0]?.curves, [{ name: "loss", mean: [1.5, null], low: null, high: null }]);
  assert.deepEqual(panels[1]?.curves[0]?.mean, [128, null]);
});

test("points of several steps have a band, and each network a curve", () => {
  const data = {
    step: [0], "loss.mean": [2], "loss.min": [1], "loss.max": [3],
    "loss/generator.mean": [4], "loss/generator.min": [4], "loss/generator.max": ["Infinity" as const],
  };
  const [loss] = panelsOf(data);
  assert.deepEqual(loss?.curves.map((curve) => curve.name), ["loss", "generator"]);
  assert.deepEqual(loss?.curves[0]?.low, [1]);
  assert.deepEqual(loss?.curves[1]?.high, [null]);
});

const answer = (parts: Partial<Steps>): Steps =>
  ({ data: {}, steps_per_point: 1, attempts: [], next: null, more: false, ...parts }) as Steps;

test("every skipped step has a mark, and close ones share it", () => {
  const steps = answer({ skipped_steps: { total: 3, steps: [0, 1, 900] } });
  const marks = marksOf(steps, [0, 1000], 100);
  assert.deepEqual(marks, [{ first: 0, last: 1, count: 2 }, { first: 900, last: 900, count: 1 }]);
  assert.equal(wordsOf(marks[0]!), "2 skipped steps between 0 and 1");
  assert.equal(wordsOf(marks[1]!), "Skipped step 900");
});

test("too many to be told one by one are marked by the points that hold them", () => {
  const steps = answer({
    data: { step: [0, 100, 200], count: [100, 100, 50], skipped: [0, 7, 2000] },
    skipped_steps: { total: 2007, steps: [100] },
  });
  assert.deepEqual(marksOf(steps, [0, 250], 250).map((mark) => [mark.first, mark.last, mark.count]), [
    [100, 199, 7], [200, 249, 2000],
  ]);
});
