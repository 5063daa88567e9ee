// Job specs as YAML, with short lists on one line.
import { dump as write, load } from "js-yaml";
import type { Json, JsonObject } from "../api/types.ts";

export function dump(document: JsonObject): string {
  return Object.keys(document).length === 0 ? "" : write(document, { flowLevel: 2, lineWidth: 96 });
}

/** Parse a spec. Throws an Error that names the line of a syntax error. */
export function parse(text: string): JsonObject {
  const document = load(text) as Json | undefined;
  if (document === undefined || document === null) return {};
  if (typeof document !== "object" || Array.isArray(document)) {
    throw new Error("Expected a mapping, such as `model: {kind: mlp}`.");
  }
  return document;
}
