// The report of an evaluation (docs/reference/evaluation.md), and what its page shows of it.
import type { Artifact, Numeric } from "../api/types.ts";
import { MISSING, number, percent } from "./format.ts";

export type Point = [x: number, y: number];

export interface ClassFigures {
  class: number;
  examples: number;
  predicted: number;
  precision: number | null;
  recall: number | null;
  f1: number | null;
}

export interface BinaryCurves {
  class: number;
  auc: number;
  average_precision: number;
  roc: Point[];
  precision_recall: Point[];
}

export interface NumberFigures {
  mean_error: Numeric;
  mae: Numeric;
  rmse: Numeric;
  r2: Numeric | null;
  largest_error: Numeric;
  histogram: { edges: number[]; counts: number[] };
  points: Point[];
}

export interface OutputReport {
  kind: "class" | "labels" | "numbers" | "input";
  names: string[] | null;
  accuracy?: number;
  confusion?: number[][];
  confusions?: [number, number, number][];
  classes?: ClassFigures[];
  curves?: BinaryCurves[];
  calibration?: { expected_error: number; bins: { examples: number; confidence: number; accuracy: number }[] };
  numbers?: NumberFigures[];
}

/** A value that is shown: the field that it has says as what. */
export interface ShownValue {
  text?: string | null;
  picture?: { png: string; low?: number; high?: number };
  numbers?: Numeric[];
  labels?: Numeric[];
  class?: number;
  array?: { shape: number[]; low: Numeric; high: Numeric };
}

export interface ShownOutput {
  target?: ShownValue;
  prediction?: ShownValue;
  top?: [number, Numeric][];
  wrong_share?: number;
}

export interface ShownExample {
  row: number;
  loss: Numeric | null;
  inputs: (ShownValue & { name: string })[];
  outputs: Record<string, ShownOutput>;
}

export interface EvaluationReport {
  version: number;
  steps: number;
  is_best: boolean;
  metrics: Record<string, Numeric>;
  examples: number;
  outputs: Record<string, OutputReport>;
  worst: ShownExample[];
  random: ShownExample[];
}

export const REPORT_VERSION = 1;

/** The newest report among the files of a job. */
export function reportOf(files: readonly Artifact[]): Artifact | undefined {
  return files.filter((file) => file.kind === "evaluation").at(-1);
}

export function className(output: Pick<OutputReport, "names"> | undefined, number: number): string {
  const name = output?.names?.[number];
  // A space or a line break would be invisible.
  return name === undefined ? String(number) : name.trim() === "" ? JSON.stringify(name) : name;
}

/** How dark a cell of a confusion matrix is: the share of its row, so that rare classes are seen, too. */
export function shade(row: readonly number[], column: number): number {
  const total = row.reduce((sum, count) => sum + count, 0);
  return total === 0 ? 0 : row[column]! / total;
}

/** A value in a few words; a picture is none. */
export function valueText(value: ShownValue | undefined, output?: OutputReport): string {
  if (!value) return MISSING;
  if (value.class !== undefined) return className(output, value.class);
  if (value.text !== undefined) return value.text ?? MISSING;
  if (value.labels) return labelsText(value.labels, output);
  if (value.numbers) return value.numbers.map((one) => number(one)).join(", ");
  if (value.array) return `${value.array.shape.join(" × ")} numbers from ${number(value.array.low)} to ${number(value.array.high)}`;
  return "";
}

/** Of one label its probability, of several the names of those that are on. */
function labelsText(labels: readonly Numeric[], output?: OutputReport): string {
  if (labels.length === 1) return number(labels[0]);
  const on = labels.flatMap((one, index) => (Number(one) > 0.5 ? [className(output, index)] : []));
  return on.length > 0 ? on.join(", ") : "none";
}

/** The likeliest classes with their probabilities. */
export function topText(output: ShownOutput, report: OutputReport | undefined): string {
  return (output.top ?? []).slice(0, 3).map(([one, share]) => `${className(report, one)} ${percent(Number(share))}`).join(" · ");
}

/** Points as the path of an SVG, in a square of this size; (0, 0) is at the lower left. */
export function path(points: readonly Point[], size: number): string {
  return points.map(([x, y], index) => `${index === 0 ? "M" : "L"}${round(x * size)} ${round((1 - y) * size)}`).join("");
}

/** The smallest and the largest of the numbers in points, a little apart if all are equal. */
export function rangeOf(points: readonly Point[]): [low: number, high: number] {
  const numbers = points.flat();
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
