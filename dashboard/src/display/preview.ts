// The columns and first rows of a dataset, as text for tables.
import type { Json, JsonObject } from "../api/types.ts";

const MAX_CELL = 80;
const MAX_COLUMNS = 50;
const PNG = /^[A-Za-z0-9+/]+={0,2}$/;

export interface PreviewTable {
  names: string[];
  rows: string[][];
}

/** Rows are objects by column name, or lists in the order of the columns. */
export function previewTable(rows: readonly Json[], columns: readonly JsonObject[]): PreviewTable {
  const objects = rows.filter(isObject);
  if (objects.length === rows.length) {
    const names = [...new Set(objects.flatMap((row) => Object.keys(row)))].slice(0, MAX_COLUMNS);
    return { names, rows: objects.map((row) => names.map((name) => cellText(row[name]))) };
  }
  const lists = rows.map((row) => (Array.isArray(row) ? row : [row]).slice(0, MAX_COLUMNS));
  const width = Math.max(0, ...lists.map((row) => row.length));
  const names = Array.from({ length: width }, (_, index) => String(columns[index]?.["name"] ?? index));
  return { names, rows: lists.map((row) => names.map((_, index) => cellText(row[index]))) };
}

/** A value as short text; nothing for an absent one. */
export function cellText(value: Json | undefined): string {
  if (value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length <= MAX_CELL ? text : `${text.slice(0, MAX_CELL - 1)}…`;
}

/** The data URLs of pictures, which are PNG files in base64 with an optional caption. */
export function pictureUrls(pictures: readonly Json[]): { url: string; caption: string }[] {
  return pictures.flatMap((picture) => {
    const data = isObject(picture) ? picture["png"] ?? picture["data"] : picture;
    if (typeof data !== "string") return [];
    const base64 = data.replace(/^data:image\/png;base64,/, "");
    if (!PNG.test(base64)) return [];
    const caption = isObject(picture) ? cellText(picture["caption"] ?? picture["label"]) : "";
    return [{ url: `data:image/png;base64,${base64}`, caption }];
  });
}

function isObject(value: Json): value is JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
