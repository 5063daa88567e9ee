// Job specs as YAML, short lists on one line as people write them.
import { dump as write, load } from "js-yaml";
import type { Json, JsonObject } from "../api/types.ts";

export function dump(document: JsonObject): string {
  return Object.keys(document).length === 0 ? "" : write(document, { flowLevel: 2, lineWidth: 96 });
}

/** The document that a text stands for. Throws an Error that says in which line a mistake is. */
export function parse(text: string): JsonObject {
  const document = load(text) as Json | undefined;
  if (document === undefined || document === null) return {};
  if (typeof document !== "object" || Array.isArray(document)) {
    throw new Error("Expected names and values, such as `model: {kind: mlp}`.");
  }
  return document;
}
