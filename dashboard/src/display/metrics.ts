// The names and values of metrics as texts.
import type { Numeric } from "../api/types.ts";
import { number, percent } from "./format.ts";

export const VALIDATION_LOSS = "val_loss";
const PREFIX = /^val_/;

/** Whether this is the name of a metric. */
export function isMetric(name: string): boolean {
  return PREFIX.test(name);
}

/** A metric as a title: `val_top-5` is "Validation top-5". */
export function metricTitle(metric: string): string {
  return metric.replace(PREFIX, "Validation ").replaceAll("_", " ");
}

/** The value of a metric: an accuracy as a percentage. */
export function metricValue(name: string, value: Numeric | null | undefined): string {
  const isShare = name.includes("accuracy") && typeof value === "number" && value >= 0 && value <= 1;
  return isShare ? percent(value) : number(value);
}
