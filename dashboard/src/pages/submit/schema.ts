// The part of JSON schema that job specs use, and immutable updates of documents.
import type { Json, JsonObject } from "../../api/types.ts";

export interface Schema {
  $ref?: string;
  type?: string;
  title?: string;
  description?: string;
  const?: Json;
  enum?: string[];
  default?: Json;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  additionalProperties?: Schema | boolean;
  discriminator?: { propertyName: string; mapping: Record<string, string> };
}

export type Schemas = Record<string, Schema>;
export type Path = readonly (string | number)[];

/** Resolves a reference; keywords beside the reference override those of its target. */
export function resolveRef(schema: Schema, all: Schemas): Schema {
  if (schema.$ref === undefined) return schema;
  const { $ref, ...beside } = schema;
  return { ...resolveRef(all[$ref.split("/").at(-1)!] ?? {}, all), ...beside };
}

/** The schema of a nullable value, without null. */
export function withoutNull(schema: Schema): Schema {
  const others = schema.anyOf?.filter((one) => one.type !== "null");
  if (others?.length !== 1) return schema;
  const { anyOf: _, ...beside } = schema;
  return { ...others[0]!, ...beside };
}

export type FieldKind = "union" | "object" | "map" | "numbers" | "list" | "choice" | "number" | "flag" | "text";

/** The kind of form field for a schema. */
export function fieldKind(schema: Schema, all: Schemas): FieldKind {
  if (schema.discriminator) return "union";
  if (schema.enum) return "choice";
  if (schema.type === "array") {
    const type = resolveRef(schema.items ?? {}, all).type;
    return type === "integer" || type === "number" ? "numbers" : "list";
  }
  if (schema.type === "object") return schema.properties ? "object" : "map";
  if (schema.type === "integer" || schema.type === "number") return "number";
  return schema.type === "boolean" ? "flag" : "text";
}

export function getAt(document: Json | undefined, path: Path): Json | undefined {
  let value = document;
  for (const key of path) {
    if (value === null || typeof value !== "object") return undefined;
    value = (value as Record<string | number, Json>)[key];
  }
  return value;
}

/** A copy with another value at the path; undefined removes it and objects that become empty. */
export function setAt<T extends Json | undefined>(document: T, path: Path, value: Json | undefined): T {
  const [key, ...rest] = path;
  if (key === undefined) return value as T;
  const isObject = document !== null && typeof document === "object";
  if (Array.isArray(document)) {
    const list = [...document];
    const next = setAt(list[key as number], rest, value);
    if (next === undefined) list.splice(key as number, 1);
    else list[key as number] = next;
    return list as unknown as T;
  }
  const object: JsonObject = isObject ? { ...(document as JsonObject) } : {};
  const next = setAt(object[key], rest, value);
  if (next === undefined || (rest.length > 0 && isEmpty(next))) delete object[key];
  else object[key] = next;
  return object as unknown as T;
}

/** A copy with its keys in the order of the schema; unknown keys come last. */
export function sortKeys(document: JsonObject, names: readonly string[]): JsonObject {
  const placed = [...names.filter((name) => name in document), ...Object.keys(document)];
  return Object.fromEntries(placed.map((name) => [name, document[name]!]));
}

/** The path as a JSON pointer (RFC 6901). */
export function pointerOf(path: Path): string {
  return path.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/** "learning_rate" as "Learning rate". */
export function fieldLabel(name: string): string {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The number in a text; other text stays text, so that the server reports it. */
export function parseNumber(text: string): Json | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  const value = Number(trimmed);
  return Number.isFinite(value) ? value : trimmed;
}

/** "32, 64" as [32, 64]. */
export function parseNumbers(text: string): Json | undefined {
  const parts = text.split(/[\s,]+/).filter((part) => part !== "");
  return parts.length === 0 ? undefined : parts.map((part) => parseNumber(part)!);
}

function isEmpty(value: Json): boolean {
  return value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 0;
}
