// Evaluations in the plots of steps: the validation loss beside the loss, and a panel for each other
// metric. They exist at few steps, which become points of the common x axis.
import type { Evaluation, Numeric } from "../api/types.ts";
import { isMetric, metricTitle, VALIDATION_LOSS } from "../display/metrics.ts";
import type { Columns, Curve, Panel, Values } from "./curves.ts";
import type { StepRange } from "./skip-markers.ts";

/** The values of one metric and their x, in order. */
export interface MetricLine {
  x: number[];
  y: Numeric[];
  /** The x of the best evaluation. */
  best?: number;
}

/** Whether a response with at most `maxPoints` has all evaluations: of more, the API returns every second one or fewer, but over half of `maxPoints`. */
export function hasEveryEvaluation(evaluations: readonly Evaluation[], maxPoints: number): boolean {
  return evaluations.length <= maxPoints / 2;
}

export function evaluationsInRange(evaluations: readonly Evaluation[], [first, last]: StepRange): readonly Evaluation[] {
  return evaluations.filter(({ step }) => step >= first && step <= last);
}

/** The lines of all metrics over the steps, the loss first. */
export function metricLines(evaluations: readonly Evaluation[]): Map<string, MetricLine> {
  const lines = new Map<string, MetricLine>([[VALIDATION_LOSS, { x: [], y: [] }]]);
  for (const evaluation of evaluations) {
    for (const [name, value] of Object.entries(evaluation)) {
      if (!isMetric(name)) continue;
      const line = lines.get(name) ?? { x: [], y: [] };
      lines.set(name, line);
      line.x.push(evaluation.step);
      line.y.push(value as Numeric);
      if (evaluation.best) line.best = evaluation.step;
    }
  }
  return withoutEmpty(lines);
}

/** The lines of all metrics in columns, over one of them. */
export function metricLinesOf(columns: Columns, xName: string): Map<string, MetricLine> {
  const x = (columns[xName] ?? []) as number[];
  const names = Object.keys(columns).filter((name) => isMetric(name) && name !== VALIDATION_LOSS);
  const lineOf = (name: string): [string, MetricLine] => [name, { x, y: (columns[name] ?? []) as Numeric[] }];
  return withoutEmpty(new Map([VALIDATION_LOSS, ...names].map(lineOf)));
}

/** A line as a curve on an axis that has all of its x. */
export function metricCurve(line: MetricLine | undefined, axis: readonly number[], name: string): Curve {
  const mean: Values = axis.map(() => undefined);
  const nonFinite = new Map<number, number>();
  const indices = indicesOn(axis);
  for (const [index, x] of (line?.x ?? []).entries()) {
    const at = indices.get(x);
    const value = line!.y[index]!;
    if (at === undefined) continue;
    mean[at] = typeof value === "number" ? value : null;
    if (typeof value === "string") nonFinite.set(at, Number(value));
  }
  const best = line?.best === undefined ? undefined : indices.get(line.best);
  return { name, mean, low: null, high: null, nonFinite, hasPoints: true, ...(best === undefined ? {} : { best }) };
}

/** The panels of steps and those of the metrics, on one x axis; a panel for each further metric. */
export function withMetrics(
  panels: readonly Panel[], stepsX: readonly number[], lines: ReadonlyMap<string, MetricLine>,
): { x: number[]; panels: Panel[] } {
  const x = [...new Set([stepsX, ...[...lines.values()].map((line) => line.x)].flat())].sort((a, b) => a - b);
  const all = panels.map((panel) => ({ ...panel, curves: panel.curves.map((curve) => onAxis(curve, stepsX, x)) }));
  const loss = all.find(({ key }) => key === "loss");
  const others: Panel[] = [];
  for (const [metric, line] of lines) {
    if (loss && metric === VALIDATION_LOSS) loss.curves.push(metricCurve(line, x, "validation"));
    else others.push({ key: metric, title: metricTitle(metric), isLossScale: false, curves: [metricCurve(line, x, metric)] });
  }
  const first = loss ? all.indexOf(loss) + 1 : 0;
  return { x, panels: [...all.slice(0, first), ...others, ...all.slice(first)] };
}

/** A curve on another axis that has all of its x; undefined where it has no point. */
function onAxis(curve: Curve, x: readonly number[], axis: readonly number[]): Curve {
  if (x.length === axis.length) return curve;
  const indices = indicesOn(axis);
  const moved = (values: Values): Values => {
    const result: Values = axis.map(() => undefined);
    for (const [index, value] of values.entries()) result[indices.get(x[index]!)!] = value;
    return result;
  };
  return {
    ...curve,
    mean: moved(curve.mean),
    low: curve.low && moved(curve.low),
    high: curve.high && moved(curve.high),
    nonFinite: new Map([...curve.nonFinite].map(([index, value]) => [indices.get(x[index]!)!, value])),
  };
}

function indicesOn(axis: readonly number[]): Map<number, number> {
  return new Map(axis.map((value, index) => [value, index]));
}

function withoutEmpty(lines: Map<string, MetricLine>): Map<string, MetricLine> {
  return new Map([...lines].filter(([, { y }]) => y.length > 0));
}
