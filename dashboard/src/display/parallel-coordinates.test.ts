import assert from "node:assert/strict";
import { test } from "node:test";
import type { SearchAnswer, SearchRun } from "../api/types.ts";
import { bestFirst, parallelCoordinates } from "./parallel-coordinates.ts";

const run = (number: number, rate: number, batch: unknown, value: number | null, steps = 90): SearchRun => ({
  number, values: { rate, batch }, value, steps, state: value === null ? "failed" : "finished", evaluations: [], explanation: null, jobs: [`j${number}`],
});

const answer = (runs: SearchRun[], best: number, more: Partial<SearchAnswer> = {}): SearchAnswer => ({
  kind: "search", summary: "", method: "tpe", metric: "val_accuracy", higher_is_better: true, best, runs, steps: null, steps_saved: null, write: {},
  parameters: [{ path: "rate", kind: "log_uniform", importance: 0.9 }, { path: "batch", kind: "choice", importance: 0.1 }],
  ...more,
});

test("a logarithmic axis has equal distances for equal factors, and the metric is the last axis", () => {
  const { axes, lines } = parallelCoordinates(answer([run(1, 0.01, 64, 0.9), run(2, 0.1, 64, 0.5), run(3, 1, 64, 0.7)], 1));
  assert.deepEqual(axes.map((one) => one.label), ["rate", "batch", "val_accuracy"]);
  assert.deepEqual(axes[0]!.ticks.map((one) => one.text), ["0.01", "0.1", "1"]);
  const heights = new Map(lines.map((one) => [one.run.number, one.heights.map((height) => Math.round(100 * height))]));
  assert.deepEqual(heights.get(2), [50, 50, 0]);
  assert.deepEqual(heights.get(3), [100, 50, 50]);
});

test("choices are in the order of their numbers, and words keep theirs", () => {
  const ticks = (values: unknown[]) => {
    const runs = values.map((value, index) => run(index + 1, 1, value, 1));
    return parallelCoordinates(answer(runs, 1)).axes[1]!.ticks.map((one) => one.text);
  };
  assert.deepEqual(ticks([128, 32, 64, 32]), ["32", "64", "128"]);
  assert.deepEqual(ticks(["float32", "O2", [8, 16]]), ["float32", "O2", "[8,16]"]);
});

test("the best run is drawn last, and a run without a metric first and without its last point", () => {
  const runs = [run(1, 0.1, 8, 0.2), run(2, 0.2, 8, 0.1), run(3, 0.3, 8, null), run(4, 0.4, 8, 0.3)];
  const { lines } = parallelCoordinates(answer(runs, 2, { higher_is_better: false }));
  assert.deepEqual(lines.map((one) => one.run.number), [3, 4, 1, 2]);
  assert.deepEqual(lines.map((one) => one.heights.length), [2, 3, 3, 3]);
  assert.equal(lines[0]!.quality, null);
  assert.equal(lines[3]!.quality, 1);
});

test("the table has runs that trained longest first, and failed ones last", () => {
  const runs = [run(1, 1, 8, 0.99, 30), run(2, 1, 8, 0.5), run(3, 1, 8, null), run(4, 1, 8, 0.9)];
  assert.deepEqual(bestFirst(answer(runs, 4)).map((one) => one.number), [4, 2, 1, 3]);
});
