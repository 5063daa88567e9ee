import assert from "node:assert/strict";
import { test } from "node:test";
import type { Estimate, Job } from "../api/types.ts";
import { estimateText, studyOutcome, studyRequest } from "./studies.ts";

test("a study of a job that belongs to a study has the labels of the user only", () => {
  const spec = { model: {}, labels: { team: "vision", study: "a", study_job: "b" } } as unknown as Job["spec"];
  assert.deepEqual(studyRequest({ name: "n", spec }, "precision"), { kind: "precision", name: "n", spec: { model: {}, labels: { team: "vision" } } });
});

test("bisecting examines the policy of the job if it computes in 16 bit", () => {
  const request = (policy: string) => studyRequest({ name: "n", spec: { precision: { policy } } as unknown as Job["spec"] }, "bisect");
  assert.deepEqual(request("mixed_bfloat16").options, { policy: "mixed_bfloat16" });
  assert.equal(request("float32").options, undefined);
});

test("the cost names jobs, policies, steps and time as far as they are known", () => {
  const estimate: Estimate = { jobs: 9, steps: 4500, train_s: 90, more_jobs_possible: false, policies: ["mixed_float16"], planned: [] };
  assert.equal(estimateText(estimate), "9 jobs (float32, mixed_float16), 4,500 steps. They train for about 1 min 30 s.");
  assert.equal(estimateText({ ...estimate, steps: null, train_s: null }), "9 jobs (float32, mixed_float16). How long they train is not known.");
  const capacity = { ...estimate, more_jobs_possible: true, policies: ["float32", "mixed_float16"], steps: null };
  assert.equal(estimateText(capacity), "At least 9 jobs (float32, mixed_float16). They train for about 1 min 30 s.");
});

test("the outcome of a study is its answer, and before that the states of its jobs", () => {
  assert.equal(studyOutcome({ summary: null, states: { succeeded: 2, queued: 1200 } }), "2 succeeded, 1,200 queued");
  assert.equal(studyOutcome({ summary: "Use bfloat16.", states: { succeeded: 3 } }), "Use bfloat16.");
});
