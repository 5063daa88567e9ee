import assert from "node:assert/strict";
import { test } from "node:test";
import { subscriptionState, triesText } from "./subscriptions.ts";

const at = "2026-01-01T00:00:00Z";
const enabled = { disabled_at: null, completed_at: null, failing_since: null };

test("what matters most about a notification is its state", () => {
  assert.equal(subscriptionState(enabled), "enabled");
  assert.equal(subscriptionState({ ...enabled, failing_since: at }), "failing");
  assert.equal(subscriptionState({ ...enabled, failing_since: at, completed_at: at }), "completed");
  assert.equal(subscriptionState({ ...enabled, failing_since: at, disabled_at: at }), "disabled");
});

test("tries are counted, and the last one is timed", () => {
  assert.equal(triesText({ attempts: 0, duration_s: null }), "0");
  assert.equal(triesText({ attempts: 2, duration_s: 0.126 }), "2, the last took 126 ms");
});
