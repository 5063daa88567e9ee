// JSON schema as far as job specs use it, and documents that are changed by making new ones.
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

/** The schema itself where it is a reference; what is said beside the reference counts. */
export function resolved(schema: Schema, all: Schemas): Schema {
  if (schema.$ref === undefined) return schema;
  const { $ref, ...beside } = schema;
  return { ...resolved(all[$ref.split("/").at(-1)!] ?? {}, all), ...beside };
}

/** The schema of a value that may also be null, without the null. */
export function withoutNull(schema: Schema): Schema {
  const others = schema.anyOf?.filter((one) => one.type !== "null");
  if (others?.length !== 1) return schema;
  const { anyOf: _, ...beside } = schema;
  return { ...others[0]!, ...beside };
}

export type Form = "union" | "object" | "map" | "numbers" | "list" | "choice" | "number" | "flag" | "text";

/** What kind of field a schema is edited in. */
export function formOf(schema: Schema, all: Schemas): Form {
  if (schema.discriminator) return "union";
  if (schema.enum) return "choice";
  if (schema.type === "array") {
    const type = resolved(schema.items ?? {}, all).type;
    return type === "integer" || type === "number" ? "numbers" : "list";
  }
  if (schema.type === "object") return schema.properties ? "object" : "map";
  if (schema.type === "integer" || schema.type === "number") return "number";
  return schema.type === "boolean" ? "flag" : "text";
}

export function valueAt(document: Json | undefined, path: Path): Json | undefined {
  let value = document;
  for (const key of path) {
    if (value === null || typeof value !== "object") return undefined;
    value = (value as Record<string | number, Json>)[key];
  }
  return value;
}

/** The document with another value at the path; undefined takes it away, and what it leaves empty. */
export function withValue<T extends Json | undefined>(document: T, path: Path, value: Json | undefined): T {
  const [key, ...rest] = path;
  if (key === undefined) return value as T;
  const isObject = document !== null && typeof document === "object";
  if (Array.isArray(document)) {
    const list = [...document];
    const next = withValue(list[key as number], rest, value);
    if (next === undefined) list.splice(key as number, 1);
    else list[key as number] = next;
    return list as unknown as T;
  }
  const object: JsonObject = isObject ? { ...(document as JsonObject) } : {};
  const next = withValue(object[key], rest, value);
  if (next === undefined || (rest.length > 0 && isEmpty(next))) delete object[key];
  else object[key] = next;
  return object as unknown as T;
}

/** The same document with its names in the schema's order; others come behind. */
export function inOrder(document: JsonObject, names: readonly string[]): JsonObject {
  const placed = [...names.filter((name) => name in document), ...Object.keys(document)];
  return Object.fromEntries(placed.map((name) => [name, document[name]!]));
}

/** RFC 6901. */
export function pointerOf(path: Path): string {
  return path.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/** learning_rate: Learning rate */
export function wordsOf(name: string): string {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** What a text field for numbers means; what is none stays a text, for the server to name it. */
export function numberFrom(text: string): Json | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  const value = Number(trimmed);
  return Number.isFinite(value) ? value : trimmed;
}

/** "32, 64": [32, 64] */
export function numbersFrom(text: string): Json | undefined {
  const parts = text.split(/[\s,]+/).filter((part) => part !== "");
  return parts.length === 0 ? undefined : parts.map((part) => numberFrom(part)!);
}

function isEmpty(value: Json): boolean {
  return value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 0;
}
