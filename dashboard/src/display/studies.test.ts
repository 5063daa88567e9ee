import assert from "node:assert/strict";
import { test } from "node:test";
import type { Estimate, Job } from "../api/types.ts";
import { estimateText, studyRequest } from "./studies.ts";

test("a study of a job that belongs to a study has the labels of the user only", () => {
  const spec = { model: {}, labels: { team: "vision", study: "a", study_job: "b" } } as unknown as Job["spec"];
  assert.deepEqual(studyRequest({ name: "n", spec }), { kind: "precision", name: "n", spec: { model: {}, labels: { team: "vision" } } });
});

test("the cost names jobs, policies, steps and time as far as they are known", () => {
  const estimate: Estimate = { jobs: 9, steps: 4500, train_s: 90, more_jobs_possible: false, policies: ["mixed_float16"], planned: [] };
  assert.equal(estimateText(estimate), "9 jobs (float32, mixed_float16), 4,500 steps. They train for about 1 min 30 s.");
  assert.equal(estimateText({ ...estimate, steps: null, train_s: null }), "9 jobs (float32, mixed_float16). How long they train is not known.");
});
