// Several jobs in one plot: their curves on one x axis, by step or by time.
import type { ComparedJob } from "../api/types.ts";
import { columnCurves, finiteValues, hasValues, panelTitles, THROUGHPUT, throughputCurves, type Columns, type Curve, type Panel, type Values } from "./curves.ts";
import { metricTitle } from "../display/metrics.ts";
import { metricCurve, metricLinesOf, type MetricLine } from "./evaluations.ts";
import { nearestIndex, resample, thinned } from "./resample.ts";
import { shortNames } from "./short-names.ts";

export type XAxis = "step" | "time";

export interface Line {
  x: Values;
  y: Values;
}

export interface Overlay {
  x: number[];
  /** The jobs' names, shortened to what differs between them. */
  names: string[];
  panels: Panel[];
}

/** One panel for each quantity, with one curve for each job, in the order of the jobs. */
export function overlayPanels(jobs: readonly ComparedJob[], by: XAxis): Overlay {
  const names = shortNames(jobs.map(({ job }) => job));
  const xs = jobs.map(({ data }) => finiteValues((data as Columns)[by === "step" ? "step" : "elapsed_s"]));
  const panels = panelTitles(jobs.map(({ data }) => data as Columns)).map(([key, title]) => ({ key, title, curves: jobs.map((job) => jobCurve(job, key)) }))
    .filter(({ curves }) => curves.some(hasValues));
  const lines = jobs.map(({ evaluations }) => metricLinesOf(evaluations as Columns, by === "step" ? "step" : "elapsed_s"));
  const metrics = [...new Set(lines.flatMap((ofJob) => [...ofJob.keys()]))];
  const union = unionOfX([...xs, ...lines.flatMap((ofJob) => [...ofJob.values()].map((line) => line.x))]);
  const x = thinned(union);
  const isThinned = x.length < union.length;
  const snapped = (line: MetricLine | undefined) => (line && isThinned ? { ...line, x: line.x.map((at) => x[nearestIndex(x, at)]!) } : line);
  const metricPanels = metrics.map((metric): Panel => ({
    key: metric,
    title: metricTitle(metric),
    isLossScale: false,
    curves: lines.map((ofJob, job) => metricCurve(snapped(ofJob.get(metric)), x, names[job]!)),
  }));
  const stepPanels = panels.map(({ key, title, curves }): Panel => ({
    key,
    title,
    isLossScale: key === "loss_scale",
    curves: curves.map(({ mean, nonFinite }, job) => ({
      name: names[job]!,
      mean: isThinned ? resample(xs[job]!, mean, x) : alignToAxis({ x: xs[job]!, y: mean }, x),
      low: null,
      high: null,
      nonFinite: new Map([...nonFinite].map(([at, value]) => [nearestIndex(x, xs[job]![at] ?? NaN), value])),
    })),
  }));
  const afterLoss = stepPanels.findIndex(({ key }) => key === "loss") + 1;
  return { x, names, panels: [...stepPanels.slice(0, afterLoss), ...metricPanels, ...stepPanels.slice(afterLoss)] };
}

/** Every x at which some line has a point, in order. */
export function unionOfX(xs: readonly Values[]): number[] {
  const union = new Set<number>();
  for (const x of xs) for (const value of x) if (typeof value === "number") union.add(value);
  return [...union].sort((a, b) => a - b);
}

/** The line's values at every x of the common axis; undefined where the line has no point. */
export function alignToAxis({ x, y }: Line, axis: readonly number[]): Values {
  const values = new Map(x.map((value, index) => [value, y[index] ?? null]));
  return axis.map((value) => values.get(value));
}

function jobCurve({ data }: ComparedJob, key: string): Curve {
  const columns = data as Columns;
  const [curve] = key === THROUGHPUT ? throughputCurves(columns) : columnCurves(columns, key);
  return curve ?? { name: key, mean: [], low: null, high: null, nonFinite: new Map() };
}
