import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "../api/types.ts";
import { actionsOf, activityText, allowedActions, canExtend, etaS, hasEnded, offersOf, policyText, scaleMode, unreadable } from "./jobs.ts";

const job = (parts: object) =>
  ({ state: "running", step: 100, total_steps: 300, examples_per_step: 32, ...parts }) as unknown as Job;

test("one slow block does not change the estimated time left", () => {
  const [summary, latest] = [{ median_examples_per_s: 640 }, { examples_per_s: 8 }];
  assert.equal(etaS(job({ summary, latest })), 10);
  assert.equal(etaS(job({ summary: null, latest })), 800);
  assert.equal(etaS(job({ summary, latest, state: "paused" })), null);
});

test("an activity is shown unless the state says it", () => {
  assert.equal(activityText(job({ activity: "evaluating" })), "evaluating");
  assert.equal(activityText(job({ activity: "training" })), null);
  assert.equal(activityText(job({ state: "starting", activity: "starting" })), null);
  assert.equal(activityText(job({})), null);
});

test("a state that only a newer server knows allows no action", () => {
  assert.deepEqual(allowedActions("archived"), []);
  assert.equal(hasEnded("archived"), false);
  assert.equal(etaS(job({ state: "archived" })), null);
});

test("what fits the state of a job comes first, and the rest is in the menu", () => {
  const spec = { train: { checkpoint_every_s: 30 } };
  const succeeded = offersOf(job({ state: "succeeded", spec }), true);
  assert.deepEqual(succeeded, { first: ["extend", "compare"], more: ["resubmit", "precision", "bisect", "capacity", "delete"] });
  assert.deepEqual(offersOf(job({ state: "failed", spec }), true).first, ["resubmit"]);
  assert.deepEqual(offersOf(job({ spec }), true).first, ["notify"]);
  assert.ok(!offersOf(job({ spec }), true).more.includes("delete"));
  assert.deepEqual(offersOf(job({ state: "failed", spec, source: "tracked" }), true), { first: [], more: ["compare", "delete"] });
  assert.deepEqual(offersOf(job({ state: "archived", spec }), false), { first: ["compare"], more: [] });
});

test("a job with a damaged row names the unreadable fields", () => {
  assert.equal(unreadable(job({})), null);
  const damaged = job({ spec: {}, labels: {}, unreadable: ["labels", "spec"] });
  assert.equal(unreadable(damaged), "Unreadable: labels, spec");
  assert.equal(scaleMode(damaged), "none");
  assert.equal(etaS(damaged), null);
});

test("the policy that auto chose is shown beside it", () => {
  assert.equal(policyText(job({ policy: "auto", resolved_policy: null })), "auto");
  assert.equal(policyText(job({ policy: "auto", resolved_policy: "mixed_bfloat16" })), "auto (mixed_bfloat16)");
  assert.equal(policyText(job({ policy: "float32", resolved_policy: "float32" })), "float32");
  const summary = { policy: "float32" };
  assert.equal(policyText(job({ policy: "auto", resolved_policy: "mixed_float16", summary })), "auto (float32)");
});

test("a job that has succeeded can be extended, unless it saves no checkpoints", () => {
  const spec = { train: { checkpoint_every_s: 60 } };
  assert.equal(canExtend(job({ state: "succeeded", spec })), true);
  assert.equal(canExtend(job({ state: "succeeded", spec: { train: { checkpoint_every_s: null } } })), false);
  assert.equal(canExtend(job({ state: "failed", spec })), false);
});

test("a tracked run can only be asked to stop, because no worker runs it", () => {
  assert.deepEqual(actionsOf(job({ source: "tracked" })), ["cancel"]);
  assert.deepEqual(actionsOf(job({ source: "tracked", state: "failed" })), []);
  assert.deepEqual(actionsOf(job({ source: "submitted" })), ["pause", "cancel"]);
  assert.equal(scaleMode(job({ source: "tracked", loss_scale_mode: null })), "–");
});
