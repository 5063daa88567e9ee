// Parallel coordinates of a search: an axis for each parameter and for the metric, a line for each run.
import type { SearchAnswer, SearchRun } from "../api/types.ts";
import { number } from "./format.ts";

/** From 0 at the bottom to 1 at the top. */
export type Height = number;
export interface Tick { readonly at: Height; readonly text: string }
export interface Axis { readonly label: string; readonly ticks: readonly Tick[] }
export interface RunLine {
  readonly run: SearchRun;
  /** One for each axis; the last one is missing if the run has no metric. */
  readonly heights: readonly Height[];
  /** From 0, the worst of the runs, to 1, the best; null without a metric. */
  readonly quality: number | null;
}
export interface ParallelCoordinates { readonly axes: readonly Axis[]; readonly lines: readonly RunLine[] }

export interface Scale { readonly axis: Axis; readonly place: (value: unknown) => Height }

const TICKS = 3;
const MIDDLE = 0.5;

/** The lines are in the order in which they are drawn: the best one last, on top of the others. */
export function parallelCoordinates(answer: SearchAnswer): ParallelCoordinates {
  const scales = answer.parameters.map(({ path, kind }) => {
    const values = answer.runs.map((run) => run.values[path]);
    return kind === "choice" ? choiceScale(path, values) : numberScale(path, values.map(Number), kind.startsWith("log_"));
  });
  const known = answer.runs.flatMap((run) => run.value ?? []);
  const metric = numberScale(answer.metric, known, false);
  const lines = answer.runs.map((run) => {
    const heights = scales.map(({ place }, index) => place(run.values[answer.parameters[index]!.path]));
    if (run.value === null) return { run, heights, quality: null };
    const height = metric.place(run.value);
    return { run, heights: [...heights, height], quality: answer.higher_is_better ? height : 1 - height };
  });
  lines.sort((one, other) => drawnAt(one, answer.best) - drawnAt(other, answer.best));
  return { axes: [...scales, metric].map(({ axis }) => axis), lines };
}

/** The runs for the table: those that trained longest first, of these the best. */
export function bestFirst(answer: SearchAnswer): readonly SearchRun[] {
  const sign = answer.higher_is_better ? -1 : 1;
  const rank = (run: SearchRun) => (run.value === null ? Infinity : sign * run.value);
  return [...answer.runs].sort(
    (one, other) => Number(one.value === null) - Number(other.value === null) || (other.steps ?? 0) - (one.steps ?? 0) || rank(one) - rank(other),
  );
}

function drawnAt(line: RunLine, best: number): number {
  return line.run.number === best ? 2 : (line.quality ?? -1);
}

export function choiceScale(label: string, values: readonly unknown[]): Scale {
  const texts = [...new Set(values.map((value) => JSON.stringify(value)))];
  if (texts.every((text) => Number.isFinite(Number(text)))) texts.sort((one, other) => Number(one) - Number(other));
  const height = (index: number) => (texts.length === 1 ? MIDDLE : index / (texts.length - 1));
  const ticks = texts.map((text, index) => ({ at: height(index), text: text.replace(/^"(.*)"$/, "$1") }));
  return { axis: { label, ticks }, place: (value) => height(texts.indexOf(JSON.stringify(value))) };
}

export function numberScale(label: string, values: readonly number[], isLog: boolean): Scale {
  const [to, from] = isLog ? [Math.log, Math.exp] : [(value: number) => value, (value: number) => value];
  const low = Math.min(...values.map(to));
  const high = Math.max(...values.map(to));
  const isFlat = !(high > low);
  const shares = isFlat ? [MIDDLE] : Array.from({ length: TICKS }, (_, index) => index / (TICKS - 1));
  const ticks = values.length === 0 ? [] : shares.map((at) => ({ at, text: number(isFlat ? from(low) : from(low + at * (high - low)), 3) }));
  return { axis: { label, ticks }, place: (value) => (isFlat ? MIDDLE : (to(Number(value)) - low) / (high - low)) };
}
