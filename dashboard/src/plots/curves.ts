// The columns of the API's steps as curves: a mean and, where a point holds several steps, a band
// from minimum to maximum.
import type { Numeric } from "../api/types.ts";

/** Null is a gap in the line; undefined only means that the curve has no point at this x. */
export type Values = (number | null | undefined)[];
export type Column = readonly (boolean | Numeric | null)[];
export type Columns = Record<string, Column | undefined>;

export interface Curve {
  name: string;
  mean: Values;
  low: Values | null;
  high: Values | null;
  /** What `mean` was before it was smoothed; drawn faintly behind it. */
  raw?: Values;
  /** Infinite values and NaN, by index: no line can show them, so they are drawn as markers. */
  nonFinite: ReadonlyMap<number, number>;
  /** True for metrics: they have values at few steps, and each is drawn as a point. */
  hasPoints?: boolean;
  /** The index of the best evaluation, which is drawn with a ring. */
  best?: number | undefined;
}

export interface Panel {
  key: string;
  title: string;
  /** Drawn over a base-2 logarithmic axis and as steps: it keeps its value until it changes. */
  isLossScale: boolean;
  curves: Curve[];
}

export const THROUGHPUT = "examples_per_s";
const PANEL_TITLES = [
  ["loss", "Loss"],
  ["loss_scale", "Loss scale"],
  [THROUGHPUT, "Examples/s"],
  ["grad_norm", "Gradient norm"],
  ["learning_rate", "Learning rate"],
  ["nonfinite_micro_batches", "Non-finite micro-batches"],
] as const;

/** Titles of panels that only a person adds. */
const ADDED_TITLES: Readonly<Record<string, string>> = { step_time_s: "Step time (s)", examples: "Examples per step", elapsed_s: "Elapsed time (s)", cpu_cores: "Processor cores in use", memory_bytes: "Memory (bytes)", gpu_share: "Load of the GPUs", gpu_memory_bytes: "Memory of the GPUs (bytes)" };

/** Columns that are no quantity of the training: a panel has them only if a person adds it. */
const UNPLOTTED: ReadonlySet<string> = new Set(["step", "count", "skipped", "step_time_s", "examples", "last_step", "logged_step", "elapsed_s"]);

const NEVER_PLOTTED: ReadonlySet<string> = new Set(["step", "last_step", "logged_step", "count", "skipped"]);

/** One panel for each quantity that the steps have values of, those of PANEL_TITLES first; then panels of `added` columns. */
export function jobPanels(data: Columns, added: readonly string[] = []): Panel[] {
  const usual = panelTitles([data]);
  const others = added.filter((column) => !usual.some(([key]) => key === column)).map((column) => [column, columnTitle(column)] as const);
  return [...usual, ...others].map(([key, title]) => ({
    key,
    title,
    isLossScale: key === "loss_scale",
    curves: key === THROUGHPUT ? throughputCurves(data) : columnCurves(data, key),
  })).filter((panel) => panel.curves.some(hasValues));
}

/** Every column with numbers of which a person can add a panel, and its title. */
export function plottableColumns(data: Columns): (readonly [string, string])[] {
  return columnNames(data)
    .filter((name) => !NEVER_PLOTTED.has(name) && statisticsOf(data, name).some((column) => column?.some(isNumeric)))
    .map((name) => [name, columnTitle(name)]);
}

function columnTitle(column: string): string {
  return PANEL_TITLES.find(([key]) => key === column)?.[1] ?? ADDED_TITLES[column] ?? column;
}

