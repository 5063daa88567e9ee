import assert from "node:assert/strict";
import { test } from "node:test";
import { optionTexts, packageOf, packagesText, runsCustomCode, sandboxText } from "./custom-code.ts";

const part = (name: string) => ({ kind: "package", package: "custom-package", name, options: {} });

test("a job names what it takes of a package", () => {
  const spec = { model: part("towers"), data: { kind: "digits" }, task: { kind: "regression", loss: part("quantile") } };
  assert.deepEqual(packageOf({ spec } as never), { name: "custom-package", parts: ["model towers", "loss quantile"] });
  const outputs = { kind: "outputs", outputs: { a: { task: { kind: "regression", loss: part("quantile") } } } };
  assert.deepEqual(packageOf({ spec: { data: part("discs"), task: outputs } } as never)?.parts, ["dataset discs", "loss of a quantile"]);
  const two = { task: { kind: "regression", metrics: ["mae", part("within")] }, optimizer: part("signum"), optimizers: { a: part("signum") } };
  assert.deepEqual(packageOf({ spec: two } as never)?.parts, ["metric within", "optimizer signum", "optimizer of a signum"]);
  for (const other of [null, {}, { model: { kind: "mlp" } }]) assert.equal(packageOf({ spec: other } as never), null);
});

test("a bundle is code of the user", () => {
  assert.equal(runsCustomCode({ spec: { model: { kind: "bundle" } } } as never), true);
  assert.equal(runsCustomCode({ spec: { model: part("towers") } } as never), false);
});

test("a sandbox has its limits, and a worker without one has none", () => {
  const sandbox = { kind: "bubblewrap", memory_bytes: 2 ** 33, processes: 512, disk_bytes: 2 ** 30 };
  assert.equal(sandboxText({ sandbox }), "bubblewrap, at most 8 GiB of memory, 512 processes and threads, 1 GiB of files");
  assert.equal(sandboxText({ sandbox: { kind: "landlock" } }), "landlock");
  for (const other of [null, {}, { sandbox: { kind: null } }]) assert.equal(sandboxText(other), null);
});

test("each package of a worker is named once", () => {
  const packages = [{ package: "b", version: "1.0", name: "x" }, { package: "b", version: "1.0", name: "y" }, { package: "c" }];
  assert.equal(packagesText({ packages }), "b 1.0, c");
  assert.equal(packagesText(null), "");
});

test("options have their types, choices and defaults", () => {
  const properties = { units: { type: "integer" }, mode: { type: "string", enum: ["a", "b"], default: "a" }, any: {} };
  assert.deepEqual(optionTexts({ properties, required: ["units"] }), ["units (integer, required)", 'mode (string, a or b, default "a")', "any"]);
  assert.deepEqual(optionTexts(undefined), []);
});
