import assert from "node:assert/strict";
import { test } from "node:test";
import type { Artifact } from "../api/types.ts";
import { profiledCopy, profilesOf, shortName, shortTime } from "./profile.ts";

const file = (path: string, kind = "profile") => ({ path, kind }) as Artifact;

test("the files of each profile belong together, the newest profile first", () => {
  const first = ["report.json", "profile.xplane.pb"].map((name) => file(`attempt-1/profile/step-2/${name}`));
  const second = [file("attempt-1/profile/step-20/report.json")];
  const found = profilesOf([...first, file("attempt-1/report.json", "report"), ...second]);
  assert.deepEqual(found.map((one) => one.files), [second, first]);
});

test("a profile whose report is not stored yet is left out", () => {
  assert.deepEqual(profilesOf([file("attempt-1/profile/step-2/profile.xplane.pb")]), []);
});

test("a time has the unit in which it is one or more", () => {
  assert.deepEqual([2, 0.0123, 4.5e-6, 2e-9, 0].map(shortTime), ["2 s", "12.3 ms", "4.5 µs", "2 ns", "0 ns"]);
});

test("a name is shown without the scopes of loop and phase", () => {
  assert.equal(shortName("while/body/while/phase.forward/dense/MatMul"), "dense/MatMul");
  assert.equal(shortName("while/body/gradient_tape/while/phase.forward/dense/MatMul"), "grad: dense/MatMul");
});

test("a copy for a profile is short and keeps the rest of the spec", () => {
  const spec = { model: { kind: "mlp" }, labels: { study: "s", team: "a" }, runtime: { priority: 3 }, train: { epochs: 9 } };
  assert.deepEqual(profiledCopy({ name: "digits", spec } as never), {
    model: { kind: "mlp" },
    name: "digits profile",
    labels: { team: "a" },
    runtime: { priority: 3, profile: { start: 10, steps: 10 } },
    train: { epochs: 9, steps: 20 },
  });
});
