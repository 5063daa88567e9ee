// How the file of a dataset is read, and its splits, in a few words.

import type { Json } from "../api/types.ts";
import { integer } from "./format.ts";
import { cellText } from "./preview.ts";

const USUAL: Record<string, Json> = { encoding: "utf-8", quote: '"', missing: "error", channels: 3, resample: "bilinear" };

/** The options that say something, as in `delimiter ";", header true`; empty if all are the usual ones. */
export function optionsText(options: Readonly<Record<string, Json>> | null | undefined): string {
  return Object.entries(options ?? {})
    .filter(([name, value]) => name !== "kind" && USUAL[name] !== value && saysSomething(value))
    .map(([name, value]) => `${name} ${JSON.stringify(value)}`)
    .join(", ");
}

/** The rows of each split, as in `train 120, test 30`. */
export function splitsText(splits: Readonly<Record<string, number>> | null | undefined): string {
  return Object.entries(splits ?? {})
    .map(([name, rows]) => `${name} ${integer(rows)}`)
    .join(", ");
}

/** How many values of a column differ, of the first rows. */
export function distinctText(statistics: Json | undefined): string {
  if (typeof statistics !== "object" || statistics === null || Array.isArray(statistics)) return "";
  const { distinct } = statistics;
  return distinct === null ? "over 1,000" : cellText(distinct);
}

function saysSomething(value: Json): boolean {
  if (value === null || value === false || value === "" || value === 0) return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}
