import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job, Steps, StepsEvent } from "../api/types.ts";
import { jobAfterSteps, jobOfResponse, MAX_LIVE_POINTS, stepsOfResponse, withNewSteps } from "./live-steps.ts";

const ATTEMPT = { attempt: 1, start: 0, end: 2 };

function steps(data: object, more: object = {}): Steps {
  return { data, steps_per_point: 1, skipped_steps: { total: 0, steps: [] }, attempts: [ATTEMPT], next: 1, more: false, ...more } as unknown as Steps;
}

function event(first: number, losses: (number | string)[], skipped: boolean[] = [], attempt = 1): StepsEvent {
  const data = { step: losses.map((_, row) => first + row), loss: losses, skipped: losses.map((_, row) => skipped[row] ?? false) };
  return { seq: 9, attempt, first_step: first, data } as unknown as StepsEvent;
}

const RAW = { step: [0, 1], loss: [5, 4], skipped: [false, false] };
const SAMPLE = {
  step: [0], count: [2], skipped: [0],
  "loss.min": [4], "loss.max": [6], "loss.first": [6], "loss.last": [4], "loss.mean": [5],
};

test("new steps are appended, and those that are loaded already are not", () => {
  const joined = withNewSteps(steps(RAW), event(1, [4, 3, 2], [false, true]))!;
  assert.deepEqual(joined.data, { step: [0, 1, 2, 3], loss: [5, 4, 3, 2], skipped: [false, false, true, false] });
  assert.equal(joined.attempts[0]!.end, 4);
  assert.deepEqual(RAW.step, [0, 1]);
  assert.deepEqual(withNewSteps(steps(RAW), event(0, [5, 4])), steps(RAW));
});

test("skipped steps get a marker each", () => {
  const joined = withNewSteps(steps(RAW), event(2, [3, 2], [false, true]))!;
  assert.deepEqual(joined.skipped_steps, { total: 1, steps: [3] });
  const many = withNewSteps(steps(RAW, { skipped_steps: { total: 5, steps: [0] } }), event(2, [3, 2], [true, true]))!;
  assert.deepEqual(many.skipped_steps, { total: 7, steps: [0] });
});

test("steps join the last point of a sample until it is as wide as the others", () => {
  const sample = steps(SAMPLE, { steps_per_point: 4 });
  const joined = withNewSteps(sample, event(2, [8, 3, 1]))!;
  assert.deepEqual(joined.data, {
    step: [0, 4], count: [4, 1], skipped: [0, 0],
    "loss.min": [3, 1], "loss.max": [8, 1], "loss.first": [6, 1], "loss.last": [3, 1], "loss.mean": [5.25, 1],
  });
});

test("a skipped step and a value that is no number are points of their own", () => {
  const sample = steps(SAMPLE, { steps_per_point: 100 });
  const joined = withNewSteps(sample, event(2, [4, "NaN", 3, 2], [true]))!;
  assert.deepEqual(joined.data["step"], [0, 2, 3, 4]);
  assert.deepEqual(joined.data["count"], [2, 1, 1, 2]);
  assert.deepEqual(joined.data["skipped"], [0, 1, 0, 0]);
  assert.deepEqual(joined.data["loss.mean"], [5, 4, "NaN", 2.5]);
});

test("what does not fit is loaded again", () => {
  assert.equal(withNewSteps(steps(RAW), event(3, [1])), null, "a gap");
  assert.equal(withNewSteps(steps(RAW), event(2, [1], [], 2)), null, "another attempt");
  assert.equal(withNewSteps(steps(RAW, { attempts: [] }), event(2, [1])), null, "no steps yet");
  const long = Array.from({ length: MAX_LIVE_POINTS }, () => 1);
  assert.equal(withNewSteps(steps(RAW), event(2, long)), null, "too many points");
});

test("a job follows its steps", () => {
  const latest = { loss: 5, loss_scale: 8, grad_norm: null, learning_rate: 0.1, examples_per_s: 9, skipped: 2 };
  const job = { attempt: 1, step: 2, total_steps: 8, progress: 0.25, latest } as unknown as Job;
  const after = jobAfterSteps(job, event(1, [4, 3, 2], [true, true]));
  assert.deepEqual([after.step, after.progress], [4, 0.5]);
  assert.deepEqual(after.latest, { ...latest, loss: 2, skipped: 3 });
  assert.equal(jobAfterSteps(job, event(0, [4, 3])), job);
  assert.equal(jobAfterSteps(job, event(2, [4], [], 2)), job);
});

test("a response that was written before the newest steps does not take them away", () => {
  const known = withNewSteps(steps(RAW), event(2, [3]))!;
  assert.equal(stepsOfResponse(known, steps(RAW)), known);
  const next = steps(RAW, { attempts: [{ attempt: 2, start: 0, end: 1 }] });
  assert.equal(stepsOfResponse(known, next), next, "another attempt");
  const job = (step: number, more: object = {}) => ({ attempt: 1, step, progress: step / 10, state: "running", latest: { loss: step }, ...more }) as unknown as Job;
  assert.deepEqual(jobOfResponse(job(3), job(2, { state: "paused" })), job(3, { state: "paused" }));
  assert.deepEqual(jobOfResponse(job(3), job(4)), job(4));
  assert.deepEqual(jobOfResponse(job(3), job(0, { attempt: 2 })), job(0, { attempt: 2 }));
});
