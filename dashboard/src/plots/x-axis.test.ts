import assert from "node:assert/strict";
import { test } from "node:test";
import type { Evaluation } from "../api/types.ts";
import { xKinds, xLabel, xMap } from "./x-axis.ts";

const evaluations = [{ epoch: 0, step: 9 }, { epoch: 1, step: 19 }, { epoch: null, step: 25 }] as Evaluation[];

test("the axes are those that the data have", () => {
  const data = { step: [0, 1], step_time_s: [0.5, 0.5], examples: [null, null] };
  assert.deepEqual(xKinds(data, evaluations).map(([kind]) => kind), ["step", "epoch", "time"]);
  assert.deepEqual(xKinds({ step: [0, 1] }, []).map(([kind]) => kind), ["step"]);
  assert.equal(xMap("examples", data, evaluations), null);
});

test("steps are mapped to time and examples by the sums before them, and back", () => {
  const time = xMap("time", { step: [0, 1, 2], step_time_s: [1, "NaN", 4] }, [])!;
  assert.deepEqual([0, 1, 2, 3].map(time.toX), [0, 1, 1, 5]);
  assert.deepEqual([0.5, 3].map(time.toStep), [0.5, 2.5]);
  const examples = xMap("examples", { step: [0, 10], count: [10, 5], "examples.mean": [32, 64] }, [])!;
  assert.deepEqual([0, 5, 10, 15].map(examples.toX), [0, 160, 320, 640]);
});

test("a tracked run has the time that its program reported, and epochs go on beyond the last evaluation", () => {
  const time = xMap("time", { step: [0, 10, 20], elapsed_s: [3, 5, 4] }, [])!;
  assert.equal(time.toX(5), 4);
  const epochs = xMap("epoch", {}, evaluations)!;
  assert.deepEqual([0, 10, 25].map(epochs.toX), [0, 1, 2.5]);
  assert.deepEqual([xLabel("epoch", 2.5), xLabel("time", 65), xLabel("examples", 64_000), xLabel("step", 0.5)], ["2.5", "1 min 05 s", "64K", ""]);
});
