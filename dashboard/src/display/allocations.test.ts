import assert from "node:assert/strict";
import { test } from "node:test";

import { allocationName } from "./allocations.ts";

test("an allocation has the name of its batch system, and its id there", () => {
  assert.equal(allocationName({ engine: "slurm", external_id: "4711" }), "Slurm job 4711");
  assert.equal(allocationName({ engine: "slurm", external_id: null }), "Slurm job");
});

test("a batch system of a newer server has the name of its engine", () => {
  assert.equal(allocationName({ engine: "pbs" as "slurm", external_id: "7" }), "pbs job 7");
});
