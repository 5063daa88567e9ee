// The x axes of a job's plots: a map from steps to epochs, to training time or to examples, and back.
import type { Evaluation } from "../api/types.ts";
import { duration, number, compact, stepLabel } from "../display/format.ts";
import { finiteValues, type Columns } from "./curves.ts";
import type { XKind } from "./settings/settings.ts";

/** Grows with the steps; between and beyond its points it is a straight line. */
export interface XMap {
  toX(step: number): number;
  toStep(x: number): number;
}

export const STEPS: XMap = { toX: (step) => step, toStep: (step) => step };
const TITLES: Record<XKind, string> = { step: "Step", epoch: "Epoch", time: "Training time", examples: "Examples" };

/** The axes that the data of a job allow, with their titles. */
export function xKinds(data: Columns, evaluations: readonly Evaluation[]): (readonly [XKind, string])[] {
  return (Object.entries(TITLES) as [XKind, string][]).filter(([kind]) => xMap(kind, data, evaluations) !== null);
}

/** The map to an axis; null if the data do not have it. */
export function xMap(kind: XKind, data: Columns, evaluations: readonly Evaluation[]): XMap | null {
  if (kind === "step") return STEPS;
  if (kind === "epoch") return epochMap(evaluations);
  return kind === "time" ? (sumMap(data, "step_time_s") ?? columnMap(data, "elapsed_s")) : sumMap(data, "examples");
}

/** A label of the axis; a step between two steps has none. */
export function xLabel(kind: XKind, value: number): string {
  if (kind === "step") return stepLabel(value);
  if (kind === "time") return value === 0 ? "0 s" : duration(value);
  return kind === "epoch" ? number(value, 3) : compact(value);
}

/** Epochs have equally many steps: the last evaluation says how many. */
function epochMap(evaluations: readonly Evaluation[]): XMap | null {
  const last = evaluations.findLast(({ epoch }) => epoch !== null);
  return last ? interpolated([0, last.step + 1], [0, last.epoch! + 1]) : null;
}

/** The sum of a column of all steps before a step. */
function sumMap(data: Columns, column: string): XMap | null {
  const [steps, counts] = [finiteValues(data["step"]), finiteValues(data["count"])];
  const values = finiteValues(data[`${column}.mean`] ?? data[column]);
  if (!values.some((value) => (value ?? 0) > 0)) return null;
  const [at, sums] = [[] as number[], [] as number[]];
  let sum = 0;
  for (const [index, step] of steps.entries()) {
    at.push(step!);
    sums.push(sum);
    sum += (counts[index] ?? 1) * Math.max(0, values[index] ?? 0);
  }
  return interpolated([...at, (at.at(-1) ?? 0) + (counts.at(-1) ?? 1)], [...sums, sum]);
}

/** A column that itself grows with the steps. */
function columnMap(data: Columns, column: string): XMap | null {
  const steps = finiteValues(data["step"]);
  const values = finiteValues(data[`${column}.mean`] ?? data[column]);
  let high = -Infinity;
  const points = steps.flatMap((step, index) => {
    const value = values[index];
    if (step == null || value == null || value < high) return [];
    high = value;
    return [[step, value] as const];
  });
  return points.length < 2 ? null : interpolated(points.map(([step]) => step), points.map(([, value]) => value));
}

function interpolated(steps: readonly number[], xs: readonly number[]): XMap {
  return { toX: (step) => interpolate(step, steps, xs), toStep: (x) => interpolate(x, xs, steps) };
}

function interpolate(at: number, from: readonly number[], to: readonly number[]): number {
  let [low, high] = [0, from.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (from[middle]! <= at) low = middle;
    else high = middle;
  }
  const width = from[high]! - from[low]!;
  return width === 0 ? to[low]! : to[low]! + ((at - from[low]!) / width) * (to[high]! - to[low]!);
}
