import assert from "node:assert/strict";
import { test } from "node:test";
import type { Artifact } from "../api/types.ts";
import { className, path, rangeOf, reportOf, shade, topText, valueText, type OutputReport } from "./evaluation-report.ts";

const OUTPUT: OutputReport = { kind: "class", names: ["cat", " "] };

test("the report of the newest attempt is shown", () => {
  const files = [1, 2].map((attempt) => ({ kind: "evaluation", path: `attempt-${attempt}/evaluation.json` }) as Artifact);
  assert.equal(reportOf([...files, { kind: "model", path: "attempt-2/model.keras" } as Artifact])?.path, files[1]!.path);
  assert.equal(reportOf([]), undefined);
});

test("classes have names, also those that cannot be seen", () => {
  assert.deepEqual([0, 1, 2].map((one) => className(OUTPUT, one)), ["cat", '" "', "2"]);
});

test("a cell is as dark as its share of the class", () => {
  assert.equal(shade([1, 3], 1), 0.75);
  assert.equal(shade([0, 0], 0), 0);
});

test("values are told in a few words", () => {
  assert.equal(valueText({ class: 0 }, OUTPUT), "cat");
  assert.equal(valueText({ text: null }), "–");
  assert.equal(valueText({ numbers: [1.23456, "NaN"] }), "1.235, NaN");
  assert.equal(valueText({ labels: [0.9] }), "0.9");
  assert.equal(valueText({ labels: [0.9, 0.1] }, OUTPUT), "cat");
  assert.equal(valueText({ labels: [0.1, 0.1] }, OUTPUT), "none");
  assert.equal(valueText({ array: { shape: [2, 64], low: 0, high: 1 } }), "2 × 64 numbers from 0 to 1");
  assert.equal(topText({ top: [[0, 0.75], [1, 0.25]] }, OUTPUT), 'cat 75 % · " " 25 %');
});

test("a path begins at the lower left", () => {
  assert.equal(path([[0, 0], [0.5, 1]], 100), "M0 100L50 0");
  assert.deepEqual(rangeOf([[1, 1]]), [0.5, 1.5]);
  assert.deepEqual(rangeOf([[1, 4], [2, 3]]), [1, 4]);
});
