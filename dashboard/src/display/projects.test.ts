import assert from "node:assert/strict";
import { test } from "node:test";
import type { Project } from "../api/types.ts";
import { usedShare, usesOf } from "./projects.ts";

test("the use of a project is shown as a share of its quotas", () => {
  const project = { artifact_bytes: 5, max_artifact_bytes: 20, dataset_bytes: 7, max_dataset_bytes: null, queued: 3, max_queued: 0 };
  const uses = usesOf(project as unknown as Project);
  assert.deepEqual(uses.map(usedShare), [0.25, null, 1, null, null, null]);
  assert.equal(usedShare({ title: "Artifacts", used: 9, quota: 3 }), 1);
  assert.equal(usesOf(null).length, uses.length);
});
