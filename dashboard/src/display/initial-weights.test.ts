import assert from "node:assert/strict";
import { test } from "node:test";
import { weightsGroups, weightsSource } from "./initial-weights.ts";

test("the source of weights is a job, a file or nothing", () => {
  assert.deepEqual(weightsSource({ spec: { init: { job: "ab12", weights: null } } } as never), { text: "job ab12", job: "ab12" });
  const file = { spec: { init: { job: null, weights: `sha256:${"0f".repeat(32)}` } } };
  assert.deepEqual(weightsSource(file as never), { text: "sha256:0f0f0f0f0f0f…", job: null });
  for (const spec of [null, {}, { init: null }]) assert.equal(weightsSource({ spec } as never), null);
});

test("the lists of a report have titles, and say how many entries were left out", () => {
  const report = {
    unmatched_in_model: ["head/kernel"],
    shape_differs: [{ name: "c/bias", model: [3], source: [2] }],
    unused_in_source: [],
    counts: { unmatched_in_model: 7, shape_differs: 1, unused_in_source: 0 },
  };
  assert.deepEqual(weightsGroups(report), [
    { title: "Not in the source", names: ["head/kernel", "and 6 more"] },
    { title: "Of another shape in the source", names: ["c/bias: [3], in the source [2]"] },
  ]);
});