/** Key and title of a panel for each quantity in some of the tables; `a/b` is a curve of the panel of `a`. */
export function panelTitles(tables: readonly Columns[]): (readonly [string, string])[] {
  const names = [...new Set(tables.flatMap(columnNames))];
  const taken = new Set([...PANEL_TITLES.map(([key]) => key as string), ...UNPLOTTED, ...names.filter((name) => !name.includes("/"))]);
  const isOther = (name: string) => (name.includes("/") ? !taken.has(name.split("/")[0]!) : !PANEL_TITLES.some(([key]) => key === name) && !UNPLOTTED.has(name));
  return [...PANEL_TITLES, ...names.filter(isOther).map((name) => [name, columnTitle(name)] as const)];
}

export function hasValues({ mean, nonFinite }: Curve): boolean {
  return nonFinite.size > 0 || mean.some((value) => typeof value === "number");
}

/** The index of the last point with a value, finite or not; -1 without one. */
export function lastPoint({ mean, nonFinite }: Curve): number {
  return Math.max(mean.findLastIndex((value) => value != null), ...nonFinite.keys());
}

/** The index of a curve's point at or before `index`; -1 before the first, and after the end of a line. */
export function pointAt({ mean, hasPoints }: Curve, index: number): number {
  if (mean[index] !== undefined) return index;
  const isOver = !hasPoints && mean.findIndex((value, at) => at > index && value !== undefined) < 0;
  return isOver ? -1 : mean.findLastIndex((value, at) => at < index && value !== undefined);
}

/** The curves of a column and of its networks: `loss`, `loss/generator`, … */
export function columnCurves(data: Columns, column: string): Curve[] {
  return columnNames(data)
    .filter((name) => name === column || name.startsWith(`${column}/`))
    .map((name) => ({ name: name === column ? column : name.slice(column.length + 1), ...bandFor(data, name) }));
}

/** Examples per second: the examples of each point divided by its time. */
export function throughputCurves(data: Columns): Curve[] {
  const examples = bandFor(data, "examples").mean;
  const time = bandFor(data, "step_time_s");
  const per = (times: Values | null) =>
    times && times.map((time, index) => throughput(examples[index], time));
  const mean = per(time.mean) ?? [];
  if (mean.length === 0) return [];
  return [{ name: THROUGHPUT, mean, low: per(time.high), high: per(time.low), nonFinite: new Map() }];
}

/** The finite numbers of a column; an empty cell is no point, and every other value a gap. */
export function finiteValues(column: Column | undefined): Values {
  return (column ?? []).map((value) => (value === null ? undefined : typeof value === "number" && Number.isFinite(value) ? value : null));
}

/** The names of the columns, without the suffixes of downsampled ones. */
function columnNames(data: Columns): string[] {
  return [...new Set(Object.keys(data).map((name) => name.replace(/\.(min|max|first|last|mean)$/, "")))];
}

function bandFor(data: Columns, name: string): Omit<Curve, "name"> {
  const columns = statisticsOf(data, name);
  const [mean, low, high] = columns;
  const isSampled = columns.length > 1;
  return { mean: finiteValues(mean), low: isSampled ? finiteValues(low) : null, high: isSampled ? finiteValues(high) : null, nonFinite: nonFiniteValues(columns) };
}

/** The columns that the API has for a name: mean, minimum, maximum, first and last of each point, or the values of single steps. */
function statisticsOf(data: Columns, name: string): (Column | undefined)[] {
  const mean = data[`${name}.mean`];
  if (mean === undefined) return [data[name]];
  return [mean, ...["min", "max", "first", "last"].map((statistic) => data[`${name}.${statistic}`])];
}

/** By index; where several columns have one, that of the last column. */
function nonFiniteValues(columns: readonly (Column | undefined)[]): Map<number, number> {
  const values = new Map<number, number>();
  for (const column of columns) {
    column?.forEach((value, index) => {
      if (typeof value === "string") values.set(index, Number(value));
    });
  }
  return values;
}

function isNumeric(value: Column[number]): boolean {
  return typeof value === "number" || typeof value === "string";
}

function throughput(examples: number | null | undefined, time: number | null | undefined): number | null {
  return examples == null || time == null || time <= 0 ? null : examples / time;
}
