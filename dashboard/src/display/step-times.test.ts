import assert from "node:assert/strict";
import { test } from "node:test";
import type { Event } from "../api/types.ts";
import { intervalsOf, totals } from "./step-times.ts";

const event = (first_step: number, steps: number, times: object) =>
  ({
    type: "step_times",
    data: { first_step, steps, compute_s: 0, input_s: 0, diagnostics_s: 0, evaluation_s: 0, checkpoint_s: 0, telemetry_s: 0, other_s: 0, ...times },
  }) as unknown as Event;

test("the shares of an interval add up to its time", () => {
  const [interval] = intervalsOf([event(0, 10, { compute_s: 3, evaluation_s: 1 })]);
  assert.deepEqual([interval?.from, interval?.to, interval?.wallS], [0, 10, 4]);
  assert.deepEqual([interval?.shares.compute, interval?.shares.evaluation, interval?.shares.other], [0.75, 0.25, 0]);
});

test("steps that a later attempt has repeated count once", () => {
  const intervals = intervalsOf([event(0, 10, { compute_s: 1 }), event(10, 10, { compute_s: 1 }), event(10, 20, { compute_s: 3 })]);
  assert.deepEqual(intervals.map(({ from, to }) => [from, to]), [[0, 10], [10, 30]]);
  assert.equal(totals(intervals)[0]?.[1], 4);
});

test("the last evaluation, without further steps, is in the totals", () => {
  const intervals = intervalsOf([event(0, 10, { compute_s: 1 }), event(10, 0, { evaluation_s: 2 })]);
  assert.deepEqual(totals(intervals).slice(0, 4), [["compute", 1], ["input", 0], ["diagnostics", 0], ["evaluation", 2]]);
});

test("an event with other data is left out", () => {
  assert.deepEqual(intervalsOf([event(0, 10, { compute_s: "NaN" }), event(0, 5, {})]), []);
});
