import assert from "node:assert/strict";
import { test } from "node:test";
import type { ComparedJob } from "../api/types.ts";
import { axisOf, overlayOf, placed } from "./overlay.ts";

const compared = (id: string, data: Record<string, unknown>) =>
  ({ job: { id, name: "same" }, data }) as unknown as ComparedJob;

test("lines of different lengths share an axis, with gaps where one has nothing", () => {
  const lines = [{ x: [0, 2], y: [1, 2] }, { x: [0, 1, null], y: [3, 4, 5] }];
  const axis = axisOf(lines);
  assert.deepEqual(axis, [0, 1, 2]);
  assert.deepEqual(placed(lines[0]!, axis), [1, null, 2]);
  assert.deepEqual(placed(lines[1]!, axis), [3, 4, null]);
});

test("jobs of one name are told apart, and time is an axis like steps", () => {
  const jobs = [
    compared("aaaaaaaa", { step: [0], elapsed_s: [1.5], "loss.mean": [2] }),
    compared("bbbbbbbb", { step: [0], elapsed_s: [0.5], "loss.mean": [3] }),
  ];
  const { x, panels } = overlayOf(jobs, "time");
  assert.deepEqual(x, [0.5, 1.5]);
  assert.deepEqual(panels.map((panel) => panel.key), ["loss"]);
  assert.deepEqual(panels[0]?.curves.map((curve) => curve.name), ["same aaaaaa", "same bbbbbb"]);
  assert.deepEqual(panels[0]?.curves[1]?.mean, [3, null]);
});
