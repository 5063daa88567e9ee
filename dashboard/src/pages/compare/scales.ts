// The places of the values of a column on an axis from 0 to 1.
import { choiceScale, numberScale, type Scale } from "../../display/parallel-coordinates.ts";
import type { ComparedColumn } from "./columns.ts";

/** From this ratio of the largest to the smallest value an axis is logarithmic. */
const LOGARITHMIC_RATIO = 20;

/** A scale for the finite numbers of a column, or for its texts where they are no numbers. */
export function scaleOf({ title, values, texts, isNumeric }: ComparedColumn): Scale {
  if (!isNumeric) return choiceScale(title, texts);
  const finite = values.filter((value) => typeof value === "number" && Number.isFinite(value)) as number[];
  const low = Math.min(...finite);
  return numberScale(title, finite, low > 0 && Math.max(...finite) / low >= LOGARITHMIC_RATIO);
}

/** The place of a job's value; null if it has none. */
export function placeOf(column: ComparedColumn, scale: Scale, job: number): number | null {
  const value = column.values[job];
  if (!column.isNumeric) return scale.place(column.texts[job]);
  return typeof value === "number" && Number.isFinite(value) ? scale.place(value) : null;
}

/** From 0, the worst of the jobs, to 1, the best; null without a value. */
export function qualityOf(column: ComparedColumn, higherIsBetter: boolean, job: number): number | null {
  const place = placeOf(column, scaleOf(column), job);
  return place === null ? null : higherIsBetter ? place : 1 - place;
}
