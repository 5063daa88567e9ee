import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "../api/types.ts";
import { etaS } from "./jobs.ts";

const job = (parts: object) =>
  ({ state: "running", step: 100, total_steps: 300, spec: { data: { batch_size: 32 } }, ...parts }) as unknown as Job;

test("one slow block does not put off when a job will be done", () => {
  const [summary, latest] = [{ median_examples_per_s: 640 }, { examples_per_s: 8 }];
  assert.equal(etaS(job({ summary, latest })), 10);
  assert.equal(etaS(job({ summary: null, latest })), 800);
  assert.equal(etaS(job({ summary, latest, state: "paused" })), null);
});
