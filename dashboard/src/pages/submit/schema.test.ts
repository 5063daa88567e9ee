import assert from "node:assert/strict";
import { test } from "node:test";
import { formOf, inOrder, numberFrom, numbersFrom, pointerOf, resolved, valueAt, withoutNull, withValue } from "./schema.ts";

const SCHEMAS = { Units: { type: "integer", description: "How many." } };

test("a change makes a new document and leaves the old one", () => {
  const document = { model: { kind: "cnn", filters: [32] }, data: { kind: "digits" } };
  const changed = withValue(document, ["model", "filters"], [8]);
  assert.deepEqual(valueAt(changed, ["model", "filters"]), [8]);
  assert.deepEqual(document.model.filters, [32]);
  assert.equal(changed.data, document.data);
});

test("what is taken away takes along what it leaves empty", () => {
  const document = { train: { epochs: 3 }, data: { kind: "digits" } };
  assert.deepEqual(withValue(document, ["train", "epochs"], undefined), { data: { kind: "digits" } });
});

test("entries of lists are changed and taken away", () => {
  const document = { overrides: [{ layers: "a" }, { layers: "b" }] };
  assert.deepEqual(withValue(document, ["overrides", 0], undefined), { overrides: [{ layers: "b" }] });
  assert.deepEqual(valueAt(withValue(document, ["overrides", 1, "layers"], "c"), ["overrides", 1, "layers"]), "c");
});

test("what was added last stands where one looks for it", () => {
  const document = inOrder({ model: {}, "x": 1, name: "a" }, ["name", "labels", "model"]);
  assert.deepEqual(Object.entries(document), [["name", "a"], ["model", {}], ["x", 1]]);
});

test("references lead to schemas, and what stands beside them counts", () => {
  const schema = resolved({ $ref: "#/components/schemas/Units", default: 3 }, SCHEMAS);
  assert.deepEqual(schema, { type: "integer", description: "How many.", default: 3 });
  assert.equal(formOf({ type: "array", items: { $ref: "#/x/Units" } }, SCHEMAS), "numbers");
  assert.equal(withoutNull({ anyOf: [{ type: "number" }, { type: "null" }], default: null }).type, "number");
});

test("texts become numbers where they are some", () => {
  assert.equal(numberFrom("1e-3"), 0.001);
  assert.equal(numberFrom("x"), "x");
  assert.equal(numberFrom(" "), undefined);
  assert.deepEqual(numbersFrom("32, 64 x"), [32, 64, "x"]);
  assert.equal(pointerOf(["labels", "a/b", 0]), "/labels/a~1b/0");
});
