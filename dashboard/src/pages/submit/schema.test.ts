import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldKind, sortKeys, parseNumber, parseNumbers, pointerOf, resolveRef, getAt, withoutNull, setAt } from "./schema.ts";

const SCHEMAS = { Units: { type: "integer", description: "How many." } };

test("a change returns a new document and keeps the old one", () => {
  const document = { model: { kind: "cnn", filters: [32] }, data: { kind: "digits" } };
  const changed = setAt(document, ["model", "filters"], [8]);
  assert.deepEqual(getAt(changed, ["model", "filters"]), [8]);
  assert.deepEqual(document.model.filters, [32]);
  assert.equal(changed.data, document.data);
});

test("a removed value removes objects that become empty", () => {
  const document = { train: { epochs: 3 }, data: { kind: "digits" } };
  assert.deepEqual(setAt(document, ["train", "epochs"], undefined), { data: { kind: "digits" } });
});

test("entries of lists are changed and removed", () => {
  const document = { overrides: [{ layers: "a" }, { layers: "b" }] };
  assert.deepEqual(setAt(document, ["overrides", 0], undefined), { overrides: [{ layers: "b" }] });
  assert.deepEqual(getAt(setAt(document, ["overrides", 1, "layers"], "c"), ["overrides", 1, "layers"]), "c");
});

test("keys are in the order of the schema", () => {
  const document = sortKeys({ model: {}, "x": 1, name: "a" }, ["name", "labels", "model"]);
  assert.deepEqual(Object.entries(document), [["name", "a"], ["model", {}], ["x", 1]]);
});

test("references are resolved, and keywords beside them are kept", () => {
  const schema = resolveRef({ $ref: "#/components/schemas/Units", default: 3 }, SCHEMAS);
  assert.deepEqual(schema, { type: "integer", description: "How many.", default: 3 });
  assert.equal(fieldKind({ type: "array", items: { $ref: "#/x/Units" } }, SCHEMAS), "numbers");
  assert.equal(withoutNull({ anyOf: [{ type: "number" }, { type: "null" }], default: null }).type, "number");
});

test("text becomes a number if it is one", () => {
  assert.equal(parseNumber("1e-3"), 0.001);
  assert.equal(parseNumber("x"), "x");
  assert.equal(parseNumber(" "), undefined);
  assert.deepEqual(parseNumbers("32, 64 x"), [32, 64, "x"]);
  assert.equal(pointerOf(["labels", "a/b", 0]), "/labels/a~1b/0");
});
