// What the API tells of steps, as curves to draw: a mean, and where a point holds several steps a
// band from the least to the greatest value.
import type { Numeric } from "../api/types.ts";

export type Values = (number | null)[];
export type Columns = Record<string, readonly (boolean | Numeric)[] | undefined>;

export interface Curve {
  name: string;
  mean: Values;
  low: Values | null;
  high: Values | null;
}

export interface Panel {
  key: string;
  title: string;
  isLog2: boolean;
  curves: Curve[];
}

export const SPEED = "examples_per_s";
export const PANELS = [
  ["loss", "Loss"],
  ["loss_scale", "Loss scale"],
  [SPEED, "Examples/s"],
  ["grad_norm", "Gradient norm"],
  ["learning_rate", "Learning rate"],
] as const;

/** The panels of a job's plots; one for each quantity that it told of. */
export function panelsOf(data: Columns): Panel[] {
  return PANELS.map(([key, title]) => ({
    key,
    title,
    isLog2: key === "loss_scale",
    curves: key === SPEED ? speedOf(data) : curvesOf(data, key),
  })).filter((panel) => panel.curves.some((curve) => curve.mean.some((value) => value !== null)));
}

/** A column, and those of its networks: `loss`, `loss/generator`, … */
export function curvesOf(data: Columns, column: string): Curve[] {
  return namesOf(data)
    .filter((name) => name === column || name.startsWith(`${column}/`))
    .map((name) => ({ name: name === column ? column : name.slice(column.length + 1), ...bandOf(data, name) }));
}

/** Examples per second, out of how many there were and how long they took. */
export function speedOf(data: Columns): Curve[] {
  const examples = bandOf(data, "examples").mean;
  const time = bandOf(data, "step_time_s");
  const per = (times: Values | null) =>
    times && times.map((time, index) => quotient(examples[index] ?? null, time));
  const mean = per(time.mean) ?? [];
  if (mean.length === 0) return [];
  return [{ name: SPEED, mean, low: per(time.high), high: per(time.low) }];
}

/** Finite numbers; where there is none the line has a gap. */
export function valuesOf(column: readonly (boolean | Numeric)[] | undefined): Values {
  return (column ?? []).map((value) => (typeof value === "number" && Number.isFinite(value) ? value : null));
}

/** The names of columns, without what buckets put behind them. */
function namesOf(data: Columns): string[] {
  return [...new Set(Object.keys(data).map((name) => name.replace(/\.(min|max|first|last|mean)$/, "")))];
}

function bandOf(data: Columns, name: string): Omit<Curve, "name"> {
  if (data[`${name}.mean`] === undefined) return { mean: valuesOf(data[name]), low: null, high: null };
  const [low, high] = [valuesOf(data[`${name}.min`]), valuesOf(data[`${name}.max`])];
  return { mean: valuesOf(data[`${name}.mean`]), low, high };
}

function quotient(examples: number | null, time: number | null): number | null {
  return examples === null || time === null || time <= 0 ? null : examples / time;
}
