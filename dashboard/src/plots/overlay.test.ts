import assert from "node:assert/strict";
import { test } from "node:test";
import type { ComparedJob } from "../api/types.ts";
import { unionOfX, overlayPanels, alignToAxis } from "./overlay.ts";

const compared = (id: string, data: Record<string, unknown>, evaluations: Record<string, unknown> = {}) =>
  ({ job: { id, name: "same" }, data, evaluations }) as unknown as ComparedJob;

test("lines of different lengths share an axis; only non-finite values are gaps", () => {
  const lines = [{ x: [0, 2], y: [1, 2] }, { x: [0, 1, null], y: [3, null, 5] }];
  const axis = unionOfX(lines.map(({ x }) => x));
  assert.deepEqual(axis, [0, 1, 2]);
  assert.deepEqual(alignToAxis(lines[0]!, axis), [1, undefined, 2]);
  assert.deepEqual(alignToAxis(lines[1]!, axis), [3, null, undefined]);
});

test("jobs with equal names are told apart, by step and by time", () => {
  const jobs = [
    compared("aaaaaaaa", { step: [0], elapsed_s: [1.5], "loss.mean": [2] }),
    compared("bbbbbbbb", { step: [0], elapsed_s: [0.5], "loss.mean": [3] }),
  ];
  const { x, names, panels } = overlayPanels(jobs, "time");
  assert.deepEqual(x, [0.5, 1.5]);
  assert.deepEqual(names, ["same aaaaaa", "same bbbbbb"]);
  assert.deepEqual(panels.map((panel) => panel.key), ["loss"]);
  assert.deepEqual(panels[0]?.curves[1]?.mean, [3, undefined]);
});

test("a column without a title of its own is compared, too", () => {
  const jobs = [compared("aaaaaaaa", { step: [0], loss: [1] }), compared("bbbbbbbb", { step: [0], loss: [2], "margin.mean": [0.5] })];
  const { panels } = overlayPanels(jobs, "step");
  assert.deepEqual(panels.map(({ key, curves }) => [key, curves.map(({ mean }) => mean)]), [["loss", [[1], [2]]], ["margin", [[null], [0.5]]]]);
});

test("a non-finite value is found at its place on the common axis", () => {
  const jobs = [
    compared("aaaaaaaa", { step: [0, 1], grad_norm: [1, 2] }),
    compared("bbbbbbbb", { step: [1], grad_norm: ["Infinity"] }),
  ];
  const [norm] = overlayPanels(jobs, "step").panels;
  assert.deepEqual([...norm!.curves[1]!.nonFinite], [[1, Infinity]]);
});

test("the metrics of all jobs have panels after the loss, with one curve for each job", () => {
  const jobs = [
    compared("aaaaaaaa", { step: [0, 2], loss: [3, 2] }, { step: [1], elapsed_s: [1.5], val_loss: [2.5], val_auc: [0.5] }),
    compared("bbbbbbbb", { step: [0, 2], loss: [3, 2] }, { step: [2], elapsed_s: [0.5], val_loss: ["Infinity"] }),
  ];
  const { x, panels } = overlayPanels(jobs, "step");
  assert.deepEqual(x, [0, 1, 2]);
  assert.deepEqual(panels.map(({ key, title }) => [key, title]), [
    ["loss", "Loss"], ["val_loss", "Validation loss"], ["val_auc", "Validation auc"],
  ]);
  const [first, second] = panels[1]!.curves;
  assert.deepEqual([first!.mean, second!.mean], [[undefined, 2.5, undefined], [undefined, undefined, null]]);
  assert.deepEqual([...second!.nonFinite], [[2, Infinity]]);
  assert.deepEqual(panels[2]!.curves[1]!.mean, [undefined, undefined, undefined]);
});
